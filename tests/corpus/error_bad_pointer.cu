// Frees and copies of what is no device memory, and a double free.
// eager: static 1
// requirement: upper bound
// prints: cudaFree(host): cudaErrorInvalidValue
// prints: cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost): cudaSuccess
// prints: cudaFree(p): cudaSuccess
// prints: cudaFree(p): cudaErrorInvalidValue
// prints: cudaFree(nullptr): cudaSuccess
// prints: 8386560
#include "corpus.h"

int main() {
  static int host[N];
  int *p;
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  SAY(cudaFree(host));
  SAY(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  SAY(cudaFree(p));
  SAY(cudaFree(p));
  SAY(cudaFree(nullptr));
  printf("%ld\n", sum(host));
}
