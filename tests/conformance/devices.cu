// A program on two devices, each of which has its own copy of every variable, with the initial values that point to
// other variables and functions; managed variables are the same for both. Device code of `devices_other.cu` is linked.
#include <cstdio>
#include <cuda_runtime.h>

extern __device__ int elsewhere;
extern __constant__ int setting;
__device__ int count_elsewhere();

__device__ int base = 10, other[3] = {1, 2, 3};
__device__ int *pointers[2] = {&base, other + 1};
__device__ int twice(int number) { return 2 * number; }
typedef int (*Function)(int);
__device__ Function function = twice;
const size_t LARGE = 100 << 20;
__device__ char large[LARGE];  // Zeros take no space in the program.
__managed__ int shared_by_all = 7;
struct alignas(64) Wide { int number; };
__device__ Wide wide = {3};

__device__ int count_calls() {
    static __device__ int calls = 40;
    return ++calls;
}

const int RESULTS = 10;

__global__ void use_all(int *out, int add) {
    *pointers[0] += add;
    *pointers[1] += add;
    large[LARGE - 1] += add;
    wide.number += add;
    elsewhere += add;
    const int found[RESULTS] = {base, other[1], function(base), large[LARGE - 1], count_calls(), shared_by_all++,
                                wide.number, elsewhere, setting, count_elsewhere()};
    for (int i = 0; i < RESULTS; i++) out[i] = found[i] + ((size_t)&wide % 64 ? 1000 : 0);
}

__global__ void add_through(int *variable, int add) { *variable += add; }

static int tests = 0, failed = 0;

static void test(const char *name, bool passed) {
    tests++;
    failed += !passed;
    printf("%s: %s\n", name, passed ? "ok" : "FAILED");
}

int main() {
    int *out, all = 7;
    cudaMallocManaged(&out, RESULTS * sizeof *out);
    for (int round = 0; round < 3; round++) {
        for (int device = 0; device < 2; device++) {
            cudaSetDevice(device);
            const int constant = 50 + device, sum = (round + 1) * (device + 1);
            cudaMemcpyToSymbol(setting, &constant, sizeof constant);
            use_all<<<1, 1>>>(out, device + 1);
            cudaDeviceSynchronize();
            const int wanted[RESULTS] = {10 + sum, 2 + sum,  20 + 2 * sum, sum,       41 + round,
                                         all++,    3 + sum,  100 + sum,    constant,  1 + round};
            bool same = true;
            for (int i = 0; i < RESULTS; i++) same = same && out[i] == wanted[i];
            test("kernels use their device's variables", same);
        }
    }
    void *addresses[2], *symbols[2];
    for (int device = 0; device < 2; device++) {
        cudaSetDevice(device);
        cudaGetSymbolAddress(&addresses[device], large);
        cudaGetSymbolAddress(&symbols[device], base);
        add_through<<<1, 1>>>((int *)symbols[device], 1);
    }
    test("an address is the current device's", addresses[0] != addresses[1]);
    cudaMemset(addresses[0], 9, LARGE);
    cudaDeviceSynchronize();  // The fill is in the stream of device 1.
    char last[2];
    int bases[2];
    for (int device = 0; device < 2; device++) {
        cudaSetDevice(device);
        cudaMemcpyFromSymbol(&last[device], large, 1, LARGE - 1);
        cudaMemcpyFromSymbol(&bases[device], base, sizeof(int));
    }
    test("a fill through an address changes one device's", last[0] == 9 && last[1] == 6);
    test("a kernel changes its device's through an address", bases[0] == 14 && bases[1] == 17);
    test("no call failed", cudaGetLastError() == cudaSuccess);
    printf("%d tests, %d failed\n", tests, failed);
    return failed != 0;
}
