// Pattern 4: a function that allocates and calls itself.
// eager: lazy: a buffer is allocated in a
// prints: 25159680
#include "corpus.h"

static void level(int *sum, int depth) {
  int *own;
  OK(cudaMalloc(&own, (depth + 1) * BYTES));
  fill<<<N / 256, 256>>>(own, 0);
  add<<<N / 256, 256>>>(sum, own);
  if (depth > 0) level(sum, depth - 1);
  OK(cudaFree(own));
}

int main(int argc, char **) {
  static int host[N];
  int *total;
  OK(cudaMalloc(&total, BYTES));
  OK(cudaMemset(total, 0, BYTES));
  level(total, argc + 1);
  OK(cudaMemcpy(host, total, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(total));
}
