// Launches that CUDA 13 refuses, and one that it takes.
// eager: static 1
// prints: cudaGetLastError(): cudaErrorInvalidValue
// prints: cudaPeekAtLastError(): cudaErrorInvalidValue
// prints: cudaGetLastError(): cudaErrorInvalidValue
// prints: cudaGetLastError(): cudaSuccess
// prints: 8386560
#include "corpus.h"

int main() {
  static int host[N];
  int *p;
  OK(cudaMalloc(&p, BYTES));
  fill<<<1, 4096>>>(p, 0);
  SAY(cudaGetLastError());
  fill<<<0, 256>>>(p, 0);
  SAY(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  fill<<<N / 256, 256>>>(p, 0);
  SAY(cudaGetLastError());
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
