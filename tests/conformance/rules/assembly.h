// What an `asm` statement may contain beside plain instructions: constants of templates, names of special registers, labels,
// variables, predicates that are combined; and integer instructions that C has no operator for.
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

__global__ void registers(unsigned *out) {
    unsigned r[8], i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("mov.u32 %0, %laneid;" : "=r"(r[0]));
    asm volatile("mov.u32 %0, %tid.x;\n\tmov.u32 %1, %%ctaid.x;" : "=r"(r[1]), "=r"(r[2]));
    asm volatile("{ .reg .u32 n, t; mov.u32 %0, %ctaid.x; mov.u32 n, %ntid.x; mov.u32 t, %tid.x; mad.lo.u32 %0, %0, n, t; }" : "=r"(r[3]));
    asm volatile("mov.v4.u32 {%0, %1, %2, _}, %%tid;" : "=r"(r[4]), "=r"(r[5]), "=r"(r[6]));
    asm volatile("{ .reg .u32 h; mov.u32 h, %clock_hi; mov.u32 h, %globaltimer_lo; mov.u32 %0, %lanemask_lt; }" : "=r"(r[7]));
    for (int k = 0; k < 8; k++) out[8 * i + k] = r[k];
}

TEST(special_registers_have_one_or_two_signs_before_their_names) {
    Buffer<unsigned> out(8 * 2 * LANES);
    registers<<<2, LANES>>>(out.device);
    return all(out.fetch(), 8 * 2 * LANES, [](size_t i) {
        unsigned n = i / 8, t = n % LANES;
        const unsigned expected[] = {t % 32, t, n / LANES, n, t, 0, 0, (1u << t % 32) - 1};
        return expected[i % 8];
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

__global__ void predicates(const unsigned *x, unsigned *out) {
    int t = threadIdx.x;
    unsigned a = x[t] % 5, b = x[LANES + t] % 5, r[5];
    float f = b == 4 ? __int_as_float(0x7fc00000) : b == 3 ? -0.f : b == 2 ? __int_as_float(0x7f800000) : b - 1.f;
    asm volatile("{ .reg .pred p, q, s; setp.lt.u32 s, %1, 3; setp.eq.and.u32 p|q, %1, %2, s; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }"
                 : "=&r"(r[0]) : "r"(a), "r"(b));
    asm volatile("{ .reg .pred p, s; setp.lt.u32 s, %1, 3; setp.gt.xor.s32 p, %1, %2, !s; selp.u32 %0, 1, 0, p; }"
                 : "=&r"(r[1]) : "r"(a), "r"(b));
    asm volatile("{ .reg .pred s; setp.lt.u32 s, %1, 3; set.eq.or.u32.u32 %0, %1, %2, s; }" : "=&r"(r[2]) : "r"(a), "r"(b));
    asm volatile("{ .reg .f32 y; slct.f32.f32 y, 0f3f800000, 0f40000000, %1; cvt.rzi.u32.f32 %0, y; }" : "=r"(r[3]) : "f"(f));
    asm volatile("{ .reg .pred p, q; testp.notanumber.f32 p, %1; testp.finite.f32 q, %1; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }"
                 : "=&r"(r[4]) : "f"(f));
    for (int k = 0; k < 5; k++) out[5 * t + k] = r[k];
}

TEST(comparisons_are_combined_with_a_predicate) {
    std::vector<unsigned> x(2 * LANES);
    for (int i = 0; i < 2 * LANES; i++) x[i] = noise(i + 9);
    Buffer<unsigned> dx(x), out(5 * LANES);
    predicates<<<1, LANES>>>(dx.device, out.device);
    return all(out.fetch(), 5 * LANES, [&](size_t i) {
        unsigned a = x[i / 5] % 5, b = x[LANES + i / 5] % 5;
        switch (i % 5) {
        case 0: return unsigned(a >= 3 ? 0 : a == b ? 1 : 2);
        case 1: return unsigned((a > b) != (a >= 3));
        case 2: return a == b || a < 3 ? ~0u : 0u;
        case 3: return unsigned(b == 0 || b == 4 ? 2 : 1);
        default: return unsigned(b == 4 ? 1 : b == 2 ? 0 : 2);
        }
    });
}

__global__ void words(const unsigned *x, unsigned *out) {
    int t = threadIdx.x;
    unsigned a = x[t], b = x[LANES + t], c = x[2 * LANES + t], r[18];
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r[0]) : "r"(a), "r"(b), "r"(c));
    asm("prmt.b32.b4e %0, %1, %2, %3;" : "=r"(r[1]) : "r"(a), "r"(b), "r"(c));
    asm("prmt.b32.rc8 %0, %1, %2, %3;" : "=r"(r[2]) : "r"(a), "r"(b), "r"(c));
    asm("prmt.b32.ecl %0, %1, %2, %3;" : "=r"(r[3]) : "r"(a), "r"(b), "r"(c));
    asm("prmt.b32.ecr %0, %1, %2, %3;" : "=r"(r[4]) : "r"(a), "r"(b), "r"(c));
    asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(r[5]) : "r"(a), "r"(b), "r"(c));
    asm("mul24.lo.s32 %0, %1, %2;" : "=r"(r[6]) : "r"(a), "r"(b));
    asm("mul24.hi.s32 %0, %1, %2;" : "=r"(r[7]) : "r"(a), "r"(b));
    asm("mad24.hi.u32 %0, %1, %2, %3;" : "=r"(r[8]) : "r"(a), "r"(b), "r"(c));
    asm("mad.hi.sat.s32 %0, %1, %2, %3;" : "=r"(r[9]) : "r"(a), "r"(b), "r"(c));
    asm("szext.wrap.s32 %0, %1, %2;" : "=r"(r[10]) : "r"(a), "r"(c % 40));
    asm("szext.clamp.u32 %0, %1, %2;" : "=r"(r[11]) : "r"(a), "r"(c % 40));
    asm("bmsk.wrap.b32 %0, %1, %2;" : "=r"(r[12]) : "r"(a % 40), "r"(c % 40));
    asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(r[13]) : "r"(a % 40), "r"(c % 40));
    asm("fns.b32 %0, %1, %2, %3;" : "=r"(r[14]) : "r"(a), "r"(b % 32), "r"(int(c % 9) - 4));
    // ptxas 13.0 departs from the ISA beyond these operands: it multiplies as if both were signed, and does not see what a
    // shift moves out (docs/gpu.md).
    asm("vmad.s32.s32.u32.sat.shr7 %0, %1.h1, %2, %3;" : "=r"(r[15]) : "r"(a), "r"(b >> 1), "r"(c));
    asm("vshl.u32.u32.u32.sat.clamp.add %0, %1.h0, %2, %3;" : "=r"(r[16]) : "r"(a), "r"(b % 16), "r"(c % 100));
    asm("vshr.s32.s32.u32.wrap %0, %1, %2;" : "=r"(r[17]) : "r"(a), "r"(b));
    for (int k = 0; k < 18; k++) out[18 * t + k] = r[k];
}

// As the ISA tabulates it: the bytes of the result, the lowest first.
static unsigned permuted(unsigned a, unsigned b, int mode, unsigned c) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned r = 0, n = c & 3;
    for (unsigned k = 0; k < 4; k++) {
        unsigned from = mode == 0 ? n + k : mode == 1 ? (n + 8 - k) % 8 : mode == 2 ? n : mode == 3 ? (k < n ? n : k)
                      : mode == 4 ? (k < n ? k : n) : 2 * (n & 1) + (k & 1);
        r |= unsigned(both >> 8 * from & 255) << 8 * k;
    }
    return r;
}

TEST(words_are_cut_permuted_and_multiplied_as_named) {
    std::vector<unsigned> x(3 * LANES);
    for (int i = 0; i < 3 * LANES; i++) x[i] = noise(i + 11) * 2654435761u;
    x[0] = x[LANES] = x[2 * LANES] = 0x7fffffff;
    Buffer<unsigned> dx(x), out(18 * LANES);
    words<<<1, LANES>>>(dx.device, out.device);
    return all(out.fetch(), 18 * LANES, [&](size_t i) {
        unsigned a = x[i / 18], b = x[LANES + i / 18], c = x[2 * LANES + i / 18], k = i % 18;
        long long sa = int(a << 8) >> 8, sb = int(b << 8) >> 8, ua = a & 0xffffff, ub = b & 0xffffff;
        auto low = [](unsigned n) { return n < 32 ? (1u << n) - 1 : ~0u; };
        auto held = [](long long n) { return unsigned(n > 0x7fffffff ? 0x7fffffff : n < -0x80000000ll ? -0x80000000ll : n); };
        switch (k) {
        case 6: return unsigned(sa * sb);
        case 7: return unsigned(sa * sb >> 16);
        case 8: return unsigned(ua * ub >> 16) + c;
        case 9: return held(((long long)int(a) * int(b) >> 32) + int(c));
        case 10: {
            unsigned n = c % 40 & 31;
            return n ? unsigned(int(a << (32 - n)) >> (32 - n)) : 0;
        }
        case 11: return a & low(c % 40);
        case 12: return low(c % 40 & 31) << (a % 40 & 31);
        case 13: return a % 40 < 32 ? low(c % 40) << a % 40 : 0;
        case 14: {
            int offset = int(c % 9) - 4, at = b % 32, step = offset < 0 ? -1 : 1, left = abs(offset) - 1;
            if (offset == 0) return a >> at & 1 ? unsigned(at) : ~0u;
            for (; at >= 0 && at < 32; at += step) if ((a >> at & 1) && left-- == 0) return unsigned(at);
            return ~0u;
        }
        case 15: return held(((long long)(short)(a >> 16) * (b >> 1) + int(c)) >> 7);
        case 16: return ((a & 0xffff) << b % 16) + c % 100;
        case 17: return unsigned(int(a) >> (b & 31));
        default: return permuted(a, b, k, c);
        }
    });
}

__global__ void spaces(unsigned *out) {
    __shared__ unsigned s[LANES];
    unsigned t = threadIdx.x, r[4], own = t;
    s[t] = own;
    asm volatile("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r[0]) : "l"(s + t));
    asm volatile("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r[1]) : "l"(out));
    asm volatile("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r[2]) : "l"(out));
    asm volatile("{ .reg .pred p; .reg .u32 l; elect.sync l|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(r[3]));
    for (int k = 0; k < 4; k++) out[4 * t + k] = r[k];
}

TEST(an_address_tells_its_space_and_a_warp_elects_one) {
    Buffer<unsigned> out(4 * LANES);
    spaces<<<1, LANES>>>(out.device);
    const std::vector<unsigned> &got = out.fetch();
    unsigned elected[2] = {0, 0};
    for (int t = 0; t < LANES; t++) elected[t / 32] += got[4 * t + 3];
    return elected[0] == 1 && elected[1] == 1 && all(got, 4 * LANES, [&](size_t i) {
        const unsigned expected[] = {1, 0, 1, got[i]};
        return expected[i % 4];
    });
}

// The same names as in its callers' scopes.
static __device__ unsigned larger(unsigned a, unsigned b) {
    unsigned r;
    asm volatile("{ .reg .pred %take; setp.gt.u32 %take, %0, %1;" ::"r"(a), "r"(b));
    asm volatile("selp.u32 %0, %1, %2, %take; }" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
__global__ void spread(const unsigned *x, unsigned *out) {
    int t = threadIdx.x;
    unsigned a = x[t], b = x[LANES + t], r[5] = {a, 0, 0, 0, 0};
    out += 5 * t;
    asm volatile("{");
    asm volatile(".reg.pred %take; .reg .u32 sum;");
    asm volatile("setp.lt.u32 %take, %0, %1; mov.u32 sum, 0;" ::"r"(a), "r"(b));
    for (unsigned i = 0; i < 4; i++) {
        __syncthreads();
        if (i >= t % 5) continue;
        asm volatile("@%take add.u32 sum, sum, %0;" ::"r"(i + 1));
        // An inner scope hides the name for its own statements only.
        asm volatile("{ .reg .u32 sum; mov.u32 sum, %0;" ::"r"(b));
        asm volatile("xor.b32 %0, %0, sum; }" : "+r"(r[1]));
        r[2] += larger(a + i, b);
    }
    if (t % 2) asm volatile("add.u32 sum, sum, 1000;");
    asm volatile("mov.u32 %0, sum; @!%take mov.u32 %0, 7;" : "=r"(r[0]));
    asm volatile("}");
    // Outside of all scopes a register is the function's.
    asm volatile(".reg .u64 whole; mov.b64 whole, {%0, %1};" ::"r"(a), "r"(b));
    asm volatile("mov.b64 {%0, %1}, whole;" : "=r"(r[3]), "=r"(r[4]));
    for (int k = 0; k < 5; k++) out[k] = r[k];
}

TEST(registers_of_a_scope_are_shared_by_its_statements) {
    std::vector<unsigned> x(2 * LANES);
    for (int i = 0; i < 2 * LANES; i++) x[i] = noise(i) % 100;
    Buffer<unsigned> dx(x), out(5 * LANES);
    spread<<<1, LANES>>>(dx.device, out.device);
    return all(out.fetch(), 5 * LANES, [&](size_t i) {
        unsigned t = i / 5, a = x[t], b = x[LANES + t], n = t % 5;
        unsigned expected[] = {a < b ? n * (n + 1) / 2 + (t % 2 ? 1000 : 0) : 7, n % 2 ? b : 0, 0, a, b};
        for (unsigned k = 0; k < n; k++) expected[2] += a + k > b ? a + k : b;
        return expected[i % 5];
    });
}
