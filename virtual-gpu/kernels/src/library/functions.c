// Functions of CUDA's device mathematics that the C library has not, or not within CUDA's bounds. `functions.ll` is made from
// this file (`EAGER_BLESS=1 cargo test -p eager-kernels --test library`) and linked into the kernels that call one of them.
//
// Those of `double` are computed in `long double`, whose range takes every square of a double, those of `float` in `double`.
// Trap: results must be within the bounds of the CUDA Programming Guide ("Mathematical Functions"), which the test
// `mathematics` measures; x*x, erfc and exp lose most where they are largest.

typedef long double wide;
typedef unsigned long long bits;

#define PURE __attribute__((const, nothrow))
// In one place in the text; all is inlined in the end.
#define PART static __attribute__((noinline))
PURE wide cbrtl(wide), erfl(wide), erfcl(wide), expl(wide), logl(wide), sinl(wide), cosl(wide);
PURE wide j0l(wide), j1l(wide), y0l(wide), y1l(wide), ynl(int, wide);
PURE double cbrt(double), erfc(double), exp(double), yn(int, double);

static const wide PI = 3.14159265358979323846264338327950288L;
static const wide ROOT_OF_2 = 1.41421356237309504880168872420969808L;
static const wide ROOT_OF_PI = 1.77245385090551602729816748334114518L;

static int infinite(wide x) { return __builtin_isinf(x) != 0; }

// ---- roots ----
double __nv_rcbrt(double x) { return 1 / cbrtl(x); }
float __nv_rcbrtf(float x) { return 1 / cbrt(x); }

// An infinite coordinate decides, even beside a NaN.
PART wide length(int count, const double *p) {
    wide sum = 0;
    int far = 0;
    for (int i = 0; i < count; i++) far |= __builtin_isinf(p[i]) != 0, sum += (wide)p[i] * p[i];
    return far ? __builtin_infl() : __builtin_sqrtl(sum);
}
PART double lengthf(int count, const float *p) {
    double sum = 0;
    int far = 0;
    for (int i = 0; i < count; i++) far |= __builtin_isinf(p[i]) != 0, sum += (double)p[i] * p[i];
    return far ? __builtin_inf() : __builtin_sqrt(sum);
}
#define OF(type, count, ...) count, (type[]){__VA_ARGS__}
double __nv_norm3d(double a, double b, double c) { return length(OF(double, 3, a, b, c)); }
double __nv_norm4d(double a, double b, double c, double d) { return length(OF(double, 4, a, b, c, d)); }
double __nv_norm(int count, const double *p) { return length(count, p); }
double __nv_rhypot(double a, double b) { return 1 / length(OF(double, 2, a, b)); }
double __nv_rnorm3d(double a, double b, double c) { return 1 / length(OF(double, 3, a, b, c)); }
double __nv_rnorm4d(double a, double b, double c, double d) { return 1 / length(OF(double, 4, a, b, c, d)); }
double __nv_rnorm(int count, const double *p) { return 1 / length(count, p); }
float __nv_norm3df(float a, float b, float c) { return lengthf(OF(float, 3, a, b, c)); }
float __nv_norm4df(float a, float b, float c, float d) { return lengthf(OF(float, 4, a, b, c, d)); }
float __nv_normf(int count, const float *p) { return lengthf(count, p); }
float __nv_rhypotf(float a, float b) { return 1 / lengthf(OF(float, 2, a, b)); }
float __nv_rnorm3df(float a, float b, float c) { return 1 / lengthf(OF(float, 3, a, b, c)); }
float __nv_rnorm4df(float a, float b, float c, float d) { return 1 / lengthf(OF(float, 4, a, b, c, d)); }
float __nv_rnormf(int count, const float *p) { return 1 / lengthf(count, p); }

// ---- sine and cosine of multiples of pi: what is left of x by 2 is exact, and so is how far that is from a half or a whole ----
PART wide sine(double x) {
    double r = x - 2 * __builtin_rint(x / 2);
    if (__builtin_fabs(r) > 0.5) r = __builtin_copysign(1, r) - r;
    return r == 0 ? __builtin_copysign(0, x) : sinl(PI * r);
}
PART wide cosine(double x) {
    double r = __builtin_fabs(x - 2 * __builtin_rint(x / 2));
    if (r < 0.25) return cosl(PI * r);
    return r <= 0.75 ? sinl(PI * (0.5 - r)) : -cosl(PI * (1 - r));
}
double __nv_sinpi(double x) { return sine(x); }
double __nv_cospi(double x) { return cosine(x); }
float __nv_sinpif(float x) { return sine(x); }
float __nv_cospif(float x) { return cosine(x); }
void __nv_sincospi(double x, double *s, double *c) { *s = sine(x), *c = cosine(x); }
void __nv_sincospif(float x, float *s, float *c) { *s = sine(x), *c = cosine(x); }

// ---- the error function's relatives ----
// exp(x^2) erfc(x) for large x: the asymptotic series (DLMF 7.12.1).
PART wide erfcx_far(wide x) {
    wide sum = 1, term = 1, step = 1 / (2 * x * x);
    for (int k = 1; k < 10; k++) term *= -(2 * k - 1) * step, sum += term;
    return sum / (x * ROOT_OF_PI);
}
double __nv_erfcx(double x) { return x > 25 ? erfcx_far(x) : expl((wide)x * x) * erfcl(x); }
float __nv_erfcxf(float x) { return x > 25 ? (double)erfcx_far(x) : exp((double)x * x) * erfc(x); }
double __nv_normcdf(double x) { return erfcl(-x / ROOT_OF_2) / 2; }
float __nv_normcdff(float x) { return erfc(-x / (double)ROOT_OF_2) / 2; }

// The y for which erfc(y) is q, 0 < q < 2. A first guess, to seven digits where q is not tiny (M. Giles, "Approximating the
// erfinv function", GPU Computing Gems 2, 2011), then Halley's steps, each of which gives three times the digits. Of numbers
// near 1, erf(y) is compared with 1 - q, which is exact.
static wide guess(wide q) {
    wide w = -logl(q * (2 - q)), p;
    if (w >= 16) return __builtin_sqrtl(w - logl(PI * w) / 2);
    if (w < 5) {
        w -= 2.5L;
        p = 2.81022636e-08L, p = 3.43273939e-07L + p * w, p = -3.5233877e-06L + p * w, p = -4.39150654e-06L + p * w;
        p = 0.00021858087L + p * w, p = -0.00125372503L + p * w, p = -0.00417768164L + p * w, p = 0.246640727L + p * w;
        p = 1.50140941L + p * w;
    } else {
        w = __builtin_sqrtl(w) - 3;
        p = -0.000200214257L, p = 0.000100950558L + p * w, p = 0.00134934322L + p * w, p = -0.00367342844L + p * w;
        p = 0.00573950773L + p * w, p = -0.0076224613L + p * w, p = 0.00943887047L + p * w, p = 1.00167406L + p * w;
        p = 2.83297682L + p * w;
    }
    return p * (1 - q);
}
// `q` is 1 - x; the smaller of both is exact.
PART wide erfc_inverse(wide q, wide x) {
    int flipped = q > 1;
    if (flipped) q = 2 - q, x = -x;
    wide y = guess(q);
    for (int step = 0; step < 3; step++) {
        wide off = q < 0.5L ? q - erfcl(y) : erfl(y) - x;
        wide s = off * ROOT_OF_PI / 2 * expl(y * y);
        y -= s / (1 + y * s);
    }
    return flipped ? -y : y;
}
PART wide inverse(wide q, wide x) {
    if (!(q >= 0 && q <= 2)) return __builtin_nanl("");
    if (q == 0) return __builtin_infl();
    if (q == 2) return -__builtin_infl();
    return x == 0 ? x : erfc_inverse(q, x);
}
double __nv_erfcinv(double q) { return inverse(q, 1 - (wide)q); }
double __nv_erfinv(double x) { return inverse(1 - (wide)x, x); }
double __nv_normcdfinv(double p) { return -ROOT_OF_2 * inverse(2 * (wide)p, 1 - 2 * (wide)p); }
float __nv_erfcinvf(float q) { return inverse(q, 1 - (wide)q); }
float __nv_erfinvf(float x) { return inverse(1 - (wide)x, x); }
float __nv_normcdfinvf(float p) { return -ROOT_OF_2 * inverse(2 * (wide)p, 1 - 2 * (wide)p); }

// ---- Bessel functions ----
// The modified one of the first kind, of order 0 or 1: its series (DLMF 10.25.2), whose terms all have one sign, and beyond 40
// the asymptotic one (DLMF 10.40.1).
PART wide bessel_i(int order, wide x) {
    wide sum = 1, term = 1, a = __builtin_fabsl(x);
    if (infinite(x)) return order ? x : a;
    if (a <= 40) {
        wide square = x * x / 4;
        for (int k = 1; k < 200 && term > sum * 0x1p-67L; k++) term *= square / ((wide)k * (k + order)), sum += term;
        return order ? sum * x / 2 : sum;
    }
    for (int k = 1; k < 30; k++) {
        int odd = 2 * k - 1;
        term *= -(4 * order - odd * odd) / (8 * k * a), sum += term;
    }
    wide value = expl(a) / __builtin_sqrtl(2 * PI * a) * sum;
    return order && x < 0 ? -value : value;
}
double __nv_cyl_bessel_i0(double x) { return bessel_i(0, x); }
double __nv_cyl_bessel_i1(double x) { return bessel_i(1, x); }
float __nv_cyl_bessel_i0f(float x) { return bessel_i(0, x); }
float __nv_cyl_bessel_i1f(float x) { return bessel_i(1, x); }
double __nv_j0(double x) { return j0l(x); }
double __nv_j1(double x) { return j1l(x); }
double __nv_y0(double x) { return y0l(x); }
double __nv_y1(double x) { return y1l(x); }
// The C library knows negative orders, CUDA does not.
double __nv_yn(int n, double x) { return n < 0 ? __builtin_nan("") : (double)ynl(n, x); }
float __nv_ynf(int n, float x) { return n < 0 ? __builtin_nanf("") : (float)yn(n, x); }

// ---- parts of numbers ----
double __nv_modf(double x, double *whole) {
    *whole = __builtin_trunc(x);
    return __builtin_copysign(__builtin_isinf(x) ? 0 : x - *whole, x);
}
float __nv_modff(float x, float *whole) {
    *whole = __builtin_truncf(x);
    return __builtin_copysignf(__builtin_isinf(x) ? 0 : x - *whole, x);
}
PART double split(double x, int *exponent) {
    double scaled = x * 0x1p64;
    int extra = 0;
    *exponent = 0;
    if (x == 0 || x - x != 0) return x + x;
    if (__builtin_fabs(x) < 0x1p-1022) x = scaled, extra = 64;
    bits b;
    __builtin_memcpy(&b, &x, sizeof b);
    *exponent = (int)(b >> 52 & 2047) - 1022 - extra;
    b = (b & ~(2047ull << 52)) | 1022ull << 52;
    __builtin_memcpy(&x, &b, sizeof b);
    return x;
}
double __nv_frexp(double x, int *exponent) { return split(x, exponent); }
float __nv_frexpf(float x, int *exponent) { return split(x, exponent); }
PART int exponent_of(double x) {
    if (x == 0 || x != x) return -2147483647 - 1;
    if (infinite(x)) return 2147483647;
    int exponent;
    split(x, &exponent);
    return exponent - 1;
}
int __nv_ilogb(double x) { return exponent_of(x); }
int __nv_ilogbf(float x) { return exponent_of(x); }
double __nv_nan(const signed char *text) { return __builtin_nan(""); }
float __nv_nanf(const signed char *text) { return __builtin_nanf(""); }
// The upper half of the reciprocal's bits.
double __nv_rcp64h(double x) {
    bits b;
    double r = 1 / x;
    __builtin_memcpy(&b, &r, sizeof b);
    b &= ~0xffffffffull;
    __builtin_memcpy(&r, &b, sizeof b);
    return r;
}
