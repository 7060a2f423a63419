// Kernels in a chain that share buffers: one task.
// eager: static 1
// prints: 33546240
#include "corpus.h"

__global__ void twice(int *p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) p[i] *= 2;
}

int main() {
  static int host[N];
  int *a, *b, *c;
  OK(cudaMalloc(&a, BYTES));
  OK(cudaMalloc(&b, 2 * BYTES));
  OK(cudaMalloc(&c, 3 * BYTES));
  fill<<<N / 256, 256>>>(a, 0);
  fill<<<N / 256, 256>>>(b, 0);
  fill<<<N / 256, 256>>>(c, 0);
  add<<<N / 256, 256>>>(a, b);
  OK(cudaMemset(c, 0, BYTES));
  add<<<N / 256, 256>>>(c, a);
  twice<<<N / 256, 256>>>(c);
  OK(cudaMemcpy(host, c, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(a));
  OK(cudaFree(b));
  OK(cudaFree(c));
}
