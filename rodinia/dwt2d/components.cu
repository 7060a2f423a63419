// Separates the colour components.
//
// Trap: this helper allocates and frees device memory around its own launch, while the caller's buffers live: the peak
// of the program is here (28 + 3 bytes a pixel), not where the large transform kernels run.
#include <cuda_runtime.h>

#include "../common/app.h"
#include "dwt2d.h"

#define THREADS 256

// One pixel per thread; the 768 bytes of a block pass through shared memory so that loads are coalesced.
template <typename T>
__global__ void c_CopySrcToComponents(T *d_r, T *d_g, T *d_b, const unsigned char *d_src, int pixels) {
  __shared__ unsigned char bytes[THREADS * 3];
  int tx = threadIdx.x;
  size_t first = (size_t)blockIdx.x * THREADS * 3;
  bytes[tx] = d_src[first + tx];
  bytes[tx + THREADS] = d_src[first + tx + THREADS];
  bytes[tx + 2 * THREADS] = d_src[first + tx + 2 * THREADS];
  __syncthreads();
  int pixel = blockIdx.x * THREADS + tx;
  if (pixel < pixels) {
    d_r[pixel] = (T)bytes[3 * tx] - 128;
    d_g[pixel] = (T)bytes[3 * tx + 1] - 128;
    d_b[pixel] = (T)bytes[3 * tx + 2] - 128;
  }
}

template <typename T>
void rgbToComponents(T *d_r, T *d_g, T *d_b, const unsigned char *src, int width, int height) {
  int pixels = width * height;
  int blocks = (pixels + THREADS - 1) / THREADS;
  size_t aligned_bytes = (size_t)blocks * THREADS * 3;
  unsigned char *d_src;
  CUDA(cudaMalloc((void **)&d_src, aligned_bytes));
  CUDA(cudaMemset(d_src, 0, aligned_bytes));
  CUDA(cudaMemcpy(d_src, src, (size_t)pixels * 3, cudaMemcpyHostToDevice));
  dim3 threads(THREADS);
  dim3 grid(blocks);
  c_CopySrcToComponents<<<grid, threads>>>(d_r, d_g, d_b, d_src, pixels);
  CUDA_LAUNCHED("c_CopySrcToComponents");
  CUDA(cudaFree(d_src));
}

template void rgbToComponents<int>(int *, int *, int *, const unsigned char *, int, int);
