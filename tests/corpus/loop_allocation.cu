// Pattern 4: allocations in a loop over the data.
// eager: lazy: loop
// prints: 25159680
#include "corpus.h"

int main(int argc, char **) {
  static int host[N];
  int *frames[8];
  int count = 2 + argc;
  for (int i = 0; i < count; i++) {
    OK(cudaMalloc(&frames[i], (i + 1) * BYTES));
    fill<<<N / 256, 256>>>(frames[i], 0);
  }
  for (int i = 1; i < count; i++) add<<<N / 256, 256>>>(frames[0], frames[i]);
  OK(cudaMemcpy(host, frames[0], BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  for (int i = 0; i < count; i++) OK(cudaFree(frames[i]));
}
