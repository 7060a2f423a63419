// Allocation in stream order and memory pools.
#include "harness.h"

#include <atomic>
#include <thread>

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
    uint64_t bytes = 0;
    OK(cudaMemPoolGetAttribute(pool, which, &bytes));
    return bytes;
}

SCENARIO(stream_ordered, "stream-ordered") {
    const int count = 1 << 18;
    const size_t bytes = count * sizeof(int);
    cudaStream_t stream;
    cudaMemPool_t pool;
    int *a = nullptr, *b = nullptr, *plain = nullptr;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    const size_t free_at_first = free_bytes();
    OK(cudaMallocAsync((void **)&a, bytes, stream));
    EXPECT(free_at_first - free_bytes() == bytes);
    OK(cudaMemsetAsync(a, 0, bytes, stream));
    OK(scale(a, count, 1, stream));
    std::vector<int> out(count);
    OK(cudaMemcpyAsync(out.data(), a, bytes, cudaMemcpyDeviceToHost, stream));
    EXPECT(out[count - 1] == 5);
    OK(cudaFreeAsync(a, stream));
    EXPECT(cudaFreeAsync(a, stream) == cudaErrorInvalidValue && cudaFree(a) == cudaErrorInvalidValue);
    OK(cudaMallocAsync((void **)&b, bytes - 100, stream));
    EXPECT(b == a && attribute(pool, cudaMemPoolAttrReservedMemCurrent) == bytes);  // The freed block again.
    OK(cudaFreeAsync(b, stream));
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemHigh) == bytes);
    OK(cudaStreamSynchronize(stream));
    EXPECT(free_bytes() == free_at_first);  // Nothing is kept above the threshold.
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);

    uint64_t keep = bytes, zero = 0;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    OK(cudaMallocAsync((void **)&a, bytes, stream));
    OK(cudaFreeAsync(a, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT(free_at_first - free_bytes() == bytes);
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
    EXPECT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &keep) == cudaErrorInvalidValue);
    EXPECT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &zero) == cudaErrorInvalidValue);
    OK(cudaMemPoolTrimTo(pool, 0));
    EXPECT(free_bytes() == free_at_first);

    OK(cudaMallocAsync((void **)&a, bytes, stream));
    OK(cudaFree(a));  // Waits, and gives back at once what is above the threshold: nothing here.
    EXPECT(free_at_first - free_bytes() == bytes);
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaMalloc((void **)&plain, bytes));
    OK(cudaFreeAsync(plain, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT(free_bytes() == free_at_first);
    OK(cudaFreeAsync(nullptr, stream));
    OK(cudaMallocAsync((void **)&a, 0, stream));
    EXPECT(a == nullptr && cudaFreeAsync(out.data(), stream) == cudaErrorInvalidValue);
}

static void wait_for(void *open) {
    while (!*(std::atomic<bool> *)open) std::this_thread::yield();
}

// Run with a capacity of 16 MiB, of which the context takes a part.
SCENARIO(pool_pressure, "pool-pressure") {
    cudaStream_t one, other;
    std::atomic<bool> open{false};
    void *a = nullptr, *b = nullptr, *c = nullptr;
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaMallocAsync(&a, 9 << 20, one));
    EXPECT(cudaMallocAsync(&b, 9 << 20, other) == cudaErrorMemoryAllocation);
    OK(cudaLaunchHostFunc(one, wait_for, &open));
    OK(cudaFreeAsync(a, one));
    EXPECT(cudaMallocAsync(&b, 14 << 20, other) == cudaErrorMemoryAllocation);
    OK(cudaMallocAsync(&b, 8 << 20, other));  // The other stream waits for the free.
    EXPECT(b == a && cudaStreamQuery(other) == cudaErrorNotReady);
    open = true;
    OK(cudaStreamSynchronize(other));
    OK(cudaFreeAsync(b, other));
    while (cudaStreamQuery(other) == cudaErrorNotReady) std::this_thread::yield();
    OK(cudaMallocAsync(&a, 2 << 20, one));
    OK(cudaMallocAsync(&c, 10 << 20, one));  // What the pool keeps unused makes room.
}

// Run with two devices.
SCENARIO(pools_of_ones_own, "pools-of-ones-own") {
    cudaMemPool_t own, found, standard;
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 1};
    props.maxSize = 1 << 20;
    OK(cudaMemPoolCreate(&own, &props));
    void *a = nullptr, *b = nullptr;
    OK(cudaMallocFromPoolAsync(&a, 1 << 19, own, nullptr));
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, a));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 1);
    EXPECT(cudaMallocFromPoolAsync(&b, (1 << 19) + 1, own, nullptr) == cudaErrorMemoryAllocation);
    OK(cudaDeviceGetMemPool(&found, 1));
    OK(cudaDeviceGetDefaultMemPool(&standard, 1));
    EXPECT(found == standard && found != own);
    EXPECT(cudaDeviceSetMemPool(0, own) == cudaErrorInvalidValue);
    OK(cudaDeviceSetMemPool(1, own));
    OK(cudaDeviceGetMemPool(&found, 1));
    EXPECT(found == own);
    cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
    cudaMemAccessFlags flags;
    cudaMemLocation zero = {cudaMemLocationTypeDevice, 0};
    OK(cudaMemPoolGetAccess(&flags, own, &zero));
    EXPECT(flags == cudaMemAccessFlagsProtNone);
    OK(cudaMemPoolSetAccess(own, &access, 1));
    OK(cudaMemPoolGetAccess(&flags, own, &zero));
    EXPECT(flags == cudaMemAccessFlagsProtReadWrite);
    OK(cudaMemPoolDestroy(own));
    OK(cudaDeviceGetMemPool(&found, 1));
    EXPECT(found == standard && cudaMemPoolDestroy(own) == cudaErrorInvalidValue);
    EXPECT(cudaMemPoolDestroy(standard) == cudaErrorInvalidValue);
    OK(cudaFreeAsync(a, nullptr));  // The last block of the destroyed pool.
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(1));
    size_t free = 0, total = 0;
    OK(cudaMemGetInfo(&free, &total));
    EXPECT(total - free < (512 << 20));
    props.location.type = cudaMemLocationTypeHost;
    EXPECT(cudaMemPoolCreate(&own, &props) == cudaErrorNotSupported);
    EXPECT(cudaMemPoolCreate(&own, nullptr) == cudaErrorInvalidValue);
}
