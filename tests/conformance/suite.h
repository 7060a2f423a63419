// What every file of the suite needs: a table of tests, device buffers, comparisons.
//
// Trap: expected values come from plain host code in the same file, never from a second kernel, so that a wrong
// translation cannot agree with itself. Nothing here is special to the virtual GPU: the suite also builds with nvcc.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

struct Test {
    const char *name;
    bool (*run)();
};

inline std::vector<Test> &tests() {
    static std::vector<Test> all;
    return all;
}

struct Registration {
    Registration(const char *name, bool (*run)()) { tests().push_back({name, run}); }
};

#define TEST(name)                                      \
    static bool name();                                 \
    static Registration registration_##name(#name, name); \
    static bool name()

inline void require(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        printf("%s: %s\n", what, cudaGetErrorString(status));
        exit(3);
    }
}
#define CUDA(call) require(call, #call)

// Of every byte that the tests read back, so that two ways to run a kernel can be compared bit for bit.
inline unsigned long long &digest() {
    static unsigned long long hash = 0xcbf29ce484222325;
    return hash;
}

// Device memory with a copy on the host.
template <class T> struct Buffer {
    std::vector<T> host;
    T *device = nullptr;
    explicit Buffer(size_t count) : host(count) { allocate(); }
    explicit Buffer(std::vector<T> values) : host(std::move(values)) { allocate(); }
    Buffer(const Buffer &) = delete;
    ~Buffer() { CUDA(cudaFree(device)); }
    void allocate() {
        CUDA(cudaMalloc(&device, host.size() * sizeof(T)));
        CUDA(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    const std::vector<T> &fetch() {
        CUDA(cudaGetLastError());
        CUDA(cudaMemcpy(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
        const unsigned char *bytes = (const unsigned char *)host.data();
        for (size_t i = 0; i < host.size() * sizeof(T); i++) digest() = (digest() ^ bytes[i]) * 0x100000001b3;
        return host;
    }
};

// Compares element by element with what `expected(i)` says, and prints the first elements that differ.
template <class T, class F> bool all(const std::vector<T> &got, size_t count, F expected) {
    size_t differ = 0;
    for (size_t i = 0; i < count; i++) {
        T want = expected(i);
        if (memcmp(&got[i], &want, sizeof(T)) != 0 && ++differ <= 24)
            printf("  element %zu: got %.9g, expected %.9g\n", i, double(got[i]), double(want));
    }
    if (differ > 24) printf("  %zu more elements\n", differ - 24);
    return differ == 0;
}

// Numbers that look random and are the same everywhere.
inline unsigned noise(unsigned i) {
    i = (i ^ 61) ^ (i >> 16);
    i *= 9;
    i ^= i >> 4;
    i *= 0x27d4eb2d;
    return i ^ (i >> 15);
}
