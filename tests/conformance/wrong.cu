// Programs that do one thing wrong: `wrong NAME`. Prints what CUDA says to the launch, to the next call and to the one
// after it, and goes on to its end.
#include <csignal>
#include <cstdio>
#include <cstring>

constexpr int COUNT = 1000;

__global__ void scale(const float *in, float *out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= count) out[i] = in[i] * 2;
}

__global__ void reverse(const float *in, float *out) {
    extern __shared__ float words[];
    words[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = words[blockDim.x - threadIdx.x];
}

__global__ void crooked(char *bytes) { *(double *)(bytes + 4) = 1; }

__global__ void wait_for(volatile int *flag) { while (!*flag) {} }

__global__ void part(float *out) {
    if (threadIdx.x % 2) __syncthreads();
    out[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x ^ 1] = 2;
}

static void say(const char *what, cudaError_t status) { printf("%s: %s\n", what, cudaGetErrorName(status)); }

int main(int argc, char **argv) {
    const char *wrong = argc > 1 ? argv[1] : "";
    if (strcmp(wrong, "endless-with-signals") == 0) {
        // As a program does that handles some signals and waits for the others.
        signal(SIGURG, [](int) {});
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
    }
    float *in, *out;
    cudaMalloc(&in, COUNT * sizeof(float));
    cudaMalloc(&out, COUNT * sizeof(float));
    cudaMemset(out, 0, COUNT * sizeof(float));
    // The last ten are left as they are.
    if (strcmp(wrong, "unwritten") == 0) cudaMemset(in, 0, (COUNT - 10) * sizeof(float));
    else cudaMemset(in, 0, COUNT * sizeof(float));
    if (strcmp(wrong, "nothing") == 0 || strcmp(wrong, "unwritten") == 0) scale<<<4, 256>>>(in, out, COUNT - 1);
    if (strcmp(wrong, "beyond") == 0) scale<<<4, 256>>>(in, out, COUNT);
    if (strcmp(wrong, "freed") == 0) {
        cudaFree(in);
        scale<<<4, 256>>>(in, out, COUNT - 1);
    }
    if (strcmp(wrong, "shared") == 0) reverse<<<1, 64, 64 * sizeof(float)>>>(in, out);
    if (strcmp(wrong, "crooked") == 0) crooked<<<1, 1>>>((char *)out);
    for (int i = 0; i < 2 && strcmp(wrong, "parted") == 0; i++) part<<<2, 64>>>(out);
    if (strncmp(wrong, "endless", 7) == 0) wait_for<<<1, 32>>>((int *)out);
    say("launch", cudaDeviceSynchronize());
    say("copy", cudaMemset(out, 0, sizeof(float)));
    say("last", cudaGetLastError());
    puts("the program goes on");
}
