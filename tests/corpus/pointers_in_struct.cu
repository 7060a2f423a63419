// Pattern 7: device pointers in a struct that helpers fill, use and release.
// eager: static 1
// prints: 16773120
#include "corpus.h"

struct Work {
  int count;
  int *in, *out;
};

static void allocate(Work *w) {
  OK(cudaMalloc(&w->in, w->count * sizeof(int)));
  OK(cudaMalloc(&w->out, w->count * sizeof(int)));
}

static void run(const Work &w) {
  fill<<<N / 256, 256>>>(w.in, 0);
  fill<<<N / 256, 256>>>(w.out, 0);
  add<<<N / 256, 256>>>(w.out, w.in);
}

static void release(Work w) {
  OK(cudaFree(w.in));
  OK(cudaFree(w.out));
}

int main(int argc, char **) {
  static int host[N];
  Work w;
  w.count = N * argc;
  allocate(&w);
  run(w);
  OK(cudaMemcpy(host, w.out, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  release(w);
}
