// The rules in programs as people write them: hashing, random numbers, packed fields, a softmax, a stencil.
#pragma once

__host__ __device__ static unsigned rotated(unsigned x, unsigned n) {
#ifdef __CUDA_ARCH__
    return x << n | x >> (32 - n);  // n may be 0
#else
    return n % 32 ? x << n % 32 | x >> (32 - n % 32) : x;
#endif
}

__device__ unsigned mix(const unsigned char *text, int length) {
    unsigned h = 0x9747b28c;
    for (int i = 0; i < length; i++) {
        h ^= text[i] * 0xcc9e2d51u;
        h = __funnelshift_l(h, h, text[i]) * 5 + 0xe6546b64;
        h ^= rotated(h, i % 32) + __brev(h) + __popc(h) + __clz(h & 0xff >> i % 9);
    }
    return h;
}

__global__ void hashes(const unsigned char *texts, int length, unsigned *out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) out[t] = mix(texts + t * length, length);
}

TEST(program_hashes_with_rotations) {
    const int n = 256, length = 40;
    std::vector<unsigned char> texts(n * length);
    for (int i = 0; i < n * length; i++) texts[i] = noise(i);
    Buffer<unsigned char> dtexts(texts);
    Buffer<unsigned> out(n);
    hashes<<<4, 64>>>(dtexts.device, length, out.device, n);
    return all(out.fetch(), n, [&](size_t t) {
        unsigned h = 0x9747b28c;
        for (int i = 0; i < length; i++) {
            unsigned char c = texts[t * length + i];
            h ^= c * 0xcc9e2d51u;
            h = rotated(h, c % 32) * 5 + 0xe6546b64;
            unsigned reversed = 0, low = h & 0xff >> i % 9;
            for (int k = 0; k < 32; k++) reversed |= (h >> k & 1) << (31 - k);
            h ^= rotated(h, i % 32) + reversed + __builtin_popcount(h) + (low ? __builtin_clz(low) : 32);
        }
        return h;
    });
}

// A permuted congruential generator whose last step rotates by five bits of its state, 0 among them; then jumps by powers of 2.
__global__ void draws(unsigned long long *states, float *out, int count) {
    unsigned long long state = states[threadIdx.x];
    float sum = 0;
    for (int i = 0; i < count; i++) {
        unsigned turn = state >> 59, word = (state ^ state >> 18) >> 27;
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        word = word >> turn | word << (32 - turn);
        int first = __ffs(word & ~((1u << turn) - 1));
        sum += __uint2float_rz(word) * 0x1p-32f + first;
    }
    out[threadIdx.x] = sum, states[threadIdx.x] = state;
}

TEST(program_draws_random_numbers) {
    const int n = 64, count = 200;
    std::vector<unsigned long long> states(n);
    for (int i = 0; i < n; i++) states[i] = noise(i) * 0x100000001ull;
    Buffer<unsigned long long> dstates(states);
    Buffer<float> out(n);
    draws<<<1, n>>>(dstates.device, out.device, count);
    return all(out.fetch(), n, [&](size_t t) {
        unsigned long long state = states[t];
        float sum = 0;
        for (int i = 0; i < count; i++) {
            unsigned turn = state >> 59, word = unsigned((state ^ state >> 18) >> 27);
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            word = rotated(word, (32 - turn) % 32);
            float down = float(word);
            if (down > double(word)) down = std::nextafterf(down, 0);
            sum += down * 0x1p-32f + __builtin_ffs(word & ~((1u << turn) - 1));
        }
        return sum;
    });
}

// Fields of 0 to 32 bits behind each other in a stream of words.
__device__ int field_at(const unsigned *words, unsigned bit, unsigned width, bool is_signed) {
    unsigned low = words[bit / 32], high = words[bit / 32 + 1], value = __funnelshift_r(low, high, bit);
    int field;
    if (is_signed)
        asm("bfe.s32 %0, %1, 0, %2;" : "=r"(field) : "r"(value), "r"(width));
    else
        field = width ? value << (32 - width) >> (32 - width) : 0;
    return field;
}

__global__ void unpack(const unsigned *words, const unsigned *places, const unsigned *widths, int *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = field_at(words, places[i], widths[i], i % 2);
}

TEST(program_unpacks_bit_fields) {
    const int n = 500;
    std::vector<unsigned> words(n + 1), places(n), widths(n);
    for (int i = 0, at = 0; i < n; i++) words[i] = noise(i), places[i] = at, widths[i] = noise(i + n) % 33, at += widths[i];
    Buffer<unsigned> dwords(words), dplaces(places), dwidths(widths);
    Buffer<int> out(n);
    unpack<<<1, 64>>>(dwords.device, dplaces.device, dwidths.device, out.device, n);
    return all(out.fetch(), n, [&](size_t i) {
        unsigned value = 0, width = widths[i];
        for (unsigned k = 0; k < width; k++) value |= (words[(places[i] + k) / 32] >> (places[i] + k) % 32 & 1) << k;
        return width == 0 ? 0 : i % 2 ? int(value << (32 - width)) >> (32 - width) : int(value);
    });
}

// Rows with numbers that are missing: the maximum goes past a NaN, what is missing becomes 0.
__global__ void softmax(const float *in, float *out, unsigned char *levels, int width) {
    __shared__ float best[64];
    const float *row = in + blockIdx.x * width;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, row[i]);
    best[threadIdx.x] = most;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) best[threadIdx.x] = fmaxf(best[threadIdx.x], best[threadIdx.x + half]);
        __syncthreads();
    }
    float sum = 0;
    for (int i = 0; i < width; i++) sum += isnan(row[i]) ? 0.f : expf(row[i] - best[0]);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        float p = expf(row[i] - best[0]) / sum;
        out[blockIdx.x * width + i] = __saturatef(p);
        levels[blockIdx.x * width + i] = (unsigned char)(int)(row[i] * 1e9f > 255.f ? 255 : (int)(row[i] * 1e9f) & 0x7f);
    }
}

TEST(program_softmax_past_nan) {
    const int rows = 8, width = 100;
    std::vector<float> in(rows * width);
    for (int i = 0; i < rows * width; i++) in[i] = i % 7 == 3 ? NAN : float(int(noise(i) % 2001) - 1000) / 100;
    for (int i = 0; i < width; i++) in[i] = i == 5 ? -2.f : NAN;
    Buffer<float> din(in), out(rows * width);
    Buffer<unsigned char> levels(rows * width);
    softmax<<<rows, 64>>>(din.device, out.device, levels.device, width);
    out.fetch();
    bool good = true;
    for (int r = 0; r < rows; r++) {
        double best = -INFINITY, sum = 0;
        for (int i = 0; i < width; i++) best = std::fmax(best, double(in[r * width + i]));
        for (int i = 0; i < width; i++) sum += std::isnan(in[r * width + i]) ? 0 : std::exp(in[r * width + i] - best);
        for (int i = 0; i < width; i++) {
            float x = in[r * width + i];
            double want = std::isnan(x) ? 0 : std::exp(x - best) / sum;
            good &= std::fabs(out.host[r * width + i] - want) <= 1e-5 * want;
        }
    }
    return all(levels.fetch(), rows * width, [&](size_t i) {
        float x = in[i] * 1e9f;
        return (unsigned char)(x > 255.f ? 255 : cast_of(x, 0) & 0x7f);
    }) && good;
}

// A halo on both sides of a tile: its first cell's neighbour has the index -1, as a number without a sign.
__global__ void blur(const float *in, float *out, int n) {
    __shared__ float cells[64 + 2];
    float *tile = cells + 1;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : 0;
    if (threadIdx.x == 0) tile[threadIdx.x - 1] = i > 0 ? in[i - 1] : 0;
    if (threadIdx.x == blockDim.x - 1) tile[threadIdx.x + 1] = i + 1 < n ? in[i + 1] : 0;
    __syncthreads();
    if (i < n) out[i] = __fadd_rn(__fadd_rn(tile[threadIdx.x - 1], tile[threadIdx.x]), tile[threadIdx.x + 1]);
}

TEST(program_blurs_with_a_halo) {
    const int n = 300;
    std::vector<float> in(n);
    for (int i = 0; i < n; i++) in[i] = noise(i) % 100;
    Buffer<float> din(in), out(n);
    blur<<<(n + 63) / 64, 64>>>(din.device, out.device, n);
    return all(out.fetch(), n, [&](size_t i) { return (i ? in[i - 1] : 0) + in[i] + (i + 1 < n ? in[i + 1] : 0); });
}

// A scalar product whose terms cancel: what a product and a sum lose is added up beside them.
__global__ void product(const float *a, const float *b, float *out, int n) {
    float sum = 0, lost = 0;
    for (int i = 0; i < n; i++) {
        float p = __fmul_rn(a[i], b[i]), e = fmaf(a[i], b[i], -p);
        float next = __fadd_rn(sum, p), part = __fsub_rn(next, sum);
        float off = __fadd_rn(__fsub_rn(sum, __fsub_rn(next, part)), __fsub_rn(p, part));
        sum = next, lost = __fadd_rn(lost, __fadd_rn(e, off));
    }
    *out = __fadd_rn(sum, lost);
}

TEST(program_sums_with_compensation) {
    const int n = 2000;
    std::vector<float> a(n), b(n);
    for (int i = 0; i < n / 2; i++) {
        a[i] = a[n - 1 - i] = (int(noise(i) % 2000001) - 1000000) / 1e6f;
        b[i] = (int(noise(i + n) % 2000001) - 1000000) / 1e6f, b[n - 1 - i] = -b[i] + 1e-4f * (i % 3);
    }
    double want = 0;
    for (int i = 0; i < n; i++) want += double(a[i]) * b[i];
    Buffer<float> da(a), db(b), out(1);
    product<<<1, 1>>>(da.device, db.device, out.device, n);
    return std::fabs(out.fetch()[0] - want) <= 1e-6 * std::fabs(want);
}

// Halves a number until nothing is left, which takes 23 steps more where denormals are kept.
__global__ void decays(const float *start, int *steps) {
    float x = start[threadIdx.x];
    int count = 0;
    while (x != 0) x *= 0.5f, count++;
    steps[threadIdx.x] = count;
}

TEST(program_decays_to_zero) {
    std::vector<float> start = {1, -3.5f, 1e10f, 1e-30f, real(3)};
    Buffer<float> dstart(start);
    Buffer<int> steps(start.size());
    decays<<<1, unsigned(start.size())>>>(dstart.device, steps.device);
    return all(steps.fetch(), start.size(), [&](size_t i) {
        int count = 0;
        for (float x = flushed(start[i]); x != 0; x = flushed(x * 0.5f)) count++;
        return count;
    });
}

// Colours of any size into 16 bits, and the mean of neighbours in each byte of a sum.
__global__ void pack(const float *colours, unsigned *out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    unsigned red = __float2int_rn(__saturatef(colours[3 * t]) * 31), green = __float2uint_rn(__saturatef(colours[3 * t + 1]) * 63);
    unsigned blue = (unsigned)rintf(fminf(fmaxf(colours[3 * t + 2], 0.f), 1.f) * 31), word = blue;
    asm("bfi.b32 %0, %1, %0, 5, 6;" : "+r"(word) : "r"(green));
    asm("bfi.b32 %0, %1, %0, 11, 5;" : "+r"(word) : "r"(red));
    out[t] = word | __uhadd(red * 0x08000000u, 0xffffffffu) >> 16 << 16;
}

TEST(program_packs_colours) {
    const int n = 256;
    const float odd[] = {NAN, -0.f, INFINITY, -INFINITY, 1e30f, 0.5f / 31, 1.5f / 31, 2.5f / 31};
    std::vector<float> colours(3 * n);
    for (int i = 0; i < 3 * n; i++) colours[i] = i % 5 ? int(noise(i) % 2000) / 1000.f - 0.5f : odd[noise(i) % 8];
    Buffer<float> dcolours(colours);
    Buffer<unsigned> out(n);
    pack<<<4, 64>>>(dcolours.device, out.device, n);
    return all(out.fetch(), n, [&](size_t t) {
        auto level = [&](int part, float most) {
            float x = colours[3 * t + part];
            return unsigned(std::nearbyint((x > 0 ? x < 1 ? x : 1.f : 0.f) * most));
        };
        unsigned red = level(0, 31);
        unsigned mean = unsigned(((unsigned long long)(red * 0x08000000u) + 0xffffffffull) / 2);
        return red << 11 | level(1, 63) << 5 | level(2, 31) | mean >> 16 << 16;
    });
}
