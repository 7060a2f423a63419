// A task that a loop runs again and again.
// eager: static 1
// prints: 25171968
#include "corpus.h"

static long once(int value, int bytes) {
  static int host[N];
  int *p;
  OK(cudaMalloc(&p, bytes));
  fill<<<N / 256, 256>>>(p, value);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(p));
  return sum(host);
}

int main() {
  long all = 0;
  for (int i = 0; i < 3; i++) all += once(i, (3 - i) * BYTES);
  printf("%ld\n", all);
}
