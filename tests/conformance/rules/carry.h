// The carry flag of a thread, which one `asm` statement sets and another reads.
#pragma once

// As public code for big numbers has it: one instruction in each helper.
#define STEP(name, instruction, type, letter)                                             \
    static __device__ __forceinline__ type name(type a, type b) {                         \
        type r;                                                                           \
        asm volatile(instruction " %0, %1, %2;" : "=" letter(r) : letter(a), letter(b));  \
        return r;                                                                         \
    }
#define PRODUCT(name, instruction)                                                        \
    static __device__ __forceinline__ unsigned name(unsigned a, unsigned b, unsigned c) { \
        unsigned r;                                                                       \
        asm volatile(instruction " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));  \
        return r;                                                                         \
    }
STEP(add_cc, "add.cc.u32", unsigned, "r")
STEP(addc_cc, "addc.cc.u32", unsigned, "r")
STEP(addc, "addc.u32", unsigned, "r")
STEP(sub_cc, "sub.cc.u32", unsigned, "r")
STEP(subc_cc, "subc.cc.u32", unsigned, "r")
STEP(subc, "subc.u32", unsigned, "r")
STEP(add_cc_wide, "add.cc.u64", unsigned long long, "l")
STEP(addc_wide, "addc.u64", unsigned long long, "l")
STEP(sub_cc_wide, "sub.cc.u64", unsigned long long, "l")
STEP(subc_wide, "subc.u64", unsigned long long, "l")
PRODUCT(mul_lo_add_cc, "mad.lo.cc.u32")
PRODUCT(mul_lo_addc_cc, "madc.lo.cc.u32")
PRODUCT(mul_hi_add_cc, "mad.hi.cc.u32")
PRODUCT(mul_hi_addc_cc, "madc.hi.cc.u32")
#undef STEP
#undef PRODUCT

enum { THREADS = 96, LIMBS = 4, RESULTS = 20 };

// Numbers of `LIMBS` words for each thread, in which carries run far.
static std::vector<unsigned> long_numbers(unsigned seed) {
    std::vector<unsigned> v(LIMBS * THREADS);
    for (unsigned i = 0; i < v.size(); i++) {
        unsigned x = noise(i + seed);
        v[i] = x % 4 == 0 ? 0 : x % 4 == 1 ? 0x9e3779b9u * x : ~0u;
    }
    return v;
}

__global__ void carries(const unsigned *a, const unsigned *b, unsigned *out) {
    int t = threadIdx.x;
    a += LIMBS * t, b += LIMBS * t, out += RESULTS * t;
    asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(out[0]) : "r"(a[0]), "r"(b[0]));
    asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(out[1]) : "r"(a[1]), "r"(b[1]));
    asm volatile("addc.cc.u32 %0, %2, %3; addc.cc.u32 %1, %4, %5;"
                 : "=&r"(out[2]), "=r"(out[3])
                 : "r"(a[2]), "r"(b[2]), "r"(a[3]), "r"(b[3]));
    asm volatile("addc.u32 %0, 0, 0;" : "=r"(out[4]));
    // An instruction without `.cc` between them leaves the flag alone.
    asm volatile("sub.cc.u32 %0, %1, %2;" : "=r"(out[5]) : "r"(a[0]), "r"(b[0]));
    for (int i = 1; i < LIMBS; i++) {
        asm volatile("add.u32 %0, %1, %1;" : "=r"(out[19]) : "r"(a[i]));
        out[5 + i] = subc_cc(a[i], b[i]);
    }
    out[9] = subc(0, 0);
    unsigned long long wide[2], other[2];
    for (int i = 0; i < 2; i++) {
        wide[i] = (unsigned long long)a[2 * i + 1] << 32 | a[2 * i], other[i] = (unsigned long long)b[2 * i + 1] << 32 | b[2 * i];
    }
    unsigned long long low = add_cc_wide(wide[0], other[0]), high = addc_wide(wide[1], other[1]);
    out[10] = low, out[11] = low >> 32, out[12] = high, out[13] = high >> 32;
    low = sub_cc_wide(wide[0], other[0]), high = subc_wide(wide[1], other[1]);
    out[14] = low, out[15] = low >> 32, out[16] = high, out[17] = high >> 32;
    // On one way only, and read where the ways have met.
    out[18] = 0;
    unsigned flag = add_cc(~0u, 1);
    if (a[0] & 1) flag = add_cc(a[1], b[1]);
    out[18] = addc(flag * 0, 0);
}

typedef unsigned __int128 Long;
static Long long_number(const unsigned *words) {
    Long n = 0;
    for (int i = LIMBS; i-- > 0;) n = n << 32 | words[i];
    return n;
}

TEST(a_carry_goes_from_statement_to_statement) {
    auto a = long_numbers(1), b = long_numbers(7777);
    Buffer<unsigned> da(a), db(b), out(RESULTS * THREADS);
    carries<<<1, THREADS>>>(da.device, db.device, out.device);
    return all(out.fetch(), RESULTS * THREADS, [&](size_t i) {
        const unsigned *x = &a[i / RESULTS * LIMBS], *y = &b[i / RESULTS * LIMBS], k = i % RESULTS;
        Long m = long_number(x), n = long_number(y);
        if (k < 4) return unsigned((m + n) >> (32 * k));
        if (k == 4) return unsigned(m + n < m);
        if (k < 9) return unsigned((m - n) >> (32 * (k - 5)));
        if (k == 9) return m < n ? ~0u : 0u;
        if (k < 14) return unsigned((m + n) >> (32 * (k - 10)));
        if (k < 18) return unsigned((m - n) >> (32 * (k - 14)));
        if (k == 18) return unsigned(x[0] & 1 ? x[1] + y[1] < x[1] : 1);
        return x[3] * 2;
    });
}

// The threads set their flags, wait for each other, and read them: none may see another's.
__global__ void carries_over_barriers(const unsigned *a, const unsigned *b, unsigned *out) {
    __shared__ unsigned low[THREADS];
    int t = threadIdx.x;
    low[t] = add_cc(a[LIMBS * t], b[LIMBS * t]);
    __syncthreads();
    unsigned other = low[(t + 1) % THREADS];
    unsigned next = addc_cc(a[LIMBS * t + 1], b[LIMBS * t + 1]);
    unsigned lane = __shfl_xor_sync(~0u, next, 1);
    unsigned last = addc_cc(a[LIMBS * t + 2], b[LIMBS * t + 2]);
    for (int i = 0; i < 3; i++) {
        __syncthreads();
        low[t] = last = addc_cc(last, ~0u);
        __syncthreads();
        other ^= low[THREADS - 1 - t];
    }
    out[4 * t] = other, out[4 * t + 1] = lane, out[4 * t + 2] = last, out[4 * t + 3] = addc(0, 0);
}

TEST(a_carry_stays_its_threads_own_over_barriers) {
    auto a = long_numbers(2), b = long_numbers(8888);
    Buffer<unsigned> da(a), db(b), out(4 * THREADS);
    carries_over_barriers<<<1, THREADS>>>(da.device, db.device, out.device);
    std::vector<unsigned> low(THREADS), next(THREADS), last(THREADS), flag(THREADS), other(THREADS);
    auto sum = [&](int t, unsigned x, unsigned y) {
        unsigned long long s = (unsigned long long)x + y + flag[t];
        flag[t] = s >> 32;
        return unsigned(s);
    };
    for (int t = 0; t < THREADS; t++) {
        low[t] = sum(t, a[LIMBS * t], b[LIMBS * t]);
        next[t] = sum(t, a[LIMBS * t + 1], b[LIMBS * t + 1]);
        last[t] = sum(t, a[LIMBS * t + 2], b[LIMBS * t + 2]);
    }
    for (int t = 0; t < THREADS; t++) other[t] = low[(t + 1) % THREADS];
    for (int i = 0; i < 3; i++) {
        for (int t = 0; t < THREADS; t++) last[t] = sum(t, last[t], ~0u);
        for (int t = 0; t < THREADS; t++) other[t] ^= last[THREADS - 1 - t];
    }
    return all(out.fetch(), 4 * THREADS, [&](size_t i) {
        int t = i / 4;
        return i % 4 == 0 ? other[t] : i % 4 == 1 ? next[t ^ 1] : i % 4 == 2 ? last[t] : flag[t];
    });
}

// A product of two numbers, row by row, as libraries for big numbers compute it: low halves, then high halves.
__global__ void products(const unsigned *a, const unsigned *b, unsigned *out) {
    int t = threadIdx.x;
    a += LIMBS * t, b += LIMBS * t;
    unsigned r[2 * LIMBS] = {};
    for (int i = 0; i < LIMBS; i++) {
        r[i] = mul_lo_add_cc(a[0], b[i], r[i]);
        for (int j = 1; j < LIMBS; j++) r[i + j] = mul_lo_addc_cc(a[j], b[i], r[i + j]);
        r[i + LIMBS] = addc(r[i + LIMBS], 0);
        r[i + 1] = mul_hi_add_cc(a[0], b[i], r[i + 1]);
        for (int j = 1; j < LIMBS; j++) r[i + j + 1] = mul_hi_addc_cc(a[j], b[i], r[i + j + 1]);
    }
    for (int i = 0; i < 2 * LIMBS; i++) out[2 * LIMBS * t + i] = r[i];
}

TEST(program_multiplies_long_numbers) {
    auto a = long_numbers(3), b = long_numbers(9999);
    Buffer<unsigned> da(a), db(b), out(2 * LIMBS * THREADS);
    products<<<1, THREADS>>>(da.device, db.device, out.device);
    std::vector<unsigned> expected(2 * LIMBS * THREADS);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < LIMBS; i++) {
            unsigned long long carry = 0;
            for (int j = 0; j <= LIMBS; j++) {
                unsigned &word = expected[2 * LIMBS * t + i + j];
                carry += word + (j < LIMBS ? (unsigned long long)a[LIMBS * t + j] * b[LIMBS * t + i] : 0);
                word = carry, carry >>= 32;
            }
        }
    }
    return all(out.fetch(), expected.size(), [&](size_t i) { return expected[i]; });
}
