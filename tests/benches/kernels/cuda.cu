// The work of the bench in CUDA, and launches of a kernel that does nothing.
#include "common.h"
#include <string>

__global__ void nothing() {}

__global__ void map(const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    out[i] = ((((x * .5f + .25f) * x - .125f) * x + .0625f) * x - .03125f) * x + 1;
}

#define EACH(work) __global__ void work##_kernel(const float *in, float *out) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                              \
    out[i] = work(in[i]);                                                       \
}
EACH(to_int)
EACH(to_unsigned)
EACH(to_long)
EACH(functions)

__global__ void stencil(const float *in, float *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= SIDE - 1 || y >= SIDE - 1) return;
    int i = y * SIDE + x;
    out[i] = .5f * in[i] + .125f * (in[i - 1] + in[i + 1] + in[i - SIDE] + in[i + SIDE]);
}

__global__ void reduce(const float *in, float *out) {
    __shared__ float sums[BLOCK];
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * BLOCK + t];
    __syncthreads();
    for (int half = BLOCK / 2; half; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

__global__ void smooth(const float *in, float *out) {
    __shared__ float s[2][BLOCK + 2];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t, now = 0;
    s[0][t + 1] = in[i];
    if (t < 2) s[t][0] = s[t][BLOCK + 1] = 0;
    __syncthreads();
    for (int step = 0; step < STEPS; step++) {
        const float *a = s[now];
        s[1 - now][t + 1] = .25f * a[t] + .5f * a[t + 1] + .25f * a[t + 2];
        now = 1 - now;
        __syncthreads();
    }
    out[i] = s[now][t + 1];
}

static void must(cudaError_t status) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s\n", cudaGetErrorString(status));
    exit(1);
}

static std::vector<float> fetched(const float *device, int count) {
    std::vector<float> host(count);
    must(cudaMemcpy(host.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
    return host;
}

// With a word behind its name the program has managed memory too: kernels then mark what they touch.
int main(int argc, char **) {
    float *in, *out, *managed;
    if (argc > 1) must(cudaMallocManaged(&managed, 1));
    must(cudaMalloc(&in, COUNT * sizeof(float)));
    must(cudaMalloc(&out, COUNT * sizeof(float)));
    must(cudaMemcpy(in, numbers(COUNT).data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
    auto done = [] { must(cudaDeviceSynchronize()); };
    timed("map", [&] { map<<<COUNT / BLOCK, BLOCK>>>(in, out), done(); });
    expect("map", fetched(out, COUNT), sum_of_map());
    must(cudaMemset(out, 0, COUNT * sizeof(float)));
    timed("stencil", [&] { stencil<<<dim3(SIDE / 32, SIDE / 8), dim3(32, 8)>>>(in, out), done(); });
    expect("stencil", fetched(out, SIDE * SIDE), sum_of_stencil());
    timed("reduce", [&] { reduce<<<SUMS, BLOCK>>>(in, out), done(); });
    expect("reduce", fetched(out, SUMS), sum_of_reduce());
    timed("smooth", [&] { smooth<<<COUNT / BLOCK, BLOCK>>>(in, out), done(); });
    expect("smooth", fetched(out, COUNT), sum_of_smooth());
#define RUN(work)                                                                    \
    timed(#work, [&] { work##_kernel<<<COUNT / BLOCK, BLOCK>>>(in, out), done(); }); \
    expect(#work, fetched(out, COUNT), sum_of(work));
    RUN(to_int)
    RUN(to_unsigned)
    RUN(to_long)
    RUN(functions)
    int live = 2;
    for (int allocations : {2, 10, 1000, 10000}) {
        float *more;
        for (; live < allocations; live++) must(cudaMalloc(&more, 4096));
        timed(("launch-" + std::to_string(allocations)).c_str(), [&] {
            for (int i = 0; i < 10000; i++) nothing<<<1, 32>>>();
            done();
        });
    }
}
