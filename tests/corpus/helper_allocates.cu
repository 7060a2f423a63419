// Pattern 5: helpers allocate and free through a pointer to the pointer.
// eager: static 1
// prints: 16773120
#include "corpus.h"

static void make(int **p, size_t count) { OK(cudaMalloc(p, count * sizeof(int))); }

static void drop(int *p) { OK(cudaFree(p)); }

int main(int argc, char **) {
  static int host[N];
  int *a, *b;
  make(&a, N * argc);
  make(&b, 2 * N * argc);
  fill<<<N / 256, 256>>>(a, 0);
  fill<<<N / 256, 256>>>(b, 0);
  add<<<N / 256, 256>>>(a, b);
  OK(cudaMemcpy(host, a, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  drop(a);
  drop(b);
}
