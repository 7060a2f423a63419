// Pattern 17: page-locked host memory as the source and target of copies; it takes no device memory.
// eager: static 1
// prints: 8386560
#include "corpus.h"

int main() {
  int *pinned, *out, *p;
  OK(cudaMallocHost(&pinned, BYTES));
  OK(cudaHostAlloc(&out, BYTES, cudaHostAllocDefault));
  for (int i = 0; i < N; i++) pinned[i] = i;
  OK(cudaMalloc(&p, 2 * BYTES));
  OK(cudaMemset(p, 0, 2 * BYTES));
  OK(cudaMemcpy(p + N, pinned, BYTES, cudaMemcpyHostToDevice));
  add<<<N / 256, 256>>>(p, p + N);
  OK(cudaMemcpy(out, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(out));
  OK(cudaFree(p));
  OK(cudaFreeHost(pinned));
  OK(cudaFreeHost(out));
}
