// Pattern 4: an allocation after the first kernel; its size is known before.
// eager: static 1
// prints: 16773120
#include "corpus.h"

int main(int argc, char **) {
  static int host[N];
  int *first, *second;
  int bytes = BYTES * argc;
  OK(cudaMalloc(&first, bytes));
  fill<<<N / 256, 256>>>(first, 0);
  OK(cudaMemcpy(host, first, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaMalloc(&second, 2 * bytes));
  OK(cudaMemcpy(second, host, BYTES, cudaMemcpyHostToDevice));
  add<<<N / 256, 256>>>(first, second);
  OK(cudaMemcpy(host, first, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(first));
  OK(cudaFree(second));
}
