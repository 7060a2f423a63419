// cuRAND's device functions (<curand_kernel.h>) and NVTX ranges, from CUDA's own headers.
//
// Trap: expected values come from the generators' published recurrences, and jumps from powers of their matrices, not
// from cuRAND's tables. A normal number is compared with a tolerance, because it goes through logf, sinf and cosf.
#include "suite.h"

#include <curand_kernel.h>
#include <nvtx3/nvToolsExt.h>

#include <array>

typedef unsigned long long u64;

static const int DRAWS = 64;

template <class State>
__global__ void draw(u64 seed, u64 sequence, u64 offset, unsigned *bits, float *reals, float *normals) {
    State state;
    curand_init(seed, sequence, offset, &state);
    State again = state, once_more = state;
    for (int i = 0; i < DRAWS; i++) bits[i] = curand(&state);
    for (int i = 0; i < DRAWS; i++) reals[i] = curand_uniform(&again);
    for (int i = 0; i < DRAWS; i++) normals[i] = curand_normal(&once_more);
}

struct Drawn {
    std::vector<unsigned> bits;
    std::vector<float> reals, normals;
};

template <class State> Drawn drawn(u64 seed, u64 sequence, u64 offset) {
    Buffer<unsigned> bits(DRAWS);
    Buffer<float> reals(DRAWS), normals(DRAWS);
    draw<State><<<1, 1>>>(seed, sequence, offset, bits.device, reals.device, normals.device);
    return {bits.fetch(), reals.fetch(), normals.fetch()};
}

static float uniform(unsigned x) { return x * 2.3283064e-10f + 2.3283064e-10f / 2.0f; }

static bool near_normal(float got, double u, double v, bool first) {
    const double pi = 3.14159265358979323846;
    double radius = sqrt(-2.0 * log(u)), want = radius * (first ? sin(2 * pi * v) : cos(2 * pi * v));
    if (fabs(got - want) < 1e-5) return true;
    printf("  got %.9g, expected %.9g\n", got, want);
    return false;
}

// Pairs of uniform numbers make pairs of normal ones (Box and Muller, 1958).
static bool normals_follow(const Drawn &drawn) {
    for (int i = 0; i < DRAWS; i++) {
        double u = (drawn.bits[i & ~1] + 0.5) / 4294967296.0, v = (drawn.bits[i | 1] + 0.5) / 4294967296.0;
        if (!near_normal(drawn.normals[i], u, v, i % 2 == 0)) return false;
    }
    return true;
}

// XORWOW (G. Marsaglia, "Xorshift RNGs", 2003): five words of shifts, linear over bits, and a counter.
struct Xorwow {
    std::array<unsigned, 5> v;
    unsigned d;
    unsigned next() {
        unsigned t = v[0] ^ (v[0] >> 2);
        for (int i = 0; i < 4; i++) v[i] = v[i + 1];
        v[4] = v[4] ^ (v[4] << 4) ^ t ^ (t << 1);
        d += 362437;
        return v[4] + d;
    }
};

typedef std::array<unsigned, 5> Row;
// Row i: where bit i of the state goes.
typedef std::vector<Row> BitMatrix;

static Row times(const Row &bits, const BitMatrix &matrix) {
    Row sum = {};
    for (int i = 0; i < 160; i++)
        if (bits[i / 32] >> i % 32 & 1)
            for (int word = 0; word < 5; word++) sum[word] ^= matrix[i][word];
    return sum;
}

// The state after 2^log2 further draws.
static Xorwow jumped(Xorwow from, int log2) {
    BitMatrix step(160);
    for (int i = 0; i < 160; i++) {
        Xorwow one = {};
        one.v[i / 32] = 1u << i % 32;
        one.next();
        step[i] = one.v;
    }
    for (int n = 0; n < log2; n++) {
        BitMatrix twice(160);
        for (int i = 0; i < 160; i++) twice[i] = times(step[i], step);
        step = twice;
    }
    return {times(from.v, step), log2 < 32 ? from.d + 362437 * (1u << log2) : from.d};
}

static Xorwow seeded(u64 seed) {
    unsigned a = 1099087573 * (unsigned(seed) ^ 0xaad26b49), b = 2591861531 * (unsigned(seed >> 32) ^ 0xf7dcefdd);
    return {{123456789 + a, 362436069 ^ a, 521288629 + b, 88675123 ^ b, 5783321 + a}, 6615241 + b + a};
}

static bool follows(const Drawn &drawn, Xorwow from) {
    return all(drawn.bits, DRAWS, [&](size_t) { return from.next(); }) &&
           all(drawn.reals, DRAWS, [&](size_t i) { return uniform(drawn.bits[i]); }) && normals_follow(drawn);
}

TEST(xorwow_is_marsaglias_and_jumps_by_powers_of_its_matrix) {
    for (u64 seed : {0ull, 1234ull, 0xfedcba9876543210ull})
        if (!follows(drawn<curandStateXORWOW_t>(seed, 0, 0), seeded(seed))) return false;
    Xorwow later = jumped(seeded(99), 10);
    for (int i = 0; i < 7; i++) later.next();
    return follows(drawn<curandStateXORWOW_t>(99, 0, 1024 + 7), later) &&
           follows(drawn<curandStateXORWOW_t>(99, 1, 0), jumped(seeded(99), 67)) &&
           follows(drawn<curandStateXORWOW_t>(99, 4, 0), jumped(seeded(99), 69));
}

// Philox4x32-10 (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
static std::array<unsigned, 4> philox(std::array<unsigned, 4> counter, std::array<unsigned, 2> key) {
    for (int round = 0; round < 10; round++) {
        u64 one = 0xD2511F53ull * counter[0], other = 0xCD9E8D57ull * counter[2];
        counter = {unsigned(other >> 32) ^ counter[1] ^ key[0], unsigned(other),
                   unsigned(one >> 32) ^ counter[3] ^ key[1], unsigned(one)};
        key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
    }
    return counter;
}

TEST(philox_is_salmons) {
    // Known answers of the paper's test vectors: the formula above is right.
    if (philox({0, 0, 0, 0}, {0, 0}) != std::array<unsigned, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8})
        return false;
    if (philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) !=
        std::array<unsigned, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1})
        return false;
    for (u64 seed : {0ull, 0x299f31d0a4093822ull})
        for (u64 sequence : {0ull, 0x0370734413198a2eull})
            for (u64 offset : {0ull, 5ull, 0x123456789abull}) {
                Drawn got = drawn<curandStatePhilox4_32_10_t>(seed, sequence, offset);
                auto want = [&](size_t i) {
                    u64 at = (offset + i) / 4;
                    return philox({unsigned(at), unsigned(at >> 32), unsigned(sequence), unsigned(sequence >> 32)},
                                  {unsigned(seed), unsigned(seed >> 32)})[(offset + i) % 4];
                };
                if (!all(got.bits, DRAWS, want) ||
                    !all(got.reals, DRAWS, [&](size_t i) { return uniform(got.bits[i]); }) || !normals_follow(got))
                    return false;
            }
    return true;
}

// MRG32k3a (P. L'Ecuyer, "Good parameters and implementations for combined multiple recursive random number
// generators", Operations Research 47, 1999).
static const u64 M1 = 4294967087ull, M2 = 4294944443ull;

typedef std::array<std::array<u64, 3>, 3> Matrix;

static Matrix product(const Matrix &a, const Matrix &b, u64 modulus) {
    Matrix sum = {};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) sum[i][j] = (sum[i][j] + a[i][k] * b[k][j] % modulus) % modulus;
    return sum;
}

struct Mrg {
    std::array<u64, 3> one = {12345, 12345, 12345}, two = {12345, 12345, 12345};
    u64 next() {
        u64 p = (1403580 * one[1] + (M1 - 810728) * one[0]) % M1;
        u64 q = (527612 * two[2] + (M2 - 1370589) * two[0]) % M2;
        one = {one[1], one[2], p};
        two = {two[1], two[2], q};
        return p > q ? p - q : p + M1 - q;
    }
    // Goes on by 2^log2 draws.
    Mrg &jump(int log2) {
        Matrix a = {{{0, 1, 0}, {0, 0, 1}, {M1 - 810728, 1403580, 0}}};
        Matrix b = {{{0, 1, 0}, {0, 0, 1}, {M2 - 1370589, 0, 527612}}};
        for (int n = 0; n < log2; n++) a = product(a, a, M1), b = product(b, b, M2);
        auto applied = [](const Matrix &m, const std::array<u64, 3> &v, u64 modulus) {
            std::array<u64, 3> sum = {};
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < 3; k++) sum[i] = (sum[i] + m[i][k] * v[k] % modulus) % modulus;
            return sum;
        };
        one = applied(a, one, M1);
        two = applied(b, two, M2);
        return *this;
    }
};

__global__ void uniform_doubles(u64 sequence, u64 offset, double *out) {
    curandStateMRG32k3a_t state;
    curand_init(0, sequence, offset, &state);
    for (int i = 0; i < DRAWS; i++) out[i] = curand_uniform_double(&state);
}

static bool follows(u64 sequence, u64 offset, Mrg from) {
    Buffer<double> got(DRAWS);
    uniform_doubles<<<1, 1>>>(sequence, offset, got.device);
    for (double value : got.fetch()) {
        double want = from.next() / double(M1); // L'Ecuyer divides by one more.
        if (fabs(value - want) < 1e-15) continue;
        printf("  got %.17g, expected %.17g\n", value, want);
        return false;
    }
    return true;
}

TEST(mrg32k3a_is_lecuyers_and_jumps_by_powers_of_its_matrices) {
    // The first number that L'Ecuyer's program prints: the formula above is right.
    if (fabs(Mrg().next() / double(M1 + 1) - 0.127011122046577) > 1e-15) return false;
    Mrg later = Mrg().jump(20);
    for (int i = 0; i < 3; i++) later.next();
    return follows(0, 0, Mrg()) && follows(0, (1 << 20) + 3, later) && follows(1, 0, Mrg().jump(76)) &&
           follows(8, 0, Mrg().jump(79));
}

TEST(mrg32k3a_makes_normal_numbers_of_its_uniform_ones) {
    Drawn got = drawn<curandStateMRG32k3a_t>(7, 3, 5);
    for (int i = 0; i < DRAWS; i++)
        if (!near_normal(got.normals[i], got.reals[i & ~1], got.reals[i | 1], i % 2 == 0)) return false;
    return true;
}

// As programs use it: a state for each thread in memory, kept between kernels.
__global__ void set_up(curandState *states, u64 seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, i, 0, &states[i]);
}

__global__ void throw_darts(curandState *states, unsigned *inside, int throws) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState mine = states[i];
    unsigned hits = 0;
    for (int n = 0; n < throws; n++) {
        float x = curand_uniform(&mine), y = curand_uniform(&mine);
        hits += x * x + y * y <= 1;
    }
    states[i] = mine;
    atomicAdd(inside, hits);
}

TEST(states_in_memory_and_named_ranges) {
    const int threads = 512, throws = 100;
    Buffer<curandState> states(threads);
    Buffer<unsigned> inside(1);
    nvtxRangePushA("set up");
    set_up<<<threads / 128, 128>>>(states.device, 42);
    nvtxRangePop();
    nvtxRangeId_t range = nvtxRangeStartA("darts");
    for (int i = 0; i < 2; i++) throw_darts<<<threads / 128, 128>>>(states.device, inside.device, throws);
    nvtxRangeEnd(range);
    nvtxMarkA("done");
    unsigned want = 0;
    Xorwow first = seeded(42);
    // Thread 0 has the first sequence; the others are checked by their sum.
    for (int n = 0; n < 2 * throws; n++) {
        float x = uniform(first.next()), y = uniform(first.next());
        want += x * x + y * y <= 1;
    }
    Buffer<unsigned> alone(1);
    Buffer<curandState> state(128);
    set_up<<<1, 1>>>(state.device, 42);
    throw_darts<<<1, 1>>>(state.device, alone.device, 2 * throws);
    double pi = 4.0 * inside.fetch()[0] / (2.0 * threads * throws);
    return alone.fetch()[0] == want && fabs(pi - 3.14159265) < 0.02;
}

#include "run.h"
