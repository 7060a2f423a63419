// Pattern 4: an allocation that some runs skip: the requirement is an upper bound, and says so.
// eager: static 1
// requirement: upper bound
// prints: 8386560
#include "corpus.h"

int main(int argc, char **) {
  static int host[N];
  int *always, *sometimes = nullptr;
  OK(cudaMalloc(&always, BYTES));
  if (argc > 1) OK(cudaMalloc(&sometimes, 3 * BYTES));
  fill<<<N / 256, 256>>>(always, 0);
  if (argc > 1) {
    fill<<<N / 256, 256>>>(sometimes, 0);
    add<<<N / 256, 256>>>(always, sometimes);
  }
  OK(cudaMemcpy(host, always, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(always));
  if (argc > 1) OK(cudaFree(sometimes));
}
