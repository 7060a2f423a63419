// Warp operations: shuffles, votes, matches, reductions, lane numbers, divergence.

__global__ void shuffles(const int *in, int *out) {
    int t = threadIdx.x, v = in[t];
    out[0 * 64 + t] = __shfl_sync(~0u, v, (t * 7) % 32);
    out[1 * 64 + t] = __shfl_up_sync(~0u, v, 3);
    out[2 * 64 + t] = __shfl_down_sync(~0u, v, 5);
    out[3 * 64 + t] = __shfl_xor_sync(~0u, v, 9);
    out[4 * 64 + t] = __shfl_sync(~0u, v, 2, 8);
    out[5 * 64 + t] = __shfl_up_sync(~0u, v, 3, 8);
    out[6 * 64 + t] = __shfl_down_sync(~0u, v, 5, 16);
    out[7 * 64 + t] = __shfl_xor_sync(~0u, v, 9, 8);
}

TEST(warp_shuffles) {
    Buffer<int> in(64), out(8 * 64);
    std::vector<int> v(64);
    for (int i = 0; i < 64; i++) v[i] = noise(i);
    Buffer<int> from(v);
    shuffles<<<1, 64>>>(from.device, out.device);
    return all(out.fetch(), 8 * 64, [&](size_t i) {
        int t = i % 64, base = t & ~31, lane = t & 31, w8 = lane & ~7, w16 = lane & ~15, s = lane;
        switch (i / 64) {
        case 0: s = (t * 7) % 32; break;
        case 1: s = lane >= 3 ? lane - 3 : lane; break;
        case 2: s = lane + 5 < 32 ? lane + 5 : lane; break;
        case 3: s = lane ^ 9; break;
        case 4: s = w8 + 2; break;
        case 5: s = lane - 3 >= w8 ? lane - 3 : lane; break;
        case 6: s = lane + 5 < w16 + 16 ? lane + 5 : lane; break;
        case 7: s = (lane ^ 9) < w8 + 8 ? (lane ^ 9) : lane; break;
        }
        return v[base + s];
    });
}

__global__ void wide_shuffles(double *d, long long *l, float *f) {
    int t = threadIdx.x;
    d[t] = __shfl_xor_sync(~0u, d[t], 1);
    l[t] = __shfl_down_sync(~0u, l[t], 2);
    f[t] = __shfl_up_sync(~0u, f[t], 4);
}

TEST(warp_shuffles_of_other_types) {
    Buffer<double> d(32);
    Buffer<long long> l(32);
    Buffer<float> f(32);
    std::vector<double> dv(32);
    std::vector<long long> lv(32);
    std::vector<float> fv(32);
    for (int i = 0; i < 32; i++) dv[i] = i * 1.1, lv[i] = (1LL << 40) * i + 7, fv[i] = i * 0.3f;
    Buffer<double> db(dv);
    Buffer<long long> lb(lv);
    Buffer<float> fb(fv);
    wide_shuffles<<<1, 32>>>(db.device, lb.device, fb.device);
    return all(db.fetch(), 32, [&](size_t i) { return dv[i ^ 1]; }) &
           all(lb.fetch(), 32, [&](size_t i) { return lv[i + 2 < 32 ? i + 2 : i]; }) &
           all(fb.fetch(), 32, [&](size_t i) { return fv[i >= 4 ? i - 4 : i]; });
}

__global__ void votes(const int *in, unsigned *out) {
    int t = threadIdx.x, v = in[t];
    out[0 * 96 + t] = __any_sync(~0u, v > 90);
    out[1 * 96 + t] = __all_sync(~0u, v >= 3);
    out[2 * 96 + t] = __ballot_sync(~0u, v & 1);
    out[3 * 96 + t] = __match_any_sync(~0u, v % 5);
    int same;
    out[4 * 96 + t] = __match_all_sync(~0u, t / 32 == 1 ? 7 : v, &same);
    out[5 * 96 + t] = same;
    out[6 * 96 + t] = __reduce_add_sync(~0u, v);
    out[7 * 96 + t] = __reduce_max_sync(~0u, v - 50);
    out[8 * 96 + t] = __reduce_min_sync(~0u, (unsigned)(v - 50));
    out[9 * 96 + t] = __reduce_xor_sync(~0u, v);
}

TEST(warp_votes_matches_reductions) {
    std::vector<int> v(96);
    for (int i = 0; i < 96; i++) v[i] = noise(i + 5) % 100;
    Buffer<int> in(v);
    Buffer<unsigned> out(10 * 96);
    votes<<<1, 96>>>(in.device, out.device);
    return all(out.fetch(), 10 * 96, [&](size_t i) {
        int t = i % 96;
        const int *w = &v[t & ~31];
        unsigned any = 0, every = 1, odd = 0, same = 0, sum = 0, least = ~0u, x = 0;
        int most = -1000;
        for (int k = 0; k < 32; k++) {
            any |= w[k] > 90;
            every &= w[k] >= 3;
            odd |= unsigned(w[k] & 1) << k;
            same |= unsigned(w[k] % 5 == v[t] % 5) << k;
            sum += w[k];
            most = w[k] - 50 > most ? w[k] - 50 : most;
            least = unsigned(w[k] - 50) < least ? w[k] - 50 : least;
            x ^= w[k];
        }
        bool alike = t / 32 == 1;
        unsigned expected[] = {any, every, odd, same, alike ? ~0u : 0, alike, sum, unsigned(most), least, x};
        return expected[i / 96];
    });
}

__global__ void divergence(int *out) {
    int t = threadIdx.x, lane = t % 32, v = t + 1;
    if (lane >= 24) return;
    if (lane % 3 == 0) {
        unsigned mask = 0x249249;
        for (int k = 12; k; k = k == 12 ? 6 : k == 6 ? 3 : 0) v += __shfl_down_sync(mask, v, k) * (lane + k < 24);
        __syncwarp(mask);
    } else {
        for (int k = 0; k < lane % 5; k++) v = v * 3 + 1;
        __syncwarp(0xffffff & ~0x249249);
        v += __popc(__ballot_sync(0xffffff & ~0x249249, v & 1));
    }
    out[t] = v;
}

TEST(warp_operations_in_divergent_branches_after_exits) {
    Buffer<int> out(64);
    divergence<<<1, 64>>>(out.device);
    return all(out.fetch(), 64, [](size_t i) {
        int lane = i % 32, base = i - lane, v[32];
        if (lane >= 24) return 0;
        for (int k = 0; k < 24; k++) v[k] = base + k + 1;
        if (lane % 3 == 0) {
            for (int d : {12, 6, 3}) {
                int w[32];
                for (int k = 0; k < 24; k += 3) w[k] = v[k] + (k + d < 24 ? v[k + d] : 0);
                for (int k = 0; k < 24; k += 3) v[k] = w[k];
            }
            return v[lane];
        }
        int odd = 0;
        for (int k = 0; k < 24; k++) {
            if (k % 3 == 0) continue;
            for (int j = 0; j < k % 5; j++) v[k] = v[k] * 3 + 1;
            odd += v[k] & 1;
        }
        return v[lane] + odd;
    });
}

__device__ int taken(int *counter) {
    unsigned mask = __activemask(), lane = threadIdx.x % 32;
    int leader = __ffs(mask) - 1, first = 0;
    if (lane == leader) first = atomicAdd(counter, __popc(mask));
    return __shfl_sync(mask, first, leader) + __popc(mask & ((1u << lane) - 1));
}

__global__ void aggregated(int *counter, int *place) {
    if (threadIdx.x % 3) place[threadIdx.x] = taken(counter);
}

TEST(warp_aggregated_atomics_by_active_mask) {
    Buffer<int> counter(1), place(64);
    aggregated<<<1, 64>>>(counter.device, place.device);
    counter.fetch();
    // Which thread gets which place is open, so these bytes are no part of the digest.
    CUDA(cudaMemcpy(place.host.data(), place.device, 64 * sizeof(int), cudaMemcpyDeviceToHost));
    std::vector<int> seen(64);
    int wanted = 0;
    for (int t = 0; t < 64; t++)
        if (t % 3) wanted++, seen[place.host[t]]++;
    for (int k = 0; k < wanted; k++)
        if (seen[k] != 1) return false;
    return counter.host[0] == wanted;
}

__global__ void warp_sums(const float *in, float *out, int n) {
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
    for (int k = 16; k; k /= 2) v += __shfl_down_sync(~0u, v, k);
    if (threadIdx.x % 32 == 0) atomicAdd(out, v);
}

TEST(warp_reduction_of_a_large_array) {
    int n = 100000;
    std::vector<float> v(n);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i] = noise(i) % 16;
    Buffer<float> in(v), out(1);
    warp_sums<<<40, 128>>>(in.device, out.device, n);
    return out.fetch()[0] == sum;
}
