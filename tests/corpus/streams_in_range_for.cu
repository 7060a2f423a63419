// Streams in an array, a std::array and a vector, made by `for (auto &stream : …)`: no memory objects.
// eager: static 1
// prints: 8398848
#include "corpus.h"
#include <array>
#include <vector>

int main() {
  static int host[N];
  int *data;
  cudaStream_t plain[3];
  std::array<cudaStream_t, 2> fixed;
  std::vector<cudaStream_t> many(4);
  OK(cudaMalloc(&data, BYTES));
  for (auto &stream : plain) OK(cudaStreamCreate(&stream));
  for (auto &stream : fixed) OK(cudaStreamCreate(&stream));
  for (auto &stream : many) OK(cudaStreamCreate(&stream));
  for (auto &stream : plain) fill<<<N / 256, 256, 0, stream>>>(data, 1);
  for (auto &stream : fixed) fill<<<N / 256, 256, 0, stream>>>(data, 2);
  OK(cudaDeviceSynchronize());
  for (auto &stream : many) fill<<<N / 256, 256, 0, stream>>>(data, 3);
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(host, data, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  for (auto &stream : plain) OK(cudaStreamDestroy(stream));
  for (auto &stream : fixed) OK(cudaStreamDestroy(stream));
  for (auto &stream : many) OK(cudaStreamDestroy(stream));
  OK(cudaFree(data));
}
