// Pattern 8: the grid grows and shrinks from launch to launch.
// eager: static 1
// prints: 8388767
#include "corpus.h"

__global__ void touch(int *p) { p[blockIdx.x] += 1; }

int main(int argc, char **) {
  static int host[N];
  int *p;
  OK(cudaMalloc(&p, BYTES * argc));
  fill<<<N / 256, 256>>>(p, 0);
  for (int blocks = 1; blocks <= 64; blocks++) touch<<<blocks, 1>>>(p);
  for (int blocks = 64; blocks >= 1; blocks /= 2) touch<<<blocks, 1>>>(p);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
