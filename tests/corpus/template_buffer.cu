// Pattern 5: a class template that owns its device memory.
// eager: static 1
// prints: 16773120
#include "corpus.h"

template <typename T> class Buffer {
public:
  explicit Buffer(size_t count) : count_(count) { OK(cudaMalloc(&data_, count * sizeof(T))); }
  Buffer(const Buffer &) = delete;
  ~Buffer() { cudaFree(data_); }
  T *get() { return data_; }
  void download(T *to, size_t count) { OK(cudaMemcpy(to, data_, count * sizeof(T), cudaMemcpyDeviceToHost)); }

private:
  T *data_ = nullptr;
  size_t count_;
};

int main(int argc, char **) {
  static int host[N];
  Buffer<int> a(N * argc);
  Buffer<int> b(2 * N * argc);
  fill<<<N / 256, 256>>>(a.get(), 0);
  fill<<<N / 256, 256>>>(b.get(), 0);
  add<<<N / 256, 256>>>(a.get(), b.get());
  a.download(host, N);
  printf("%ld\n", sum(host));
}
