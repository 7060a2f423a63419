// A static task that no device can hold is refused as CUDA refuses its allocation, with CUDA's last error.
// eager: static 1
// requirement: none
// prints: cudaMalloc(&large, size_t(64) << 30): cudaErrorMemoryAllocation
// prints: cudaPeekAtLastError(): cudaErrorMemoryAllocation
// prints: cudaGetLastError(): cudaErrorMemoryAllocation
// prints: cudaGetLastError(): cudaSuccess
#include "corpus.h"

int main() {
  int *large = nullptr;
  SAY(cudaMalloc(&large, size_t(64) << 30));
  SAY(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  if (!large) return 0;
  fill<<<N / 256, 256>>>(large, 0);
  OK(cudaFree(large));
}
