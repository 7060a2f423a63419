// One kernel per way of using memory; expected.txt says what the pass must find.
#include <cuda_runtime.h>

struct Matrix {
  float *data;
  int rows, cols;
};
struct Vector3 {
  float x, y, z;
};
struct Particle {
  float position[3], velocity[3], rest[58];
};

__device__ float *global_pointer;
__constant__ float table[64];
__constant__ int period;

// --- each byte once -------------------------------------------------------------------------------------------------
__global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void grid_stride(int n, const float *in, float *out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) out[i] = in[i] * 2;
}
__global__ void moving_pointer(int n, const float *in, float *out) {
  const float *p = in + blockIdx.x * blockDim.x + threadIdx.x;
  float *q = out + blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < n; i++, p += gridDim.x * blockDim.x, q += gridDim.x * blockDim.x) *q = *p;
}
__global__ void stencil2d(const float *in, float *out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
    out[y * w + x] = in[y * w + x] + in[y * w + x - 1] + in[y * w + x + 1] + in[(y - 1) * w + x] + in[(y + 1) * w + x];
}
__global__ void row_and_column_from_one(const float *in, float *out, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int row = i / w, col = i % w;
  out[row * w + col] = in[row * w + col];
}
__global__ void structs(const Vector3 *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i].x + in[i].y + in[i].z;
}
__global__ void row_per_thread(const float *matrix, const float *x, float *y, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += matrix[row * n + k] * x[k];
  y[row] = sum;
}
__global__ void block_sums(const float *in, float *sums) {
  __shared__ float part[256];
  part[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

// --- the same bytes again -------------------------------------------------------------------------------------------
__global__ void matmul(const float *a, const float *b, float *c, int n) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + col];
  c[row * n + col] = sum;
}
__global__ void nbody(const float4 *positions, float4 *forces, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ float4 tile[256];
  float4 sum = forces[i];
  for (int base = 0; base < n; base += 256) {
    tile[threadIdx.x] = positions[base + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 256; j++) sum.x += tile[j].x;
    __syncthreads();
  }
  forces[i] = sum;
}
__global__ void lookup(const float *in, const float *palette, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * palette[i & 255] + table[i % 64];
}
__global__ void sweeps(float *data, int n, int times) {
  for (int t = 0; t < times; t++)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) data[i] += 1;
}
__global__ void transpose(const float *in, float *out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  out[x * n + y] = in[y * n + x];
}
__global__ void stream_and_gather(const float *in, const int *next, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] + in[next[i]];
}

// --- few bytes of many pages ----------------------------------------------------------------------------------------
__global__ void gather(const int *index, const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[index[i]];
}
__global__ void histogram(const unsigned char *in, int *bins) { atomicAdd(&bins[in[blockIdx.x * blockDim.x + threadIdx.x]], 1); }
__global__ void one_field(const Particle *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i].position[0];
}
__global__ void selected(const bool *mask, float *data) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (mask[i]) data[i] = 0;
}
__global__ void diagonal_tiles(int *matrix, int cols, int i) {
  int x = blockIdx.x * 16 + threadIdx.x, y = (i - blockIdx.x) * 16;
  for (int r = 0; r < 16; r++) matrix[(y + r) * cols + x] += 1;
}
__global__ void csr(const int *rows, const int *cols, const float *values, const float *x, float *y, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int k = rows[row]; k < rows[row + 1]; k++) sum += values[k] * x[cols[k]];
  y[row] = sum;
}

// --- unused, unknown, and what must not be missed -------------------------------------------------------------------
__global__ void unused(float *never, const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (never != nullptr) out[i] = in[i];
}
__global__ void stride_argument(float *data, int stride) { data[(blockIdx.x * blockDim.x + threadIdx.x) * stride] = 1; }
__global__ void by_value(Matrix m, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = m.data[i];
}
__global__ void pointers_in_memory(float **rows, float *other) {
  rows[blockIdx.x][threadIdx.x] = 1;
  if (threadIdx.x == 2000) global_pointer = other;
}
__global__ void either(float *a, float *b, float *c, int which) {
  float *p = which ? a : b;
  p[blockIdx.x * blockDim.x + threadIdx.x] = c[0];
}
__global__ void swapped(float *a, float *b, int times) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int t = 0; t < times; t++) {
    b[i] = a[i];
    float *other = a;
    a = b;
    b = other;
  }
}
__device__ __noinline__ int depth_of(const int *tree, int node) { return node == 0 ? 0 : 1 + depth_of(tree, tree[node]); }
__global__ void recursive(const int *tree, int *out, int *untouched) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = depth_of(tree, threadIdx.x);
}
__global__ void local_array(float *a, float *b, int i) {
  float *both[2] = {a, b};
  both[i & 1][threadIdx.x] = 0;
}
__global__ void as_number(float *a, float *b, unsigned long long distance) {
  *(float *)((unsigned long long)a + distance) = b[threadIdx.x];
}
__global__ void copied(const Particle *in, Particle *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}
__global__ void through_assembly(int *a, int *b) {
  int value;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(a) : "memory");
  *b = value;
}
__global__ void cached(const float *__restrict__ in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __ldg(&in[i]);
}
__global__ void wrapped(const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i % period];
}
