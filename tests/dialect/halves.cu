// nvcc: initialisation of half-precision vectors, and the profiler's header.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_profiler_api.h>

__global__ void halves(half2 *p) {
    half2 zero = {}, empty{};
    __half2 both = {1.0f, 2.0f};
    half one = 1.0, two = 2;
    __nv_bfloat162 other = {};
    p[0] = __hadd2(zero, both);
    p[1] = __hadd2(empty, make_half2(one, two));
    p[2].x = other.x == __float2bfloat16(0.f) ? one : two;
    p[2].y = two;
}

int main() {
    half2 *p, none = {};
    cudaMallocManaged(&p, 3 * sizeof *p);
    cudaProfilerStart();
    halves<<<1, 1>>>(p);
    cudaDeviceSynchronize();
    cudaProfilerStop();
    bool right = __low2float(none) == 0;
    for (int i = 0; i < 3; i++) right = right && __low2float(p[i]) == 1 && __high2float(p[i]) == 2;
    printf(right ? "ok\n" : "not so\n");
}
