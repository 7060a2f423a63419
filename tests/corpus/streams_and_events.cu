// Two streams, an event between them, and asynchronous copies.
// eager: static 1
// prints: 16773120
#include "corpus.h"

int main() {
  int *host, *a, *b;
  cudaStream_t one, two;
  cudaEvent_t ready;
  OK(cudaMallocHost(&host, BYTES));
  OK(cudaStreamCreate(&one));
  OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  OK(cudaEventCreate(&ready));
  OK(cudaMalloc(&a, BYTES));
  OK(cudaMalloc(&b, 2 * BYTES));
  for (int i = 0; i < N; i++) host[i] = i;
  OK(cudaMemcpyAsync(a, host, BYTES, cudaMemcpyHostToDevice, one));
  fill<<<N / 256, 256, 0, two>>>(b, 0);
  OK(cudaEventRecord(ready, two));
  OK(cudaStreamWaitEvent(one, ready, 0));
  add<<<N / 256, 256, 0, one>>>(a, b);
  OK(cudaMemcpyAsync(host, a, BYTES, cudaMemcpyDeviceToHost, one));
  OK(cudaStreamSynchronize(one));
  printf("%ld\n", sum(host));
  OK(cudaFree(a));
  OK(cudaFree(b));
  OK(cudaEventDestroy(ready));
  OK(cudaStreamDestroy(one));
  OK(cudaStreamDestroy(two));
  OK(cudaFreeHost(host));
}
