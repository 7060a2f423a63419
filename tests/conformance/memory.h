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
