// nvcc: a `%` before a name is part of the name also in `asm` with operands, and operands may stand without a comma.
#include <assembly.cuh>

static __device__ unsigned sum(unsigned a, unsigned b, unsigned *carry) {
    unsigned r;
    asm("{ .reg .u32 %r1, %t<2>; add.cc.u32 %r1, %2, %3; addc.u32 %t1, 0, 0; mov.u32 %0, %r1; mov.u32 %1, %t1; }"
        : "=r"(r) "=r"(*carry)
        : "r"(a), "r"(b));
    return r;
}

__global__ void compute(unsigned *out) {
    unsigned carry, t = threadIdx.x;
    out[2 * t] = clamped(sum(0xfffffff0u, t, &carry), 4);
    out[2 * t + 1] = carry;
}

int main() {
    unsigned *out, wrong = 0;
    cudaMallocManaged(&out, 64 * sizeof *out);
    compute<<<1, 32>>>(out);
    cudaDeviceSynchronize();
    for (unsigned t = 0; t < 32; t++) {
        unsigned long long wide = 0xfffffff0ull + t;
        wrong += out[2 * t] != ((unsigned)wide > 4 ? 4 : (unsigned)wide) || out[2 * t + 1] != wide >> 32;
    }
    printf(wrong ? "not so\n" : "ok\n");
}
