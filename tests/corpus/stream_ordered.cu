// Memory that is allocated and freed in the order of a stream.
// eager: static 1
// prints: 16773120
#include "corpus.h"

int main() {
  static int host[N];
  int *a, *b;
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaMallocAsync(&a, BYTES, stream));
  OK(cudaMallocAsync(&b, 2 * BYTES, stream));
  fill<<<N / 256, 256, 0, stream>>>(a, 0);
  fill<<<N / 256, 256, 0, stream>>>(b, 0);
  add<<<N / 256, 256, 0, stream>>>(a, b);
  OK(cudaMemcpyAsync(host, a, BYTES, cudaMemcpyDeviceToHost, stream));
  OK(cudaFreeAsync(a, stream));
  OK(cudaFreeAsync(b, stream));
  OK(cudaStreamSynchronize(stream));
  printf("%ld\n", sum(host));
  OK(cudaStreamDestroy(stream));
}
