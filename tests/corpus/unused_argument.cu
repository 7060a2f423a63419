// Pattern 15: a kernel argument that the kernel never uses; its buffer counts all the same.
// eager: static 1
// prints: 8386560
#include "corpus.h"

__global__ void forward(int *in, int *unused, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) out[i] = in[i];
}

int main() {
  static int host[N];
  int *in, *hidden, *out;
  OK(cudaMalloc(&in, BYTES));
  OK(cudaMalloc(&hidden, 17 * BYTES));
  OK(cudaMalloc(&out, BYTES));
  fill<<<N / 256, 256>>>(in, 0);
  forward<<<N / 256, 256>>>(in, hidden, out);
  OK(cudaMemcpy(host, out, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(in));
  OK(cudaFree(hidden));
  OK(cudaFree(out));
}
