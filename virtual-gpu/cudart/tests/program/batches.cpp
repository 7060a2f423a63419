// Batches of copies and prefetches. CUDA 12's call for copies has one argument more.
#include "harness.h"

static cudaError_t copy_all(void **to, void **from, size_t *sizes, size_t count, cudaMemcpyAttributes *attributes,
                            size_t *first, size_t runs, size_t *failed, cudaStream_t stream) {
#if CUDART_VERSION < 13000
    return cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first, runs, failed, stream);
#else
    *failed = 1;
    return cudaMemcpyBatchAsync(to, (const void **)from, sizes, count, attributes, first, runs, stream);
#endif
}

SCENARIO(batches, "batches") {
    char *device = nullptr;
    int in[2] = {3, 4}, out[2] = {};
    OK(cudaMalloc((void **)&device, 64));
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    cudaMemcpyAttributes attributes[2] = {};
    attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
    attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    void *to[] = {device, device + 4, out, out + 1}, *from[] = {in, in + 1, device, device + 4};
    size_t sizes[] = {4, 4, 4, 4}, first[] = {0, 2}, failed = 0;
    OK(copy_all(to, from, sizes, 4, attributes, first, 2, &failed, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT(out[0] == 3 && out[1] == 4);
    EXPECT(copy_all(to, from, sizes, 4, attributes, first, 2, &failed, nullptr) == cudaErrorInvalidValue);
    first[0] = 1;
    EXPECT(copy_all(to, from, sizes, 4, attributes, first, 2, &failed, stream) == cudaErrorInvalidValue);
    first[0] = 0;
    sizes[1] = 100;  // Beyond the allocation.
    EXPECT(copy_all(to, from, sizes, 4, attributes, first, 2, &failed, stream) == cudaErrorInvalidValue);
    EXPECT(failed == 1);
    attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
    EXPECT(copy_all(to, from, sizes, 1, attributes, first, 1, &failed, stream) == cudaErrorInvalidValue);
}

#if CUDART_VERSION >= 13000
// Run with a capacity of 16 MiB.
SCENARIO(prefetches, "prefetches") {
    const size_t bytes = 2 << 20;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    char *managed = nullptr;
    OK(cudaMallocManaged((void **)&managed, 2 * bytes, cudaMemAttachGlobal));
    const size_t before = free_bytes();
    void *pointers[] = {managed, managed + bytes};
    size_t sizes[] = {bytes, bytes}, first[] = {0, 1};
    cudaMemLocation places[] = {{cudaMemLocationTypeDevice, 0}, {cudaMemLocationTypeHost, 0}};
    OK(cudaMemPrefetchBatchAsync(pointers, sizes, 2, places, first, 2, 0, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT(before - free_bytes() == bytes);
    EXPECT(cudaMemPrefetchBatchAsync(pointers, sizes, 1, places, first, 2, 0, stream) == cudaErrorInvalidValue);
    EXPECT(cudaMemPrefetchBatchAsync(pointers, sizes, 2, places, first, 2, 1, stream) == cudaErrorInvalidValue);
}
#endif
