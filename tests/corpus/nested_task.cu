// Pattern 5: a helper with a task of its own is called while the caller's task runs: counted once, not twice.
// eager: static 2
// prints: 8386560
// prints: 8390656
#include "corpus.h"

static long helper(int value) {
  static int host[N];
  int *own;
  OK(cudaMalloc(&own, 2 * BYTES));
  fill<<<N / 256, 256>>>(own, value);
  OK(cudaMemcpy(host, own, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(own));
  return sum(host);
}

int main() {
  static int host[N];
  int *p;
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  printf("%ld\n", helper(0));
  fill<<<N / 256, 256>>>(p, 1);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
