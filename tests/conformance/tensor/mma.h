// Dense `mma.sync`: a kernel for each form, and what runs it on fragments.
#pragma once

// One lane's registers: so many of A, B, C and D.
#define MMA(name, T, reg, text, na, nb, nc, nd, list, ins, outs)                                        \
    __global__ void name(const T *a_, const T *b_, const T *c_, T *d_) {                                \
        T a[na], b[nb], c[nc], d[nd];                                                                   \
        for (int i = 0; i < na; i++) a[i] = a_[threadIdx.x * na + i];                                   \
        for (int i = 0; i < nb; i++) b[i] = b_[threadIdx.x * nb + i];                                   \
        for (int i = 0; i < nc; i++) c[i] = c_[threadIdx.x * nc + i];                                   \
        asm volatile("mma." text " " list ";" : outs : ins);                                            \
        for (int i = 0; i < nd; i++) d_[threadIdx.x * nd + i] = d[i];                                   \
    }
#define I1(x) "r"(x[0])
#define I2(x) I1(x), "r"(x[1])
#define I4(x) I2(x), "r"(x[2]), "r"(x[3])
#define I8(x) I4(x), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7])
#define O2(x) "=r"(x[0]), "=r"(x[1])
#define O4(x) O2(x), "=r"(x[2]), "=r"(x[3])
#define O8(x) O4(x), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7])
#define L1(x) "l"(x[0])
#define L2(x) L1(x), "l"(x[1])
#define L4(x) L2(x), "l"(x[2]), "l"(x[3])
#define L8(x) L4(x), "l"(x[4]), "l"(x[5]), "l"(x[6]), "l"(x[7])
#define P2(x) "=l"(x[0]), "=l"(x[1])
#define P4(x) P2(x), "=l"(x[2]), "=l"(x[3])
#define COMMA ,
#define MMA_112(name, text) MMA(name, unsigned, r, text, 1, 1, 2, 2, "{%0,%1},{%2},{%3},{%4,%5}", I1(a) COMMA I1(b) COMMA I2(c), O2(d))
#define MMA_212(name, text) MMA(name, unsigned, r, text, 2, 1, 2, 2, "{%0,%1},{%2,%3},{%4},{%5,%6}", I2(a) COMMA I1(b) COMMA I2(c), O2(d))
#define MMA_214(name, text) \
    MMA(name, unsigned, r, text, 2, 1, 4, 4, "{%0,%1,%2,%3},{%4,%5},{%6},{%7,%8,%9,%10}", I2(a) COMMA I1(b) COMMA I4(c), O4(d))
#define MMA_422(name, text) \
    MMA(name, unsigned, r, text, 4, 2, 2, 2, "{%0,%1},{%2,%3,%4,%5},{%6,%7},{%8,%9}", I4(a) COMMA I2(b) COMMA I2(c), O2(d))
#define MMA_424(name, text)                                                                                           \
    MMA(name, unsigned, r, text, 4, 2, 4, 4, "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13}",                   \
        I4(a) COMMA I2(b) COMMA I4(c), O4(d))
#define MMA_2244(name, text) \
    MMA(name, unsigned, r, text, 2, 2, 4, 4, "{%0,%1,%2,%3},{%4,%5},{%6,%7},{%8,%9,%10,%11}", I2(a) COMMA I2(b) COMMA I4(c), O4(d))
#define MMA_2248(name, text)                                                                                          \
    MMA(name, unsigned, r, text, 2, 2, 4, 8, "{%0,%1,%2,%3,%4,%5,%6,%7},{%8,%9},{%10,%11},{%12,%13,%14,%15}",           \
        I2(a) COMMA I2(b) COMMA I4(c), O8(d))
#define MMA_2288(name, text)                                                                                          \
    MMA(name, unsigned, r, text, 2, 2, 8, 8,                                                                          \
        "{%0,%1,%2,%3,%4,%5,%6,%7},{%8,%9},{%10,%11},{%12,%13,%14,%15,%16,%17,%18,%19}", I2(a) COMMA I2(b) COMMA I8(c), O8(d))
#define MMA_D112(name, text) MMA(name, Raw, l, text, 1, 1, 2, 2, "{%0,%1},{%2},{%3},{%4,%5}", L1(a) COMMA L1(b) COMMA L2(c), P2(d))
#define MMA_D214(name, text) \
    MMA(name, Raw, l, text, 2, 1, 4, 4, "{%0,%1,%2,%3},{%4,%5},{%6},{%7,%8,%9,%10}", L2(a) COMMA L1(b) COMMA L4(c), P4(d))
#define MMA_D424(name, text)                                                                                          \
    MMA(name, Raw, l, text, 4, 2, 4, 4, "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13}", L4(a) COMMA L2(b) COMMA L4(c), \
        P4(d))
#define MMA_D844(name, text)                                                                                          \
    MMA(name, Raw, l, text, 8, 4, 4, 4,                                                                               \
        "{%0,%1,%2,%3},{%4,%5,%6,%7,%8,%9,%10,%11},{%12,%13,%14,%15},{%16,%17,%18,%19}", L8(a) COMMA L4(b) COMMA L4(c), P4(d))

// One fragment of every lane, in memory lane by lane.
template <class T> struct Fragments {
    int count;
    std::vector<unsigned> words;
    explicit Fragments(int elements) : count(elements / 32), words(size_t(elements) * T::Bits / 32) {}
    template <class F> void fill(const std::vector<Matrix> &from, F place) {
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < count; i++) {
                Place p = place(lane, i);
                put(words, size_t(lane) * count + i, T::Bits, from[p.product].at(p.row, p.column));
            }
    }
    template <class F> void read(std::vector<Matrix> &to, F place) const {
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < count; i++) {
                Place p = place(lane, i);
                to[p.product].at(p.row, p.column) = get(words, size_t(lane) * count + i, T::Bits);
            }
    }
};

// Runs a kernel on matrices of these sizes: whether its result is that of the plain loop.
template <class A, class B, class C, class D, class T, class PA, class PB, class PC, class PD>
bool agrees(void (*kernel)(const T *, const T *, const T *, T *), int products, int m, int n, int k, int flags, PA pa, PB pb, PC pc,
            PD pd) {
    std::vector<Matrix> a, b, c, d(products, Matrix(m, n));
    for (int p = 0; p < products; p++) {
        a.push_back(made<A>(m, k, 3 * p + 1)), b.push_back(made<B>(k, n, 3 * p + 2)), c.push_back(made<C>(m, n, 3 * p + 3));
    }
    Fragments<A> fa(m * k * products);
    Fragments<B> fb(k * n * products);
    Fragments<C> fc(m * n * products);
    Fragments<D> fd(m * n * products);
    fa.fill(a, pa), fb.fill(b, pb), fc.fill(c, pc);
    Buffer<unsigned> da(fa.words), db(fb.words), dc(fc.words), dd(fd.words);
    kernel<<<1, 32>>>((T *)da.device, (T *)db.device, (T *)dc.device, (T *)dd.device);
    fd.words = dd.fetch();
    fd.read(d, pd);
    for (int p = 0; p < products; p++)
        if (!same(d[p], product<A, B, C, D>(a[p], b[p], c[p], flags))) return false;
    return true;
}

template <class A, class B, class C, class T>
bool dense(void (*kernel)(const T *, const T *, const T *, T *), int m, int k, int flags = NONE) {
    int packed = A::Bits < 32 ? 32 / A::Bits : 1;
    return agrees<A, B, C, C>(
        kernel, 1, m, 8, k, flags, [=](int lane, int i) { return place_a(m, packed, lane, i); },
        [=](int lane, int i) { return place_b(packed, lane, i); }, place_c, place_c);
}
template <class C, class D> bool quads(void (*kernel)(const unsigned *, const unsigned *, const unsigned *, unsigned *), bool by_columns, bool by_rows) {
    return agrees<f16, f16, C, D>(
        kernel, 4, 8, 8, 4, NONE, [=](int lane, int i) { return quad_a(by_columns, lane, i); },
        [=](int lane, int i) { return quad_b(by_rows, lane, i); }, [](int lane, int i) { return quad_c(C::Bits == 16, lane, i); },
        [](int lane, int i) { return quad_c(D::Bits == 16, lane, i); });
}
