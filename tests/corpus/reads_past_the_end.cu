// Pattern 16: a kernel reads a little past the end of its buffer, which cudaMalloc tolerates, and uses none of it.
// eager: static 1
// prints: 8386560
#include "corpus.h"

__global__ void stencil(int *p, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int right = p[i + 1];
  out[i] = i + 1 < N ? right - 1 : i;
}

int main() {
  static int host[N];
  int *p, *out;
  OK(cudaMalloc(&p, BYTES));
  OK(cudaMalloc(&out, BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  stencil<<<N / 256, 256>>>(p, out);
  OK(cudaMemcpy(host, out, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
  OK(cudaFree(out));
}
