// Four threads, each with a task of its own at the same site.
// eager: static 1
// requirement: upper bound
// prints: 8386560 8390656 8394752 8398848
#include "corpus.h"
#include <thread>
#include <vector>

static void work(int index, long *result) {
  std::vector<int> host(N);
  int *p;
  OK(cudaMalloc(&p, (index + 1) * BYTES));
  fill<<<N / 256, 256>>>(p, index);
  OK(cudaMemcpy(host.data(), p, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(p));
  *result = sum(host.data());
}

int main() {
  long results[4];
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) threads.emplace_back(work, i, &results[i]);
  for (auto &thread : threads) thread.join();
  printf("%ld %ld %ld %ld\n", results[0], results[1], results[2], results[3]);
}
