// What every file of the test program shares: checks, the kernels' host stubs, and the list of scenarios.
//
// Trap: a file adds its scenarios from a constructor, so a misspelt name is only found when a test asks for it.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// Where CUDA 12 has two forms of a call, CUDA 13's is this one.
#if CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaMemAdvise cudaMemAdvise_v2
#define cudaMemPrefetchAsync cudaMemPrefetchAsync_v2
#define cudaGraphGetEdges cudaGraphGetEdges_v2
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaGraphAddDependencies cudaGraphAddDependencies_v2
#define cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2
#endif

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)
#define OK(call) EXPECT((call) == cudaSuccess)

// Only their addresses count.
extern char scale_stub, trap_stub, wild_stub, divide_stub, deep_stub, orphan_stub, assert_stub;
// The host's shadows of device variables; the second variable holds the first's address.
extern char shadow_offset, shadow_where;

// values[i] = values[i] * factor + offset, for i < count
cudaError_t scale(int *values, int count, int factor, cudaStream_t stream = nullptr);
std::vector<int> counting(int count);
size_t free_bytes();

struct Scenario {
    const char *name;
    void (*run)();
    Scenario *next;
    Scenario(const char *name, void (*run)());
};
#define SCENARIO(identifier, name)                       \
    static void identifier();                            \
    static Scenario identifier##_scenario(name, identifier); \
    static void identifier()
