// nvcc: loads and stores with hints to the caches, of scalars and vectors.
template <typename T> __device__ void copy(T *to, const T *from) {
    __stcs(to, __ldcs(from));
    __stcg(to + 1, __ldcg(from + 1));
    __stwb(to + 2, __ldca(from + 2));
    __stwt(to + 3, __ldcv(from + 3));
    to[4] = __ldlu(from + 4);
    to[5] = __ldg(from + 5);
}
struct Rows {
    char bytes[6];
    short2 shorts[6];
    int ints[6];
    unsigned long long longs[6];
    float4 floats[6];
    double2 doubles[6];
};
__global__ void copies(Rows *to, const Rows *from) {
    copy(to->bytes, from->bytes);
    copy(to->shorts, from->shorts);
    copy(to->ints, from->ints);
    copy(to->longs, from->longs);
    copy(to->floats, from->floats);
    copy(to->doubles, from->doubles);
    __stcs(to->ints + 5, __ldg(from->ints + 5) + 0u);
}

int main() {
    Rows *to, *from;
    cudaMallocManaged(&to, sizeof *to);
    cudaMallocManaged(&from, sizeof *from);
    memset(to, 0, sizeof *to);
    memset(from, 0, sizeof *from);
    for (size_t i = 0; i < sizeof from->bytes; i++) from->bytes[i] = i + 1;
    for (size_t i = offsetof(Rows, shorts); i < sizeof from->shorts; i++) ((char *)from)[i] = i;
    for (int i = 0; i < 6; i++) from->ints[i] = i - 3, from->longs[i] = ~0ull / (i + 1), from->floats[i].w = i / 2.f, from->doubles[i].x = -i;
    copies<<<1, 1>>>(to, from);
    cudaDeviceSynchronize();
    printf(memcmp(to, from, sizeof *to) == 0 ? "ok\n" : "not so\n");
}
