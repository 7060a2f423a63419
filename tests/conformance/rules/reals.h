// NaN, zeros, denormals, rounding, and casts of numbers out of range.
#pragma once

static float real(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static unsigned bits_of(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof x);
    return bits;
}

// Built with -use_fast_math: an operation takes and gives zeros for denormals.
#ifdef FLUSH
static float flushed(float x) { return (bits_of(x) & 0x7f800000) ? x : real(bits_of(x) & 0x80000000); }
#else
static float flushed(float x) { return x; }
#endif

static const float ODD[] = {0.f, -0.f, 1.f, -1.f, INFINITY, -INFINITY, NAN, -NAN, real(0x7f812345), real(1), real(0x80000001), 3e38f};
enum { ODD_COUNT = sizeof ODD / sizeof *ODD, ODD_PAIRS = ODD_COUNT * ODD_COUNT };

template <class T> static T least(T a, T b) {
    if (a != a || b != b) return a != a ? b : a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <class T> static T most(T a, T b) {
    if (a != a || b != b) return a != a ? b : a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
}

__global__ void ordered(const float *x, float *out, double *wide) {
    int t = threadIdx.x, n = ODD_PAIRS;
    if (t >= n) return;
    float a = x[t % ODD_COUNT], b = x[t / ODD_COUNT];
    out[t] = fminf(a, b), out[n + t] = fmaxf(a, b), out[2 * n + t] = min(a, b), out[3 * n + t] = max(a, b);
    asm("min.f32 %0, %1, %2;" : "=f"(out[4 * n + t]) : "f"(a), "f"(b));
    asm("max.f32 %0, %1, %2;" : "=f"(out[5 * n + t]) : "f"(a), "f"(b));
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(out[6 * n + t]) : "f"(a), "f"(b));
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(out[7 * n + t]) : "f"(a), "f"(b));
    wide[t] = fmin(double(a), double(b)), wide[n + t] = fmax(double(a), double(b));
}

__global__ void ordered_folded(float *out) {
    out[0] = fminf(0.f, -0.f), out[1] = fminf(-0.f, 0.f), out[2] = fmaxf(0.f, -0.f), out[3] = fmaxf(-0.f, 0.f);
    out[4] = fminf(NAN, 2.f), out[5] = fmaxf(2.f, NAN), out[6] = fmax(double(NAN), -0.), out[7] = fmin(0., -0.);
}

// Bit for bit, but for the bits of a NaN, which PTX names and this CPU has others of.
template <class T, class F> static bool alike(const std::vector<T> &got, size_t count, F expected) {
    return all(got, count, [&](size_t i) {
        T want = expected(i);
        return want != want && got[i] != got[i] ? got[i] : want;
    });
}

TEST(minima_drop_nans_and_order_zeros) {
    std::vector<float> x(ODD, ODD + ODD_COUNT);
    Buffer<float> dx(x), out(8 * ODD_PAIRS), folded(8);
    Buffer<double> wide(2 * ODD_PAIRS);
    ordered<<<1, 160>>>(dx.device, out.device, wide.device);
    ordered_folded<<<1, 1>>>(folded.device);
    const float expected[] = {-0.f, -0.f, 0.f, 0.f, 2, 2, -0.f, -0.f};
    return alike(out.fetch(), 8 * ODD_PAIRS, [&](size_t i) {
        float a = x[i % ODD_PAIRS % ODD_COUNT], b = x[i % ODD_PAIRS / ODD_COUNT];
        size_t k = i / ODD_PAIRS;
        // What PTX itself is asked for has no .ftz.
        if (k < 4) a = flushed(a), b = flushed(b);
        if (k >= 6 && (a != a || b != b)) return NAN;
        return k % 2 == 0 ? least(a, b) : most(a, b);
    }) & alike(wide.fetch(), 2 * ODD_PAIRS, [&](size_t i) {
        double a = flushed(x[i % ODD_PAIRS % ODD_COUNT]), b = flushed(x[i % ODD_PAIRS / ODD_COUNT]);
        return i < ODD_PAIRS ? least(a, b) : most(a, b);
    }) & alike(folded.fetch(), 8, [&](size_t i) { return expected[i]; });
}

__global__ void compared(const float *x, unsigned *out) {
    int t = threadIdx.x;
    if (t >= ODD_PAIRS) return;
    float a = x[t % ODD_COUNT], b = x[t / ODD_COUNT];
    unsigned r = (a < b) | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5 | bool(isnan(a)) << 6, p;
#define ASK(word, bit)                                                                                              \
    asm("{ .reg .pred p; setp." word ".f32 p, %1, %2; selp.u32 %0, 1, 0, p; }" : "=r"(p) : "f"(a), "f"(b)); \
    r |= p << bit;
    ASK("lt", 7) ASK("ltu", 8) ASK("ne", 9) ASK("neu", 10) ASK("equ", 11) ASK("num", 12) ASK("nan", 13) ASK("geu", 14)
    out[t] = r;
}

TEST(comparisons_with_nan_are_false_or_unordered) {
    std::vector<float> x(ODD, ODD + ODD_COUNT);
    Buffer<float> dx(x);
    Buffer<unsigned> out(ODD_PAIRS);
    compared<<<1, 160>>>(dx.device, out.device);
    return all(out.fetch(), ODD_PAIRS, [&](size_t i) {
        float c = x[i % ODD_COUNT], d = x[i / ODD_COUNT], a = flushed(c), b = flushed(d);
        bool nan = a != a || b != b;
        return unsigned(a < b) | unsigned(a <= b) << 1 | unsigned(a > b) << 2 | unsigned(a >= b) << 3 | unsigned(a == b) << 4 |
               unsigned(a != b) << 5 | unsigned(a != a) << 6 | unsigned(c < d) << 7 | unsigned(c < d || nan) << 8 |
               unsigned(c != d && !nan) << 9 | unsigned(c != d) << 10 | unsigned(c == d || nan) << 11 | unsigned(!nan) << 12 |
               unsigned(nan) << 13 | unsigned(c >= d || nan) << 14;
    });
}

__global__ void fused(const float *x, float *out, const double *y, double *wide) {
    float a = x[0], b = x[1], c = x[2];
    out[0] = fmaf(a, b, c), out[1] = __fadd_rn(__fmul_rn(a, b), c), out[2] = __fmaf_rn(a, b, c);
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(out[3]) : "f"(a), "f"(b), "f"(c));
    asm("{ .reg .f32 p; mul.rn.f32 p, %1, %2; add.rn.f32 %0, p, %3; }" : "=f"(out[4]) : "f"(a), "f"(b), "f"(c));
    out[5] = fmaf(1.0000001f, 1.0000001f, -1.0000002f), out[6] = __fsub_rn(__fmul_rn(a, b), -c);
    double d = y[0], e = y[1], f = y[2];
    wide[0] = fma(d, e, f), wide[1] = __dadd_rn(__dmul_rn(d, e), f), wide[2] = fma(1.0000000000000002, 1.0000000000000002, -1.0000000000000004);
}

TEST(fma_rounds_once_and_named_roundings_are_not_fused) {
    // The square of 1 + u less 1 + 2u is u squared where it is rounded once, and 0 where twice.
    float u = ldexpf(1, -23);
    double v = ldexp(1, -52);
    Buffer<float> x({1 + u, 1 + u, -(1 + 2 * u)}), out(7);
    Buffer<double> y({1 + v, 1 + v, -(1 + 2 * v)}), wide(3);
    fused<<<1, 1>>>(x.device, out.device, y.device, wide.device);
    float once = u * u;
    return all(out.fetch(), 7, [&](size_t i) { return i == 1 || i == 4 || i == 6 ? 0.f : once; }) &
           all(wide.fetch(), 3, [&](size_t i) { return i == 1 ? 0. : v * v; });
}

__global__ void denormal(const float *x, float *out, double *wide) {
    float small = x[0], least = x[1];
    out[0] = small + 0.f, out[1] = least * 0.5f, out[2] = small * 2.f, out[3] = small - least, out[4] = -small;
    out[5] = fmaf(small, 1.f, small), out[6] = small == 0.f ? 1.f : 2.f, out[7] = small / least, out[8] = sqrtf(small);
    out[9] = fabsf(small), out[10] = fmaxf(small, 0.f), out[11] = __fmul_rn(least, 0.25f), out[12] = -least * 0.5f;
    out[13] = x[0], out[14] = __int_as_float(__float_as_int(small)), out[15] = small != 0.f ? 3.f : 4.f;
    asm("mul.ftz.f32 %0, %1, %2;" : "=f"(out[16]) : "f"(least), "f"(0.5f));
    asm("mul.f32 %0, %1, %2;" : "=f"(out[17]) : "f"(least), "f"(0.5f));
    asm("add.ftz.f32 %0, %1, %2;" : "=f"(out[18]) : "f"(-small), "f"(-0.f));
    asm("{ .reg .pred p; setp.eq.ftz.f32 p, %1, 0f00000000; selp.f32 %0, 0f3f800000, 0f40000000, p; }" : "=f"(out[19]) : "f"(small));
    wide[0] = double(small), wide[1] = 0x1p-1022 * x[2], wide[2] = wide[3] + 0.0;
    asm("cvt.ftz.f64.f32 %0, %1;" : "=d"(wide[4]) : "f"(small));
}

TEST(denormals_are_kept_unless_flushed) {
    float small = real(0x00012345), least_normal = real(0x00800000);
    Buffer<float> x({small, least_normal, 0.5f}), out(20);
    Buffer<double> wide({0, 0, 0, 0x1p-1040, 0});
    denormal<<<1, 1>>>(x.device, out.device, wide.device);
    float s = flushed(small);
    const float expected[] = {s, flushed(least_normal / 2), flushed(s * 2), flushed(s - least_normal), -s, flushed(s + s),
                              s == 0 ? 1.f : 2.f, s / least_normal, sqrtf(s), s, s, flushed(least_normal / 4),
                              flushed(-least_normal / 2), small, small, s != 0 ? 3.f : 4.f, 0.f, least_normal / 2, -0.f, 1.f};
    const double expected_wide[] = {double(s), 0x1p-1023, 0x1p-1040, 0x1p-1040, 0};
    return all(out.fetch(), 20, [&](size_t i) { return expected[i]; }) &
           all(wide.fetch(), 5, [&](size_t i) { return expected_wide[i]; });
}

template <class To, class From> static To cut(From x, To low, To high, To of_nan) {
    if (x != x) return of_nan;
    if (x <= From(low)) return low;
    return x >= From(high) ? high : To(x);
}

static const double FAR[] = {0, -0.9, 1.5, -1.5, 300, -300, 40000, -40000, 70000, 3e9, -3e9, 5e9, 1e19, -1e19, 2e19, 1e300, NAN, INFINITY, -INFINITY};
enum { FAR_COUNT = sizeof FAR / sizeof *FAR };

// To int, unsigned, long long, unsigned long long; short; unsigned char by way of 16 bits. The way is written out: PTX has no
// conversion to 8 bits, and of one that C++ leaves undefined clang keeps all 16 (an H100 gave 300 for 300).
template <class T> __device__ void casts(T x, long long *out) {
    out[0] = int(x), out[1] = unsigned(x), out[2] = (long long)x, out[3] = (long long)(unsigned long long)x;
    out[4] = short(x), out[5] = (unsigned char)(unsigned short)x;
}

__global__ void casts_kernel(const double *x, long long *out) {
    int t = threadIdx.x;
    if (t >= FAR_COUNT) return;
    casts(x[t], out + 12 * t);
    casts(float(x[t]), out + 12 * t + 6);
}

// Every operand is a constant here, which clang itself would fold.
__global__ void casts_folded(long long *out) {
    out[0] = int(3e9), out[1] = int(-3e9f), out[2] = unsigned(-1.f), out[3] = unsigned(5e9), out[4] = (long long)1e19;
    out[5] = (long long)(unsigned long long)2e19f, out[6] = int(__builtin_nanf("")), out[7] = (unsigned char)(unsigned short)300.f, out[8] = short(70000.0);
}

template <class T> static long long cast_of(T x, int kind) {
    long long low = (long long)(1ull << 63);
    switch (kind) {
    case 0: return cut<int>(x, int(0x80000000u), 0x7fffffff, sizeof(T) == 8 ? int(0x80000000u) : 0);
    case 1: return cut<unsigned>(x, 0, ~0u, sizeof(T) == 8 ? 0x80000000u : 0);
    case 2: return cut<long long>(x, low, ~low, low);
    case 3: return (long long)cut<unsigned long long>(x, 0, ~0ull, 1ull << 63);
    case 4: return cut<short>(x, -32768, 32767, sizeof(T) == 8 ? -32768 : 0);
    default: return (unsigned char)cut<unsigned short>(x, 0, 65535, 0);
    }
}

TEST(casts_out_of_range_give_the_nearest_integer) {
    std::vector<double> x(FAR, FAR + FAR_COUNT);
    Buffer<double> dx(x);
    Buffer<long long> out(12 * FAR_COUNT), folded(9);
    casts_kernel<<<1, 32>>>(dx.device, out.device);
    casts_folded<<<1, 1>>>(folded.device);
    const long long expected[] = {0x7fffffff, int(0x80000000u), 0, 0xffffffffu, 0x7fffffffffffffffll, -1, 0, 300 & 255, 32767};
    return all(out.fetch(), 12 * FAR_COUNT, [&](size_t i) {
        double v = x[i / 12];
        return i % 12 < 6 ? cast_of(v, i % 6) : cast_of(float(v), i % 6);
    }) & all(folded.fetch(), 9, [&](size_t i) { return expected[i]; });
}

__global__ void rounded(const float *x, int *out, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    out[t] = __float2int_rn(x[t]), out[n + t] = __float2int_rz(x[t]), out[2 * n + t] = __float2int_rd(x[t]);
    out[3 * n + t] = __float2int_ru(x[t]), out[4 * n + t] = int(rintf(x[t])), out[5 * n + t] = int(roundf(x[t]));
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(out[6 * n + t]) : "f"(x[t]));
    asm("cvt.rmi.s32.f32 %0, %1;" : "=r"(out[7 * n + t]) : "f"(x[t]));
}

TEST(conversions_round_as_they_are_named) {
    std::vector<float> x = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.49999997f, 8388609.f, -2.2f, 2.7f, 3e9f, -3e9f};
    int n = int(x.size());
    Buffer<float> dx(x);
    Buffer<int> out(8 * n);
    rounded<<<1, 32>>>(dx.device, out.device, n);
    return all(out.fetch(), 8 * n, [&](size_t i) {
        double v = x[i % n];
        switch (i / n) {
        case 0: case 4: case 6: v = std::nearbyint(v); break;
        case 1: v = std::trunc(v); break;
        case 3: v = std::ceil(v); break;
        case 5: v = std::round(v); break;
        default: v = std::floor(v);
        }
        return int(cast_of(v, 0));
    });
}

__global__ void held(const float *x, float *out, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    out[t] = __saturatef(x[t]);
    asm("add.sat.f32 %0, %1, 0f00000000;" : "=f"(out[n + t]) : "f"(x[t]));
}

TEST(saturation_makes_nan_zero) {
    std::vector<float> x = {NAN, -1, 0.25f, 1, 2, INFINITY, -INFINITY};
    int n = int(x.size());
    Buffer<float> dx(x), out(2 * n);
    held<<<1, 32>>>(dx.device, out.device, n);
    return all(out.fetch(), 2 * n, [&](size_t i) {
        float v = x[i % n];
        return v > 0 ? v < 1 ? v : 1.f : 0.f;
    });
}
