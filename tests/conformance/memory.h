// Device variables, constants, managed memory, device-side allocation, printf, traps.
#include <cassert>

__constant__ float coefficients[8];
__device__ int counter = 5;
__device__ float table[4] = {1, 2, 4, 8};

__device__ __noinline__ float polynomial(float x) {
    float sum = 0;
    for (int i = 7; i >= 0; i--) sum = sum * x + coefficients[i];
    return sum;
}

__global__ void evaluate(const float *in, float *out) {
    int t = threadIdx.x;
    out[t] = polynomial(in[t]) + table[t % 4];
    atomicAdd(&counter, 1);
}

TEST(memory_variables_of_the_device) {
    float c[8] = {1, -2, 0.5f, 3, 0, 1, 0, 0.25f};
    std::vector<float> v(32);
    for (int i = 0; i < 32; i++) v[i] = i / 8.f - 2;
    CUDA(cudaMemcpyToSymbol(coefficients, c, sizeof c));
    Buffer<float> in(v), out(32);
    evaluate<<<1, 32>>>(in.device, out.device);
    int count;
    CUDA(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    float t2[4] = {10, 20, 30, 40};
    CUDA(cudaMemcpyToSymbol(table, t2, sizeof t2));
    auto value = [&](float x) {
        float sum = 0;
        for (int i = 7; i >= 0; i--) sum = sum * x + c[i];
        return sum;
    };
    bool first = all(out.fetch(), 32, [&](size_t t) { return value(v[t]) + float(1 << t % 4); });
    evaluate<<<1, 32>>>(in.device, out.device);
    return first & (count == 37) & all(out.fetch(), 32, [&](size_t t) { return value(v[t]) + t2[t % 4]; });
}

__global__ void double_it(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= 2;
}

TEST(memory_managed) {
    int *data, n = 10000;
    CUDA(cudaMallocManaged(&data, n * sizeof(int)));
    for (int i = 0; i < n; i++) data[i] = i;
    double_it<<<(n + 127) / 128, 128>>>(data, n);
    CUDA(cudaDeviceSynchronize());
    bool good = true;
    for (int i = 0; i < n; i++) good &= data[i] == 2 * i;
    for (int i = 0; i < n; i++) data[i] += 1;
    double_it<<<(n + 127) / 128, 128>>>(data, n);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) good &= data[i] == 4 * i + 2;
    CUDA(cudaFree(data));
    return good;
}

struct Limits {
    int low, high;
    float scale[5];
    int hits;
    static int passes;
};

__managed__ int Limits::passes = 3;
__device__ __managed__ Limits limits = {-4, 9, {1, 0.5f, 0.25f, 0, -1}, 20};
static __managed__ double sums[300];
__managed__ int *chosen;

__global__ void within_limits(const int *in, int n) {
    int t = threadIdx.x;
    double sum = 0;
    for (int i = t; i < n; i += blockDim.x)
        if (in[i] >= limits.low && in[i] <= limits.high) sum += in[i] * double(limits.scale[i % 5]);
    sums[t] = sum;
    if (t == 0) Limits::passes++, *chosen += 7;
}

// Host and kernels name the same memory; what the host wrote before a launch is there, and what the kernel wrote after it.
TEST(memory_managed_variables) {
    const int n = 2000;
    Buffer<int> in(n);
    for (int i = 0; i < n; i++) in.host[i] = int(noise(i) % 31) - 15;
    CUDA(cudaMemcpy(in.device, in.host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    bool good = Limits::passes == 3 && limits.high == 9 && limits.scale[4] == -1 && sums[299] == 0 && !chosen;
    for (int round = 0; round < 3; round++) {
        limits.low = round - 6;
        limits.scale[round] += 2;
        chosen = round == 1 ? &limits.hits : &Limits::passes;
        const int before[2] = {limits.hits, Limits::passes};
        within_limits<<<1, 300>>>(in.device, n);
        CUDA(cudaDeviceSynchronize());
        good &= limits.hits == before[0] + (round == 1 ? 7 : 0);
        good &= Limits::passes == before[1] + (round == 1 ? 1 : 8);
        for (int t = 0; t < 300; t++) {
            double sum = 0;
            for (int i = t; i < n; i += 300)
                if (in.host[i] >= limits.low && in.host[i] <= limits.high) sum += in.host[i] * double(limits.scale[i % 5]);
            good &= sums[t] == sum;
        }
    }
    void *address;
    int copied = 0;
    cudaPointerAttributes attributes;
    CUDA(cudaGetSymbolAddress(&address, limits));
    CUDA(cudaPointerGetAttributes(&attributes, &sums[7]));
    CUDA(cudaMemcpyFromSymbol(&copied, Limits::passes, sizeof copied));
    good &= address == &limits && attributes.type == cudaMemoryTypeManaged && copied == Limits::passes;
    return good & (cudaFree(&limits) == cudaErrorInvalidValue) & (cudaGetLastError() == cudaErrorInvalidValue);
}

struct Node {
    int value;
    Node *next;
};

__global__ void lists(int *out) {
    Node *head = nullptr;
    for (int i = 0; i < 5; i++) {
        Node *node = (Node *)malloc(sizeof(Node));
        node->value = threadIdx.x + i;
        node->next = head;
        head = node;
    }
    int sum = 0;
    while (head) {
        Node *next = head->next;
        sum = sum * 3 + head->value;
        free(head);
        head = next;
    }
    int *array = new int[3];
    array[2] = sum;
    out[threadIdx.x] = array[2];
    delete[] array;
}

TEST(memory_allocated_by_threads) {
    Buffer<int> out(64);
    lists<<<1, 64>>>(out.device);
    return all(out.fetch(), 64, [](size_t t) {
        int sum = 0;
        for (int i = 4; i >= 0; i--) sum = sum * 3 + int(t) + i;
        return sum;
    });
}

__global__ void clocks(long long *out) {
    long long a = clock64(), b;
    unsigned ns = 100;
    __nanosleep(ns);
    b = clock64();
    out[threadIdx.x] = b >= a;
}

TEST(memory_clock_goes_on) {
    Buffer<long long> out(32);
    clocks<<<1, 32>>>(out.device);
    return all(out.fetch(), 32, [](size_t) { return 1LL; });
}
