// Block barriers: plain, with a reduction, named, after exits, in loops and branches.

__global__ void block_sum(const float *in, float *out) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (int k = 128; k; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

TEST(barriers_in_a_loop) {
    std::vector<float> v(100 * 256);
    for (size_t i = 0; i < v.size(); i++) v[i] = float(noise(i) % 1000) * 0.37f;
    Buffer<float> in(v), out(100);
    block_sum<<<100, 256>>>(in.device, out.device);
    return all(out.fetch(), 100, [&](size_t b) {
        std::vector<float> s(v.begin() + b * 256, v.begin() + (b + 1) * 256);
        for (int k = 128; k; k >>= 1)
            for (int t = 0; t < k; t++) s[t] += s[t + k];
        return s[0];
    });
}

__global__ void reducing(const int *in, int *out) {
    int t = threadIdx.x, v = in[t];
    int many = __syncthreads_count(v > 10), every = __syncthreads_and(v < 100), some = __syncthreads_or(v == 3);
    out[t] = many * 4 + every * 2 + some;
}

TEST(barriers_that_count_and_reduce) {
    bool good = true;
    for (int odd : {0, 3, 200}) {
        std::vector<int> v(200);
        int many = 0, every = 1, some = 0;
        for (int i = 0; i < 200; i++) {
            v[i] = i == 77 ? odd : int(noise(i) % 90) + 5;
            many += v[i] > 10, every &= v[i] < 100, some |= v[i] == 3;
        }
        Buffer<int> in(v), out(200);
        reducing<<<1, 200>>>(in.device, out.device);
        good &= all(out.fetch(), 200, [&](size_t) { return many * 4 + every * 2 + some; });
    }
    return good;
}

__global__ void early(int *out, int n) {
    __shared__ int s[128];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = t + 1;
    __syncthreads();
    int v = s[n - 1 - t];
    __syncthreads();
    s[t] = v * 2;
    __syncthreads();
    out[t] = s[(t + 1) % n];
}

TEST(barriers_after_threads_have_left) {
    Buffer<int> out(128);
    early<<<1, 128>>>(out.device, 77);
    return all(out.fetch(), 128, [](size_t t) { return t < 77 ? 2 * int(77 - (t + 1) % 77) : 0; });
}

__global__ void halves_of_a_block(int *out) {
    __shared__ int s[128];
    int t = threadIdx.x, side = t / 64;
    s[t] = t * 3;
    // Two named barriers of 64 threads each: the sides do not wait for each other.
    if (side == 0) asm volatile("bar.sync 1, 64;" ::: "memory");
    else asm volatile("bar.sync 2, 64;" ::: "memory");
    out[t] = s[side * 64 + (t + 5) % 64];
}

TEST(barriers_with_a_name_and_a_count) {
    Buffer<int> out(128);
    halves_of_a_block<<<1, 128>>>(out.device);
    return all(out.fetch(), 128, [](size_t t) { return int(t / 64 * 64 + (t + 5) % 64) * 3; });
}

__global__ void both_kinds(const int *in, int *out) {
    __shared__ int sums[8];
    int t = threadIdx.x, v = in[blockIdx.x * 256 + t];
    for (int k = 16; k; k /= 2) v += __shfl_xor_sync(~0u, v, k);
    if (t % 32 == 0) sums[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        int w = t < 8 ? sums[t] : 0;
        for (int k = 4; k; k /= 2) w += __shfl_down_sync(~0u, w, k);
        if (t == 0) out[blockIdx.x] = w;
    }
}

TEST(barriers_and_shuffles_together) {
    std::vector<int> v(20 * 256);
    for (size_t i = 0; i < v.size(); i++) v[i] = noise(i) % 10000;
    Buffer<int> in(v), out(20);
    both_kinds<<<20, 256>>>(in.device, out.device);
    return all(out.fetch(), 20, [&](size_t b) {
        int sum = 0;
        for (int i = 0; i < 256; i++) sum += v[b * 256 + i];
        return sum;
    });
}

__global__ void data_dependent(const int *rounds, int *out) {
    __shared__ int s[64], steps;
    int t = threadIdx.x;
    if (t == 0) steps = rounds[blockIdx.x];
    s[t] = t;
    __syncthreads();
    for (int r = 0; r < steps; r++) {
        int v = s[(t + 1) % 64];
        __syncthreads();
        s[t] = v;
        __syncthreads();
        if (v == 9) out[64 * blockIdx.x + t] += r;
    }
    out[64 * blockIdx.x + t] += 100 * s[t];
}

TEST(barriers_in_a_loop_of_unknown_length) {
    std::vector<int> rounds = {0, 1, 17, 64, 5};
    Buffer<int> in(rounds), out(5 * 64);
    data_dependent<<<5, 64>>>(in.device, out.device);
    return all(out.fetch(), 5 * 64, [&](size_t i) {
        int b = i / 64, t = i % 64, sum = 100 * ((t + rounds[b]) % 64);
        for (int r = 0; r < rounds[b]; r++)
            if ((t + r + 1) % 64 == 9) sum += r;
        return sum;
    });
}
