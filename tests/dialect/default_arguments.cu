// nvcc: a default argument that has the parameter's own name is the member of the class, also of the one around it.
template <const size_t N> class Number {
    static const size_t n = (N + 31) / 32;
    unsigned words[n];

    static __device__ void add(unsigned *sum, unsigned of, size_t n=n) {
        for (size_t j = 0; j < n; ++j) sum[j] += of + (unsigned)j;
    }

    struct Half {
        static __device__ void twice(unsigned *sum, size_t n = n) {
            add(sum, 5, n);
            add(sum, 7, n / 2);
        }
    };

public:
    __device__ unsigned run() {
        for (size_t j = 0; j < n; ++j) words[j] = 0;
        add(words, 1);
        add(words, 100, 1);
        Half::twice(words);
        unsigned all = 0;
        for (size_t j = 0; j < n; ++j) all = all * 10 + words[j];
        return all;
    }
};

__global__ void on_device(unsigned *all) { *all = Number<128>().run(); }

int main() {
    unsigned *all;
    cudaMallocManaged(&all, sizeof *all);
    on_device<<<1, 1>>>(all);
    cudaDeviceSynchronize();
    // Words 113, 16, 10, 12.
    printf(*all == 114712 ? "ok\n" : "not so: %u\n", *all);
}
