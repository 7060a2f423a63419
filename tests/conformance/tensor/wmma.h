// `nvcuda::wmma`: every shape and type that the CUDA C++ Programming Guide has ("Element Types and Matrix Sizes"), each layout of A,
// B and C, rows of memory that are longer than those of the matrix.
#pragma once
using namespace nvcuda;

// The library's name of a type, and what is in memory.
template <class T> struct Named;
#define NAMED(type, name, stored) template <> struct Named<type> { typedef name Name; typedef stored Stored; };
NAMED(f16, half, half)
NAMED(f32, float, float)
NAMED(bf16, __nv_bfloat16, __nv_bfloat16)
NAMED(tf32, wmma::precision::tf32, float)
NAMED(f64, double, double)
NAMED(s8, signed char, signed char)
NAMED(u8, unsigned char, unsigned char)
NAMED(s32, int, int)
NAMED(s4, wmma::experimental::precision::s4, void)
NAMED(u4, wmma::experimental::precision::u4, void)
NAMED(b1, wmma::experimental::precision::b1, void)

template <class F> struct Multiply {
    template <class D, class A, class B, class C>
    static __device__ void run(D &d, const A &a, const B &b, const C &c, int flags) {
        if (flags & SATURATES) wmma::mma_sync(d, a, b, c, true);
        else wmma::mma_sync(d, a, b, c);
    }
};
template <class T> struct Real {
    template <class D, class A, class B, class C> static __device__ void run(D &d, const A &a, const B &b, const C &c, int) {
        wmma::mma_sync(d, a, b, c);
    }
};
template <> struct Multiply<bf16> : Real<bf16> {};
template <> struct Multiply<tf32> : Real<tf32> {};
template <> struct Multiply<f16> : Real<f16> {};
template <> struct Multiply<f64> : Real<f64> {};
template <> struct Multiply<b1> {
    template <class D, class A, class B, class C>
    static __device__ void run(D &d, const A &a, const B &b, const C &c, int flags) {
        if (flags & BY_AND) wmma::bmma_sync(d, a, b, c, wmma::experimental::bmmaBitOpAND);
        else wmma::bmma_sync(d, a, b, c);
    }
};

template <int M, int N, int K, class F, class C, class D, class LA, class LB>
__global__ void fragments(const void *a, const void *b, const void *c, void *d, int lda, int ldb, int ldc, wmma::layout_t layout,
                          int flags) {
    wmma::fragment<wmma::matrix_a, M, N, K, typename Named<F>::Name, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, typename Named<F>::Name, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, typename Named<C>::Name> fc;
    wmma::fragment<wmma::accumulator, M, N, K, typename Named<D>::Name> fd;
    wmma::load_matrix_sync(fa, (const typename Named<F>::Stored *)a, lda);
    wmma::load_matrix_sync(fb, (const typename Named<F>::Stored *)b, ldb);
    wmma::load_matrix_sync(fc, (const typename Named<C>::Stored *)c, ldc, layout);
    Multiply<F>::run(fd, fa, fb, fc, flags);
    wmma::store_matrix_sync((typename Named<D>::Stored *)d, fd, ldc, layout);
}

// A matrix in memory, its rows or columns 16 bytes longer than they must be.
template <class T> struct InMemory {
    bool by_rows;
    int stride;
    std::vector<unsigned> words;
    InMemory(int rows, int columns, bool by_rows)
        : by_rows(by_rows), stride((by_rows ? columns : rows) + 128 / T::Bits),
          words((size_t(by_rows ? rows : columns) * stride * T::Bits + 31) / 32) {}
    size_t index(int i, int j) const { return by_rows ? size_t(i) * stride + j : size_t(j) * stride + i; }
    void fill(const Matrix &from) {
        for (int i = 0; i < from.rows; i++)
            for (int j = 0; j < from.columns; j++) put(words, index(i, j), T::Bits, from.at(i, j));
    }
    void read(Matrix &to) const {
        for (int i = 0; i < to.rows; i++)
            for (int j = 0; j < to.columns; j++) to.at(i, j) = get(words, index(i, j), T::Bits);
    }
};

template <int M, int N, int K, class F, class C, class D, class LA, class LB> bool in_layout(int flags) {
    Matrix a = made<F>(M, K, 1), b = made<F>(K, N, 2), c = made<C>(M, N, 3), d(M, N);
    InMemory<F> ma(M, K, std::is_same<LA, wmma::row_major>::value), mb(K, N, std::is_same<LB, wmma::row_major>::value);
    ma.fill(a), mb.fill(b);
    Buffer<unsigned> da(ma.words), db(mb.words);
    for (bool by_rows : {true, false}) {
        InMemory<C> mc(M, N, by_rows);
        InMemory<D> md(M, N, by_rows);
        // One distance for both.
        md.stride = mc.stride, md.words.resize(mc.words.size() * 2);
        mc.fill(c);
        Buffer<unsigned> dc(mc.words), dd(md.words);
        fragments<M, N, K, F, C, D, LA, LB><<<1, 32>>>(da.device, db.device, dc.device, dd.device, ma.stride, mb.stride, mc.stride,
                                                       by_rows ? wmma::mem_row_major : wmma::mem_col_major, flags);
        md.words = dd.fetch();
        md.read(d);
        if (!same(d, product<F, F, C, D>(a, b, c, flags))) {
            printf("  of m%dn%dk%d, flags %d\n", M, N, K, flags);
            return false;
        }
    }
    return true;
}
typedef wmma::row_major Rows;
typedef wmma::col_major Columns;
template <int M, int N, int K, class F, class C, class D> bool each_layout(int flags = NONE) {
    return in_layout<M, N, K, F, C, D, Rows, Rows>(flags) && in_layout<M, N, K, F, C, D, Rows, Columns>(flags) &&
           in_layout<M, N, K, F, C, D, Columns, Rows>(flags) && in_layout<M, N, K, F, C, D, Columns, Columns>(flags);
}

TEST(wmma_of_halves) {
    return each_layout<16, 16, 16, f16, f16, f16>() && each_layout<16, 16, 16, f16, f32, f32>() &&
           each_layout<16, 16, 16, f16, f16, f32>() && each_layout<16, 16, 16, f16, f32, f16>() &&
           each_layout<32, 8, 16, f16, f16, f16>() && each_layout<32, 8, 16, f16, f32, f32>() &&
           each_layout<8, 32, 16, f16, f16, f16>() && each_layout<8, 32, 16, f16, f32, f32>();
}
TEST(wmma_of_bf16_and_tf32) {
    return each_layout<16, 16, 16, bf16, f32, f32>() && each_layout<32, 8, 16, bf16, f32, f32>() &&
           each_layout<8, 32, 16, bf16, f32, f32>() && each_layout<16, 16, 8, tf32, f32, f32>();
}
TEST(wmma_of_doubles) { return each_layout<8, 8, 4, f64, f64, f64>(); }
template <class T> bool bytes(int flags) {
    return each_layout<16, 16, 16, T, s32, s32>(flags) && each_layout<32, 8, 16, T, s32, s32>(flags) &&
           each_layout<8, 32, 16, T, s32, s32>(flags);
}
TEST(wmma_of_bytes) { return bytes<s8>(NONE) && bytes<s8>(SATURATES) && bytes<u8>(NONE) && bytes<u8>(SATURATES); }
TEST(wmma_of_less_than_a_byte) {
    return in_layout<8, 8, 32, s4, s32, s32, Rows, Columns>(NONE) && in_layout<8, 8, 32, s4, s32, s32, Rows, Columns>(SATURATES) &&
           in_layout<8, 8, 32, u4, s32, s32, Rows, Columns>(NONE) && in_layout<8, 8, 32, u4, s32, s32, Rows, Columns>(SATURATES) &&
           in_layout<8, 8, 128, b1, s32, s32, Rows, Columns>(NONE) && in_layout<8, 8, 128, b1, s32, s32, Rows, Columns>(BY_AND);
}

// Several warps work on tiles of a larger matrix through shared memory; elements of fragments are changed in place.
__global__ void tiles(const half *a, const half *b, float *c, int n) {
    __shared__ half part[4][16 * 24];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = (blockIdx.x * 4 + warp) * 16;
    for (int column = 0; column < n; column += 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
        wmma::fill_fragment(sum, 1.f);
        for (int k = 0; k < n; k += 16) {
            for (int i = lane; i < 256; i += 32) part[warp][i / 16 * 24 + i % 16] = a[(row + i / 16) * n + k + i % 16];
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, Rows> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, Rows> fb;
            __syncwarp();
            wmma::load_matrix_sync(fa, part[warp], 24);
            wmma::load_matrix_sync(fb, b + k * n + column, n);
            for (int i = 0; i < fa.num_elements; i++) fa.x[i] = __hneg(fa.x[i]);
            wmma::mma_sync(sum, fa, fb, sum);
            __syncwarp();
        }
        for (int i = 0; i < sum.num_elements; i++) sum.x[i] = 2 * sum.x[i];
        wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
    }
}
TEST(wmma_of_tiles_in_shared_memory) {
    const int n = 128;
    Matrix a = made<f16>(n, n, 5), b = made<f16>(n, n, 6), c(n, n);
    for (Raw &element : c.data) element = f32::raw(-1);
    InMemory<f16> ma(n, n, true), mb(n, n, true);
    ma.stride = mb.stride = n;
    ma.fill(a), mb.fill(b);
    Buffer<unsigned> da(ma.words), db(mb.words);
    Buffer<float> dc(n * n);
    tiles<<<2, 128>>>((half *)da.device, (half *)db.device, dc.device, n);
    Matrix sum = product<f16, f16, f32, f32>(a, b, c, NONE);
    return all(dc.fetch(), n * n, [&](size_t i) { return -2 * f32::number(sum.data[i]); });
}
