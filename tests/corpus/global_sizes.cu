// Pattern 3: sizes in globals that reading the input filled.
// eager: static 1
// prints: 8386560
#include "corpus.h"

int nodes, edges;

static void read_input(const char *text) {
  if (sscanf(text, "%d %d", &nodes, &edges) != 2) exit(2);
}

int main() {
  static int host[N];
  read_input("4096 24000");
  int *d_nodes, *d_edges;
  OK(cudaMalloc(&d_nodes, nodes * sizeof(int)));
  OK(cudaMalloc(&d_edges, edges * sizeof(int)));
  fill<<<N / 256, 256>>>(d_edges, 0);
  OK(cudaMemset(d_nodes, 0, nodes * sizeof(int)));
  add<<<N / 256, 256>>>(d_nodes, d_edges);
  OK(cudaMemcpy(host, d_nodes, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(d_nodes));
  OK(cudaFree(d_edges));
}
