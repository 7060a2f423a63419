// Everything in one function, one path.
// eager: static 1
// prints: 8390656
#include "corpus.h"

int main() {
  static int host[N];
  int *p;
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 1);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
