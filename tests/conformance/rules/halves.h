// Comparisons of 16-bit numbers, alone and in pairs; `.ftz`; integers in pairs; conversions of 64-bit integers to 16 bits.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

static const unsigned short HALVES[] = {0, 0x8000, 0x3c00, 0xbc00, 0x3c01, 0x7c00, 0xfc00, 0x7e00, 0x0001, 0x8001};
enum { HALF_COUNT = sizeof HALVES / sizeof *HALVES, HALF_PAIRS = HALF_COUNT * HALF_COUNT };

// Lane 0 compares a with b, lane 1 compares b with a.
__global__ void compare_halves(const unsigned *a, const unsigned *b, unsigned *out, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    unsigned r[12], x = a[t], y = b[t];
    asm("set.lt.f16x2.f16x2 %0, %1, %2;" : "=r"(r[0]) : "r"(x), "r"(y));
    asm("set.leu.u32.f16x2 %0, %1, %2;" : "=r"(r[1]) : "r"(x), "r"(y));
    asm("set.nan.bf16x2.bf16x2 %0, %1, %2;" : "=r"(r[2]) : "r"(x), "r"(y));
    asm("set.ge.u32.bf16x2 %0, %1, %2;" : "=r"(r[3]) : "r"(x), "r"(y));
    asm("set.ne.ftz.f16x2.f16x2 %0, %1, %2;" : "=r"(r[4]) : "r"(x), "r"(y));
    asm("{ .reg .f16 l, h, m, k, d; mov.b32 {l, h}, %1; mov.b32 {m, k}, %2; set.gt.f16.f16 d, l, m; mov.b32 %0, {d, d}; }"
        : "=r"(r[5]) : "r"(x), "r"(y));
    asm("{ .reg .f16 l, h, m, k; mov.b32 {l, h}, %1; mov.b32 {m, k}, %2; set.equ.s32.f16 %0, l, m; }" : "=r"(r[6]) : "r"(x), "r"(y));
    asm("{ .reg .pred p, q; setp.lt.f16x2 p|q, %1, %2; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }" : "=&r"(r[7]) : "r"(x), "r"(y));
    __half2 h = *(const __half2 *)(a + t), g = *(const __half2 *)(b + t);
    __half2 equal = __heq2(h, g);
    memcpy(&r[8], &equal, 4);
    r[9] = __hble2(h, g) | __hbneu2(h, g) << 1, r[10] = __hgt2_mask(h, g);
    __half2 none = __hisnan2(h);
    memcpy(&r[11], &none, 4);
    for (int k = 0; k < 12; k++) out[12 * t + k] = r[k];
}

static float half_value(unsigned short bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexpf(1024 + fraction, exponent - 25) : ldexpf(fraction, -24);
    return bits & 0x8000 ? -size : size;
}
static float bfloat_value(unsigned short bits) {
    unsigned wide = (unsigned)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

TEST(halves_are_compared_each_by_itself) {
    std::vector<unsigned> a(HALF_PAIRS), b(HALF_PAIRS);
    for (int i = 0; i < HALF_PAIRS; i++) {
        unsigned x = HALVES[i % HALF_COUNT], y = HALVES[i / HALF_COUNT];
        a[i] = y << 16 | x, b[i] = x << 16 | y;
    }
    Buffer<unsigned> da(a), db(b), out(12 * HALF_PAIRS);
    compare_halves<<<1, 128>>>(da.device, db.device, out.device, HALF_PAIRS);
    return all(out.fetch(), 12 * HALF_PAIRS, [&](size_t i) {
        unsigned x = a[i / 12] & 0xffff, y = a[i / 12] >> 16;
        float f = half_value(x), g = half_value(y), d = bfloat_value(x), e = bfloat_value(y);
        auto both = [](bool low, bool high, unsigned yes) { return (low ? yes : 0) | (high ? yes : 0) << 16; };
        float zf = fabsf(f) < 0x1p-14f ? 0 : f, zg = fabsf(g) < 0x1p-14f ? 0 : g;
        bool none = f != f || g != g;
        switch (i % 12) {
        case 0: return both(f < g, g < f, 0x3c00);
        case 1: return both(!(f > g), !(g > f), 0xffff);
        case 2: return both(d != d || e != e, d != d || e != e, 0x3f80);
        case 3: return both(d >= e, e >= d, 0xffff);
        case 4: return both(!none && zf != zg, !none && zf != zg, 0x3c00);
        case 5: return both(f > g, f > g, 0x3c00);
        case 6: return none || f == g ? ~0u : 0u;
        case 7: return unsigned(f < g) | unsigned(g < f) << 1;
        case 8: return both(f == g, f == g, 0x3c00);
        case 9: return unsigned(f <= g && g <= f) | unsigned(none || f != g) << 1;
        case 10: return both(f > g, g > f, 0xffff);
        default: return both(f != f, g != g, 0x3c00);
        }
    });
}

// Denormals of 16 bits: as operands, and as results of normal numbers.
static const unsigned short SMALL[] = {0x0001, 0x83ff, 0x0400, 0x8401, 0x0600, 0x3c00, 0xb800, 0x8000};
enum { SMALL_COUNT = sizeof SMALL / sizeof *SMALL, SMALL_PAIRS = SMALL_COUNT * SMALL_COUNT };

__global__ void flush_halves(const unsigned *a, const unsigned *b, unsigned *out) {
    int t = threadIdx.x;
    unsigned r[8], x = a[t], y = b[t], one = 0x3c003c00;
    asm("add.ftz.f16x2 %0, %1, %2;" : "=r"(r[0]) : "r"(x), "r"(y));
    asm("sub.f16x2 %0, %1, %2;" : "=r"(r[1]) : "r"(x), "r"(y));
    asm("mul.rn.ftz.f16x2 %0, %1, %2;" : "=r"(r[2]) : "r"(x), "r"(y));
    asm("fma.rn.ftz.f16x2 %0, %1, %2, %3;" : "=r"(r[3]) : "r"(x), "r"(one), "r"(y));
    asm("{ .reg .f16 l, h, m, k, d; mov.b32 {l, h}, %1; mov.b32 {m, k}, %2; sub.ftz.f16 d, l, m; mov.b32 %0, {d, d}; }"
        : "=r"(r[4]) : "r"(x), "r"(y));
    asm("max.ftz.f16x2 %0, %1, %2;" : "=r"(r[5]) : "r"(x), "r"(y));
    asm("neg.ftz.f16x2 %0, %1;" : "=r"(r[6]) : "r"(x));
    asm("mul.bf16x2 %0, %1, %2;" : "=r"(r[7]) : "r"(x), "r"(y));
    for (int k = 0; k < 8; k++) out[8 * t + k] = r[k];
}

// The bits of a number that an `f16` holds, or with `flush` the zero of its sign if it is denormal there.
static unsigned half_bits(double value, bool flush) {
    unsigned sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (size < 0x1p-14) return flush ? sign : sign | unsigned(nearbyint(ldexp(size, 24)));
    int exponent = ilogb(size);
    return sign | (unsigned(exponent + 14) << 10) + unsigned(nearbyint(ldexp(size, 10 - exponent)));
}

TEST(denormal_halves_are_flushed_where_the_instruction_says_so) {
    std::vector<unsigned> a(SMALL_PAIRS), b(SMALL_PAIRS);
    for (int i = 0; i < SMALL_PAIRS; i++) {
        unsigned x = SMALL[i % SMALL_COUNT], y = SMALL[i / SMALL_COUNT];
        a[i] = y << 16 | x, b[i] = x << 16 | y;
    }
    Buffer<unsigned> da(a), db(b), out(8 * SMALL_PAIRS);
    flush_halves<<<1, SMALL_PAIRS>>>(da.device, db.device, out.device);
    return all(out.fetch(), 8 * SMALL_PAIRS, [&](size_t i) {
        unsigned got = 0;
        for (int lane = 0; lane < 2; lane++) {
            unsigned p = (lane ? a[i / 8] >> 16 : a[i / 8]) & 0xffff, q = (lane ? b[i / 8] >> 16 : b[i / 8]) & 0xffff;
            double f = half_value(p), g = half_value(q);
            double x = fabs(f) < 0x1p-14 ? copysign(0, f) : f, y = fabs(g) < 0x1p-14 ? copysign(0, g) : g;
            unsigned bits;
            switch (i % 8) {
            case 0: case 3: bits = half_bits(x + y, true); break;
            case 1: bits = half_bits(f - g, false); break;
            case 2: bits = half_bits(x * y, true); break;
            case 4: {
                unsigned l = a[i / 8] & 0xffff, m = b[i / 8] & 0xffff;
                double u = half_value(l), v = half_value(m);
                bits = half_bits((fabs(u) < 0x1p-14 ? copysign(0, u) : u) - (fabs(v) < 0x1p-14 ? copysign(0, v) : v), true);
                break;
            }
            case 5: bits = half_bits(x > y || (x == y && !signbit(x)) ? x : y, true); break;
            case 6: bits = half_bits(-x, true); break;
            default: {
                float product = bfloat_value(p) * bfloat_value(q);
                memcpy(&bits, &product, 4);
                bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
            }
            }
            got |= bits << 16 * lane;
        }
        return got;
    });
}

__global__ void integer_halves(const unsigned *x, unsigned *out) {
    int t = threadIdx.x;
    unsigned a = x[t], b = x[64 + t], r[6];
    asm("add.u16x2 %0, %1, %2;" : "=r"(r[0]) : "r"(a), "r"(b));
    asm("min.s16x2 %0, %1, %2;" : "=r"(r[1]) : "r"(a), "r"(b));
    asm("max.u16x2 %0, %1, %2;" : "=r"(r[2]) : "r"(a), "r"(b));
    r[3] = __vimax_s16x2_relu(a, b), r[4] = __vimin_s32_relu(a, b), r[5] = __vimax_s32_relu(a, b);
    for (int k = 0; k < 6; k++) out[6 * t + k] = r[k];
}

TEST(integers_in_pairs_and_without_negative_results) {
    std::vector<unsigned> x(128);
    for (int i = 0; i < 128; i++) x[i] = noise(i + 13) * 2654435761u;
    Buffer<unsigned> dx(x), out(6 * 64);
    integer_halves<<<1, 64>>>(dx.device, out.device);
    return all(out.fetch(), 6 * 64, [&](size_t i) {
        unsigned a = x[i / 6], b = x[64 + i / 6], r = 0;
        int least = int(a) < int(b) ? a : b, most = int(a) < int(b) ? b : a;
        if (i % 6 > 3) return unsigned(i % 6 == 4 ? (least > 0 ? least : 0) : most > 0 ? most : 0);
        for (int k = 0; k < 32; k += 16) {
            unsigned short c = a >> k, d = b >> k;
            short s = c, u = d, high = s > u ? s : u;
            unsigned short v = i % 6 == 0 ? c + d : i % 6 == 1 ? (s < u ? s : u) : i % 6 == 2 ? (c > d ? c : d) : high > 0 ? high : 0;
            r |= (unsigned)v << k;
        }
        return r;
    });
}

// Numbers beside those that 8 and 11 bits hold, of which the last bit decides; 2^62 + 2^54 lies in the middle of two bfloats.
static const long long WIDE[] = {0, 1, -1, 2049, 2051, -2049, 65519, 65520, -65520, (1ll << 62) + (1ll << 54), (1ll << 62) + (1ll << 54) + 1,
                                 (1ll << 62) + (1ll << 54) - 1, -(1ll << 62) - (1ll << 54) - 1, (1ll << 62) + 1, (1ll << 53) + 1, -(1ll << 62) - 1};
enum { WIDE_COUNT = sizeof WIDE / sizeof *WIDE };

__global__ void wide_to_halves(const long long *x, unsigned short *out, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    __half h[8] = {__ll2half_rn(x[t]), __ll2half_rz(x[t]), __ll2half_rd(x[t]), __ll2half_ru(x[t]),
                   __ull2half_rn(x[t]), __ull2half_rz(x[t]), __ull2half_rd(x[t]), __ull2half_ru(x[t])};
    __nv_bfloat16 b[4] = {__ll2bfloat16_rn(x[t]), __ll2bfloat16_rz(x[t]), __ll2bfloat16_rd(x[t]), __ll2bfloat16_ru(x[t])};
    // Whole halves: where a byte of a half is stored, ptxas 13.0 converts the integer to that byte (docs/gpu.md).
    for (int k = 0; k < 8; k++) out[12 * t + k] = __half_as_ushort(h[k]);
    for (int k = 0; k < 4; k++) out[12 * t + 8 + k] = __bfloat16_as_ushort(b[k]);
}

// A whole number in `digits` bits, rounded to nearest (0), to zero, down or up; `limit`: the first size that does not fit.
static unsigned short rounded(bool negative, unsigned long long size, int way, bool bfloat) {
    int digits = bfloat ? 8 : 11, drop = 0;
    while (drop < 64 - digits && size >> drop >= 1ull << digits) drop++;
    unsigned long long kept = size >> drop, rest = drop ? size & ((1ull << drop) - 1) : 0, half = drop ? 1ull << (drop - 1) : 1;
    bool away = way == 0 ? rest > half || (rest == half && (kept & 1)) : way == 1 ? false : way == 2 ? negative && rest : !negative && rest;
    kept += away;
    double value = ldexp(double(kept), drop);
    unsigned short sign = negative ? 0x8000 : 0;
    if (bfloat) {
        float f = value;
        unsigned bits;
        memcpy(&bits, &f, 4);
        return sign | bits >> 16;
    }
    if (value > 65504) return sign | (way == 0 || (way == 2 && negative) || (way == 3 && !negative) ? 0x7c00 : 0x7bff);
    int exponent = value ? ilogb(value) : 0;
    return value ? sign | (exponent + 15) << 10 | (unsigned(ldexp(value, 10 - exponent)) & 1023) : 0;
}

TEST(wide_integers_are_rounded_to_halves_once) {
    std::vector<long long> x(WIDE, WIDE + WIDE_COUNT);
    Buffer<long long> dx(x);
    Buffer<unsigned short> out(12 * WIDE_COUNT);
    wide_to_halves<<<1, 32>>>(dx.device, out.device, WIDE_COUNT);
    return all(out.fetch(), 12 * WIDE_COUNT, [&](size_t i) {
        long long n = x[i / 12];
        int k = i % 12;
        bool is_unsigned = k >= 4 && k < 8, negative = n < 0 && !is_unsigned;
        return rounded(negative, negative ? 0 - (unsigned long long)n : n, k % 4, k >= 8);
    });
}
