// The CUDA math API against `long double`, within the bounds of the CUDA C++ programming guide ("Mathematical
// Functions"), in units of the last place; half a unit more for the reference's own rounding.

static long double rsqrtl(long double x) { return 1 / sqrtl(x); }

// F(function, its argument, reference, units): the argument is x, or p where the function wants a positive one.
#define SINGLE(F)                                                                                                     \
    F(sinf, x, sinl, 2) F(cosf, x, cosl, 2) F(tanf, x, tanl, 4) F(expf, x, expl, 2) F(exp2f, x, exp2l, 2)              \
    F(expm1f, x, expm1l, 1) F(logf, p, logl, 1) F(log2f, p, log2l, 1) F(log10f, p, log10l, 2) F(log1pf, p, log1pl, 1)  \
    F(sinhf, x, sinhl, 3) F(coshf, x, coshl, 2) F(tanhf, x, tanhl, 2) F(asinhf, x, asinhl, 3) F(atanf, x, atanl, 2)    \
    F(cbrtf, x, cbrtl, 1) F(erff, x, erfl, 2) F(erfcf, x, erfcl, 4) F(sqrtf, p, sqrtl, 0) F(rsqrtf, p, rsqrtl, 2)      \
    F(floorf, x, floorl, 0) F(ceilf, x, ceill, 0) F(rintf, x, rintl, 0) F(truncf, x, truncl, 0) F(roundf, x, roundl, 0)
#define DOUBLE(F)                                                                                                     \
    F(sin, x, sinl, 2) F(cos, x, cosl, 2) F(tan, x, tanl, 2) F(exp, x, expl, 1) F(exp2, x, exp2l, 1)                   \
    F(log, p, logl, 1) F(log2, p, log2l, 1) F(sinh, x, sinhl, 2) F(tanh, x, tanhl, 1) F(atan, x, atanl, 2)             \
    F(cbrt, x, cbrtl, 1) F(erf, x, erfl, 2) F(erfc, x, erfcl, 5) F(sqrt, p, sqrtl, 0) F(rsqrt, p, rsqrtl, 1)           \
    F(floor, x, floorl, 0) F(rint, x, rintl, 0)
#define CALL(function, argument, reference, units) out[k++ * n + t] = function(argument);
#define COMPARE(function, argument, reference, units) \
    good &= within(#function, out.host[k++ * n + t], reference(argument), units, argument);

__global__ void single_functions(const float *in, float *out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    float x = in[t], p = fabsf(x) + 0.001f;
    SINGLE(CALL)
}

__global__ void double_functions(const double *in, double *out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    double x = in[t], p = fabs(x) + 0.001;
    DOUBLE(CALL)
}

template <class T> static bool within(const char *name, T got, long double want, int units, T x) {
    T near = T(want);
    if (got == near || (std::isnan(got) && std::isnan(near))) return true;
    T unit = std::nextafter(std::fabs(near), std::numeric_limits<T>::infinity()) - std::fabs(near);
    double off = fabsl(got - want) / unit;
    if (off <= units + 0.5) return true;
    printf("  %s(%.9g) = %.17g, not %.17Lg: %.1f units off, %d allowed\n", name, double(x), double(got), want, off, units);
    return false;
}

TEST(mathematics_single) {
    const int n = 512;
    std::vector<float> v(n);
    for (int i = 0; i < n; i++) v[i] = (int(noise(i) % 200001) - 100000) / 10000.f;
    Buffer<float> in(v), out(25 * n);
    single_functions<<<n / 64, 64>>>(in.device, out.device, n);
    out.fetch();
    bool good = true;
    for (int t = 0; t < n; t++) {
        int k = 0;
        float x = v[t], p = fabsf(x) + 0.001f;
        SINGLE(COMPARE)
    }
    return good;
}

TEST(mathematics_double) {
    const int n = 512;
    std::vector<double> v(n);
    for (int i = 0; i < n; i++) v[i] = (int(noise(i) % 200001) - 100000) / 10000.;
    Buffer<double> in(v), out(17 * n);
    double_functions<<<n / 64, 64>>>(in.device, out.device, n);
    out.fetch();
    bool good = true;
    for (int t = 0; t < n; t++) {
        int k = 0;
        double x = v[t], p = fabs(x) + 0.001;
        DOUBLE(COMPARE)
    }
    return good;
}

__global__ void two_arguments(const float *in, float *out, int n) {
    int t = threadIdx.x;
    float x = in[t], y = in[n + t];
    out[0 * n + t] = powf(fabsf(x), y);
    out[1 * n + t] = atan2f(x, y);
    out[2 * n + t] = hypotf(x, y);
    out[3 * n + t] = fmodf(x, y);
    out[4 * n + t] = fmaf(x, y, x);
    out[5 * n + t] = x / y;
    out[6 * n + t] = fmaxf(x, y) + fminf(x, y);
    out[7 * n + t] = copysignf(x, y);
}

TEST(mathematics_of_two_arguments) {
    const int n = 256;
    std::vector<float> v(2 * n);
    for (int i = 0; i < 2 * n; i++) v[i] = (int(noise(i) % 2001) - 1000) / 100.f + 0.005f;
    Buffer<float> in(v), out(8 * n);
    two_arguments<<<1, n>>>(in.device, out.device, n);
    out.fetch();
    bool good = true;
    const int units[] = {4, 3, 3, 0, 0, 0, 0, 0};
    for (int i = 0; i < 8 * n; i++) {
        long double x = v[i % n], y = v[n + i % n];
        long double want[] = {powl(fabsl(x), y), atan2l(x, y), hypotl(x, y), fmodl(x, y),
                              fmal(x, y, x),     x / y,        float(x) + float(y), copysignl(x, y)};
        good &= within("function of two arguments", out.host[i], want[i / n], units[i / n], float(x));
    }
    return good;
}

// A number that an integer cannot hold becomes the nearest one that it can; of none, 0, or the highest bit where either type
// has 64 bits.
template <class R> __global__ void casts(const R *in, int *i, unsigned *u, long long *l, unsigned long long *ul, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) i[t] = int(in[t]), u[t] = unsigned(in[t]), l[t] = in[t], ul[t] = in[t];
}

template <class I, class R> I held(R x) {
    const bool is_signed = I(-1) < I(0);
    const I highest_bit = I(1ull << (8 * sizeof(I) - 1)), last = is_signed ? I(~highest_bit) : I(-1);
    const R beyond = std::ldexp(R(1), 8 * sizeof(I) - is_signed);
    if (x != x) return sizeof(I) + sizeof(R) == 8 ? I(0) : highest_bit;
    if (x >= beyond) return last;
    if (is_signed) return x <= -beyond ? highest_bit : I(x);
    return x <= 0 ? I(0) : I(x);
}

// Both neighbours of every power of two, of either sign, with and without a fraction.
template <class R> static bool casts_case() {
    std::vector<R> v = {0, -R(0), std::numeric_limits<R>::infinity(), -std::numeric_limits<R>::infinity(), NAN};
    for (int power = -3; power <= 66; power++) {
        R two = std::ldexp(R(1), power), up = 3 * two, down = 0;
        for (R x : {two, std::nextafter(two, up), std::nextafter(two, down), two + R(0.5), two - R(0.5), two + 1, two - 1})
            v.push_back(x), v.push_back(-x);
    }
    const int n = v.size();
    Buffer<R> in(v);
    Buffer<int> bi(n);
    Buffer<unsigned> bu(n);
    Buffer<long long> bl(n);
    Buffer<unsigned long long> bul(n);
    casts<<<n / 64 + 1, 64>>>(in.device, bi.device, bu.device, bl.device, bul.device, n);
    return all(bi.fetch(), n, [&](size_t k) { return held<int>(v[k]); }) &
           all(bu.fetch(), n, [&](size_t k) { return held<unsigned>(v[k]); }) &
           all(bl.fetch(), n, [&](size_t k) { return held<long long>(v[k]); }) &
           all(bul.fetch(), n, [&](size_t k) { return held<unsigned long long>(v[k]); });
}

TEST(mathematics_casts_of_float_hold_the_range) { return casts_case<float>(); }
TEST(mathematics_casts_of_double_hold_the_range) { return casts_case<double>(); }
