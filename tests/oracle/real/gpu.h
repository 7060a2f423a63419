// What generated programs use, for a compile with CUDA's own headers: kernels that touch each buffer, and the driver.
//
// Every run of a function is a process of its own, forked before the first CUDA call. The trace file, which the runtime
// and the shim append to, gets a line before each run, so that its books can be told apart.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

static __device__ void touch(int *p) {
  if (p) *(char *)p = 1;
}

__global__ void one(int *a) { touch(a); }
__global__ void two(int *a, int *b) { touch(a), touch(b); }
__global__ void three(int *a, int *b, int *c) { touch(a), touch(b), touch(c); }

template <class T> static void exchange(T &a, T &b) {
  T c = a;
  a = b;
  b = c;
}

struct Function {
  const char *name;
  void (*run)(unsigned long, unsigned long);
};
extern Function functions[];

// Arguments: trace file, first seed, runs per function.
int main(int argc, char **argv) {
  if (argc != 4) return 2;
  unsigned long seed = strtoul(argv[2], nullptr, 10), runs = strtoul(argv[3], nullptr, 10);
  for (Function *function = functions; function->name; function++) {
    for (unsigned long i = 0; i < runs; i++) {
      unsigned long bits = (seed + i) * 0x9e3779b97f4a7c15;
      bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
      bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
      bits ^= bits >> 31;
      FILE *trace = fopen(argv[1], "a");
      if (!trace) return 2;
      fprintf(trace, "{\"run\":\"%s\",\"bits\":%lu}\n", function->name, bits);
      fclose(trace);
      pid_t child = fork();
      if (child == 0) {
        try {
          function->run(bits, 1 + bits % 1000);
        } catch (int) {
        }
        exit(0);
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (!WIFEXITED(status)) printf("%s(%lu) ended by signal %d\n", function->name, bits, WTERMSIG(status));
    }
  }
}
