// Pattern 6: device pointers in an array, source and target chosen by index.
// eager: static 1
// prints: 41932800
#include "corpus.h"

int main() {
  static int host[N];
  int *grid[2];
  OK(cudaMalloc(&grid[0], BYTES));
  OK(cudaMalloc(&grid[1], BYTES));
  fill<<<N / 256, 256>>>(grid[0], 0);
  fill<<<N / 256, 256>>>(grid[1], 0);
  int from = 0, to = 1;
  for (int step = 0; step < 3; step++) {
    add<<<N / 256, 256>>>(grid[to], grid[from]);
    int old = from;
    from = to;
    to = old;
  }
  OK(cudaMemcpy(host, grid[from], BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(grid[0]));
  OK(cudaFree(grid[1]));
}
