// Calls as only CUDA 12 has them; nothing for CUDA 13. Trap: the shared header maps some of these names to newer forms,
// so they are called here before it is read.
#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13000
static cudaError_t advise(void *pointer, size_t bytes, int device) {
    return cudaMemAdvise(pointer, bytes, cudaMemAdviseSetPreferredLocation, device);
}
static cudaError_t prefetch(void *pointer, size_t bytes, int device) {
    return cudaMemPrefetchAsync(pointer, bytes, device, nullptr);
}
static cudaError_t depend(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to) {
    return cudaGraphAddDependencies(graph, from, to, 1);
}
static cudaError_t edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
    return cudaGraphGetEdges(graph, from, to, count);
}
static cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus *status, cudaGraph_t *graph,
                                size_t *count) {
    return cudaStreamGetCaptureInfo(stream, status, nullptr, graph, nullptr, count);
}

#include "harness.h"

#include <dlfcn.h>

#pragma clang diagnostic ignored "-Wdeprecated-declarations"

// Run with a capacity of 16 MiB.
SCENARIO(older_forms, "older-forms") {
    const size_t bytes = 4 << 20;
    void *managed = nullptr;
    OK(cudaFree(nullptr));
    const size_t free_at_first = free_bytes();
    OK(cudaMallocManaged(&managed, bytes, cudaMemAttachGlobal));
    OK(advise(managed, bytes, 0));
    OK(prefetch(managed, bytes, 0));
    OK(cudaDeviceSynchronize());
    EXPECT(free_at_first - free_bytes() == bytes);
    OK(prefetch(managed, bytes, cudaCpuDeviceId));
    OK(cudaThreadSynchronize());
    EXPECT(free_bytes() == free_at_first && prefetch(managed, bytes, 1) == cudaErrorInvalidDevice);

    cudaDeviceProp properties;
    OK(cudaGetDeviceProperties(&properties, 0));
    EXPECT(properties.major == 7 && properties.multiProcessorCount == 80 && properties.concurrentManagedAccess == 1);
    EXPECT(properties.deviceOverlap == 1 && properties.memoryPoolsSupported == 1);
    EXPECT(properties.maxBlocksPerMultiProcessor == 32 && properties.maxThreadsPerMultiProcessor == 2048);
    struct { cudaPointerAttributes attributes; unsigned char after[8]; } guarded;
    std::memset(&guarded, 0x5a, sizeof guarded);
    OK(cudaPointerGetAttributes(&guarded.attributes, managed));
    EXPECT(guarded.attributes.type == cudaMemoryTypeManaged && guarded.after[0] == 0x5a);

    cudaGraph_t graph, captured;
    cudaGraphNode_t nodes[2], from[2], to[2];
    cudaStream_t stream;
    cudaStreamCaptureStatus status;
    size_t count = 2;
    OK(cudaGraphCreate(&graph, 0));
    for (auto &node : nodes) OK(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
    OK(depend(graph, &nodes[0], &nodes[1]));
    OK(edges(graph, from, to, &count));
    EXPECT(count == 1 && from[0] == nodes[0] && to[0] == nodes[1]);
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(capture_info(stream, &status, &captured, &count));
    EXPECT(status == cudaStreamCaptureStatusActive && count == 0);
    OK(cudaStreamEndCapture(stream, &graph));
    EXPECT(graph == captured);
    size_t stack = 0;
    OK(cudaThreadSetLimit(cudaLimitStackSize, 4096));
    OK(cudaThreadGetLimit(&stack, cudaLimitStackSize));
    EXPECT(stack == 4096);
    cudaFuncCache preferred;
    OK(cudaThreadSetCacheConfig(cudaFuncCachePreferL1));
    OK(cudaThreadGetCacheConfig(&preferred));
    double number = 1.5;
    OK(cudaSetDoubleForDevice(&number));
    OK(cudaSetDoubleForHost(&number));
    EXPECT(number == 1.5);
    auto oldest = (cudaError_t(*)(cudaStream_t, cudaStreamCaptureStatus *, unsigned long long *))dlsym(
        RTLD_DEFAULT, "cudaStreamGetCaptureInfo");
    OK(oldest(stream, &status, nullptr));
    EXPECT(status == cudaStreamCaptureStatusNone);
    int version = 0;
    OK(cudaDriverGetVersion(&version));
    EXPECT(version == 12090);
}
#endif
