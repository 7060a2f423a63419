// Kernels in pairs: threads exchange values by operations of the warp, and the same through shared memory.
//
// `pairs LAUNCHES [shuffles]` times each (only those of the first kind with the second word), in turns. Trap: both kernels
// of a pair must give the results of the plain loops in `main`, so both give each value that the loops give.
#include "../kernels/common.h"
#include <functional>
#include <string>

#define ALL 0xffffffffu
constexpr int NUMBERS = 1 << 18; // read and written by each launch
constexpr int WARPS = BLOCK / 32;

// The sum of each block. Of the last warp operations only the first warp takes part, and of its threads some read.
__global__ void sum_shuffles(const int *in, int *out) {
    __shared__ int sums[WARPS];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, v = in[blockIdx.x * BLOCK + t];
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(ALL, v, d);
    if (lane == 0) sums[warp] = v;
    __syncthreads();
    v = t < blockDim.x / 32 ? sums[lane] : 0;
    if (warp == 0) for (int d = 16; d; d >>= 1) v += __shfl_down_sync(ALL, v, d);
    if (t == 0) out[blockIdx.x] = v;
}

__global__ void sum_shared(const int *in, int *out) {
    __shared__ int s[BLOCK];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * BLOCK + t];
    __syncthreads();
    for (int half = BLOCK / 2; half; half >>= 1) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

// The sums of each block up to each number.
__global__ void scan_shuffles(const int *in, int *out) {
    __shared__ int sums[WARPS];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, i = blockIdx.x * BLOCK + t, v = in[i];
    for (int d = 1; d < 32; d <<= 1) {
        int o = __shfl_up_sync(ALL, v, d);
        if (lane >= d) v += o;
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int x = lane < WARPS ? sums[lane] : 0;
        for (int d = 1; d < WARPS; d <<= 1) {
            int o = __shfl_up_sync(ALL, x, d);
            if (lane >= d) x += o;
        }
        if (lane < WARPS) sums[lane] = x;
    }
    __syncthreads();
    out[i] = v + (warp ? sums[warp - 1] : 0);
}

__global__ void scan_shared(const int *in, int *out) {
    __shared__ int s[2][BLOCK];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t, now = 0;
    s[0][t] = in[i];
    __syncthreads();
    for (int d = 1; d < BLOCK; d <<= 1) {
        s[1 - now][t] = s[now][t] + (t >= d ? s[now][t - d] : 0);
        now = 1 - now;
        __syncthreads();
    }
    out[i] = s[now][t];
}

// Each warp transposes 32 rows of 8.
__global__ void transpose8_shuffles(const int *in, int *out) {
    int lane = threadIdx.x & 31, first = (blockIdx.x * WARPS + (threadIdx.x >> 5)) * 256, a[8], r[8];
    for (int k = 0; k < 8; k++) a[k] = in[first + k * 32 + lane];
    for (int k = 0; k < 8; k++) {
        r[k] = 0;
        for (int j = 0; j < 8; j++) {
            int o = __shfl_sync(ALL, a[j], k * 4 + (lane >> 3));
            if ((lane & 7) == j) r[k] = o;
        }
    }
    for (int k = 0; k < 8; k++) out[first + k * 32 + lane] = r[k];
}

__global__ void transpose8_shared(const int *in, int *out) {
    __shared__ int s[WARPS][256];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first = (blockIdx.x * WARPS + warp) * 256;
    for (int k = 0; k < 8; k++) s[warp][k * 32 + lane] = in[first + k * 32 + lane];
    __syncthreads();
    for (int k = 0; k < 8; k++) out[first + k * 32 + lane] = s[warp][(lane & 7) * 32 + k * 4 + (lane >> 3)];
}

// Each warp transposes 32 rows of 32, in five steps.
__global__ void transpose32_shuffles(const int *in, int *out) {
    int lane = threadIdx.x & 31, first = (blockIdx.x * WARPS + (threadIdx.x >> 5)) * 1024, a[32];
#pragma unroll
    for (int k = 0; k < 32; k++) a[k] = in[first + k * 32 + lane];
#pragma unroll
    for (int d = 16; d; d >>= 1) {
#pragma unroll
        for (int k = 0; k < 32; k++) {
            if (k & d) continue;
            int up = lane & d, send = up ? a[k] : a[k | d], got = __shfl_xor_sync(ALL, send, d);
            if (up) a[k] = got; else a[k | d] = got;
        }
    }
#pragma unroll
    for (int k = 0; k < 32; k++) out[first + k * 32 + lane] = a[k];
}

__global__ void transpose32_shared(const int *in, int *out) {
    __shared__ int s[WARPS][32][33];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first = (blockIdx.x * WARPS + warp) * 1024;
    for (int k = 0; k < 32; k++) s[warp][k][lane] = in[first + k * 32 + lane];
    __syncthreads();
    for (int k = 0; k < 32; k++) out[first + k * 32 + lane] = s[warp][lane][k];
}

// Masks that name some threads of a warp: sums in its lower half, whose threads alone come there ...
__global__ void low_half_shuffles(const int *in, int *out) {
    int i = blockIdx.x * BLOCK + threadIdx.x, v = in[i];
    if ((threadIdx.x & 31) < 16) for (int d = 8; d; d >>= 1) v += __shfl_down_sync(0xffffu, v, d, 16);
    out[i] = v;
}

__device__ int sum_of_half(int v, bool takes_part) {
    __shared__ int s[2][BLOCK];
    int t = threadIdx.x, now = 0;
    s[0][t] = v;
    __syncthreads();
    for (int d = 8; d; d >>= 1) {
        s[1 - now][t] = s[now][t] + (takes_part ? s[now][(t & 15) + d < 16 ? t + d : t] : 0);
        now = 1 - now;
        __syncthreads();
    }
    return s[now][t];
}

__global__ void low_half_shared(const int *in, int *out) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    out[i] = sum_of_half(in[i], (threadIdx.x & 31) < 16);
}

// ... in both halves, each with a mask of its own ...
__global__ void halves_shuffles(const int *in, int *out) {
    int i = blockIdx.x * BLOCK + threadIdx.x, v = in[i];
    unsigned mask = threadIdx.x & 16 ? 0xffff0000u : 0xffffu;
    for (int d = 8; d; d >>= 1) v += __shfl_down_sync(mask, v, d, 16);
    out[i] = v;
}

__global__ void halves_shared(const int *in, int *out) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    out[i] = sum_of_half(in[i], true);
}

// ... and an exchange of the odd threads, and one of the even ones, in two places of the program.
__global__ void odd_even_shuffles(const int *in, int *out) {
    int i = blockIdx.x * BLOCK + threadIdx.x, v = in[i];
    if (threadIdx.x & 1) v += __shfl_down_sync(0xaaaaaaaau, v, 2); else v += __shfl_down_sync(0x55555555u, v, 2) * 3;
    out[i] = v;
}

__global__ void odd_even_shared(const int *in, int *out) {
    __shared__ int s[BLOCK];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    s[t] = in[i];
    __syncthreads();
    int o = s[(t & 31) < 30 ? t + 2 : t];
    out[i] = s[t] + (t & 1 ? o : o * 3);
}

static void must(cudaError_t status) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s\n", cudaGetErrorString(status));
    exit(1);
}

static int in_half(const int *half, int lane) {
    int sums[16], next[16];
    std::copy(half, half + 16, sums);
    for (int d = 8; d; d >>= 1) {
        for (int l = 0; l < 16; l++) next[l] = sums[l] + sums[l + d < 16 ? l + d : l];
        std::copy(next, next + 16, sums);
    }
    return sums[lane];
}

struct Work {
    const char *name;
    void (*kernel)(const int *, int *);
    int own; // numbers of each thread
    std::function<int(const int *in, int i)> expected;
    int results = NUMBERS;
};

#define PAIR(name, ...) {#name "-shuffles", name##_shuffles, __VA_ARGS__}, {#name "-shared", name##_shared, __VA_ARGS__}

static std::vector<Work> works() {
    auto sum = [](const int *in, int block) {
        int sum = 0;
        for (int i = 0; i < BLOCK; i++) sum += in[block * BLOCK + i];
        return sum;
    };
    auto scan = [](const int *in, int i) {
        int sum = 0;
        for (int k = i / BLOCK * BLOCK; k <= i; k++) sum += in[k];
        return sum;
    };
    auto transpose8 = [](const int *in, int i) { return in[i / 256 * 256 + i % 8 * 32 + i % 256 / 8]; };
    auto transpose32 = [](const int *in, int i) { return in[i / 1024 * 1024 + i % 32 * 32 + i % 1024 / 32]; };
    auto low_half = [](const int *in, int i) {
        return i % 32 < 16 ? in_half(in + i / 32 * 32, i % 32) : in[i];
    };
    auto halves = [](const int *in, int i) { return in_half(in + i / 16 * 16, i % 16); };
    auto odd_even = [](const int *in, int i) {
        int o = in[i % 32 < 30 ? i + 2 : i];
        return in[i] + (i & 1 ? o : o * 3);
    };
    return {
        PAIR(sum, 1, sum, NUMBERS / BLOCK), PAIR(scan, 1, scan), PAIR(transpose8, 8, transpose8),
        PAIR(transpose32, 32, transpose32), PAIR(low_half, 1, low_half), PAIR(halves, 1, halves),
        PAIR(odd_even, 1, odd_even),
    };
}

int main(int argc, char **argv) {
    int launches = argc > 1 ? atoi(argv[1]) : 1, *in, *out;
    std::vector<int> numbers(NUMBERS), found(NUMBERS);
    for (int i = 0; i < NUMBERS; i++) numbers[i] = (unsigned)i * 2654435761u >> 13;
    must(cudaMalloc(&in, NUMBERS * sizeof(int)));
    must(cudaMalloc(&out, NUMBERS * sizeof(int)));
    must(cudaMemcpy(in, numbers.data(), NUMBERS * sizeof(int), cudaMemcpyHostToDevice));
    std::vector<Work> all;
    for (auto &work : works()) if (argc < 3 || std::string(work.name).find(argv[2]) != std::string::npos) all.push_back(work);
    for (int round = 0; round <= rounds; round++) {
        for (size_t n = 0; n < all.size(); n++) {
            const Work &work = all[round % 2 ? all.size() - 1 - n : n];
            double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
            for (int i = 0; i < launches; i++) work.kernel<<<NUMBERS / work.own / BLOCK, BLOCK>>>(in, out);
            must(cudaDeviceSynchronize());
            wall = seconds(CLOCK_MONOTONIC) - wall;
            cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
            if (round > 0) {
                printf("%s %.9f %.9f\n", work.name, cpu, wall);
                continue;
            }
            must(cudaMemcpy(found.data(), out, work.results * sizeof(int), cudaMemcpyDeviceToHost));
            for (int i = 0; i < work.results; i++) {
                if (found[i] == work.expected(numbers.data(), i)) continue;
                fprintf(stderr, "%s: number %d is %d, not %d\n", work.name, i, found[i], work.expected(numbers.data(), i));
                exit(1);
            }
        }
    }
}
