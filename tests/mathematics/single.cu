// CUDA's functions of `float`: see measure.h.
#include "shared.h"

using Real = float;
#define f(name) name##f
#define GENERAL(NAME, DEVICE, REFERENCE, LOW, HIGH, SINGLE, DOUBLE)             \
    ROW(row_##NAME##f, float, DEVICE, REFERENCE, LOW, HIGH, SINGLE, #SINGLE)     \
    static Registration registration_##NAME(&report<row_##NAME##f>);
#define FUNCTION(NAME, REFERENCE, LOW, HIGH, SINGLE, DOUBLE) GENERAL(NAME, NAME##f(x), REFERENCE, LOW, HIGH, SINGLE, DOUBLE)
#include "functions.h"

#define ONLY(NAME, DEVICE, REFERENCE, LOW, HIGH, PROMISE)                \
    ROW(row_##NAME, float, DEVICE, REFERENCE, LOW, HIGH, PROMISE, #PROMISE) \
    static Registration registration_##NAME(&report<row_##NAME>);
ONLY(fdividef, fdividef(x, y), x / y, -10, 10, ulps(0))
ONLY(__fdividef, __fdividef(x, y), x / y, -10, 10, fabs(y) >= 0x1p-126 && fabs(y) <= 0x1p126 ? ulps(2) : nothing())
ONLY(__frsqrt_rn, __frsqrt_rn(x), q::rsqrt(X), 0, 10, ulps(0))
ONLY(__expf, __expf(x), q::exp(X), -80, 80, ulps(2 + floor(fabs(1.173 * x))))
ONLY(__exp10f, __exp10f(x), q::exp10(X), -37, 37, ulps(2 + floor(fabs(2.97 * x))))
ONLY(__logf, __logf(x), q::log(X), 0, 4, x >= 0.5f && x <= 2 ? within(0x1p-21) : ulps(3))
ONLY(__log2f, __log2f(x), q::log2(X), 0, 4, x >= 0.5f && x <= 2 ? within(0x1p-22) : ulps(2))
ONLY(__log10f, __log10f(x), q::log10(X), 0, 4, x >= 0.5f && x <= 2 ? within(0x1p-24) : ulps(3))
ONLY(__sinf, __sinf(x), q::sin(X), -3, 3, fabs(x) <= 3.1415926f ? within(0x1p-21) : nothing())
ONLY(__cosf, __cosf(x), q::cos(X), -3, 3, fabs(x) <= 3.1415926f ? within(0x1p-21) : nothing())
ONLY(__sincosf, ([&] { float s, c; __sincosf(x, &s, &c); return y > 0 ? s : c; }()), y > 0 ? q::sin(X) : q::cos(X), -3, 3,
     fabs(x) <= 3.1415926f ? within(0x1p-21) : nothing())
ONLY(__tanf, __tanf(x), q::tan(X), -1, 1, fabs(x) <= 1 ? within(0x1p-19) : nothing())
ONLY(__powf, __powf(x, y), q::pow(X, Y), 0, 8, fabs(x) <= 8 && fabs(y) <= 8 && x > 0 ? ulps(64) : nothing())
ONLY(__saturatef, __saturatef(x), x != x ? 0 : std::fmin(std::fmax(x, 0.f), 1.f), -1, 2, ulps(0))
#define ROUNDED(NAME, ENDING, MODE, DEVICE, OPERATION) \
    ONLY(NAME##_##ENDING, DEVICE, rounded(MODE, [vx = x, vy = y, vz = z] { \
        volatile float x = vx, y = vy, z = vz; return float(OPERATION); }), -10, 10, ulps(0))
#define ALL_ROUNDINGS(NAME, ARGUMENTS, OPERATION)                      \
    ROUNDED(NAME, rn, FE_TONEAREST, NAME##_rn ARGUMENTS, OPERATION)     \
    ROUNDED(NAME, rz, FE_TOWARDZERO, NAME##_rz ARGUMENTS, OPERATION)    \
    ROUNDED(NAME, ru, FE_UPWARD, NAME##_ru ARGUMENTS, OPERATION)        \
    ROUNDED(NAME, rd, FE_DOWNWARD, NAME##_rd ARGUMENTS, OPERATION)
ALL_ROUNDINGS(__fadd, (x, y), x + y)
ALL_ROUNDINGS(__fsub, (x, y), x - y)
ALL_ROUNDINGS(__fmul, (x, y), x *y)
ALL_ROUNDINGS(__fdiv, (x, y), x / y)
ALL_ROUNDINGS(__frcp, (x), 1.f / x)
ALL_ROUNDINGS(__fsqrt, (x), sqrtf(x))
ALL_ROUNDINGS(__fmaf, (x, y, z), fmaf(x, y, z))
ALL_ROUNDINGS(__int2float, (__float_as_int(x)), [](float v) { int i; memcpy(&i, &v, 4); return float(i); }(x))
ALL_ROUNDINGS(__uint2float, (__float_as_uint(x)), [](float v) { unsigned i; memcpy(&i, &v, 4); return float(i); }(x))
ALL_ROUNDINGS(__ll2float, (bits_of(x, y)), float(bits_of(x, y)))
ALL_ROUNDINGS(__ull2float, ((unsigned long long)bits_of(x, y)), float((unsigned long long)bits_of(x, y)))
ALL_ROUNDINGS(__double2float, (__longlong_as_double(bits_of(x, y))), [](long long i) { double v; memcpy(&v, &i, 8);
    return float(v); }(bits_of(x, y)))
