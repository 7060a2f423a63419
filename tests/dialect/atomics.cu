// nvcc: its atomic built-ins, on one word by many threads.
constexpr int THREADS = 256;
struct Words {
    int sum, least, most, bits, taken, last;
    unsigned long long large;
    float real;
};
__global__ void all(Words *words, int *wrong) {
    int thread = threadIdx.x;
    __nv_atomic_add(&words->sum, 1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    int before = __nv_atomic_fetch_add(&words->sum, 2, __NV_ATOMIC_ACQ_REL);
    if (before < 1 || before > 3 * THREADS) atomicAdd(wrong, 1);
    __nv_atomic_fetch_min(&words->least, -thread, __NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_SYSTEM);
    __nv_atomic_max(&words->most, thread, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK);
    __nv_atomic_fetch_or(&words->bits, 1 << thread % 8, __NV_ATOMIC_RELAXED);
    __nv_atomic_fetch_add(&words->large, 1, __NV_ATOMIC_RELEASE);
    __nv_atomic_fetch_add(&words->real, 0.5f, __NV_ATOMIC_RELAXED);
    int expected = 0;
    if (__nv_atomic_compare_exchange_n(&words->taken, &expected, thread + 1, false, __NV_ATOMIC_ACQUIRE, __NV_ATOMIC_RELAXED))
        __nv_atomic_store_n(&words->last, thread + 1, __NV_ATOMIC_RELEASE);
    else if (expected == 0) atomicAdd(wrong, 1);
    __syncthreads();
    if (__nv_atomic_load_n(&words->last, __NV_ATOMIC_ACQUIRE) != __nv_atomic_load_n(&words->taken, __NV_ATOMIC_RELAXED)) *wrong = 99;
    __syncthreads();
    int mine = 7, old;
    if (thread == 0) {
        __nv_atomic_exchange(&words->last, &mine, &old, __NV_ATOMIC_ACQ_REL);
        __nv_atomic_load(&words->last, &mine, __NV_ATOMIC_RELAXED);
        if (mine != 7 || old != words->taken) *wrong = 98;
        __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_DEVICE);
    }
}

int main() {
    Words *words;
    int *wrong;
    cudaMallocManaged(&words, sizeof *words);
    cudaMallocManaged(&wrong, sizeof *wrong);
    memset(words, 0, sizeof *words);
    *wrong = 0;
    all<<<1, THREADS>>>(words, wrong);
    cudaDeviceSynchronize();
    bool right = words->sum == 3 * THREADS && words->least == 1 - THREADS && words->most == THREADS - 1 && words->bits == 255 &&
                 words->large == THREADS && words->real == THREADS / 2 && words->last == 7 && *wrong == 0;
    printf(right ? "ok\n" : "not so: %d\n", *wrong);
}
