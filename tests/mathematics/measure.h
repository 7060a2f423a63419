// Measures how far a function of device code is from the right result: `measure [--count N] [--seed S] [NAME]`. One line
// each, with tabs: name, what CUDA promises, the most units in the last place seen, the largest error where the promise is
// an absolute one, inputs, the worst input; ends with 1 if a promise was broken.
//
// Trap: as in CUDA's tables, a unit of error is a step from the right result rounded to nearest, not from the exact one;
// zeros are equal, and so are all NaNs.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "quad.h"

// What CUDA promises for an input: so many units, or an error not above `absolute`, or nothing.
struct Promise {
    double units, absolute;
};
inline Promise ulps(double units) { return {units, 0}; }
inline Promise within(double absolute) { return {-1, absolute}; }
inline Promise nothing() { return {-1, INFINITY}; }

struct Outcome {
    double units = 0, absolute = 0;
    bool broken = false;
    std::string worst;
};

struct Settings {
    size_t count = 2000;
    unsigned long long seed = 1;
    const char *name = nullptr;
};

// The bits of a number as an integer that grows by one from each number to the next.
template <class T> double position(T x) {
    using Bits = std::conditional_t<sizeof(T) == 8, int64_t, std::conditional_t<sizeof(T) == 4, int32_t, int16_t>>;
    Bits bits;
    memcpy(&bits, &x, sizeof x);
    // Exact for what is compared: far apart, the last bits do not matter.
    return bits < 0 ? -double(bits & std::numeric_limits<Bits>::max()) : double(bits);
}
template <class T> double steps(T a, T b) {
    if (double(a) == double(b)) return 0;
    if (sizeof(T) < 8) return std::fabs(position(a) - position(b));
    int64_t x, y;
    memcpy(&x, &a, 8), memcpy(&y, &b, 8);
    x = x < 0 ? INT64_MIN - x : x, y = y < 0 ? INT64_MIN - y : y;
    return x > y ? double(uint64_t(x) - uint64_t(y)) : double(uint64_t(y) - uint64_t(x));
}

template <class T> void judge(Outcome &outcome, T got, quad reference, Promise promise, const std::string &input) {
    if (promise.units < 0 && std::isinf(promise.absolute)) return;
    T right = T(reference);
    bool both = std::isnan(double(got)) || std::isnan(double(right));
    double units = both ? (std::isnan(double(got)) == std::isnan(double(right)) ? 0 : INFINITY) : steps(got, right);
    double absolute = units == 0 ? 0 : double(q::fabs(quad(got) - reference));
    bool broken = units > 0 && (promise.units < 0 ? !(absolute <= promise.absolute) : units > promise.units);
    double &most = promise.units < 0 ? outcome.absolute : outcome.units;
    double here = promise.units < 0 ? absolute : units;
    if (here > most || (broken && !outcome.broken)) {
        most = here > most ? here : most;
        if (broken || !outcome.broken) outcome.worst = input;
    }
    outcome.broken |= broken;
}

// Inputs of one row: numbers that functions tend to go wrong at, any bits, and numbers from an interval.
template <class T> std::vector<T> inputs(const Settings &settings, double low, double high, int which) {
    using L = std::numeric_limits<T>;
    const double SPECIAL[] = {0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, 10, -10, 0.1, 1.5, 2.5, 3.5, 8, 23, 100, 128, -1.5,
                              1.5707963267948966, 3.141592653589793, 22.0, 1e5, 16777216, 4503599627370497.5, -7.5,
                              // The hardest to reduce of all `double`s and of all `float`s (J.-M. Muller, "Elementary Functions").
                              0x1.6ac5b262ca1ffp+849, 0x1.f4bf3ep+23, 0x1.3a06eep+85};
    std::vector<T> list;
    for (double x : SPECIAL) list.push_back(T(x));
    for (T x : {L::min(), L::max(), L::denorm_min(), L::epsilon(), L::infinity(), L::quiet_NaN(), T(low), T(high)}) {
        list.push_back(x), list.push_back(-x);
        list.push_back(std::nextafter(x, T(0))), list.push_back(std::nextafter(x, L::infinity()));
    }
    list.push_back(std::nextafter(T(1), T(0))), list.push_back(std::nextafter(T(1), T(2)));
    std::mt19937_64 random(settings.seed * 4 + which);
    // For later arguments in another order, so that special ones meet.
    if (which) std::shuffle(list.begin(), list.end(), random);
    std::uniform_real_distribution<double> uniform(low, high);
    while (list.size() < settings.count) {
        uint64_t bits = random();
        T any;
        memcpy(&any, &bits, sizeof any);
        list.push_back(random() % 3 ? T(uniform(random)) : any);
    }
    list.resize(settings.count);
    return list;
}

inline void require(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        printf("%s: %s\n", what, cudaGetErrorString(status));
        exit(3);
    }
}

template <class Row> __global__ void apply(const typename Row::Type *in, typename Row::Type *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = Row::device(in[i], in[n + i], in[2 * n + i], in[3 * n + i]);
}

// All arguments of a row, one array behind the other, and what the device makes of them.
template <class Row> std::vector<typename Row::Type> outputs(const std::vector<typename Row::Type> &in) {
    using T = typename Row::Type;
    size_t n = in.size() / 4;
    std::vector<T> out(n);
    T *from, *to;
    require(cudaMalloc(&from, in.size() * sizeof(T)), "memory");
    require(cudaMalloc(&to, n * sizeof(T)), "memory");
    require(cudaMemcpy(from, in.data(), in.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
    apply<Row><<<(n + 127) / 128, 128>>>(from, to, int(n));
    require(cudaMemcpy(out.data(), to, n * sizeof(T), cudaMemcpyDeviceToHost), Row::name());
    cudaFree(from), cudaFree(to);
    return out;
}

template <class Row> bool report(const Settings &settings) {
    using T = typename Row::Type;
    if (settings.name && strcmp(settings.name, Row::name())) return false;
    std::vector<T> in;
    for (int which = 0; which < 4; which++)
        for (T x : Row::arguments(settings, which)) in.push_back(x);
    size_t n = in.size() / 4;
    std::vector<T> out = outputs<Row>(in);
    Outcome outcome;
    for (size_t i = 0; i < n; i++) {
        T x = in[i], y = in[n + i], z = in[2 * n + i], t = in[3 * n + i];
        char input[200];
        snprintf(input, sizeof input, "%a %a %a %a -> %a", double(x), double(y), double(z), double(t), double(out[i]));
        judge(outcome, out[i], Row::reference(x, y, z, t), Row::promise(x, y, z, t), input);
    }
    printf("%s\t%s\t%.9g\t%.2g\t%zu\t%s\n", Row::name(), Row::bound(), outcome.units, outcome.absolute, n,
           outcome.broken ? outcome.worst.c_str() : "");
    return outcome.broken;
}

// A row: name, what the device computes of x, y, z, t, the reference (X is x as a `quad`), the interval that most inputs
// come from, what CUDA promises, and that in words.
#define ROW(NAME, T, DEVICE, REFERENCE, LOW, HIGH, PROMISE, WORDS)                                                     \
    struct NAME {                                                                                                     \
        using Type = T;                                                                                               \
        static const char *name() { return &#NAME[sizeof("row_") - 1]; }                                                \
        static const char *bound() { return WORDS; }                                                                  \
        static __device__ T device(T x, T y, T z, T t) { return DEVICE; }                                             \
        static quad reference(T x, T y, T z, T t) {                                                                   \
            [[maybe_unused]] quad X = x, Y = y, Z = z, S = t;                                                         \
            return REFERENCE;                                                                                         \
        }                                                                                                             \
        static Promise promise(T x, T y, T z, T t) { return PROMISE; }                                                \
        static std::vector<T> arguments(const Settings &s, int which) { return inputs<T>(s, LOW, HIGH, which); }       \
    };
