// Pattern 5: a helper allocates, launches with the caller's buffer, and frees: one task with the caller's.
// eager: static 1
// prints: 8386560
#include "corpus.h"

static void convert(int *to, const int *source, int bytes) {
  int *staged;
  OK(cudaMalloc(&staged, bytes));
  OK(cudaMemcpy(staged, source, bytes, cudaMemcpyHostToDevice));
  add<<<N / 256, 256>>>(to, staged);
  OK(cudaDeviceSynchronize());
  OK(cudaFree(staged));
}

int main() {
  static int host[N];
  for (int i = 0; i < N; i++) host[i] = i;
  int *result;
  OK(cudaMalloc(&result, 2 * BYTES));
  fill<<<N / 256, 256>>>(result, 2);
  OK(cudaMemset(result, 0, BYTES));
  convert(result, host, BYTES);
  OK(cudaMemcpy(host, result, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(result));
}
