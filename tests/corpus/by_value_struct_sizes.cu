// Pattern 2: sizes from a struct passed by value to the function that does the GPU work.
// eager: static 1
// prints: 16773120
#include "corpus.h"

struct Dimensions {
  long boxes, space_bytes, pad[6];
};

static void wrapper(Dimensions dim, int *host) {
  int *space, *force;
  OK(cudaMalloc(&space, dim.space_bytes));
  OK(cudaMalloc(&force, dim.boxes * 128));
  fill<<<N / 256, 256>>>(space, 0);
  fill<<<N / 256, 256>>>(force, 0);
  add<<<N / 256, 256>>>(space, force);
  OK(cudaMemcpy(host, space, BYTES, cudaMemcpyDeviceToHost));
  OK(cudaFree(space));
  OK(cudaFree(force));
}

int main(int argc, char **) {
  static int host[N];
  Dimensions dim = {};
  dim.boxes = 500 * argc;
  dim.space_bytes = BYTES * argc;
  wrapper(dim, host);
  printf("%ld\n", sum(host));
}
