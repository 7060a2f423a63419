// Streams of one's own and of a thread, host functions, events' flags, launches through structures.
#include "harness.h"

#include <atomic>
#include <thread>

SCENARIO(stream_questions, "stream-questions") {
    cudaStream_t blocking, apart;
    unsigned flags = 9;
    int priority = 1, device = -1;
    unsigned long long ids[4];
    OK(cudaStreamCreateWithPriority(&apart, cudaStreamNonBlocking, -3));
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamGetFlags(apart, &flags));
    EXPECT(flags == cudaStreamNonBlocking);
    OK(cudaStreamGetFlags(blocking, &flags));
    EXPECT(flags == cudaStreamDefault);
    OK(cudaStreamGetFlags(nullptr, &flags));
    EXPECT(flags == cudaStreamDefault);
    OK(cudaStreamGetPriority(apart, &priority));
    EXPECT(priority == -3);
    OK(cudaStreamGetDevice(apart, &device));
    EXPECT(device == 0);
    const cudaStream_t all[] = {apart, blocking, cudaStreamLegacy, cudaStreamPerThread};
    for (int i = 0; i < 4; i++) {
        OK(cudaStreamGetId(all[i], &ids[i]));
        for (int j = 0; j < i; j++) EXPECT(ids[i] != ids[j]);
    }
    EXPECT(cudaStreamCreateWithFlags(&apart, 2) == cudaErrorInvalidValue);
    EXPECT(cudaStreamCreate(nullptr) == cudaErrorInvalidValue);
    EXPECT(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
    OK(cudaStreamSynchronize(nullptr));
    OK(cudaStreamDestroy(blocking));
    EXPECT(cudaStreamDestroy(blocking) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaStreamQuery(blocking) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaStreamGetFlags(blocking, &flags) == cudaErrorInvalidResourceHandle);
}

// Run with two devices.
SCENARIO(event_rules, "event-rules") {
    cudaEvent_t event;
    cudaStream_t elsewhere;
    EXPECT(cudaEventCreateWithFlags(&event, 8) == cudaErrorInvalidValue);
    EXPECT(cudaEventCreateWithFlags(&event, cudaEventInterprocess) == cudaErrorInvalidValue);
    EXPECT(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming) == cudaErrorNotSupported);
    OK(cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming));
    OK(cudaEventQuery(event));  // Never recorded: complete.
    OK(cudaEventSynchronize(event));
    OK(cudaEventRecord(event, nullptr));
    OK(cudaEventSynchronize(event));
    float ms;
    EXPECT(cudaEventElapsedTime(&ms, event, event) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaEventRecordWithFlags(event, nullptr, 2) == cudaErrorInvalidValue);
    EXPECT(cudaStreamWaitEvent(nullptr, event, 2) == cudaErrorInvalidValue);
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&elsewhere));
    EXPECT(cudaEventRecord(event, elsewhere) == cudaErrorInvalidResourceHandle);
    OK(cudaStreamWaitEvent(elsewhere, event, 0));
    OK(cudaSetDevice(0));
    OK(cudaEventRecord(event, nullptr));
    EXPECT(cudaEventRecord(event, elsewhere) == cudaErrorInvalidResourceHandle);
    int factor = 1, count = 1, *values = nullptr;
    OK(cudaMalloc((void **)&values, 4));
    void *args[] = {&values, &count, &factor};
    EXPECT(cudaLaunchKernel(&scale_stub, dim3(1), dim3(1), args, 0, elsewhere) == cudaErrorInvalidResourceHandle);
}

struct Gate {
    std::atomic<bool> open{false};
    std::atomic<int> passed{0};
    cudaError_t inside = cudaSuccess;
};

static void wait_at(void *data) {
    Gate *gate = (Gate *)data;
    gate->inside = cudaFree(nullptr);
    while (!gate->open) std::this_thread::yield();
    gate->passed++;
}
static void count(cudaStream_t, cudaError_t status, void *data) {
    if (status == cudaSuccess) ((Gate *)data)->passed++;
}
static void learn(cudaStream_t, cudaError_t status, void *data) { *(cudaError_t *)data = status; }

SCENARIO(host_functions, "host-functions") {
    cudaStream_t stream;
    cudaEvent_t after;
    Gate gate;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&after));
    OK(cudaLaunchHostFunc(stream, wait_at, &gate));
    OK(cudaStreamAddCallback(stream, count, &gate, 0));
    OK(cudaEventRecord(after, stream));
    EXPECT(cudaStreamQuery(stream) == cudaErrorNotReady);
    EXPECT(cudaEventQuery(after) == cudaErrorNotReady);
    EXPECT(gate.passed == 0);
    gate.open = true;
    OK(cudaStreamSynchronize(stream));
    EXPECT(gate.passed == 2 && gate.inside == cudaErrorNotPermitted);
    OK(cudaStreamQuery(stream));
    EXPECT(cudaLaunchHostFunc(stream, nullptr, nullptr) == cudaErrorInvalidValue);
    EXPECT(cudaStreamAddCallback(stream, count, &gate, 1) == cudaErrorInvalidValue);
    // Work after a failure is dropped, but a callback learns of it. The kernel waits until all is queued: once it has
    // trapped, every call fails.
    Gate until_queued;
    cudaError_t learnt = cudaSuccess;
    OK(cudaLaunchHostFunc(stream, wait_at, &until_queued));
    OK(cudaLaunchKernel(&trap_stub, dim3(1), dim3(1), nullptr, 0, stream));
    OK(cudaStreamAddCallback(stream, learn, &learnt, 0));
    OK(cudaLaunchHostFunc(stream, wait_at, &gate));
    until_queued.open = true;
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
    EXPECT(learnt == cudaErrorLaunchFailure && gate.passed == 2);
}

extern "C" cudaError_t cudaMemcpyAsync_ptsz(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t);
extern "C" cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
extern "C" cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t, cudaHostFn_t, void *);
extern "C" cudaError_t cudaMemcpy_ptds(void *, const void *, size_t, cudaMemcpyKind);
extern "C" cudaError_t cudaStreamQuery_ptsz(cudaStream_t);

// Code compiled with --default-stream per-thread.
SCENARIO(threads_own_streams, "threads-own-streams") {
    Gate gate;
    int *device = nullptr, value = 7;
    OK(cudaMalloc((void **)&device, sizeof value));
    OK(cudaLaunchHostFunc_ptsz(nullptr, wait_at, &gate));
    EXPECT(cudaStreamQuery_ptsz(nullptr) == cudaErrorNotReady);
    EXPECT(cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
    std::thread other([&] {  // Its stream does not wait for this one's.
        OK(cudaMemcpyAsync_ptsz(device, &value, sizeof value, cudaMemcpyHostToDevice, nullptr));
        OK(cudaStreamSynchronize_ptsz(nullptr));
        OK(cudaMemcpy_ptds(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    });
    other.join();
    EXPECT(gate.passed == 0 && value == 7);
    cudaEvent_t legacy;
    OK(cudaEventCreate(&legacy));
    OK(cudaEventRecord(legacy, nullptr));  // The device's default stream waits for both threads'.
    EXPECT(cudaEventQuery(legacy) == cudaErrorNotReady);
    gate.open = true;
    OK(cudaEventSynchronize(legacy));
    EXPECT(gate.passed == 1);
}

extern "C" cudaError_t __cudaGetKernel(const void **, const void *);
extern "C" cudaError_t __cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);

SCENARIO(structured_launches, "structured-launches") {
    int *values = nullptr, count = 32, factor = 3, out[32];
    OK(cudaMalloc((void **)&values, sizeof out));
    OK(cudaMemset(values, 0, sizeof out));
    void *args[] = {&values, &count, &factor};
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributePriority;
    attributes[0].val.priority = -2;
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(32);
    config.attrs = attributes;
    config.numAttrs = 2;
    OK(cudaLaunchKernelExC(&config, &scale_stub, args));
    OK(cudaLaunchCooperativeKernel(&scale_stub, dim3(1), dim3(32), args, 0, nullptr));
    OK(cudaMemcpy(out, values, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT(out[31] == 20);
    const void *handle = nullptr;  // As nvcc's host code launches.
    OK(__cudaGetKernel(&handle, &scale_stub));
    OK(__cudaLaunchKernel(handle, dim3(1), dim3(32), args, 0, nullptr));
    OK(cudaMemcpy(out, values, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT(out[31] == 65);
    int per_sm = 0, sms = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&per_sm, &scale_stub, 1024, 0, 0));
    OK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    EXPECT(per_sm == 2);
    OK(cudaLaunchCooperativeKernel(&scale_stub, dim3(per_sm * sms), dim3(1024), args, 0, nullptr));
    config.gridDim = dim3(per_sm * sms + 1);
    config.blockDim = dim3(1024);
    EXPECT(cudaLaunchKernelExC(&config, &scale_stub, args) == cudaErrorCooperativeLaunchTooLarge);
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = {2, 1, 1};
    EXPECT(cudaLaunchKernelExC(&config, &scale_stub, args) == cudaErrorNotSupported);
    config.numAttrs = 1;
    OK(cudaLaunchKernelExC(&config, &scale_stub, args));
    EXPECT(cudaLaunchKernelExC(nullptr, &scale_stub, args) == cudaErrorInvalidValue);
    EXPECT(cudaLaunchKernel(&scale_stub, dim3(1), dim3(1), nullptr, 0, nullptr) == cudaErrorInvalidValue);

    const char *name = nullptr;
    size_t offset = 0, bytes = 0, room = 0;
    OK(cudaFuncGetName(&name, &scale_stub));
    EXPECT(std::string(name) == "_Z5scalePiii");
    OK(cudaFuncGetParamInfo(&scale_stub, 2, &offset, &bytes));
    EXPECT(offset == 12 && bytes == 4);
    EXPECT(cudaFuncGetParamInfo(&scale_stub, 3, &offset, &bytes) == cudaErrorInvalidValue);
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&room, &scale_stub, 2, 1024));
    EXPECT(room == (96 << 10) / 2 - 1024);
    OK(cudaFuncSetCacheConfig(&scale_stub, cudaFuncCachePreferL1));
    EXPECT(cudaFuncSetAttribute(&scale_stub, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20) ==
           cudaErrorInvalidValue);
}

SCENARIO(stream_attributes, "stream-attributes") {
    cudaStream_t stream, other;
    cudaStreamAttrValue value = {}, told = {};
    int priority = 0;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreate(&other));
    value.priority = -4;
    OK(cudaStreamSetAttribute(stream, cudaStreamAttributePriority, &value));
    OK(cudaStreamGetPriority(stream, &priority));
    EXPECT(priority == -4);
    OK(cudaStreamGetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &told));
    EXPECT(told.syncPolicy == cudaSyncPolicyAuto);
    value.syncPolicy = cudaSyncPolicyYield;
    OK(cudaStreamSetAttribute(stream, cudaStreamAttributeSynchronizationPolicy, &value));
    OK(cudaStreamCopyAttributes(other, stream));
    OK(cudaStreamGetAttribute(other, cudaStreamAttributeSynchronizationPolicy, &told));
    OK(cudaStreamGetPriority(other, &priority));
    EXPECT(told.syncPolicy == cudaSyncPolicyYield && priority == -4);
    EXPECT(cudaStreamSetAttribute(stream, (cudaStreamAttrID)4, &value) == cudaErrorInvalidValue);
    void *function = &priority;
    cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &found));
    EXPECT(function == nullptr && found == cudaDriverEntryPointSymbolNotFound);
}

// Run with two devices.
SCENARIO(settings, "settings") {
    size_t bytes = 0;
    unsigned flags = 0;
    int device = -1;
    char text[16];
    OK(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize));
    EXPECT(bytes == 8 << 20);
    OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 20));
    OK(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize));
    EXPECT(bytes == 1 << 20 && cudaDeviceGetLimit(&bytes, (cudaLimit)99) == cudaErrorInvalidValue);
    OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    OK(cudaGetDeviceFlags(&flags));
    EXPECT(flags == (cudaDeviceScheduleBlockingSync | cudaDeviceMapHost));
    EXPECT(cudaSetDeviceFlags(3) == cudaErrorInvalidValue);
    OK(cudaDeviceGetPCIBusId(text, sizeof text, 1));
    OK(cudaDeviceGetByPCIBusId(&device, text));
    EXPECT(device == 1 && cudaDeviceGetPCIBusId(text, 5, 1) == cudaErrorInvalidValue);
    EXPECT(cudaDeviceGetByPCIBusId(&device, "0000:99:00.0") == cudaErrorInvalidDevice);
    OK(cudaInitDevice(1, 0, 0));
    EXPECT(cudaInitDevice(2, 0, 0) == cudaErrorInvalidDevice);
}

// One thread gives memory back while another one prefetches it, as Eager does for a task that got more memory. The call may
// find the memory or not; a stream does not fail for what is gone when its turn comes.
SCENARIO(prefetch_beside_free, "prefetch-beside-free") {
    const size_t bytes = 256 << 10;
    const cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    std::atomic<char *> shared{nullptr};
    std::atomic<bool> ended{false};
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::thread prefetches([&] {
        for (unsigned i = 0; !ended; i++) {
            if (char *memory = shared) cudaMemPrefetchAsync(memory, bytes, i % 2 ? device : host, 0, stream);
            cudaGetLastError();
            // Else more are asked for than are done, and each free waits for all of them.
            if (i % 4 == 3) OK(cudaStreamSynchronize(stream));
        }
    });
    for (int i = 0; i < 1000; i++) {
        char *memory;
        OK(cudaMallocManaged((void **)&memory, bytes, cudaMemAttachGlobal));
        shared = memory;
        if (i % 3 == 0) std::this_thread::yield();
        OK(cudaFree(memory));
    }
    ended = true;
    prefetches.join();
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
}
