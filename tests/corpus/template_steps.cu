// Pattern 5: a function template allocates, launches through another one, and frees.
// eager: static 2
// prints: 16773120
// prints: 8386560
#include "corpus.h"

template <int ROUNDS> static void rounds(int *to, const int *from) {
  for (int i = 0; i < ROUNDS; i++) add<<<N / 256, 256>>>(to, from);
}

template <int ROUNDS> static void process(int *host, size_t bytes) {
  int *in, *out;
  OK(cudaMalloc(&in, bytes));
  OK(cudaMalloc(&out, bytes));
  OK(cudaMemset(out, 0, bytes));
  fill<<<N / 256, 256>>>(in, 0);
  rounds<ROUNDS>(out, in);
  OK(cudaMemcpy(host, out, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(in));
  OK(cudaFree(out));
}

int main() {
  static int host[N];
  process<2>(host, BYTES);
  printf("%ld\n", sum(host));
  process<1>(host, 2 * BYTES);
  printf("%ld\n", sum(host));
}
