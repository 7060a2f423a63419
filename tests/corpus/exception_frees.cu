// Destructors free device memory while an exception passes through.
// eager: static 1
// prints: caught 7
// prints: 8386560
#include "corpus.h"

struct Buffer {
  int *data = nullptr;
  explicit Buffer(int bytes) { OK(cudaMalloc(&data, bytes)); }
  ~Buffer() { cudaFree(data); }
};

__attribute__((noinline)) static void check(int value) {
  if (value) throw value;
}

static void work(int value, int *host) {
  Buffer a(BYTES), b(2 * BYTES);
  fill<<<N / 256, 256>>>(a.data, 0);
  fill<<<N / 256, 256>>>(b.data, 0);
  check(value);
  add<<<N / 256, 256>>>(b.data, a.data);
  OK(cudaMemcpy(host, a.data, BYTES, cudaMemcpyDeviceToHost));
}

int main() {
  static int host[N];
  try {
    work(7, host);
  } catch (int value) {
    printf("caught %d\n", value);
  }
  work(0, host);
  printf("%ld\n", sum(host));
}
