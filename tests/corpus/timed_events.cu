// Events around kernels and a memory copy, with a stream of a priority.
// eager: static 1
// prints: 8386560 in order
#include "corpus.h"

int main() {
  static int host[N];
  int *p, least, greatest;
  float ms = -1;
  cudaEvent_t start, stop;
  cudaStream_t stream;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  OK(cudaMalloc(&p, BYTES));
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&stop));
  OK(cudaEventRecord(start, stream));
  fill<<<N / 256, 256, 0, stream>>>(p, 0);
  OK(cudaEventRecord(stop, stream));
  OK(cudaEventSynchronize(stop));
  OK(cudaEventElapsedTime(&ms, start, stop));
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld %s\n", sum(host), ms >= 0 ? "in order" : "out of order");
  OK(cudaEventDestroy(start));
  OK(cudaEventDestroy(stop));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(p));
}
