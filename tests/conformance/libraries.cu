// Thrust and CUB, from CUDA's own headers: reduce, scan, sort, select; over a device, a block and a warp.
//
// Trap: which kernels these libraries launch depends on the device's properties, so only results are compared.
#include "suite.h"

#include <cub/cub.cuh>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <numeric>

// One element, less than a block, and many blocks with a part of one at the end.
static const int SIZES[] = {1, 777, 100003};

static std::vector<int> numbers(int count) {
    std::vector<int> values(count);
    for (int i = 0; i < count; i++) values[i] = int(noise(i) % 20000) - 10000;
    return values;
}

struct IsOdd {
    __host__ __device__ bool operator()(int value) const { return value & 1; }
};

struct Squared {
    __host__ __device__ long long operator()(int value) const { return 1LL * value * value; }
};

struct Larger {
    __host__ __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

template <class T> bool equal(const thrust::device_vector<T> &got, const std::vector<T> &expected) {
    Buffer<T> copy(got.size());
    CUDA(cudaMemcpy(copy.device, thrust::raw_pointer_cast(got.data()), got.size() * sizeof(T),
                    cudaMemcpyDeviceToDevice));
    return got.size() == expected.size() &&
           all(copy.fetch(), expected.size(), [&](size_t i) { return expected[i]; });
}

TEST(thrust_reduce_and_transform) {
    for (int n : SIZES) {
        std::vector<int> values = numbers(n);
        thrust::device_vector<int> in(values.begin(), values.end());
        thrust::device_vector<long long> squares(n);
        thrust::transform(in.begin(), in.end(), squares.begin(), Squared());
        std::vector<long long> expected(n);
        std::transform(values.begin(), values.end(), expected.begin(), Squared());
        if (!equal(squares, expected)) return false;
        if (thrust::reduce(squares.begin(), squares.end()) !=
            std::accumulate(expected.begin(), expected.end(), 0LL))
            return false;
        if (thrust::reduce(in.begin(), in.end(), -20000, Larger()) !=
            *std::max_element(values.begin(), values.end()))
            return false;
    }
    return true;
}

TEST(thrust_scan) {
    for (int n : SIZES) {
        std::vector<int> values = numbers(n), expected(n);
        thrust::device_vector<int> in(values.begin(), values.end()), out(n);
        thrust::inclusive_scan(in.begin(), in.end(), out.begin());
        std::partial_sum(values.begin(), values.end(), expected.begin());
        if (!equal(out, expected)) return false;
        thrust::exclusive_scan(in.begin(), in.end(), out.begin(), 5);
        for (int i = n - 1; i > 0; i--) expected[i] = expected[i - 1] + 5;
        expected[0] = 5;
        if (!equal(out, expected)) return false;
    }
    return true;
}

TEST(thrust_sort) {
    for (int n : SIZES) {
        std::vector<int> values = numbers(n);
        thrust::device_vector<int> keys(values.begin(), values.end()), ranks(n);
        std::vector<int> order(n);
        std::iota(order.begin(), order.end(), 0);
        thrust::copy(order.begin(), order.end(), ranks.begin());
        thrust::stable_sort_by_key(keys.begin(), keys.end(), ranks.begin());
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] < values[b]; });
        if (!equal(ranks, order)) return false;
        // With an order of its own it merges; by `less` on integers it goes digit by digit.
        thrust::sort(keys.begin(), keys.end(), [] __device__(int a, int b) { return a > b; });
        std::sort(values.begin(), values.end(), std::greater<int>());
        if (!equal(keys, values)) return false;
    }
    return true;
}

TEST(thrust_copy_if) {
    for (int n : SIZES) {
        std::vector<int> values = numbers(n), expected;
        thrust::device_vector<int> in(values.begin(), values.end()), out(n);
        auto end = thrust::copy_if(in.begin(), in.end(), out.begin(), IsOdd());
        std::copy_if(values.begin(), values.end(), std::back_inserter(expected), IsOdd());
        out.resize(end - out.begin());
        if (!equal(out, expected)) return false;
    }
    return true;
}

TEST(cub_device_algorithms) {
    const int n = 50021;
    std::vector<int> values = numbers(n), expected(n);
    Buffer<int> in(values), sum(1), scanned(n), sorted(n);
    void *scratch = nullptr;
    size_t bytes = 0, needed = 0;
    CUDA(cub::DeviceReduce::Sum(nullptr, needed, in.device, sum.device, n)), bytes = needed;
    CUDA(cub::DeviceScan::InclusiveSum(nullptr, needed, in.device, scanned.device, n));
    bytes = std::max(bytes, needed);
    CUDA(cub::DeviceRadixSort::SortKeysDescending(nullptr, needed, in.device, sorted.device, n));
    bytes = std::max(bytes, needed);
    CUDA(cudaMalloc(&scratch, bytes));
    CUDA(cub::DeviceReduce::Sum(scratch, bytes, in.device, sum.device, n));
    CUDA(cub::DeviceScan::InclusiveSum(scratch, bytes, in.device, scanned.device, n));
    CUDA(cub::DeviceRadixSort::SortKeysDescending(scratch, bytes, in.device, sorted.device, n));
    std::partial_sum(values.begin(), values.end(), expected.begin());
    bool right = sum.fetch()[0] == expected[n - 1] &&
                 all(scanned.fetch(), n, [&](size_t i) { return expected[i]; });
    std::sort(values.begin(), values.end(), std::greater<int>());
    CUDA(cudaFree(scratch));
    return right && all(sorted.fetch(), n, [&](size_t i) { return values[i]; });
}

template <int THREADS> __global__ void collectives(const int *in, int *sums, int *before, int *of_warps) {
    using Reduce = cub::BlockReduce<int, THREADS>;
    using Scan = cub::BlockScan<int, THREADS>;
    using Warp = cub::WarpReduce<int>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
        typename Warp::TempStorage warps[THREADS / 32];
    } shared;
    int at = blockIdx.x * THREADS + threadIdx.x, sum = Reduce(shared.reduce).Sum(in[at]);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(in[at], before[at]);
    __syncthreads();
    int most = Warp(shared.warps[threadIdx.x / 32]).Reduce(in[at], Larger());
    if (threadIdx.x % 32 == 0) of_warps[at / 32] = most;
}

TEST(cub_block_and_warp_collectives) {
    const int threads = 128, blocks = 5, n = threads * blocks;
    std::vector<int> v = numbers(n);
    Buffer<int> in(v), sums(blocks), before(n), of_warps(n / 32);
    collectives<threads><<<blocks, threads>>>(in.device, sums.device, before.device, of_warps.device);
    auto sum = [&](size_t from, size_t to) { return std::accumulate(v.begin() + from, v.begin() + to, 0); };
    return all(sums.fetch(), blocks, [&](size_t i) { return sum(i * threads, (i + 1) * threads); }) &&
           all(before.fetch(), n, [&](size_t i) { return sum(i / threads * threads, i); }) &&
           all(of_warps.fetch(), n / 32,
               [&](size_t i) { return *std::max_element(v.begin() + i * 32, v.begin() + i * 32 + 32); });
}

#include "run.h"
