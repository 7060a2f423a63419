// CUDA's functions of `__half` and `__nv_bfloat16`, for every input there is.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "shared.h"

// A 16-bit format: its bits, and how many of them are the significand and the exponent.
template <int SIGNIFICAND, int EXPONENT> struct Format {
    static double value(unsigned short bits) {
        int fraction = bits & ((1 << (SIGNIFICAND - 1)) - 1), exponent = bits >> (SIGNIFICAND - 1) & ((1 << EXPONENT) - 1);
        int bias = (1 << (EXPONENT - 1)) - 1;
        double size = exponent == (1 << EXPONENT) - 1 ? (fraction ? NAN : INFINITY)
                      : exponent ? std::ldexp(fraction + (1 << (SIGNIFICAND - 1)), exponent - bias - SIGNIFICAND + 1)
                                 : std::ldexp(fraction, 2 - bias - SIGNIFICAND);
        return bits & 0x8000 ? -size : size;
    }
    // The nearest number, by search: the bits of positive numbers rise with them.
    static unsigned short nearest(quad x) {
        if (x != x) return 0x7fff;
        quad size = q::fabs(x);
        int low = 0, high = ((1 << EXPONENT) - 1) << (SIGNIFICAND - 1);  // that is infinity
        double beyond = 2 * value(high - 1) - value(high - 2);
        while (high - low > 1) {
            int middle = (low + high) / 2;
            (quad(value(middle)) <= size ? low : high) = middle;
        }
        double above = std::isinf(value(high)) ? beyond : value(high);
        quad down = size - value(low), up = above - size;
        int bits = size >= beyond ? high : down < up || (down == up && low % 2 == 0) ? low : high;
        return (unsigned short)(bits | (std::signbit(double(x)) ? 0x8000 : 0));
    }
};
using Half = Format<11, 5>;
using Bfloat = Format<8, 8>;

template <class F, class N> __global__ void narrow(unsigned short *out) {
    unsigned short bits = blockIdx.x * blockDim.x + threadIdx.x;
    N x;
    memcpy(&x, &bits, 2);
    N y = F::device(x);
    memcpy(&out[bits], &y, 2);
}

template <class F, class N, class Bits> bool exhaust(const Settings &settings) {
    if (settings.name && strcmp(settings.name, F::name())) return false;
    std::vector<unsigned short> got(65536);
    unsigned short *out;
    require(cudaMalloc(&out, 2 * got.size()), "memory");
    narrow<F, N><<<256, 256>>>(out);
    require(cudaMemcpy(got.data(), out, 2 * got.size(), cudaMemcpyDeviceToHost), F::name());
    cudaFree(out);
    Outcome outcome;
    for (int bits = 0; bits < 65536; bits++) {
        unsigned short right = Bits::nearest(F::reference(quad(Bits::value(bits))));
        double a = Bits::value(got[bits]), b = Bits::value(right);
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        auto place = [](unsigned short v) { return v & 0x8000 ? -(v & 0x7fff) : v; };
        double off = std::isnan(a) || std::isnan(b) ? INFINITY : std::abs(place(got[bits]) - place(right));
        if (off <= outcome.units) continue;
        outcome.units = off;
        char input[100];
        snprintf(input, sizeof input, "%a -> %a, not %a", Bits::value(bits), a, b);
        outcome.worst = input;
    }
    outcome.broken = outcome.units > F::promise;
    printf("%s\tulps(%d)\t%.9g\t0\t65536\t%s\n", F::name(), F::promise, outcome.units, outcome.broken ? outcome.worst.c_str() : "");
    return outcome.broken;
}

#define NARROW_OF(KIND, TYPE, FORMAT, NAME, REFERENCE, PROMISE)                 \
    struct KIND##_##NAME {                                                      \
        static const char *name() { return #NAME "(" #TYPE ")"; }               \
        static constexpr int promise = PROMISE;                                 \
        static __device__ TYPE device(TYPE x) { return NAME(x); }               \
        static quad reference(quad X) { return REFERENCE; }                     \
    };                                                                          \
    static Registration registration_##KIND##_##NAME(&exhaust<KIND##_##NAME, TYPE, FORMAT>);
#define NARROW(NAME, REFERENCE, PROMISE)                             \
    NARROW_OF(half, __half, Half, NAME, REFERENCE, PROMISE)          \
    NARROW_OF(bfloat, __nv_bfloat16, Bfloat, NAME, REFERENCE, PROMISE)
// CUDA promises 0 for all but the approximate one. Its header corrects single results that its processors' approximations
// get wrong; with accurate ones a few corrections are one too many.
NARROW_OF(half, __half, Half, hexp, q::exp(X), 1)
NARROW_OF(bfloat, __nv_bfloat16, Bfloat, hexp, q::exp(X), 0)
NARROW_OF(half, __half, Half, hexp2, q::exp2(X), 1)
NARROW_OF(bfloat, __nv_bfloat16, Bfloat, hexp2, q::exp2(X), 0)
NARROW_OF(half, __half, Half, hexp10, q::exp10(X), 1)
NARROW_OF(bfloat, __nv_bfloat16, Bfloat, hexp10, q::exp10(X), 0)
NARROW_OF(half, __half, Half, hlog, q::log(X), 1)
NARROW_OF(bfloat, __nv_bfloat16, Bfloat, hlog, q::log(X), 0)
NARROW(hlog2, q::log2(X), 0)
NARROW_OF(half, __half, Half, hlog10, q::log10(X), 1)
NARROW_OF(bfloat, __nv_bfloat16, Bfloat, hlog10, q::log10(X), 0)
NARROW(hsin, q::sin(X), 0)
NARROW(hcos, q::cos(X), 0)
NARROW(htanh, q::tanh(X), 0)
NARROW(htanh_approx, q::tanh(X), 1)
NARROW(hsqrt, q::sqrt(X), 0)
NARROW(hrsqrt, q::rsqrt(X), 0)
NARROW(hrcp, 1 / X, 0)
NARROW(hceil, q::ceil(X), 0)
NARROW(hfloor, q::floor(X), 0)
NARROW(hrint, q::rint(X), 0)
NARROW(htrunc, q::trunc(X), 0)
