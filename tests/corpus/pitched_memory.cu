// Pitched memory: its size is chosen at run time, and bounded before.
// eager: static 1
// requirement: upper bound
// prints: 8386560
#include "corpus.h"

__global__ void fill_rows(char *to, size_t pitch) {
  int *row = (int *)(to + blockIdx.x * pitch);
  row[threadIdx.x] = blockIdx.x * 64 + threadIdx.x;
}

int main() {
  static int host[N];
  char *p;
  size_t pitch;
  OK(cudaMallocPitch(&p, &pitch, 64 * sizeof(int), 64));
  fill_rows<<<64, 64>>>(p, pitch);
  OK(cudaMemcpy2D(host, 64 * sizeof(int), p, pitch, 64 * sizeof(int), 64, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
