// Kernels for the measurement of compile times: many operations of the warp.
__global__ void shuffles64(const int *x, int *y) { int t = threadIdx.x, v = x[t];
#pragma unroll
 for (int i = 0; i < 64; ++i) v += __shfl_xor_sync(~0u, v, i & 31) ^ i; y[t] = v; }
__global__ void votes(const int *x, unsigned *y) { int t = threadIdx.x, v = x[t]; unsigned s = 0;
#pragma unroll
 for (int b = 0; b < 32; ++b) { unsigned m = __ballot_sync(~0u, v >> b & 1); if ((t & 31) == b) s = m; } y[t] = s; }
__global__ void ranks(const unsigned *x, int *y) { int t = threadIdx.x, l = t & 31; unsigned v = x[t], m = ~0u;
#pragma unroll
 for (int b = 0; b < 8; ++b) { unsigned k = __ballot_sync(~0u, v >> b & 1); m &= v >> b & 1 ? k : ~k; } y[t] = __popc(m & ((1u << l) - 1)); }
__global__ void pairs(const float4 *x, float4 *y) { int t = threadIdx.x; float4 v = x[t], s = v; for (int i = 1; i < 32; ++i) { float4 o; int k = (t + i) & 31; o.x = __shfl_sync(~0u, v.x, k); o.y = __shfl_sync(~0u, v.y, k); o.z = __shfl_sync(~0u, v.z, k); float r = rsqrtf((o.x - v.x) * (o.x - v.x) + (o.y - v.y) * (o.y - v.y) + (o.z - v.z) * (o.z - v.z) + .01f); s.x += o.x * r; s.y += o.y * r; s.z += o.z * r; } y[t] = s; }
__global__ void butterfly(const float2 *x, float2 *y) { int t = threadIdx.x, l = t & 31; float2 v = x[t];
#pragma unroll
 for (int d = 1; d < 32; d <<= 1) { float2 o; o.x = __shfl_xor_sync(~0u, v.x, d); o.y = __shfl_xor_sync(~0u, v.y, d); float c = cosf(3.14159f * (l & (d - 1)) / d), s = sinf(3.14159f * (l & (d - 1)) / d); float2 w = l & d ? make_float2(o.x - v.x, o.y - v.y) : make_float2(v.x + o.x, v.y + o.y); v.x = w.x * c - w.y * s; v.y = w.x * s + w.y * c; } y[t] = v; }
__global__ void synced(int *x) { __shared__ int s[256]; int t = threadIdx.x; s[t] = x[t];
#pragma unroll
 for (int d = 1; d < 32; d <<= 1) { __syncwarp(); int o = (t & 31) >= d ? s[t - d] : 0; __syncwarp(); s[t] += o; } x[t] = s[t]; }
__global__ void doubles(const double *x, double *y) { int t = threadIdx.x; double a = x[t], b = x[t + 256], c = x[t + 512];
#pragma unroll
 for (int d = 16; d; d >>= 1) { a += __shfl_down_sync(~0u, a, d); b *= __shfl_xor_sync(~0u, b, d); c = fmax(c, __shfl_xor_sync(~0u, c, d)); } y[t] = a + b + c; }
__global__ void sort4(int *x) { int t = threadIdx.x, l = t & 31; int v[4];
#pragma unroll
 for (int i = 0; i < 4; ++i) v[i] = x[t + 256 * i];
#pragma unroll
 for (int k = 2; k <= 32; k <<= 1) {
#pragma unroll
 for (int j = k >> 1; j; j >>= 1) {
#pragma unroll
 for (int i = 0; i < 4; ++i) { int o = __shfl_xor_sync(~0u, v[i], j); v[i] = (!(l & j) == !(l & k)) ? min(v[i], o) : max(v[i], o); } } }
#pragma unroll
 for (int i = 0; i < 4; ++i) x[t + 256 * i] = v[i]; }
