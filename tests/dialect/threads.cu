// nvcc gives -fopenmp to the host compiler: parallel loops on the host around kernels.
#include <omp.h>
__global__ void twice(int *p) { p[threadIdx.x] *= 2; }

int main() {
    int *p, sum = 0;
    cudaMallocManaged(&p, 32 * sizeof *p);
#pragma omp parallel for
    for (int i = 0; i < 32; i++) p[i] = i;
    twice<<<1, 32>>>(p);
    cudaDeviceSynchronize();
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 32; i++) sum += p[i];
    printf(sum == 992 && omp_get_max_threads() > 0 ? "ok\n" : "not so: %d\n", sum);
}
