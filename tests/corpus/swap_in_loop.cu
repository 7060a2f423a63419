// Pattern 6: two device pointers swapped in a loop.
// eager: static 1
// prints: 41932800
#include "corpus.h"

static void exchange(int *&a, int *&b) {
  int *c = a;
  a = b;
  b = c;
}

int main() {
  static int host[N];
  int *in, *out;
  OK(cudaMalloc(&in, BYTES));
  OK(cudaMalloc(&out, BYTES));
  fill<<<N / 256, 256>>>(in, 0);
  fill<<<N / 256, 256>>>(out, 0);
  for (int step = 0; step < 3; step++) {
    add<<<N / 256, 256>>>(out, in);
    exchange(in, out);
  }
  OK(cudaMemcpy(host, in, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(in));
  OK(cudaFree(out));
}
