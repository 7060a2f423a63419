// Of CUDA 12 and older: a call and a field that CUDA 13 took away.
__global__ void nothing() {}
int main() {
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    nothing<<<1, 1>>>();
    bool right = cudaThreadSynchronize() == cudaSuccess && properties.clockRate > 0;
    printf(right ? "ok\n" : "not so: %d\n", properties.clockRate);
}
