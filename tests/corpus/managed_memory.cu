// Memory that is managed already, next to plain device memory.
// eager: static 1
// prints: 16773120
#include "corpus.h"

int main() {
  int *managed, *plain;
  OK(cudaMallocManaged(&managed, BYTES));
  OK(cudaMalloc(&plain, 2 * BYTES));
  for (int i = 0; i < N; i++) managed[i] = i;
  fill<<<N / 256, 256>>>(plain, 0);
  add<<<N / 256, 256>>>(managed, plain);
  OK(cudaDeviceSynchronize());
  printf("%ld\n", sum(managed));
  OK(cudaFree(managed));
  OK(cudaFree(plain));
}
