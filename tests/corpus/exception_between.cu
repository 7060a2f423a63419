// A C++ exception leaves the function between allocation and free, and a later call does not.
// eager: static 1
// prints: caught 7
// prints: 8386560
#include "corpus.h"

__attribute__((noinline)) static void check(int value) {
  if (value) throw value;
}

static void work(int value, int *host) {
  int *p;
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  try {
    check(value);
  } catch (int) {
    cudaFree(p);
    throw;
  }
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(p));
}

int main() {
  static int host[N];
  try {
    work(7, host);
  } catch (int value) {
    printf("caught %d\n", value);
  }
  work(0, host);
  printf("%ld\n", sum(host));
}
