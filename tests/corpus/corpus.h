// What the programs of the corpus share: two kernels, a sum, and the check after each call.
//
// Each program shows one pattern. Its first lines say which, and how the pass shall see it; tests/e2e/kernels/corpus.rs reads
// them. Programs print CUDA errors by name, so that a run can be compared with a run without instrumentation.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

// Ends the program with exit code 1 and the error's name, as most CUDA programs do after every call.
#define OK(call)                                                        \
  do {                                                                  \
    cudaError_t error_ = (call);                                        \
    if (error_ != cudaSuccess) {                                        \
      printf("%s: %s\n", #call, cudaGetErrorName(error_));              \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

// Prints how a call ended, and goes on.
#define SAY(call) printf("%s: %s\n", #call, cudaGetErrorName(call))

constexpr int N = 4096;
constexpr int BYTES = N * sizeof(int);

__global__ void fill(int *to, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) to[i] = value + i;
}

__global__ void add(int *to, const int *from) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) to[i] += from[i];
}

static long sum(const int *values) {
  long all = 0;
  for (int i = 0; i < N; i++) all += values[i];
  return all;
}
