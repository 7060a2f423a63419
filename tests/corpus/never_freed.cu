// Pattern 11: a buffer that nobody frees.
// eager: static 1
// prints: 8386560
#include "corpus.h"

int main() {
  static int host[N];
  int *p, *over;
  OK(cudaMalloc(&p, BYTES));
  OK(cudaMalloc(&over, sizeof(int)));
  fill<<<N / 256, 256>>>(p, 0);
  OK(cudaMemset(over, 0, sizeof(int)));
  for (int again = 1; again;) {
    OK(cudaMemcpy(over, &again, sizeof again, cudaMemcpyHostToDevice));
    fill<<<N / 256, 256>>>(p, 0);
    add<<<1, 1>>>(over, p);
    OK(cudaMemcpy(&again, over, sizeof again, cudaMemcpyDeviceToHost));
    again -= 1;
  }
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
}
