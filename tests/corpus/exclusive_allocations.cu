// Pattern 4: two allocations of which a run makes one: the requirement is the larger.
// eager: static 1
// prints: 8386560
#include "corpus.h"

int main(int argc, char **) {
  static int host[N];
  int *p;
  if (argc > 1)
    OK(cudaMalloc(&p, BYTES));
  else
    OK(cudaMalloc(&p, 3 * BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
