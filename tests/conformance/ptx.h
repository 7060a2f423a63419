// Common inline PTX.

__global__ void assembly(const unsigned *in, unsigned *out, int n) {
    int t = threadIdx.x;
    unsigned a = in[t], b = in[n + t], c = in[2 * n + t], r[20];
    asm("bfe.u32 %0, %1, 5, 9;" : "=r"(r[0]) : "r"(a));
    asm("bfe.s32 %0, %1, %2, 7;" : "=r"(r[1]) : "r"(a), "r"(b % 25));
    asm("bfi.b32 %0, %1, %2, 8, 12;" : "=r"(r[2]) : "r"(a), "r"(b));
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(r[3]) : "r"(a), "r"(b));
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r[4]) : "r"(a), "r"(b), "r"(0x3b07));
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r[5]) : "r"(a), "r"(b), "r"(c));
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(r[6]) : "r"(a), "r"(b), "r"(c));
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(r[7]) : "r"(a), "r"(b), "r"(c));
    asm("shf.r.clamp.b32 %0, %1, %2, %3;" : "=r"(r[8]) : "r"(a), "r"(b), "r"(c % 40));
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r[9]) : "r"(a), "r"(b), "r"(c));
    asm("mul.hi.u32 %0, %1, %2;" : "=r"(r[10]) : "r"(a), "r"(b));
    asm("{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.b32 %0, %1, %2, p; }" : "=r"(r[11]) : "r"(a), "r"(b));
    asm("{\n\t.reg .u32 lo;\n\tadd.cc.u32 lo, %1, %2;\n\taddc.u32 %0, %3, 0;\n\t}" : "=r"(r[12]) : "r"(a), "r"(b), "r"(c));
    asm("popc.b32 %0, %1;" : "=r"(r[13]) : "r"(a));
    asm("clz.b32 %0, %1;" : "=r"(r[14]) : "r"(a >> (b % 32)));
    asm("bfind.u32 %0, %1;" : "=r"(r[15]) : "r"(a >> (b % 32)));
    asm("mov.u32 %0, %%laneid;" : "=r"(r[16]));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r[17]));
    asm("{ .reg .pred p; setp.ne.u32 p, %1, 0; mov.u32 %0, 5; @p add.u32 %0, %0, %2; @!p sub.u32 %0, %0, %2; }"
        : "=&r"(r[18])
        : "r"(a & 1), "r"(c));
    r[19] = __byte_perm(a, b, 0x1735) + __funnelshift_l(a, b, 13) + __brev(a) + __clz(b) + __ffs(c) + __mulhi(int(a), int(b)) +
            __umul24(a, b) + __usad(a, b, c) + __rhadd(int(a), int(b));
    for (int k = 0; k < 20; k++) out[k * n + t] = r[k];
}

static unsigned bytes(unsigned a, unsigned b, unsigned selector) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int k = 0; k < 4; k++) {
        unsigned s = selector >> 4 * k & 15, byte = both >> 8 * (s & 7) & 255;
        r |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * k;
    }
    return r;
}

TEST(ptx_integers_and_bits) {
    const int n = 64;
    std::vector<unsigned> v(3 * n);
    for (int i = 0; i < 3 * n; i++) v[i] = noise(i + 1000) * 2654435761u;
    Buffer<unsigned> in(v), out(20 * n);
    assembly<<<1, n>>>(in.device, out.device, n);
    return all(out.fetch(), 20 * n, [&](size_t i) {
        int t = i % n;
        unsigned a = v[t], b = v[n + t], c = v[2 * n + t], s = c % 40 > 32 ? 32 : c % 40;
        unsigned long long both = (unsigned long long)b << 32 | a;
        unsigned down = a >> (b % 32);
        auto leading = [](unsigned x) { return x ? unsigned(__builtin_clz(x)) : 32u; };
        unsigned reversed = 0;
        for (int k = 0; k < 32; k++) reversed |= (a >> k & 1) << (31 - k);
        switch (i / n) {
        case 0: return a >> 5 & 511;
        case 1: return unsigned(int(a << (25 - b % 25)) >> 25);
        case 2: return (b & ~0xfff00u) | (a & 0xfff) << 8;
        case 3: return bytes(a, b, 0x5410);
        case 4: return bytes(a, b, 0x3b07);
        case 5: return a ^ b ^ c;
        case 6: return (a & b) | (a & c) | (b & c);
        case 7: return unsigned(both << (c & 31) >> 32);
        case 8: return unsigned(s == 32 ? both >> 32 : both >> s);
        case 9: return a * b + c;
        case 10: return unsigned((unsigned long long)a * b >> 32);
        case 11: return unsigned(int(a) < int(b) ? a : b);
        case 12: return c + unsigned(((unsigned long long)a + b) >> 32);
        case 13: return unsigned(__builtin_popcount(a));
        case 14: return leading(down);
        case 15: return down ? 31 - leading(down) : ~0u;
        case 16: return unsigned(t % 32);
        case 17: return (1u << t % 32) - 1;
        case 18: return a & 1 ? 5 + c : 5 - c;
        default:
            return bytes(a, b, 0x1735) + unsigned(both << 13 >> 32) + reversed + leading(b) +
                   unsigned(__builtin_ffs(c)) + unsigned((long long)int(a) * int(b) >> 32) +
                   (a & 0xffffff) * (b & 0xffffff) + (a > b ? a - b : b - a) + c +
                   unsigned(((long long)int(a) + int(b) + 1) >> 1);
        }
    });
}

__global__ void accesses(const int *in, int *out, float *f) {
    int t = threadIdx.x, a, b;
    asm volatile("ld.global.nc.v2.s32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(in + 2 * t));
    asm volatile("st.global.cg.s32 [%0], %1;" ::"l"(out + t), "r"(a * 3 + b) : "memory");
    asm volatile("red.global.add.s32 [%0], %1;" ::"l"(out + 64), "r"(a) : "memory");
    int old;
    asm volatile("atom.global.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(out + 65), "r"(b) : "memory");
    float x = a, y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x - 4));
    asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(y) : "f"(x), "f"(2.f));
    f[t] = y;
    __shared__ int s[64];
    unsigned address = (unsigned)__cvta_generic_to_shared(&s[t]);
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(b) : "memory");
    __syncthreads();
    asm volatile("ld.shared.u32 %0, [%1+4];" : "=r"(b) : "r"((unsigned)__cvta_generic_to_shared(&s[t & 62])) : "memory");
    out[66 + t] = b;
}

TEST(ptx_memory_and_reals) {
    std::vector<int> v(128), start(66 + 64);
    int sum = 0, most = 0;
    for (int i = 0; i < 128; i++) v[i] = noise(i) % 9;
    for (int t = 0; t < 64; t++) sum += v[2 * t], most = v[2 * t + 1] > most ? v[2 * t + 1] : most;
    Buffer<int> in(v), out(start);
    Buffer<float> f(64);
    accesses<<<1, 64>>>(in.device, out.device, f.device);
    return all(out.fetch(), 130, [&](size_t i) {
        if (i < 64) return v[2 * i] * 3 + v[2 * i + 1];
        return i == 64 ? sum : i == 65 ? most : v[2 * ((i - 66) | 1) + 1];
    }) & all(f.fetch(), 64, [&](size_t t) { return ldexpf(1, v[2 * t] - 4) + 2.f * v[2 * t]; });
}

__global__ void leaves(int *out) {
    out[threadIdx.x] = 1;
    if (threadIdx.x % 3 == 0) asm volatile("exit;");
    __syncthreads();
    out[threadIdx.x] = 2;
}

TEST(ptx_exit) {
    Buffer<int> out(64);
    leaves<<<1, 64>>>(out.device);
    return all(out.fetch(), 64, [](size_t t) { return t % 3 ? 2 : 1; });
}
