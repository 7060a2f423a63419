// A static task, then buffers that only run time knows: nothing is counted twice.
// eager: static 1
// eager: lazy: loop
// prints: 8386560
// prints: 16773120
#include "corpus.h"
#include <vector>

int main(int argc, char **) {
  static int host[N];
  int *p;
  OK(cudaMalloc(&p, BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));

  std::vector<int *> chain;
  for (int i = 0; i <= argc; i++) {
    int *link;
    OK(cudaMalloc(&link, (i + 2) * BYTES));
    chain.push_back(link);
  }
  for (int *link : chain) fill<<<N / 256, 256>>>(link, 0);
  add<<<N / 256, 256>>>(chain[0], chain[argc]);
  OK(cudaMemcpy(host, chain[0], BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  for (int *link : chain) OK(cudaFree(link));
}
