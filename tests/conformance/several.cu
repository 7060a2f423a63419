// A program of several files whose device code is linked (`-fgpu-rdc`): variables, functions and kernels of the other
// file, `several_other.cu`.
#include "suite.h"

extern __managed__ int counter;
extern __managed__ float table[256];
extern __device__ int plain[4];
extern __constant__ int offset;
__managed__ int own = 7;
// Of this name each file has one.
static __managed__ long long hidden = 40;
static __device__ int local = 5;

__device__ float of_the_other_file(float value);
void add_on_host(int n);
void add_on_device(int n);
void set_offset(int value);
long long hidden_of_the_other_file();
float *table_of_the_other_file();
extern __global__ void kernel_of_the_other_file(int *out, int factor);
template <class T> __global__ void template_of_the_other_file(T *out, T value);
extern template __global__ void template_of_the_other_file<int>(int *, int);

__global__ void fill(int *out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    table[t] = of_the_other_file(table[t]) + t + offset;
    atomicAdd(&counter, 1);
    if (t < 4) out[t] = plain[t] + local;
    if (t == 0) own += 1, hidden += 1;
}

TEST(several_files_start_with_their_values) {
    return counter == 100 && table[0] == 1 && table[2] == 3 && table[3] == 0 && own == 7 && hidden == 40 &&
           hidden_of_the_other_file() == 4000 && table == table_of_the_other_file();
}

TEST(several_files_share_variables_and_functions) {
    counter += 10;
    add_on_host(5);
    set_offset(1000);
    int here = 6;
    CUDA(cudaMemcpyToSymbol(local, &here, sizeof here));
    Buffer<int> out(4);
    fill<<<4, 64>>>(out.device);
    CUDA(cudaDeviceSynchronize());
    add_on_device(2000);
    bool sums = counter == 100 + 10 + 5 + 256 + 2000 && own == 8 && hidden == 41 && hidden_of_the_other_file() == 4001;
    for (int t = 0; t < 256; t++) {
        float before = t < 3 ? t + 1 : 0;
        if (table[t] != 2 * before + t + 1000) return printf("  element %d: got %g\n", t, table[t]), false;
    }
    return sums & all(out.fetch(), 4, [](size_t t) { return int(10 * t) + 6; });
}

TEST(several_files_ask_for_attributes_of_a_variable) {
    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, &counter));
    size_t bytes = 0;
    CUDA(cudaGetSymbolSize(&bytes, table));
    return attributes.type == cudaMemoryTypeManaged && bytes == sizeof table;
}

TEST(several_files_launch_kernels_of_each_other) {
    Buffer<int> out(65);
    kernel_of_the_other_file<<<2, 32>>>(out.device, 3);
    template_of_the_other_file<int><<<1, 1>>>(out.device + 64, 5);
    cudaFuncAttributes attributes;
    CUDA(cudaFuncGetAttributes(&attributes, kernel_of_the_other_file));
    int *device = out.device, factor = -1;
    void *arguments[] = {&device, &factor};
    bool first = all(out.fetch(), 65, [](size_t t) { return t == 64 ? 5 : int(3 * t); });
    CUDA(cudaLaunchKernel((const void *)kernel_of_the_other_file, 2, 32, arguments, 0, 0));
    return first & all(out.fetch(), 65, [](size_t t) { return t == 64 ? 5 : -int(t); });
}

#include "run.h"
