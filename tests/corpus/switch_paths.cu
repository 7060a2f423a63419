// Paths through a switch with falls through and a jump out of nested loops.
// eager: static 1
// prints: 16773120
#include "corpus.h"

int main(int argc, char **) {
  static int host[N];
  int *p, *q;
  OK(cudaMalloc(&p, BYTES));
  OK(cudaMalloc(&q, BYTES));
  fill<<<N / 256, 256>>>(p, 0);
  fill<<<N / 256, 256>>>(q, 0);
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < 4; j++) {
      switch (i + j) {
      case 0:
        add<<<N / 256, 256>>>(p, q);
        // Falls through: the sum is taken twice the first time.
      case 1:
        if (i == 0) break;
        add<<<N / 256, 256>>>(p, q);
        break;
      case 3:
        goto done;
      default:
        if (argc > 4) return 9;
      }
    }
  }
done:
  OK(cudaMemcpy(host, p, BYTES, cudaMemcpyDeviceToHost));
  printf("%ld\n", sum(host));
  OK(cudaFree(p));
  OK(cudaFree(q));
}
