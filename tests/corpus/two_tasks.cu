// Two independent tasks one after the other in one function.
// eager: static 2
// prints: 8386560
// prints: 8390656
#include "corpus.h"

int main() {
  static int host[N];
  int *a, *b;
  OK(cudaMalloc(&a, BYTES));
  fill<<<N / 256, 256>>>(a, 0);
  OK(cudaMemcpy(host, a, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(a));
  OK(cudaMalloc(&b, 2 * BYTES));
  fill<<<N / 256, 256>>>(b, 1);
  OK(cudaMemcpy(host, b, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(b));
}
