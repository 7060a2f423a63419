// Pattern 14: the program chooses the device itself and asks which one it has.
// eager: static 1
// prints: device 0
// prints: 8386560
#include "corpus.h"

int main() {
  static int host[N];
  int *p, device = -1;
  OK(cudaSetDevice(0));
  OK(cudaGetDevice(&device));
  printf("device %d\n", device);
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
