// Pattern 4: buffers that never live at once: the requirement is the most that does, not the sum.
// eager: static 1
// prints: 25171968
#include "corpus.h"

int main() {
  static int host[N];
  int *all, *part;
  OK(cudaMalloc(&all, BYTES));
  fill<<<N / 256, 256>>>(all, 0);
  OK(cudaMalloc(&part, 2 * BYTES));
  fill<<<N / 256, 256>>>(part, 1);
  add<<<N / 256, 256>>>(all, part);
  OK(cudaFree(part));
  OK(cudaMalloc(&part, 3 * BYTES));
  fill<<<N / 256, 256>>>(part, 2);
  add<<<N / 256, 256>>>(all, part);
  OK(cudaFree(part));
  OK(cudaMemcpy(host, all, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(all));
}
