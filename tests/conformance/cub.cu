// CUB and Thrust as they come with the toolkit: block-wide and device-wide reductions, scans and sorts.
#include <cub/cub.cuh>
#include <cuda/functional>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <algorithm>
#include <numeric>

#include "suite.h"

__global__ void block_wide(const int *in, int *out) {
    typedef cub::BlockReduce<int, 128> Reduce;
    typedef cub::BlockScan<int, 128> Scan;
    typedef cub::BlockRadixSort<int, 128, 4> Sort;
    typedef cub::WarpReduce<int> Warp;
    __shared__ union {
        Reduce::TempStorage reduce;
        Scan::TempStorage scan;
        Sort::TempStorage sort;
        Warp::TempStorage warp[4];
    } shared;
    int t = threadIdx.x, v = in[t], before, keys[4];
    int sum = Reduce(shared.reduce).Sum(v);
    if (t == 0) out[0] = sum;
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(v, before);
    out[1 + t] = before;
    __syncthreads();
    int warp = Warp(shared.warp[t / 32]).Reduce(v, cuda::maximum<>{});
    if (t % 32 == 0) out[129 + t / 32] = warp;
    __syncthreads();
    for (int k = 0; k < 4; k++) keys[k] = (v * (k + 3) * 7919) % 1009;
    Sort(shared.sort).Sort(keys);
    for (int k = 0; k < 4; k++) out[133 + 4 * t + k] = keys[k];
}

TEST(cub_block_wide) {
    std::vector<int> v(128), sorted;
    for (int i = 0; i < 128; i++) v[i] = noise(i) % 1000;
    for (int x : v)
        for (int k = 0; k < 4; k++) sorted.push_back((x * (k + 3) * 7919) % 1009);
    std::sort(sorted.begin(), sorted.end());
    Buffer<int> in(v), out(133 + 512);
    block_wide<<<1, 128>>>(in.device, out.device);
    return all(out.fetch(), 133 + 512, [&](size_t i) {
        if (i == 0) return std::accumulate(v.begin(), v.end(), 0);
        if (i < 129) return std::accumulate(v.begin(), v.begin() + (i - 1), 0);
        if (i < 133) return *std::max_element(v.begin() + (i - 129) * 32, v.begin() + (i - 128) * 32);
        return sorted[i - 133];
    });
}

TEST(thrust_reduce_scan_sort) {
    const int n = 20000;
    std::vector<int> v(n);
    for (int i = 0; i < n; i++) v[i] = int(noise(i) % 100000) - 50000;
    thrust::device_vector<int> d(v.begin(), v.end()), scanned(n);
    bool good = thrust::reduce(d.begin(), d.end()) == std::accumulate(v.begin(), v.end(), 0);
    thrust::inclusive_scan(d.begin(), d.end(), scanned.begin());
    thrust::sort(d.begin(), d.end());
    std::vector<int> sums(n), got(n), ordered(n);
    std::partial_sum(v.begin(), v.end(), sums.begin());
    std::sort(v.begin(), v.end());
    thrust::copy(scanned.begin(), scanned.end(), got.begin());
    thrust::copy(d.begin(), d.end(), ordered.begin());
    return good & (got == sums) & (ordered == v);
}

int main() {
    int failed = 0;
    for (const Test &test : tests()) {
        bool passed = test.run();
        printf("%s %s\n", passed ? "ok    " : "FAILED", test.name);
        failed += !passed;
    }
    return failed;
}
