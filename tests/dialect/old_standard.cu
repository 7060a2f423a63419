// nvcc: sources of before C++11 compile by their own standard.
template <typename T> struct Scale {
    T by;
    __device__ T operator()(T x) const { return x * by; }
};
template <typename F, typename T> __global__ void apply(F f, T *x) { x[threadIdx.x] = f(x[threadIdx.x]); }

int main() {
    float *device, host[32];
    Scale<float> twice = {2};
    for (int i = 0; i < 32; i++) host[i] = i;
    cudaMalloc((void **)&device, sizeof host);
    cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
    apply<<<1, 32>>>(twice, device);
    cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < 32; i++) wrong += host[i] != 2 * i;
    printf(wrong ? "not so\n" : "ok\n");
}
