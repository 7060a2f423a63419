// `ldmatrix`, `stmatrix` and `movmatrix`: the PTX ISA's fragments of matrices of 8 by 8 elements of 16 bits.
#pragma once

// `stmatrix` needs sm_90. Each matrix is eight rows of 16 bytes; row `r` of matrix `x` is at 16 * (8 * x + r), and lane 8 * x + r brings its address.
#define LOAD_STORE(name, count, how, list, stored, outs, ins)                                               \
    __global__ void name(const unsigned *in, unsigned *fragments, unsigned *out) {                          \
        __shared__ __align__(16) unsigned rows[32 * count], back[32 * count];                               \
        for (int i = threadIdx.x; i < 32 * count; i += 32) rows[i] = in[i], back[i] = 0;                    \
        __syncthreads();                                                                                    \
        unsigned r[count], at = threadIdx.x % (8 * count) * 16;                                             \
        unsigned from = (unsigned)__cvta_generic_to_shared(rows) + at;                                      \
        unsigned to = (unsigned)__cvta_generic_to_shared(back) + at;                                        \
        asm volatile("ldmatrix.sync.aligned.m8n8.x" #count how ".shared.b16 " list : outs : "r"(from) : "memory"); \
        for (int i = 0; i < count; i++) fragments[threadIdx.x * count + i] = r[i];                          \
        asm volatile("stmatrix.sync.aligned.m8n8.x" #count how ".shared.b16 [%0], " stored : : "r"(to), ins : "memory"); \
        __syncthreads();                                                                                    \
        for (int i = threadIdx.x; i < 32 * count; i += 32) out[i] = back[i];                                \
    }
LOAD_STORE(matrix_1, 1, "", "{%0}, [%1];", "{%1};", "=r"(r[0]), "r"(r[0]))
LOAD_STORE(matrix_2, 2, "", "{%0,%1}, [%2];", "{%1,%2};", O2(r), I2(r))
LOAD_STORE(matrix_4, 4, "", "{%0,%1,%2,%3}, [%4];", "{%1,%2,%3,%4};", O4(r), I4(r))
LOAD_STORE(matrix_1t, 1, ".trans", "{%0}, [%1];", "{%1};", "=r"(r[0]), "r"(r[0]))
LOAD_STORE(matrix_2t, 2, ".trans", "{%0,%1}, [%2];", "{%1,%2};", O2(r), I2(r))
LOAD_STORE(matrix_4t, 4, ".trans", "{%0,%1,%2,%3}, [%4];", "{%1,%2,%3,%4};", O4(r), I4(r))

static bool moved(void (*kernel)(const unsigned *, unsigned *, unsigned *), int count, bool transposed) {
    Buffer<unsigned> in(32 * count), fragments(32 * count), out(32 * count);
    std::vector<unsigned> words(32 * count);
    for (size_t i = 0; i < words.size(); i++) words[i] = noise(unsigned(i));
    CUDA(cudaMemcpy(in.device, words.data(), words.size() * 4, cudaMemcpyHostToDevice));
    kernel<<<1, 32>>>(in.device, fragments.device, out.device);
    auto element = [&](int matrix, int row, int column) {
        return unsigned(get(words, size_t(64) * matrix + 8 * row + column, 16));
    };
    bool right = all(fragments.fetch(), 32 * count, [&](size_t i) {
        int lane = int(i) / count, matrix = int(i) % count, row = lane / 4, column = lane % 4 * 2;
        if (transposed) return element(matrix, column, row) | element(matrix, column + 1, row) << 16;
        return element(matrix, row, column) | element(matrix, row, column + 1) << 16;
    });
    return right && all(out.fetch(), 32 * count, [&](size_t i) { return words[i]; });
}
TEST(ldmatrix_and_stmatrix) {
    return moved(matrix_1, 1, false) && moved(matrix_2, 2, false) && moved(matrix_4, 4, false) && moved(matrix_1t, 1, true) &&
           moved(matrix_2t, 2, true) && moved(matrix_4t, 4, true);
}

__global__ void transpose(const unsigned *in, unsigned *out) {
    unsigned d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(in[threadIdx.x]));
    out[threadIdx.x] = d;
}
TEST(movmatrix) {
    Buffer<unsigned> in(32), out(32);
    std::vector<unsigned> words(32);
    for (int i = 0; i < 32; i++) words[i] = noise(i);
    CUDA(cudaMemcpy(in.device, words.data(), 128, cudaMemcpyHostToDevice));
    transpose<<<1, 32>>>(in.device, out.device);
    return all(out.fetch(), 32, [&](size_t i) {
        int row = int(i) / 4, column = int(i) % 4 * 2;
        return unsigned(get(words, 8 * column + row, 16) | get(words, 8 * (column + 1) + row, 16) << 16);
    });
}

// Rounding to `tf32`: to the nearest, halves away from zero.
__global__ void to_tf32(const float *in, float *out) { out[threadIdx.x] = nvcuda::wmma::__float_to_tf32(in[threadIdx.x]); }
TEST(rounding_to_tf32) {
    Buffer<float> in(32), out(32);
    std::vector<float> values(32);
    for (int i = 0; i < 32; i++) {
        unsigned bits = 0x3f800000 + (i << 11) + (i % 3 - 1) + (i % 2 ? 0x80000000 : 0);
        values[i] = f32::number(bits);
    }
    values[30] = INFINITY, values[31] = -3.25f;
    CUDA(cudaMemcpy(in.device, values.data(), 128, cudaMemcpyHostToDevice));
    to_tf32<<<1, 32>>>(in.device, out.device);
    return all(out.fetch(), 32, [&](size_t i) {
        if (i == 30) return values[i];
        float size = std::fabs(values[i]), step = std::ldexp(1.f, std::ilogb(size) - 10);
        return std::copysign(std::floor(size / step + 0.5f) * step, values[i]);
    });
}
