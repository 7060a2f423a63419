// What an `asm` statement may contain beside plain instructions: constants of templates, labels, variables.
#pragma once

enum { LANES = 64 };

template <int TABLE> static __device__ unsigned by_table(unsigned a, unsigned b, unsigned c) {
    unsigned r;
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(TABLE));
    return r;
}
template <int OFFSET> static __device__ unsigned at_offset(const unsigned *p) {
    unsigned r;
    asm volatile("ld.global.u32 %0, [%1+%2];" : "=r"(r) : "l"(p), "i"(OFFSET) : "memory");
    return r;
}
__global__ void constants(const unsigned *x, unsigned *out) {
    int t = threadIdx.x;
    unsigned a = x[t], b = x[LANES + t], c = x[2 * LANES + t];
    unsigned long long sum;
    asm("add.s64 %0, %1, %2;" : "=l"(sum) : "l"((unsigned long long)a), "n"(-5));
    out += 6 * t;
    out[0] = by_table<(0xf0 & 0xcc) | 0xaa>(a, b, c), out[1] = by_table<0x1e>(a, b, c);
    out[2] = at_offset<8>(x + t), out[3] = at_offset<-4>(x + t + 1), out[4] = sum, out[5] = sum >> 32;
}

TEST(constants_of_templates_are_part_of_the_text) {
    std::vector<unsigned> x(3 * LANES);
    for (int i = 0; i < 3 * LANES; i++) x[i] = noise(i) * 2654435761u;
    x[0] = 3;
    Buffer<unsigned> dx(x), out(6 * LANES);
    constants<<<1, LANES>>>(dx.device, out.device);
    return all(out.fetch(), 6 * LANES, [&](size_t i) {
        int t = i / 6;
        unsigned a = x[t], b = x[LANES + t], c = x[2 * LANES + t];
        unsigned long long sum = a - 5ll;
        const unsigned expected[] = {(a & b) | c, a ^ (b | c), x[t + 2], x[t], unsigned(sum), unsigned(sum >> 32)};
        return expected[i % 6];
    });
}

__global__ void branches(const unsigned *x, unsigned *out) {
    int t = threadIdx.x;
    unsigned n = x[t] % 9, sum, least, twice;
    asm volatile("{\n"
                 " .reg .pred p;\n .reg .u32 i;\n"
                 " mov.u32 i, 0;\n mov.u32 %0, 0;\n"
                 "AGAIN:\n"
                 " setp.ge.u32 p, i, %1;\n @p bra DONE;\n"
                 " add.u32 %0, %0, i;\n add.u32 i, i, 1;\n bra.uni AGAIN;\n"
                 "DONE:\n}"
                 : "=&r"(sum) : "r"(n));
    // The same label in two scopes, and one that is made anew for each statement.
    asm volatile("{ .reg .pred p; mov.u32 %0, %1; setp.le.u32 p, %1, %2; @p bra L; mov.u32 %0, %2; L: }\n"
                 "{ .reg .pred p; setp.ne.u32 p, %1, 7; @!p bra L; bra N_%=; L: mov.u32 %0, 77; N_%=: }"
                 : "=&r"(least) : "r"(n), "r"(x[LANES + t] % 9));
    asm volatile("{ .reg .b32 r<3>; mov.b32 r0, %1; add.u32 r2, r0, r0; mov.b32 %0, r2; }" : "=r"(twice) : "r"(n));
    out[3 * t] = sum, out[3 * t + 1] = least, out[3 * t + 2] = twice;
}

TEST(branches_lead_to_labels_of_their_scope) {
    std::vector<unsigned> x(2 * LANES);
    for (int i = 0; i < 2 * LANES; i++) x[i] = noise(i + 5);
    Buffer<unsigned> dx(x), out(3 * LANES);
    branches<<<1, LANES>>>(dx.device, out.device);
    return all(out.fetch(), 3 * LANES, [&](size_t i) {
        unsigned n = x[i / 3] % 9, m = x[LANES + i / 3] % 9;
        return i % 3 == 0 ? n * (n - 1) / 2 : i % 3 == 1 ? (n == 7 ? 77 : n < m ? n : m) : 2 * n;
    });
}

// The last block opens the way for the first by way of the second, and in each block the last thread for the first.
__global__ void waiting(unsigned *out) {
    __shared__ unsigned open;
    unsigned r = 0, t = threadIdx.x, place = (unsigned)__cvta_generic_to_shared(&open);
    if (t == 0) open = 0;
    __syncthreads();
    if (t == LANES - 1) asm volatile("st.volatile.shared.u32 [%0], 5;" ::"r"(place) : "memory");
    if (t == 0) {
        asm volatile("{ .reg .pred p; W: ld.volatile.shared.u32 %0, [%1]; setp.ne.u32 p, %0, 5; @p bra W; }" : "=&r"(r) : "r"(place) : "memory");
        if (blockIdx.x == 0)
            asm volatile("{ .reg .pred p; W: ld.acquire.gpu.global.u32 %0, [%1]; setp.ne.u32 p, %0, 6; @p bra.uni W; }"
                         : "=&r"(r) : "l"(out + 1) : "memory");
        if (blockIdx.x == 1)
            asm volatile("{ .reg .pred p; W: ld.volatile.global.u32 %0, [%1]; setp.ne.u32 p, %0, 5; @p bra W; add.u32 %0, %0, 1; }"
                         : "=&r"(r) : "l"(out + 2) : "memory");
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(out + blockIdx.x), "r"(r) : "memory");
    }
}

TEST(a_loop_of_a_statement_waits_for_other_threads) {
    Buffer<unsigned> out(3);
    waiting<<<3, LANES>>>(out.device);
    return all(out.fetch(), 3, [](size_t i) { return i == 2 ? 5u : 6u; });
}

__global__ void variables(unsigned *out) {
    unsigned t = threadIdx.x, shared, other, own, before;
    asm volatile("{ .shared .align 8 .b32 words[64]; mov.u32 %0, words; }" : "=r"(shared));
    asm volatile("{ .shared .align 8 .b32 words[64]; mov.u32 %0, words; }" : "=r"(other));
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared + 4 * t), "r"(t * t) : "memory");
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(other + 4 * t), "r"(5) : "memory");
    __syncthreads();
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(own) : "r"(shared + 4 * (LANES - 1 - t)) : "memory");
    asm volatile("{ .local .align 4 .u32 l[2]; .reg .u64 a; st.local.u32 [l], %1; st.local.u32 [l+0x4], 9; mov.u64 a, l;\n"
                 "  ld.local.u32 %0, [a]; { .reg .u32 n; ld.local.u32 n, [a+4]; add.u32 %0, %0, n; } }"
                 : "=&r"(before) : "r"(t));
    out[2 * t] = own, out[2 * t + 1] = before;
}

TEST(a_statement_may_declare_variables) {
    Buffer<unsigned> out(2 * LANES);
    variables<<<1, LANES>>>(out.device);
    return all(out.fetch(), 2 * LANES, [](size_t i) {
        unsigned t = i / 2, u = LANES - 1 - t;
        return i % 2 ? t + 9 : u * u;
    });
}
