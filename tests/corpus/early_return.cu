// Pattern 10: returns in the middle, each with its own cleaning up, and one that forgets it.
// eager: static 1
// requirement: upper bound
// prints: 8386560
// prints: 0 1 2 3
#include "corpus.h"

static int work(int way, int *host) {
  int *a, *b;
  if (way == 3) return 3;
  if (cudaMalloc(&a, BYTES) != cudaSuccess) return -1;
  if (cudaMalloc(&b, 2 * BYTES) != cudaSuccess) {
    cudaFree(a);
    return -2;
  }
  fill<<<N / 256, 256>>>(a, 0);
  if (way == 2) {
    cudaFree(a);
    cudaFree(b);
    return 2;
  }
  if (way == 1) return 1;
  fill<<<N / 256, 256>>>(b, 0);
  cudaMemcpy(host, b, BYTES, cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFree(b);
  return 0;
}

int main() {
  static int host[N];
  int ways[4];
  for (int way = 0; way < 4; way++) ways[way] = work(way, host);
  printf("%ld\n%d %d %d %d\n", sum(host), ways[0], ways[1], ways[2], ways[3]);
}
