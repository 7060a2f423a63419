// CUDA's functions of `double`: see measure.h.
#include "shared.h"

using Real = double;
#define f(name) name
#define GENERAL(NAME, DEVICE, REFERENCE, LOW, HIGH, SINGLE, DOUBLE)           \
    ROW(row_##NAME, double, DEVICE, REFERENCE, LOW, HIGH, DOUBLE, #DOUBLE)     \
    static Registration registration_##NAME(&report<row_##NAME>);
#define FUNCTION(NAME, REFERENCE, LOW, HIGH, SINGLE, DOUBLE) GENERAL(NAME, NAME(x), REFERENCE, LOW, HIGH, SINGLE, DOUBLE)
#include "functions.h"

#define ROUNDED(NAME, ENDING, MODE, DEVICE, OPERATION)                                                                 \
    ROW(row_##NAME##_##ENDING, double, DEVICE, rounded(MODE, [vx = x, vy = y, vz = z] { \
        volatile double x = vx, y = vy, z = vz; return double(OPERATION); }), -10, 10, ulps(0), "ulps(0)")             \
    static Registration registration_##NAME##_##ENDING(&report<row_##NAME##_##ENDING>);
#define ALL_ROUNDINGS(NAME, ARGUMENTS, OPERATION)                      \
    ROUNDED(NAME, rn, FE_TONEAREST, NAME##_rn ARGUMENTS, OPERATION)     \
    ROUNDED(NAME, rz, FE_TOWARDZERO, NAME##_rz ARGUMENTS, OPERATION)    \
    ROUNDED(NAME, ru, FE_UPWARD, NAME##_ru ARGUMENTS, OPERATION)        \
    ROUNDED(NAME, rd, FE_DOWNWARD, NAME##_rd ARGUMENTS, OPERATION)
ALL_ROUNDINGS(__dadd, (x, y), x + y)
ALL_ROUNDINGS(__dsub, (x, y), x - y)
ALL_ROUNDINGS(__dmul, (x, y), x *y)
ALL_ROUNDINGS(__ddiv, (x, y), x / y)
ALL_ROUNDINGS(__drcp, (x), 1. / x)
ALL_ROUNDINGS(__dsqrt, (x), sqrt(x))
ALL_ROUNDINGS(__fma, (x, y, z), fma(x, y, z))
ALL_ROUNDINGS(__ll2double, (__double_as_longlong(x)), [](double v) { long long i; memcpy(&i, &v, 8); return double(i); }(x))
ALL_ROUNDINGS(__ull2double, ((unsigned long long)__double_as_longlong(x)),
              [](double v) { unsigned long long i; memcpy(&i, &v, 8); return double(i); }(x))
