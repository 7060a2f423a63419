// Pattern 7: a struct of device pointers in constant memory, which no launch names.
// eager: static 1
// prints: 16773120
#include "corpus.h"

struct Buffers {
  int *in, *out;
};

__constant__ Buffers d_buffers;

__global__ void accumulate() {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) d_buffers.out[i] += d_buffers.in[i];
}

int main() {
  static int host[N];
  Buffers buffers;
  OK(cudaMalloc(&buffers.in, BYTES));
  OK(cudaMalloc(&buffers.out, BYTES));
  OK(cudaMemcpyToSymbol(d_buffers, &buffers, sizeof buffers));
  fill<<<N / 256, 256>>>(buffers.in, 0);
  fill<<<N / 256, 256>>>(buffers.out, 0);
  accumulate<<<N / 256, 256>>>();
  OK(cudaMemcpy(host, buffers.out, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(buffers.in));
  OK(cudaFree(buffers.out));
}
