// nvcc: functions of the device that clang declares only, and braces that narrow a number, which is a warning there.
__global__ void numbers(double *out, int n) {
    int3 at = {threadIdx.x, blockIdx.x, blockDim.x};
    float2 pair = {n, 1};
    out[0] = nan("");
    out[1] = nanf("7");
#if CUDART_VERSION >= 13000
    out[2] = __tanhf(1);
#else
    out[2] = tanhf(1);
#endif
    out[3] = at.x + at.z + pair.x;
}

int main() {
    int n = 64;
    dim3 grid = {n / 64, 1, 1};
    double *out;
    cudaMallocManaged(&out, 4 * sizeof(double));
    numbers<<<grid, 1>>>(out, n);
    cudaDeviceSynchronize();
    bool is_right = out[0] != out[0] && out[1] != out[1] && fabs(out[2] - tanh(1.0)) < 1e-3 && out[3] == 65;
    printf(is_right ? "ok\n" : "not so: %f %f %f %f\n", out[0], out[1], out[2], out[3]);
}
