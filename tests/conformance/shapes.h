// Blocks and grids of one to three dimensions, large grids, shared memory, local arrays, parameters by value.

__global__ void index_3d(unsigned *out) {
    extern __shared__ unsigned dynamic[];
    unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned n = blockDim.x * blockDim.y * blockDim.z;
    dynamic[t] = 10000 * b + t;
    __syncthreads();
    out[b * n + t] = dynamic[n - 1 - t];
}

TEST(shapes_of_three_dimensions) {
    bool good = true;
    for (dim3 block : {dim3(1, 1, 1), dim3(7, 5, 3), dim3(16, 16, 4), dim3(1024, 1, 1), dim3(2, 8, 64)}) {
        unsigned n = block.x * block.y * block.z;
        Buffer<unsigned> out(24 * n);
        index_3d<<<dim3(4, 3, 2), block, n * sizeof(unsigned)>>>(out.device);
        good &= all(out.fetch(), 24 * n, [&](size_t i) { return unsigned(10000 * (i / n) + n - 1 - i % n); });
    }
    return good;
}

__global__ void mark(unsigned char *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i % 251;
}

TEST(shapes_large_grid) {
    int n = 3000001;
    Buffer<unsigned char> out(n);
    mark<<<(n + 31) / 32, 32>>>(out.device, n);
    return all(out.fetch(), n, [](size_t i) { return (unsigned char)(i % 251); });
}

struct Matrix {
    float m[3][3];
    int shift;
};

__global__ void by_value(Matrix a, const float *in, float *out) {
    float v[3], w[3];
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) v[i] = in[3 * t + i];
    for (int i = 0; i < 3; i++) {
        w[i] = 0;
        for (int j = 0; j < 3; j++) w[i] += a.m[i][j] * v[j];
    }
    for (int i = 0; i < 3; i++) out[3 * t + i] = w[(i + a.shift + t) % 3];
}

TEST(shapes_struct_by_value_and_local_arrays) {
    Matrix a = {{{1, 2, 3}, {4, 5, 6}, {7, 8, 10}}, 1};
    std::vector<float> v(3 * 64);
    for (size_t i = 0; i < v.size(); i++) v[i] = noise(i) % 32;
    Buffer<float> in(v), out(3 * 64);
    by_value<<<1, 64>>>(a, in.device, out.device);
    return all(out.fetch(), 3 * 64, [&](size_t i) {
        int t = i / 3, row = (i % 3 + 1 + t) % 3;
        return a.m[row][0] * v[3 * t] + a.m[row][1] * v[3 * t + 1] + a.m[row][2] * v[3 * t + 2];
    });
}

TEST(shapes_beyond_the_limits_are_refused) {
    const cudaError_t refused = CUDART_VERSION < 13000 ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;
    Buffer<unsigned> out(1);
    index_3d<<<1, 1025>>>(out.device);
    bool threads = cudaGetLastError() == refused;
    index_3d<<<1, dim3(1, 1, 65)>>>(out.device);
    bool depth = cudaGetLastError() == refused;
    index_3d<<<0, 32>>>(out.device);
    bool empty = cudaGetLastError() == refused;
    return threads & depth & empty & (cudaDeviceSynchronize() == cudaSuccess);
}
