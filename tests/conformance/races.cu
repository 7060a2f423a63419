// Kernels whose threads race, each with a twin that is right: `races racy|right [NAME]`.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstring>

namespace cg = cooperative_groups;

__device__ int counter;

#define T int t = threadIdx.x, b = blockIdx.x; (void)t; (void)b
#define BETWEEN(what) if (RIGHT) what

// Shared memory, threads of one warp.
template <bool RIGHT> __global__ void raw_warp(int *out) {
    __shared__ int s[64]; T;
    s[t] = t;
    BETWEEN(__syncwarp());
    out[t] = s[t ^ 1];
}
template <bool RIGHT> __global__ void war_warp(int *out) {
    __shared__ int s[64]; T;
    s[t] = t;
    __syncthreads();
    int x = s[t ^ 1];
    BETWEEN(__syncwarp());
    s[t] = x + 1;
}
template <bool RIGHT> __global__ void waw_warp(int *out) {
    __shared__ int s[2]; T;
    if (!RIGHT || t % 32 == 0) s[t / 32] = t;
}
template <bool RIGHT> __global__ void part_of_warp(int *out) {
    __shared__ int s[64]; T;
    if (t < 8) {
        s[t] = t;
        __syncwarp(RIGHT ? 0xff : t < 4 ? 0x0f : 0xf0);
        out[t] = s[7 - t];
    }
}
template <bool RIGHT> __global__ void by_ballot(int *out) {
    __shared__ int s[64]; T;
    s[t] = t;
    unsigned votes = 0;
    BETWEEN(votes = __ballot_sync(~0u, t & 1));
    out[t] = s[t ^ 2] + votes;
}
template <bool RIGHT> __global__ void old_reduction(int *out) {
    __shared__ volatile int s[64]; T;
    s[t] = t;
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        BETWEEN(__syncwarp());
        int next = t < 16 ? s[t + 16] : 0;
        BETWEEN(__syncwarp());
        s[t] += next;
    }
}
// Shared memory, other warps.
template <bool RIGHT> __global__ void raw_block(int *out) {
    __shared__ int s[64]; T;
    s[t] = t;
    BETWEEN(__syncthreads());
    out[t] = s[(t + 32) % 64];
}
template <bool RIGHT> __global__ void war_block(int *out) {
    __shared__ int s[64]; T;
    s[t] = t;
    __syncthreads();
    int x = s[(t + 32) % 64];
    BETWEEN(__syncthreads());
    s[t] = x + 1;
}
template <bool RIGHT> __global__ void waw_block(int *out) {
    __shared__ int s[64]; T;
    s[RIGHT ? t : t % 32] = t;
}
template <bool RIGHT> __global__ void tree(int *out) {
    __shared__ int s[64]; T;
    s[t] = t;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        BETWEEN(__syncthreads());
    }
    if (t == 0) out[0] = s[0];
}
template <bool RIGHT> __global__ void bytes(int *out) {
    __shared__ char s[64]; T;
    s[t] = t;
    BETWEEN(__syncthreads());
    out[t] = s[(t + 33) % 64];
}
template <bool RIGHT> __global__ void plain_count(int *out) {
    __shared__ int count; T;
    if (t == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, 1);
    BETWEEN(__syncthreads());
    if (t == 31) count = 7;
}
template <bool RIGHT> __global__ void counted(int *out) {
    __shared__ int s[64]; T;
    s[t] = t;
    int odd = 0;
    BETWEEN(odd = __syncthreads_count(t & 1));
    out[t] = s[63 - t] + odd;
}
__device__ int neighbour(const int *s, int at) {
    return s[at];
}
template <bool RIGHT> __global__ void called(int *out) {
    __shared__ int s[64]; T;
    s[t] = t;
    BETWEEN(__syncthreads());
    out[t] = neighbour(s, (t + 32) % 64);
}
// Global memory.
template <bool RIGHT> __global__ void global_raw_warp(int *out) {
    T;
    out[t] = t;
    BETWEEN(__syncwarp());
    out[64 + t] = out[t ^ 1];
}
template <bool RIGHT> __global__ void global_raw_block(int *out) {
    T;
    out[t] = t;
    BETWEEN(__syncthreads());
    out[64 + t] = out[63 - t];
}
template <bool RIGHT> __global__ void global_waw_block(int *out) {
    T;
    if (t < 32) out[t] = t;
    BETWEEN(__syncthreads());
    if (t >= 32) out[t - 32] = t;
}
template <bool RIGHT> __global__ void grid_raw(int *out) {
    T;
    out[b * 64 + t] = t;
    BETWEEN(cg::this_grid().sync());
    out[256 + b * 64 + t] = out[(1 - b) * 64 + t];
}
template <bool RIGHT> __global__ void grid_war(int *out) {
    T;
    int x = out[(1 - b) * 64 + t];
    BETWEEN(cg::this_grid().sync());
    out[b * 64 + t] = x + t;
}
template <bool RIGHT> __global__ void grid_waw(int *out) {
    T;
    if (t == 0) {
        if (RIGHT) atomicExch(out, b + 1);
        else out[0] = b + 1;
    }
}
template <bool RIGHT> __global__ void flag(int *out) {
    T;
    volatile int *ready = out + 500;
    if (t == 0 && b == 0) {
        out[0] = 7;
        BETWEEN(__threadfence());
        *ready = 1;
    }
    if (t == 0 && b == 1) {
        while (*ready == 0) { }
        out[1] = out[0];
    }
}
template <bool RIGHT> __global__ void variable(int *out) {
    T;
    if (t == 0) {
        if (RIGHT) atomicAdd(&counter, b + 1);
        else counter += b + 1;
    }
}
// Right in both forms: the last block sums up what all have left.
template <bool RIGHT> __global__ void last_block(int *out) {
    __shared__ bool last; T;
    if (t < 8) out[b * 8 + t] = t + b;
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd((int *)out + 501, 1) == gridDim.x - 1;
    __syncthreads();
    if (last && t < 16) out[300 + t] = out[t];
}
// Right in both forms: a lock, thread by thread.
template <bool RIGHT> __global__ void locked(int *out) {
    bool mine = false;
    while (!mine) {
        if (atomicCAS(out + 502, 0, 1) == 0) {
            *(volatile int *)out += 1;
            __threadfence();
            atomicExch(out + 502, 0);
            mine = true;
        }
    }
}
// Right in both forms: a loop around a swap begins with a guess.
template <bool RIGHT> __global__ void swapped(int *out) {
    int seen = *out, old;
    do {
        old = seen;
        seen = atomicCAS(out, old, old + 3);
    } while (seen != old);
}
// Right in both forms, with a note: all threads that store have the same value.
template <bool RIGHT> __global__ void equal(int *out) {
    T;
    if (t & 1) out[0] = 5;
}

template <bool RIGHT> static bool wanted(const char *name, const char *only) {
    if (only && strcmp(name, only) != 0) return false;
    fprintf(stderr, "-- %s\n", name);
    return true;
}

template <bool RIGHT> static void run(const char *only) {
    int *out;
    cudaMalloc(&out, 4096);
    cudaMemset(out, 0, 4096);
    void *arguments[] = {&out};
#define LAUNCH(name, blocks)                                                                                            \
    if (wanted<RIGHT>(#name, only)) {                                                                                  \
        cudaMemset(out, 0, 4096);                                                                                      \
        cudaLaunchCooperativeKernel((void *)name<RIGHT>, dim3(blocks), dim3(64), arguments, 0, 0);                      \
        cudaError_t status = cudaDeviceSynchronize();                                                                  \
        if (status != cudaSuccess) fprintf(stderr, "%s\n", cudaGetErrorName(status));                                  \
    }
    LAUNCH(raw_warp, 1) LAUNCH(war_warp, 1) LAUNCH(waw_warp, 1) LAUNCH(part_of_warp, 1) LAUNCH(by_ballot, 1)
    LAUNCH(old_reduction, 1) LAUNCH(raw_block, 1) LAUNCH(war_block, 1) LAUNCH(waw_block, 1) LAUNCH(tree, 1)
    LAUNCH(bytes, 1) LAUNCH(plain_count, 1) LAUNCH(counted, 1) LAUNCH(called, 1) LAUNCH(global_raw_warp, 1)
    LAUNCH(global_raw_block, 1) LAUNCH(global_waw_block, 1) LAUNCH(grid_raw, 2) LAUNCH(grid_war, 2)
    LAUNCH(grid_waw, 2) LAUNCH(flag, 2) LAUNCH(variable, 2) LAUNCH(last_block, 2) LAUNCH(locked, 2) LAUNCH(swapped, 2)
    LAUNCH(equal, 2)
    cudaFree(out);
}

int main(int argc, char **argv) {
    const char *only = argc > 2 ? argv[2] : nullptr;
    if (argc > 1 && strcmp(argv[1], "right") == 0) run<true>(only);
    else run<false>(only);
}
