// libcu++'s barriers, pipelines and atomics in shared memory, whose constructors nvcc never runs; without -arch.
#include <cstdio>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

using barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void reversed(const int *in, int *out) {
    __shared__ int cells[128];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier bar[2]; // one for each half
    static __shared__ cuda::atomic<int, cuda::thread_scope_block> seen;
    int t = threadIdx.x, half = t / 64;
    if (t < 2) init(&bar[t], 64);
    if (t == 0) new (&seen) cuda::atomic<int, cuda::thread_scope_block>(0);
    __syncthreads();
    cells[t] = in[t];
    barrier::arrival_token token = bar[half].arrive();
    seen.fetch_add(1);
    bar[half].wait(std::move(token));
    out[t] = cells[64 * half + 63 - t % 64];
    __syncthreads();
    if (t == 0) out[128] = seen.load();
}

__global__ void doubled(const int *in, int *out) {
    __shared__ int stage[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope::thread_scope_block, 2> state;
    struct group {
        __device__ static unsigned size() { return 64; }
        __device__ static unsigned thread_rank() { return threadIdx.x; }
        __device__ static void sync() { __syncthreads(); }
    } block;
    auto pipe = cuda::make_pipeline(block, &state);
    for (int turn = 0; turn < 2; turn++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&stage[turn][threadIdx.x], in + 64 * turn + threadIdx.x, sizeof(int), pipe);
        pipe.producer_commit();
    }
    for (int turn = 0; turn < 2; turn++) {
        pipe.consumer_wait();
        out[64 * turn + threadIdx.x] = 2 * stage[turn][threadIdx.x];
        pipe.consumer_release();
    }
}

int main() {
    int *in, *out, host[129];
    cudaMalloc(&in, sizeof host);
    cudaMalloc(&out, sizeof host);
    for (int i = 0; i < 128; i++) host[i] = i;
    cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
    reversed<<<1, 128>>>(in, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 128; i++)
        if (host[i] != i / 64 * 64 + 63 - i % 64) return printf("reversed %d: %d\n", i, host[i]), 1;
    if (host[128] != 128) return printf("seen %d\n", host[128]), 1;
    doubled<<<1, 64>>>(in, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 128; i++)
        if (host[i] != 2 * i) return printf("doubled %d: %d\n", i, host[i]), 1;
    printf("ok\n");
}
