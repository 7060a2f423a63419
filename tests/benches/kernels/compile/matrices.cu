// Kernels for the measurement of compile times: products, transposes, solvers.
__global__ void naive(const float *a, const float *b, float *c, int n) { int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && j < n) { float s = 0; for (int k = 0; k < n; ++k) s += a[i * n + k] * b[k * n + j]; c[i * n + j] = s; } }
__global__ void tiles(const float *a, const float *b, float *c, int n) { __shared__ float s[16][16], u[16][16]; int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x; float r = 0; for (int k = 0; k < n; k += 16) { s[y][x] = a[i * n + k + x]; u[y][x] = b[(k + y) * n + j]; __syncthreads(); for (int m = 0; m < 16; ++m) r += s[y][m] * u[m][x]; __syncthreads(); } c[i * n + j] = r; }
__global__ void transpose(const float *a, float *b, int n) { __shared__ float s[32][33]; int x = threadIdx.x, y = threadIdx.y; for (int k = 0; k < 32; k += 8) s[y + k][x] = a[(blockIdx.y * 32 + y + k) * n + blockIdx.x * 32 + x]; __syncthreads(); for (int k = 0; k < 32; k += 8) b[(blockIdx.x * 32 + y + k) * n + blockIdx.y * 32 + x] = s[x][y + k]; }
__global__ void warp_transpose(const int *x, int *y) { int l = threadIdx.x & 31, base = (blockIdx.x * blockDim.x + threadIdx.x >> 5) * 256; int v[8];
#pragma unroll
 for (int i = 0; i < 8; ++i) v[i] = x[base + i * 32 + l];
#pragma unroll
 for (int m = 1; m < 8; m <<= 1) {
#pragma unroll
 for (int i = 0; i < 8; ++i) if (!(i & m)) { int a = v[i], b = v[i | m]; int s = __shfl_xor_sync(~0u, l & m ? a : b, m); if (l & m) v[i] = s; else v[i | m] = s; } }
#pragma unroll
 for (int i = 0; i < 8; ++i) y[base + i * 32 + l] = v[i]; }
__global__ void spmv(const int *row, const int *col, const float *val, const float *x, float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float s = 0; for (int k = row[i]; k < row[i + 1]; ++k) s += val[k] * x[col[k]]; y[i] = s; } }
__global__ void spmv_warp(const int *row, const int *col, const float *val, const float *x, float *y) { int l = threadIdx.x & 31, i = (blockIdx.x * blockDim.x + threadIdx.x) >> 5; float s = 0; for (int k = row[i] + l; k < row[i + 1]; k += 32) s += val[k] * x[col[k]]; for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d); if (l == 0) y[i] = s; }
__global__ void jacobi(const float *a, const float *b, const float *x, float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float s = b[i]; for (int j = 0; j < n; ++j) if (j != i) s -= a[i * n + j] * x[j]; y[i] = s / a[i * n + i]; } }
__global__ void eliminate(float *a, int n, int k) { int i = k + 1 + blockIdx.y * blockDim.y + threadIdx.y, j = k + blockIdx.x * blockDim.x + threadIdx.x; if (i < n && j < n) a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j]; }
