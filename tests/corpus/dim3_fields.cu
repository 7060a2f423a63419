// Pattern 9: grid and block built field by field and copied.
// eager: static 1
// prints: 8386560
#include "corpus.h"

__global__ void fill2d(int *to, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  to[y * width + x] = y * width + x;
}

int main(int argc, char **) {
  static int host[N];
  int *p;
  dim3 block, grid;
  block.x = 16;
  block.y = 8;
  grid.x = 64 / block.x;
  grid.y = 64 * argc / block.y;
  dim3 same = grid;
  OK(cudaMalloc(&p, BYTES));
  fill2d<<<same, block>>>(p, 64);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
