// Pattern 10: exit() between allocation and free.
// eager: static 1
// exit: 3
// prints: 8386560
// prints: giving up
#include "corpus.h"

static void give_up(const char *why) {
  printf("%s\n", why);
  exit(3);
}

int main(int argc, char **) {
  static int host[N];
  int *a, *b;
  OK(cudaMalloc(&a, BYTES));
  OK(cudaMalloc(&b, 2 * BYTES));
  fill<<<N / 256, 256>>>(a, 0);
  fill<<<N / 256, 256>>>(b, 0);
  OK(cudaMemcpy(host, a, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  if (argc == 1) give_up("giving up");
  add<<<N / 256, 256>>>(a, b);
  OK(cudaFree(a));
  OK(cudaFree(b));
}
