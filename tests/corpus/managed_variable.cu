// `__managed__` variables, which host and kernels use by name: every task asks for their bytes too.
// eager: static 1
// prints: 5 1
// prints: 8390656
// prints: 4101 4095
#include "corpus.h"

__managed__ int counter = 5;
__device__ __managed__ int table[N];
static __managed__ int offset;

__global__ void count(int *to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    to[i] = i + offset;
    table[i] = i;
    atomicAdd(&counter, 1);
  }
}

int main() {
  static int host[N];
  int *p;
  OK(cudaMalloc(&p, BYTES));
  offset = 1;
  printf("%d %d\n", counter, offset);
  count<<<N / 256, 256>>>(p);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n%d %d\n", sum(host), counter, table[N - 1]);
  OK(cudaFree(p));
}
