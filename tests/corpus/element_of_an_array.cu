// An element of an array is allocated and another one freed: which, only the run knows.
// eager: static 1
// prints: 16773120
#include "corpus.h"

int main(int argc, char **) {
  static int host[N];
  int *all[4] = {}, *spare;
  OK(cudaMalloc(&all[argc & 3], 4 * BYTES));
  fill<<<N / 256, 256>>>(all[argc & 3], 0);
  OK(cudaFree(all[argc + 1 & 3]));
  OK(cudaMalloc(&spare, 2 * BYTES));
  fill<<<N / 256, 256>>>(spare, 0);
  add<<<N / 256, 256>>>(spare, all[argc & 3]);
  OK(cudaMemcpy(host, spare, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(spare));
  OK(cudaFree(all[argc & 3]));
}
