// Pattern 7: device pointers in globals; one function allocates, one launches, one frees.
// eager: static 1
// prints: 16773120
#include "corpus.h"

static int *d_in, *d_out;

static void setup(int count) {
  OK(cudaMalloc(&d_in, count * sizeof(int)));
  OK(cudaMalloc(&d_out, 2 * count * sizeof(int)));
}

static void work() {
  fill<<<N / 256, 256>>>(d_in, 0);
  fill<<<N / 256, 256>>>(d_out, 0);
  add<<<N / 256, 256>>>(d_out, d_in);
}

static void teardown() {
  OK(cudaFree(d_in));
  OK(cudaFree(d_out));
}

int main(int argc, char **) {
  static int host[N];
  setup(N * argc);
  work();
  OK(cudaMemcpy(host, d_out, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  teardown();
}
