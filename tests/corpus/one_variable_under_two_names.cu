// A function allocates into two variables, which its caller makes one: freeing "the first" frees the second.
// eager: lazy: used across calls
// prints: 16773120
#include "corpus.h"

void both(int **a, int **b, int *host) {
  int *spare;
  OK(cudaMalloc(a, 8 * BYTES));
  fill<<<N / 256, 256>>>(*a, 0);
  OK(cudaMalloc(b, BYTES));
  fill<<<N / 256, 256>>>(*b, 0);
  add<<<N / 256, 256>>>(*b, *a);
  OK(cudaMemcpy(host, *b, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(*a));
  *a = nullptr;
  OK(cudaMalloc(&spare, 4 * BYTES));
  fill<<<N / 256, 256>>>(spare, 0);
  add<<<N / 256, 256>>>(spare, a == b ? spare : *b);
  OK(cudaFree(spare));
  OK(cudaFree(*b));
}

int main() {
  static int host[N];
  int *p = nullptr;
  void (*volatile call)(int **, int **, int *) = both;
  call(&p, &p, host);
  printf("%ld\n", sum(host));
}
