// nvcc: min and max of all mixed types, for the host and the device.
__host__ __device__ double of_all_types() {
    int i = -3;
    unsigned u = 5;
    long l = 7;
    unsigned long ul = 9;
    long long ll = -11;
    unsigned long long ull = 13;
    float f = 1.5f;
    double d = 2.5;
    double sum = 0;
    sum += min(i, 2) + max(i, 2) + min(u, 7u) + max(4u, u) + max(min(u, 3), 2u) + min(max(1, u), 9);
    sum += min(l, 8l) + max(l, ul) + min(ul, l) + max(ul, ul) + min(ll, ll) + max(2ull, 3ll) + min(ull, 4ll);
    sum += min(f, d) + max(d, f) + min(f, 3.f) + max(d, d) + min(l, l) + max(ull, ull);
    return sum;
}
__global__ void on_device(double *sum) { *sum = of_all_types(); }

int main() {
    double *sum;
    cudaMallocManaged(&sum, sizeof *sum);
    on_device<<<1, 1>>>(sum);
    cudaDeviceSynchronize();
    bool right = *sum == of_all_types() && max(-1, 2u) == 4294967295u && min(-1, 3) == -1;
    printf(right ? "ok\n" : "not so: %f and %f\n", *sum, of_all_types());
}
