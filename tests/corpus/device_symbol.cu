// Constants and device variables, written before and read after the kernels.
// eager: static 1
// prints: 8390656
// prints: 4096
#include "corpus.h"

__constant__ int offset;
__device__ int count;

__global__ void shifted(int *to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    to[i] = i + offset;
    atomicAdd(&count, 1);
  }
}

int main() {
  static int host[N];
  int *p, value = 1, counted = 0;
  OK(cudaMemcpyToSymbol(offset, &value, sizeof value));
  OK(cudaMemcpyToSymbol(count, &counted, sizeof counted));
  OK(cudaMalloc(&p, BYTES));
  shifted<<<N / 256, 256>>>(p);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaMemcpyFromSymbol(&counted, count, sizeof counted));
  printf("%ld\n%d\n", sum(host), counted);
  OK(cudaFree(p));
}
