// nvcc: while it compiles for the device it does not look into host functions, where a macro may stand for device code.
#ifdef __CUDA_ARCH__
#define GIVE_UP() (__threadfence(), __trap())
#define WAIT() (__syncthreads(), __syncwarp(), __nanosleep(1))
#else
#define GIVE_UP() exit(2)
#define WAIT() (void)0
#endif

static int doubled(int value) {
    if (value < 0) GIVE_UP();
    WAIT();
    return 2 * value;
}

__global__ void tripled(int *value) {
    __syncthreads();
    *value *= 3;
}

int main() {
    int *value;
    cudaMallocManaged(&value, sizeof *value);
    *value = doubled(7);
    tripled<<<1, 1>>>(value);
    printf(cudaDeviceSynchronize() == cudaSuccess && *value == 42 ? "ok\n" : "not so\n");
}
