// The other file of `several.cu`.
__managed__ int counter = 100;
__managed__ float table[256] = {1, 2, 3};
__device__ int plain[4] = {0, 10, 20, 30};
__constant__ int offset;
static __managed__ long long hidden = 4000;

__device__ float of_the_other_file(float value) { return 2 * value; }

__global__ void add(int n) { counter += n, hidden += 1; }

void add_on_host(int n) { counter += n; }
void add_on_device(int n) {
    add<<<1, 1>>>(n);
    cudaDeviceSynchronize();
}
void set_offset(int value) { cudaMemcpyToSymbol(offset, &value, sizeof value); }
long long hidden_of_the_other_file() { return hidden; }
float *table_of_the_other_file() { return table; }

__global__ void kernel_of_the_other_file(int *out, int factor) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    out[t] = factor * t;
}
template <class T> __global__ void template_of_the_other_file(T *out, T value) { out[threadIdx.x] = value; }
template __global__ void template_of_the_other_file<int>(int *, int);
