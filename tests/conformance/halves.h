// half and bfloat16: arithmetic, fused operations, comparisons, conversions, atomics.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Rounds to nearest even in `bits` of significand, by way of exact scaling in double.
static double rounded(double v, int bits, int least_exponent) {
    if (v == 0 || !std::isfinite(v)) return v;
    int e;
    frexp(v, &e);
    int unit = (e - bits > least_exponent ? e - bits : least_exponent);
    double r = ldexp(nearbyint(ldexp(v, -unit)), unit);
    return r;
}
static double as_half(double v) { return rounded(v, 11, -24); }
static double as_bfloat(double v) { return rounded(v, 8, -133); }

template <class T> __device__ T make(float v);
template <> __device__ __half make<__half>(float v) { return __float2half(v); }
template <> __device__ __nv_bfloat16 make<__nv_bfloat16>(float v) { return __float2bfloat16(v); }
__device__ float value(__half v) { return __half2float(v); }
__device__ float value(__nv_bfloat16 v) { return __bfloat162float(v); }

template <class T> __global__ void narrow_arithmetic(const float *in, float *out, int n) {
    int t = threadIdx.x;
    T a = make<T>(in[t]), b = make<T>(in[n + t]), c = make<T>(in[2 * n + t]);
    float r[] = {value(a),     value(a + b), value(a - b),    value(a * b),      value(a / b), value(__hfma(a, b, c)),
                 value(-a),    value(__habs(a)), value(__hmax(a, b)), value(__hmin(a, b)), float(a < b), float(a == a),
                 value(hsqrt(__habs(a)))};
    for (int k = 0; k < 13; k++) out[k * n + t] = r[k];
}

template <class T> static bool narrow_case(double (*round)(double)) {
    const int n = 96;
    std::vector<float> v(3 * n);
    for (int i = 0; i < 3 * n; i++) v[i] = (int(noise(i) % 20001) - 10000) / 517.f;
    Buffer<float> in(v), out(13 * n);
    narrow_arithmetic<T><<<1, n>>>(in.device, out.device, n);
    return all(out.fetch(), 13 * n, [&](size_t i) {
        int t = i % n;
        double a = round(v[t]), b = round(v[n + t]), c = round(v[2 * n + t]);
        double r[] = {a,  a + b,   a - b,      a * b,      a / b, fma(a, b, c),
                      -a, fabs(a), fmax(a, b), fmin(a, b), double(a < b), 1,
                      sqrt(fabs(a))};
        return float(round(r[i / n]));
    });
}

TEST(halves_arithmetic) { return narrow_case<__half>(as_half); }
TEST(halves_bfloat16_arithmetic) { return narrow_case<__nv_bfloat16>(as_bfloat); }

__global__ void pairs(const float *in, float *out) {
    int t = threadIdx.x;
    __half2 a = __floats2half2_rn(in[t], in[t + 1]), b = __float2half2_rn(in[t + 2]);
    __half2 r = __hfma2(a, b, __hadd2(a, b));
    out[2 * t] = __low2float(r);
    out[2 * t + 1] = __high2float(__hmul2(r, a));
}

TEST(halves_in_pairs) {
    std::vector<float> v(34);
    for (int i = 0; i < 34; i++) v[i] = (int(noise(i) % 2001) - 1000) / 300.f;
    Buffer<float> in(v), out(64);
    pairs<<<1, 32>>>(in.device, out.device);
    return all(out.fetch(), 64, [&](size_t i) {
        int t = i / 2;
        double a = as_half(v[t + i % 2]), b = as_half(v[t + 2]);
        double r = as_half(fma(a, b, as_half(a + b)));
        return float(i % 2 ? as_half(r * a) : r);
    });
}

__global__ void conversions(const float *in, int *out) {
    int t = threadIdx.x;
    __half h = __float2half(in[t]);
    out[0 * 64 + t] = __half2int_rn(h);
    out[1 * 64 + t] = __half2int_rz(h);
    out[2 * 64 + t] = __half2int_rd(h);
    out[3 * 64 + t] = __half_as_ushort(h);
    out[4 * 64 + t] = __half_as_ushort(__int2half_rn(t * 100));
}

TEST(halves_conversions) {
    std::vector<float> v(64);
    for (int i = 0; i < 64; i++) v[i] = (i - 32) * 0.75f;
    Buffer<float> in(v);
    Buffer<int> out(5 * 64);
    conversions<<<1, 64>>>(in.device, out.device);
    auto bits = [](double d) {
        if (d == 0) return 0;
        int e;
        double m = frexp(fabs(d), &e);
        return (d < 0 ? 0x8000 : 0) | ((e + 14) << 10) | (int(m * 2048) & 1023);
    };
    return all(out.fetch(), 5 * 64, [&](size_t i) {
        int t = i % 64;
        double h = as_half(v[t]);
        int r[] = {int(nearbyint(h)), int(trunc(h)), int(floor(h)), bits(h), bits(as_half(t * 100))};
        return r[i / 64];
    });
}

__global__ void narrow_sums(__half *h, __nv_bfloat16 *b) {
    atomicAdd(h, __float2half(0.5f));
    atomicAdd(b, __float2bfloat16(1.f));
}

TEST(halves_atomics) {
    Buffer<__half> h(2);
    Buffer<__nv_bfloat16> b(2);
    narrow_sums<<<4, 32>>>(h.device, b.device);
    return (__half2float(h.fetch()[0]) == 64.f) & (__bfloat162float(b.fetch()[0]) == 128.f);
}
