// What generated programs use, for a compile with CUDA's own headers: kernels that read and write each buffer, and the
// driver.
//
// Every run of a function is a process of its own, forked before the first CUDA call. The trace file, which the runtime
// and the shim append to, gets a line before each run, so that its books can be told apart. With the fourth argument `show`
// each run prints what it reads and how it ends: what a buffer holds depends on all kernels, copies and fills before. Trap:
// a buffer may be read that was never written; the virtual GPU's fresh memory is zero.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

// One byte, which the smallest buffer has; by one thread, so that the result is one.
static __device__ unsigned char mix(int *p, unsigned char carry) {
  if (!p || blockIdx.x || threadIdx.x) return carry;
  unsigned char *byte = (unsigned char *)p;
  return *byte = *byte * 5 + carry;
}

__global__ void one(int *a) { mix(a, 1); }
__global__ void two(int *a, int *b) { mix(b, mix(a, 2)); }
__global__ void three(int *a, int *b, int *c) { mix(c, mix(b, mix(a, 3))); }

static bool shows;

static inline void show(int *buffer) {
  unsigned char first = 0;
  cudaError_t code = cudaMemcpy(&first, buffer, 1, cudaMemcpyDeviceToHost);
  if (shows) printf("%d:%d ", int(code), first);
}

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

// Arguments: trace file, first seed, runs per function, and perhaps `show`.
int main(int argc, char **argv) {
  if (argc != 4 && argc != 5) return 2;
  shows = argc == 5;
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
      fflush(stdout);
      pid_t child = fork();
      if (child == 0) {
        try {
          // Each buffer has the 4 bytes that copies and fills write.
          function->run(bits, 4 + bits % 1000);
        } catch (int) {
        }
        exit(0);
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (shows) printf("%s(%lu) exit %d\n", function->name, bits, WEXITSTATUS(status));
      if (!WIFEXITED(status)) printf("%s(%lu) ended by signal %d\n", function->name, bits, WTERMSIG(status));
    }
  }
}
