// Pattern 1: sizes from the fields of a heap object that another function made.
// eager: static 1
// prints: 8386560
#include "corpus.h"

struct Net {
  int inputs, hidden;
};

static Net *create(int inputs, int hidden) {
  Net *net = (Net *)malloc(sizeof(Net));
  net->inputs = inputs;
  net->hidden = hidden;
  return net;
}

int main(int argc, char **) {
  static int host[N];
  Net *net = create(N * argc, 17);
  int *input, *weights;
  OK(cudaMalloc(&input, net->inputs * sizeof(int)));
  OK(cudaMalloc(&weights, (net->inputs + 1) * net->hidden * sizeof(int)));
  fill<<<N / 256, 256>>>(input, 0);
  fill<<<N / 256, 256>>>(weights, 0);
  add<<<N / 256, 256>>>(weights, input);
  OK(cudaMemcpy(host, input, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(input));
  OK(cudaFree(weights));
  free(net);
}
