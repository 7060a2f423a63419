// An allocation larger than the device fails, and the program goes on with a smaller one.
// eager: static 1
// requirement: none
// prints: cudaMalloc(&large, size_t(64) << 30): cudaErrorMemoryAllocation
// prints: cudaGetLastError(): cudaErrorMemoryAllocation
// prints: cudaGetLastError(): cudaSuccess
// prints: 8386560
#include "corpus.h"

int main() {
  static int host[N];
  char *large = nullptr;
  int *p;
  SAY(cudaMalloc(&large, size_t(64) << 30));
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
