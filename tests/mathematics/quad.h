// References with 113 significant bits: the C library's functions of `_Float128`, and from these the ones that CUDA has
// beside them.
//
// Trap: written for inputs that are `float` or `double`: squares of them, and differences from 1 and 2, are exact here.
#pragma once
#include <cfenv>
#include <cmath>

using quad = __float128;

#define QUAD_OF_ONE(F)                                                                                               \
    F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(cbrt) F(ceil) F(cos) F(cosh) F(erf) F(erfc) F(exp) F(exp10)   \
    F(exp2) F(expm1) F(fabs) F(floor) F(j0) F(j1) F(lgamma) F(log) F(log10) F(log1p) F(log2) F(logb) F(rint) F(round)  \
    F(roundeven) F(sin) F(sinh) F(sqrt) F(tan) F(tanh) F(tgamma) F(trunc) F(y0) F(y1)
#define QUAD_OF_TWO(F) F(atan2) F(fmod) F(hypot) F(pow) F(remainder)
#define DECLARE_ONE(name) extern "C" quad name##f128(quad); namespace q { inline quad name(quad x) { return name##f128(x); } }
#define DECLARE_TWO(name) \
    extern "C" quad name##f128(quad, quad); namespace q { inline quad name(quad x, quad y) { return name##f128(x, y); } }
QUAD_OF_ONE(DECLARE_ONE)
QUAD_OF_TWO(DECLARE_TWO)
extern "C" quad jnf128(int, quad);
extern "C" quad ynf128(int, quad);

namespace q {
const quad PI = acosf128(-1), INFINITE = quad(INFINITY), NOTHING = quad(NAN);

// Reduced exactly to half a turn around the nearest even number.
inline quad half_turns(quad x) { return x - 2 * roundevenf128(x / 2); }
inline quad sinpi(quad x) {
    quad r = half_turns(x), size = fabs(r), sine = sin(PI * (size > quad(0.5) ? 1 - size : size));
    return r < 0 ? -sine : sine;
}
inline quad cospi(quad x) { return sinpi(quad(0.5) - fabs(half_turns(x))); }

inline quad erfcx(quad x) {
    if (x < 25) return exp(x * x) * erfc(x);
    quad tail = x;  // of the continued fraction
    for (int k = 60; k > 0; k--) tail = x + quad(k) / 2 / tail;
    return 1 / (sqrt(PI) * tail);
}

// y with erf(y) = x, for |x| <= 1/2: Newton's method.
inline quad inverse_of_small(quad x) {
    quad y = x * sqrt(PI) / 2;
    for (int k = 0; k < 7; k++) y -= (erf(y) - x) * exp(y * y) * sqrt(PI) / 2;
    return y;
}
// y with erfc(y) = p, for 0 < p <= 1/2: the same for the logarithm of both, after a search in plain `double`.
inline quad inverse_of_tail(quad p) {
    double low = 0.4, high = 27, wanted = double(log(p));
    for (int k = 0; k < 40; k++) {
        double y = (low + high) / 2, got = double(log(erfc(quad(y))));
        (got > wanted ? low : high) = y;
        if (k > 12) break;
    }
    quad y = (quad(low) + quad(high)) / 2;
    for (int k = 0; k < 6; k++) {
        quad tail = erfc(y);
        y += (log(tail) - log(p)) * tail * exp(y * y) * sqrt(PI) / 2;
    }
    return y;
}
inline quad erfcinv(quad p) {
    if (!(p >= 0 && p <= 2)) return NOTHING;
    if (p == 0) return INFINITE;
    if (p > 1) return -erfcinv(2 - p);
    return p <= quad(0.5) ? inverse_of_tail(p) : inverse_of_small(1 - p);
}
inline quad erfinv(quad x) {
    if (!(x >= -1 && x <= 1)) return NOTHING;
    if (fabs(x) <= quad(0.5)) return x == 0 ? x : inverse_of_small(x);
    return x < 0 ? -erfcinv(1 + x) : erfcinv(1 - x);
}
inline quad normcdf(quad x) { return erfc(-x / sqrt(2)) / 2; }
inline quad normcdfinv(quad p) { return -sqrt(2) * erfcinv(2 * p); }

// Modified Bessel functions by their power series, all of whose terms have one sign.
inline quad bessel_i(int order, quad x) {
    if (x != x) return x;
    if (fabs(x) > 800) return order % 2 && x < 0 ? -INFINITE : INFINITE;
    quad square = x * x / 4, term = order ? x / 2 : quad(1), sum = term;
    for (int k = 1; fabs(term) > fabs(sum) * quad(1e-35); k++) sum += term *= square / (quad(k) * quad(k + order));
    return sum;
}
inline quad rsqrt(quad x) { return 1 / sqrt(x); }
inline quad rcbrt(quad x) { return 1 / cbrt(x); }
inline quad norm(quad x, quad y, quad z, quad t) {
    if (fabs(x) == INFINITE || fabs(y) == INFINITE || fabs(z) == INFINITE || fabs(t) == INFINITE) return INFINITE;
    return sqrt(x * x + y * y + z * z + t * t);
}
}  // namespace q

// What the processor gives for `operation`, one operation on volatile numbers, with another rounding.
template <class F> __attribute__((noinline)) auto rounded(int mode, F operation) {
    fesetround(mode);
    volatile auto result = operation();
    fesetround(FE_TONEAREST);
    return decltype(operation())(result);
}
