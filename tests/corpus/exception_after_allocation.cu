// A helper allocates and throws, through another function; the caller catches, and the buffer is there beside the next.
// eager: static 1
// prints: caught 7
// prints: 8386560
#include "corpus.h"

__attribute__((noinline)) static void check(int value) {
  if (value) throw value;
}

__attribute__((noinline)) static void prepare(int **p, int value) {
  OK(cudaMalloc(p, BYTES));
  check(value);
  fill<<<N / 256, 256>>>(*p, 1);
}

__attribute__((noinline)) static void start(int **p, int value) {
  prepare(p, value);
  printf("started\n");
}

int main(int argc, char **) {
  static int host[N];
  int *p = nullptr, *spare;
  try {
    start(&p, 6 + argc);
  } catch (int value) {
    printf("caught %d\n", value);
    OK(cudaMalloc(&spare, 2 * BYTES));
    fill<<<N / 256, 256>>>(spare, 0);
    OK(cudaMemset(p, 0, BYTES));
    add<<<N / 256, 256>>>(p, spare);
    OK(cudaFree(spare));
  }
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
