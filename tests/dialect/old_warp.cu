// Warp functions without a mask, as programs for GPUs before Volta have them: in whole warps, in a branch that part of a
// warp takes, in types of one and two words.
#include <cstdio>

__global__ void whole(const int *in, int *sum, double *largest, unsigned *odd, int *votes) {
    int t = threadIdx.x, lane = t & 31, value = in[t];
    int total = value;
    for (int d = 16; d > 0; d >>= 1) total += __shfl_down(total, d);
    double most = value;
    for (int d = 1; d < 32; d <<= 1) {
        double other = __shfl_xor(most, d);
        most = other > most ? other : most;
    }
    unsigned mask = __ballot(value & 1);
    int all = __all(value >= 0), any = __any(value == 40);
    float first = __shfl(float(value), 0, 8);
    long long before = __shfl_up(value * 10000000000ll, 1);
    if (lane == 0) sum[t / 32] = total, largest[t / 32] = most, odd[t / 32] = mask, votes[t / 32] = all * 2 + any;
    if (first != in[t & ~7] || (lane && before != in[t - 1] * 10000000000ll)) votes[t / 32] = -1;
}

__global__ void part(const int *in, unsigned *out) {
    int t = threadIdx.x;
    if (t % 32 < 20) {
        unsigned mask = __ballot(in[t] & 1);
        int neighbour = __shfl(in[t], (t + 1) % 20);
        if (neighbour != in[t / 32 * 32 + (t + 1) % 20]) mask = 0;
        if (t % 32 == 0) out[t / 32] = mask;
    } else if (__any(in[t] & 2) && t % 32 == 31) {
        out[2 + t / 32] = 1;
    }
}

int main() {
    const int n = 64;
    int *in, *sum, *votes;
    double *largest;
    unsigned *odd, *parts;
    cudaMallocManaged(&in, n * sizeof(int));
    cudaMallocManaged(&sum, 2 * sizeof(int));
    cudaMallocManaged(&votes, 2 * sizeof(int));
    cudaMallocManaged(&largest, 2 * sizeof(double));
    cudaMallocManaged(&odd, 2 * sizeof(unsigned));
    cudaMallocManaged(&parts, 4 * sizeof(unsigned));
    for (int i = 0; i < n; i++) in[i] = i * 7 % 41;
    whole<<<1, n>>>(in, sum, largest, odd, votes);
    part<<<1, n>>>(in, parts);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    bool ok = true;
    for (int warp = 0; warp < 2; warp++) {
        int total = 0, most = 0, any = 0;
        unsigned mask = 0, low = 0;
        for (int lane = 0; lane < 32; lane++) {
            int value = in[warp * 32 + lane];
            total += value;
            most = value > most ? value : most;
            any |= value == 40;
            mask |= unsigned(value & 1) << lane;
            if (lane < 20) low |= unsigned(value & 1) << lane;
        }
        ok = ok && sum[warp] == total && largest[warp] == most && odd[warp] == mask && votes[warp] == 2 + any;
        ok = ok && parts[warp] == low && parts[2 + warp] == 1;
    }
    puts(ok ? "ok" : "wrong");
}
