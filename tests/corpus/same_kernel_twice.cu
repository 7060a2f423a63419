// Pattern 12: two wrappers with C linkage launch the same kernel, each with buffers of its own: two tasks.
// eager: static 2
// prints: 8386560
// prints: 8390656
#include "corpus.h"

extern "C" void find(int *host, int bytes) {
  int *p;
  OK(cudaMalloc(&p, bytes));
  fill<<<N / 256, 256>>>(p, 0);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(p));
}

extern "C" void find_range(int *host, int bytes) {
  int *p;
  OK(cudaMalloc(&p, 3 * bytes));
  fill<<<N / 256, 256>>>(p, 1);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(p));
}

int main() {
  static int host[N];
  find(host, BYTES);
  printf("%ld\n", sum(host));
  find_range(host, BYTES);
  printf("%ld\n", sum(host));
}
