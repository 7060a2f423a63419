// Addresses in shared memory have 32 bits.
#pragma once

struct Cell {
    int low, high;
};

__device__ int through(const int *cells, unsigned at) { return cells[at]; }

__global__ void wraps(const unsigned *back, int *out, int n) {
    __shared__ int cells[64];
    __shared__ Cell pairs[32];
    extern __shared__ int dynamic[];
    unsigned t = threadIdx.x;
    cells[t] = 100 + t, dynamic[t] = 200 + t;
    if (t < 32) pairs[t].low = 300 + t, pairs[t].high = 400 + t;
    __syncthreads();
    const int *middle = cells + 32, *tail = dynamic + 32;
    const Cell *half = pairs + 16;
    // 0 - back is a number of four thousand million, unless back is 0.
    unsigned at = 0u - back[t];
    out[t] = middle[at], out[n + t] = through(tail, at), out[2 * n + t] = half[at].high;
    const int *either = back[t] % 2 ? middle : tail;
    out[3 * n + t] = either[at];
    unsigned address = (unsigned)__cvta_generic_to_shared(middle);
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(out[4 * n + t]) : "r"(address + 4 * at));
    asm volatile("ld.shared.s32 %0, [%1+-4];" : "=r"(out[5 * n + t]) : "r"(address + 4 * at + 4));
    __syncthreads();
    int *to = cells + 32;
    if (t < 8) to[0u - t] = -int(t), atomicAdd(&to[-9u - t], 1000);
    __syncthreads();
    out[6 * n + t] = cells[t];
}

TEST(shared_addresses_wrap_at_32_bits) {
    const int n = 64;
    std::vector<unsigned> back(n);
    for (int i = 0; i < n; i++) back[i] = i % 17;
    Buffer<unsigned> dback(back);
    Buffer<int> out(7 * n);
    wraps<<<1, n, n * sizeof(int)>>>(dback.device, out.device, n);
    return all(out.fetch(), 7 * n, [&](size_t i) {
        int t = i % n, b = back[t];
        switch (i / n) {
        case 0: case 4: case 5: return 132 - b;
        case 1: return 232 - b;
        case 2: return 416 - b;
        case 3: return b % 2 ? 132 - b : 232 - b;
        default: {
            int cell = t >= 25 && t <= 32 ? t - 32 : 100 + t;
            return cell + (t >= 16 && t < 24 ? 1000 : 0);
        }
        }
    });
}
