// Kernels for the measurement of compile times: one element for each thread.
__global__ void scale(float *x, float a, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) x[t] *= a; }
__global__ void add(const float *x, const float *y, float *z, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) z[t] = x[t] + y[t]; }
__global__ void clamp(float *x, float low, float high, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) x[t] = fminf(fmaxf(x[t], low), high); }
__global__ void sigmoid(float *x, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) x[t] = 1.f / (1.f + expf(-x[t])); }
__global__ void norm(const float3 *x, float *y, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) { float3 v = x[t]; y[t] = sqrtf(v.x * v.x + v.y * v.y + v.z * v.z); } }
__global__ void mix(unsigned *x, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) { unsigned v = x[t]; v ^= v >> 16; v *= 0x85ebca6bu; v ^= v >> 13; v *= 0xc2b2ae35u; x[t] = v ^ v >> 16; } }
__global__ void horner(const double *x, double *y, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; if (t < n) { double v = x[t], s = 0; for (int i = 0; i < 12; ++i) s = s * v + i; y[t] = s; } }
__global__ void stride(const float *x, float *y, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = x[i] * x[i]; }
