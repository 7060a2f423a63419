// What the three programs of the bench share: sizes, inputs, expected results, and how a piece of work is timed.
//
// Trap: a line of output is one sample, `name processor-seconds elapsed-seconds`; the first run of a piece of work is none.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

constexpr int COUNT = 1 << 22;    // numbers of all but `stencil`
constexpr int SIDE = 2048;        // of the square of `stencil`
constexpr int BLOCK = 256;        // threads of a block
constexpr int SUMS = COUNT / BLOCK;
constexpr int STEPS = 8;          // of `smooth`, each followed by a barrier

inline double seconds(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

inline int rounds = 5;

template <class Work> void timed(const char *name, Work work) {
    work();
    for (int round = 0; round < rounds; round++) {
        double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
        work();
        wall = seconds(CLOCK_MONOTONIC) - wall;
        printf("%s %.9f %.9f\n", name, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, wall);
    }
}

inline std::vector<float> numbers(int count) {
    std::vector<float> all(count);
    for (int i = 0; i < count; i++) all[i] = (i * 37 % 1000) / 500.f - 1;
    return all;
}

// Ends the program where a result is not what the other programs of the bench get, but for rounding.
inline void expect(const char *name, const std::vector<float> &got, double sum) {
    double found = 0;
    for (float value : got) found += value;
    if (std::abs(found - sum) > 1e-4 * std::abs(sum) + 1e-2) {
        fprintf(stderr, "%s: the sum is %.6f, not %.6f\n", name, found, sum);
        exit(1);
    }
}

// Casts and functions of one number, the same in CUDA and as a plain loop; no cast leaves the integer's range.
#ifdef __CUDACC__
#define HERE __host__ __device__
#else
#define HERE
#endif
HERE inline float to_int(float x) { return float(int(x * 1000)); }
HERE inline float to_unsigned(float x) { return float(unsigned((x + 2) * 1000)); }
HERE inline float to_long(float x) { return float((long long)(x * 1e10) >> 20); }
HERE inline float functions(float x) { return expf(x) + sinf(x); }
template <class Work> double sum_of(Work work) {
    double sum = 0;
    for (float x : numbers(COUNT)) sum += work(x);
    return sum;
}

// Sums of the right results, computed in double precision.
inline double sum_of_map() {
    double sum = 0;
    for (float x : numbers(COUNT)) sum += ((((x * .5 + .25) * x - .125) * x + .0625) * x - .03125) * x + 1;
    return sum;
}
inline double sum_of_reduce() {
    double sum = 0;
    for (float x : numbers(COUNT)) sum += x;
    return sum;
}
inline double sum_of_stencil() {
    auto in = numbers(SIDE * SIDE);
    double sum = 0;
    for (int y = 1; y < SIDE - 1; y++)
        for (int x = 1; x < SIDE - 1; x++) {
            const float *at = &in[y * SIDE + x];
            sum += .5 * at[0] + .125 * (double(at[-1]) + at[1] + at[-SIDE] + at[SIDE]);
        }
    return sum;
}
inline double sum_of_smooth() {
    auto in = numbers(COUNT);
    double sum = 0;
    for (int block = 0; block < COUNT; block += BLOCK) {
        double a[BLOCK + 2] = {}, b[BLOCK + 2] = {};
        for (int i = 0; i < BLOCK; i++) a[i + 1] = in[block + i];
        for (int step = 0; step < STEPS; step++) {
            for (int i = 1; i <= BLOCK; i++) b[i] = .25 * a[i - 1] + .5 * a[i] + .25 * a[i + 1];
            for (int i = 1; i <= BLOCK; i++) a[i] = b[i];
        }
        for (int i = 1; i <= BLOCK; i++) sum += a[i];
    }
    return sum;
}
