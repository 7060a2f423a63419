// nvcc: its macros have values, and CUDA's C++ libraries go on working beside them.
#include <cuda/std/array>
#include <cuda/std/atomic>
#include <cooperative_groups.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#if !__CUDACC__ || !defined(__NVCC__) || __CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10 != CUDART_VERSION
#error "nvcc's macros"
#endif
#ifndef __CUDACC_VER_BUILD__
#error "nvcc's macros"
#endif
namespace cg = cooperative_groups;

__global__ void reduce(cuda::std::array<int, 4> values, int *sum) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int own = warp.thread_rank() < 4 ? values[warp.thread_rank()] : 0;
    for (int distance = 16; distance; distance /= 2) own += warp.shfl_down(own, distance);
    if (warp.thread_rank() == 0) *sum = own;
}

int main() {
    thrust::device_vector<int> sum(1, 0);
    reduce<<<1, 32>>>({1, 2, 3, 4}, thrust::raw_pointer_cast(sum.data()));
    printf(thrust::reduce(sum.begin(), sum.end()) == 10 ? "ok\n" : "not so\n");
}
