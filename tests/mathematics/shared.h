// What the rows of single.cu and double.cu need beside the references; and their `main`.
#pragma once
#include <algorithm>

#include "measure.h"

// Promises that hold for some arguments.
inline Promise near(double x, double units, double far) { return std::fabs(x) < 8 ? ulps(units) : within(far); }
inline Promise outside(double x, double low, double high, double units) {
    return x < low * (1 + 1e-7) || x > high * (1 - 1e-7) || x != x ? ulps(units) : nothing();
}
// A whole number of the sign of any number, and an order of a Bessel function out of it.
template <class T> __host__ __device__ int part(T y, int most) {
    T size = y < 0 ? -y : y;
    return size < T(1e6) ? int(size) % (most + 1) * (y < 0 ? -1 : 1) : 0;
}
template <class T> __host__ __device__ int order(T y, int most) {
    int n = part(y, most - 2);
    return 2 + (n < 0 ? -n : n);
}
// Two `float`s side by side as one number.
__host__ __device__ inline long long bits_of(float low, float high) {
    unsigned a, b;
    memcpy(&a, &low, 4), memcpy(&b, &high, 4);
    return (long long)((unsigned long long)b << 32 | a);
}
// A whole number held in the range of `long long`, as conversions hold it; a NaN is the least.
inline quad whole(double nearest) {
    if (nearest >= 0x1p63) return quad(INT64_MAX);
    return nearest >= -0x1p63 ? quad(nearest) : quad(INT64_MIN);
}
template <class T> quad parts(T x) {
    int e = 0;
    T m = std::frexp(x, &e);
    return quad(T(m + (std::isfinite(x) ? e : 0)));
}
template <class T> quad part_sum(T x) {
    T i, r = std::modf(x, &i);
    return quad(T(3 * i + r));
}

inline std::vector<bool (*)(const Settings &)> &rows() {
    static std::vector<bool (*)(const Settings &)> all;
    return all;
}
struct Registration {
    Registration(bool (*row)(const Settings &)) { rows().push_back(row); }
};

int main(int argc, char **argv) {
    Settings settings;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--count") && i + 1 < argc) settings.count = strtoull(argv[++i], nullptr, 0);
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc) settings.seed = strtoull(argv[++i], nullptr, 0);
        else settings.name = argv[i];
    }
    int broken = 0;
    for (auto row : rows()) broken += row(settings);
    return broken > 0;
}
