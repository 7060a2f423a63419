// Virtual memory management: the driver's calls, found through the runtime. The structures are those of CUDA's own header,
// so their layouts are checked here too.
#include "harness.h"

#include <cuda.h>

template <typename F> static F *driver_call(const char *name) {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
    EXPECT(found == cudaDriverEntryPointSuccess && function != nullptr);
    return (F *)function;
}
#define CALL(name) static auto *name##_call = driver_call<decltype(name)>(#name)
#define DRIVER(call) EXPECT((call) == CUDA_SUCCESS)

SCENARIO(virtual_memory, "virtual-memory") {
    CALL(cuMemAddressFree);
    CALL(cuMemAddressReserve);
    CALL(cuMemCreate);
    CALL(cuMemGetAllocationGranularity);
    CALL(cuMemMap);
    CALL(cuMemRelease);
    CALL(cuMemSetAccess);
    CALL(cuMemUnmap);
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t piece = 0;
    DRIVER(cuMemGetAllocationGranularity_call(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT(piece == 2 << 20);
    OK(cudaFree(nullptr));
    const size_t before = free_bytes();

    CUdeviceptr start = 0;
    CUmemGenericAllocationHandle memory = 0, huge = 0;
    EXPECT(cuMemAddressReserve_call(&start, piece + 1, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemAddressReserve_call(&start, 2 * piece, 0, 0, 0));
    EXPECT(free_bytes() == before);  // Addresses cost nothing.
    EXPECT(cuMemCreate_call(&huge, 1ull << 40, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cudaGetLastError());  // The driver's errors are not the runtime's.
    DRIVER(cuMemCreate_call(&memory, piece, &prop, 0));
    EXPECT(free_bytes() == before - piece);
    EXPECT(cuMemMap_call(start + 1, piece, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemMap_call(start + 2 * piece, piece, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemMap_call(start, 2 * piece, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemMap_call(start, piece, 0, memory, 0));
    EXPECT(cuMemMap_call(start, piece, 0, memory, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemSetAccess_call(start, 2 * piece, &access, 1) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemSetAccess_call(start, piece, &access, 1));
    EXPECT(cudaFree((void *)start) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);

    std::vector<int> values = counting(1000), back(1000);
    const size_t bytes = values.size() * sizeof(int);
    OK(cudaMemcpy((void *)start, values.data(), bytes, cudaMemcpyHostToDevice));
    OK(scale((int *)start, 1000, 3));
    OK(cudaMemcpy(back.data(), (void *)start, bytes, cudaMemcpyDeviceToHost));
    EXPECT(back[7] == values[7] * 3 + 5);
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, (void *)start));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);

    // The contents belong to the memory, which lives while it is mapped anywhere.
    DRIVER(cuMemMap_call(start + piece, piece, 0, memory, 0));
    DRIVER(cuMemSetAccess_call(start + piece, piece, &access, 1));
    DRIVER(cuMemRelease_call(memory));
    EXPECT(cuMemRelease_call(memory) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemAddressFree_call(start, 2 * piece) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemUnmap_call(start, piece));
    EXPECT(cuMemUnmap_call(start, piece) == CUDA_ERROR_INVALID_VALUE && free_bytes() == before - piece);
    OK(cudaMemcpy(values.data(), (void *)(start + piece), bytes, cudaMemcpyDeviceToHost));
    EXPECT(values == back);
    DRIVER(cuMemUnmap_call(start + piece, piece));
    EXPECT(free_bytes() == before);

    // New memory at the old addresses is empty; a kernel at addresses without memory faults.
    DRIVER(cuMemCreate_call(&memory, piece, &prop, 0));
    DRIVER(cuMemMap_call(start, piece, 0, memory, 0));
    DRIVER(cuMemSetAccess_call(start, piece, &access, 1));
    OK(cudaMemcpy(back.data(), (void *)start, bytes, cudaMemcpyDeviceToHost));
    EXPECT(back == std::vector<int>(1000, 0));
    OK(cudaDeviceReset());
    EXPECT(cuMemUnmap_call(start, piece) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemAddressFree_call(start, 2 * piece));
    DRIVER(cuMemAddressReserve_call(&start, piece, 0, 0, 0));
    OK(scale((int *)start, 1000, 3));
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}

// Run with devices that have none.
SCENARIO(no_virtual_memory, "no-virtual-memory") {
    CALL(cuMemGetAllocationGranularity);
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t piece = 0;
    EXPECT(cuMemGetAllocationGranularity_call(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_ERROR_NOT_SUPPORTED);
}

#if CUDART_VERSION >= 13000
SCENARIO(discard, "discard") {
    OK(cudaFree(nullptr));
    const size_t bytes = 8 << 20, before = free_bytes();
    std::vector<int> out(1000);
    int *values = nullptr;
    OK(cudaMallocManaged((void **)&values, bytes, cudaMemAttachGlobal));
    OK(scale(values, bytes / sizeof(int), 2));
    OK(cudaDeviceSynchronize());
    EXPECT(free_bytes() == before - bytes);
    cudaMemLocation host = {cudaMemLocationTypeHost, 0}, device = {cudaMemLocationTypeDevice, 0};
    void *pointer = values;
    size_t size = bytes, part = 4096, first = 0, one = 1;
    EXPECT(cudaMemDiscardBatchAsync(&pointer, &size, 1, 1, nullptr) == cudaErrorInvalidValue);
    EXPECT(cudaMemDiscardAndPrefetchBatchAsync(&pointer, &size, 1, &host, &one, 1, 0, nullptr) == cudaErrorInvalidValue);
    EXPECT(cudaMemDiscardAndPrefetchBatchAsync(&pointer, &size, 1, &host, &first, 2, 0, nullptr) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    OK(cudaMemDiscardBatchAsync(&pointer, &part, 1, 0, nullptr));
    EXPECT(free_bytes() == before - bytes && values[7] == 5);  // A part stays, as CUDA allows.
    OK(cudaMemDiscardAndPrefetchBatchAsync(&pointer, &size, 1, &host, &first, 1, 0, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(values[7] == 0 && free_bytes() == before);
    OK(cudaMemDiscardAndPrefetchBatchAsync(&pointer, &size, 1, &device, &first, 1, 0, nullptr));
    OK(scale(values, 1000, 2));
    OK(cudaMemcpy(out.data(), values, 4000, cudaMemcpyDeviceToHost));
    EXPECT(out[7] == 5 && free_bytes() == before - bytes);
    OK(cudaFree(values));
    EXPECT(free_bytes() == before);
}
#endif
