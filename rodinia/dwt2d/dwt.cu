// Forward 5/3 wavelet transform by lifting (Le Gall and Tabatabai, 1988; JPEG 2000's reversible filter), several levels.
//
// Trap: rows are transformed before columns; the lifting steps round, so the other order gives other numbers.
#include <cuda_runtime.h>

#include "../common/app.h"
#include "dwt2d.h"

#define WINDOW_ROWS 8

// Reflects an index at both ends; what lies further out than the filter reaches is clamped and never used.
__device__ static int mirror(int i, int n) {
  if (i < 0) i = -i;
  if (i >= n) i = 2 * (n - 1) - i;
  return i < 0 ? 0 : i;
}

__device__ static int high_pass(int before, int here, int after) { return here - ((before + after) >> 1); }

__device__ static int low_pass(int high_before, int here, int high_after) {
  return here + ((high_before + high_after + 2) >> 2);
}

// Loads `count` rows from row y on and leaves them transformed along x in `rows`. The window starts two columns left
// of the block's and ends one right of it.
template <int WIN_X>
__device__ static void transform_rows(const int *in, int w, int h, int x0, int y, int count, int (*line)[WIN_X + 3],
                                      int (*rows)[WIN_X]) {
  int tx = threadIdx.x;
  for (int r = 0; r < count; r++)
    for (int c = tx; c < WIN_X + 3; c += WIN_X)
      line[r][c] = in[(size_t)mirror(y + r, h) * w + mirror(x0 - 2 + c, w)];
  __syncthreads();
  for (int r = 0; r < count; r++) {
    const int *at = &line[r][tx + 2];
    int value;
    if (tx % 2 == 0)
      value = low_pass(high_pass(at[-2], at[-1], at[0]), at[0], high_pass(at[0], at[1], at[2]));
    else
      value = high_pass(at[-1], at[0], at[1]);
    rows[r][tx] = value;
  }
  __syncthreads();
}

// Each block slides a window of WIN_X columns and WIN_Y rows down `steps` times; three rows stay from step to step.
template <int WIN_X, int WIN_Y>
__global__ void fdwt53Kernel(const int *in, int *out, int w, int h, int steps) {
  __shared__ int line[WIN_Y][WIN_X + 3];
  __shared__ int rows[WIN_Y + 3][WIN_X];
  int tx = threadIdx.x;
  int x0 = blockIdx.x * WIN_X;
  int x = x0 + tx;
  int top = blockIdx.y * WIN_Y * steps;
  int windows = (h - top + WIN_Y - 1) / WIN_Y;
  if (windows > steps) windows = steps;
  Split columns(w), lines(h);
  // Where this thread's column goes in the low bands (first half of out) and in the high bands.
  int band_width = tx % 2 == 0 ? columns.low : columns.high;
  size_t low_band = tx % 2 == 0 ? 0 : (size_t)columns.low * lines.low;
  size_t high_band = (size_t)w * lines.low + (tx % 2 == 0 ? 0 : (size_t)columns.low * lines.high);

  transform_rows<WIN_X>(in, w, h, x0, top - 2, 3, line, rows);
  for (int window = 0; window < windows; window++) {
    int y0 = top + window * WIN_Y;
    transform_rows<WIN_X>(in, w, h, x0, y0 + 1, WIN_Y, line, rows + 3);
    int high = high_pass(rows[0][tx], rows[1][tx], rows[2][tx]);
    for (int k = 0; k < WIN_Y; k += 2) {
      int high_after = high_pass(rows[k + 2][tx], rows[k + 3][tx], rows[k + 4][tx]);
      int low = low_pass(high, rows[k + 2][tx], high_after);
      size_t at = (size_t)((y0 + k) / 2) * band_width + x / 2;
      if (x < w && y0 + k < h) out[low_band + at] = low;
      if (x < w && y0 + k + 1 < h) out[high_band + at] = high_after;
      high = high_after;
    }
    __syncthreads();
    for (int r = 0; r < 3; r++) rows[r][tx] = rows[WIN_Y + r][tx];
    __syncthreads();
  }
}

template <int WIN_X>
static void launch(const int *in, int *out, int w, int h) {
  // At most 15 window rows along the height, whatever it is.
  int steps = (h + 15 * WINDOW_ROWS - 1) / (15 * WINDOW_ROWS);
  dim3 grid((w + WIN_X - 1) / WIN_X, (h + WINDOW_ROWS * steps - 1) / (WINDOW_ROWS * steps));
  fdwt53Kernel<WIN_X, WINDOW_ROWS><<<grid, WIN_X>>>(in, out, w, h, steps);
  CUDA_LAUNCHED("fdwt53Kernel");
}

static void fdwt53(const int *in, int *out, int w, int h) {
  if (w >= 960)
    launch<192>(in, out, w, h);
  else if (w >= 480)
    launch<128>(in, out, w, h);
  else
    launch<64>(in, out, w, h);
}

// One level of `backup` into `out`, then the same on the LL band.
static void transform_levels(int *backup, int *out, int w, int h, int levels) {
  fdwt53(backup, out, w, h);
  if (levels > 1) {
    Split columns(w), lines(h);
    size_t low_bytes = (size_t)columns.low * lines.low * sizeof(int);
    CUDA(cudaMemcpy(backup, out, low_bytes, cudaMemcpyDeviceToDevice));
    transform_levels(backup, out, columns.low, lines.low, levels - 1);
  }
}

template <typename T>
void nStage2dDWT(const T *in, T *out, T *backup, int width, int height, int levels) {
  CUDA(cudaMemcpy(backup, in, (size_t)width * height * sizeof(T), cudaMemcpyDeviceToDevice));
  transform_levels(backup, out, width, height, levels);
}

template void nStage2dDWT<int>(const int *, int *, int *, int, int, int);
