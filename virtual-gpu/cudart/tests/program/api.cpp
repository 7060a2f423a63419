// Calls of everyday programs: copies, streams, launches, questions, and what happens when things go wrong.
#include "harness.h"

#include <csignal>
#include <unistd.h>

extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);

SCENARIO(copies, "copies") {
    const int count = 100000;
    const size_t bytes = count * sizeof(int);
    std::vector<int> in = counting(count), out(count);
    int *a = nullptr, *b = nullptr;
    OK(cudaMalloc((void **)&a, bytes));
    OK(cudaMalloc((void **)&b, bytes));
    OK(cudaMemcpy(a, in.data(), bytes, cudaMemcpyHostToDevice));
    OK(scale(a, count, 3));
    OK(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(out.data(), b, bytes, cudaMemcpyDefault));
    for (int i = 0; i < count; i++) EXPECT(out[i] == 3 * i + 5);
    OK(cudaMemset(b + 10, 0x11, 40));
    OK(cudaMemcpy(out.data(), b, bytes, cudaMemcpyDeviceToHost));
    EXPECT(out[9] == 32 && out[10] == 0x11111111 && out[19] == 0x11111111 && out[20] == 65);

    EXPECT(cudaMemcpy(a, in.data(), bytes + 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(out.data(), in.data(), bytes, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(a, in.data(), bytes, (cudaMemcpyKind)77) == cudaErrorInvalidMemcpyDirection);
    EXPECT(cudaFree(a + 1) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);

    int *pinned = nullptr;
    OK(cudaMallocHost((void **)&pinned, bytes));
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, pinned + 1));
    EXPECT(attributes.type == cudaMemoryTypeHost);
    OK(cudaPointerGetAttributes(&attributes, a + 1));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == a + 1);
    OK(cudaPointerGetAttributes(&attributes, in.data()));
    EXPECT(attributes.type == cudaMemoryTypeUnregistered);
    OK(cudaMemcpyAsync(pinned, a, bytes, cudaMemcpyDeviceToHost, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(pinned[7] == 26);
    OK(cudaFreeHost(pinned));
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFree(nullptr));
}

SCENARIO(symbols, "symbols") {
    int value = 0, *a = nullptr;
    OK(cudaMemcpyFromSymbol(&value, &shadow_offset, sizeof value, 0, cudaMemcpyDeviceToHost));
    EXPECT(value == 5);
    value = 1000;
    OK(cudaMemcpyToSymbol(&shadow_offset, &value, sizeof value, 0, cudaMemcpyHostToDevice));
    EXPECT(cudaMemcpyToSymbol(&shadow_offset, &value, 4, 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpyToSymbol(&value, &value, 4, 0, cudaMemcpyHostToDevice) == cudaErrorInvalidSymbol);
    OK(cudaMalloc((void **)&a, 1024));
    OK(cudaMemset(a, 0, 1024));
    OK(scale(a, 256, 1));
    OK(cudaMemcpy(&value, a + 255, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT(value == 1000);
}

// Run with a capacity of 16 MiB (memory scale 1024).
SCENARIO(managed, "managed") {
    const size_t bytes = 24 << 20;
    const int count = bytes / sizeof(int);
    OK(cudaFree(nullptr));
    const size_t free_at_first = free_bytes();
    int *values = nullptr;
    OK(cudaMallocManaged((void **)&values, bytes, cudaMemAttachGlobal));
    EXPECT(free_bytes() == free_at_first);  // Nothing is resident before it is touched.
    for (int i = 0; i < count; i++) values[i] = i;
    const cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    OK(cudaMemAdvise(values, bytes, cudaMemAdviseSetPreferredLocation, device));
    OK(cudaMemPrefetchAsync(values, 4 << 20, device, 0, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(free_at_first - free_bytes() == 4 << 20);
    OK(cudaMemPrefetchAsync(values, 4 << 20, host, 0, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(free_bytes() == free_at_first);
    auto asked = [&](cudaMemRangeAttribute attribute, size_t from, size_t length) {
        int answer = 99;
        OK(cudaMemRangeGetAttribute(&answer, sizeof answer, attribute, (char *)values + from, length));
        return answer;
    };
    EXPECT(asked(cudaMemRangeAttributePreferredLocation, 0, bytes) == 0);
    EXPECT(asked(cudaMemRangeAttributePreferredLocationType, 0, bytes) == cudaMemLocationTypeDevice);
    EXPECT(asked(cudaMemRangeAttributeLastPrefetchLocation, 0, 4 << 20) == cudaCpuDeviceId);
    EXPECT(asked(cudaMemRangeAttributeLastPrefetchLocation, 0, bytes) == cudaInvalidDeviceId);
    EXPECT(asked(cudaMemRangeAttributeReadMostly, 0, bytes) == 0);
    OK(cudaMemAdvise(values, 1 << 20, cudaMemAdviseSetReadMostly, device));
    OK(cudaMemAdvise(values, bytes, cudaMemAdviseSetAccessedBy, host));
    EXPECT(asked(cudaMemRangeAttributeReadMostly, 0, 1 << 20) == 1);
    EXPECT(asked(cudaMemRangeAttributeReadMostly, 0, (1 << 20) + 1) == 0);
    int by[2] = {}, read_mostly = 0;
    void *answers[2] = {by, &read_mostly};
    size_t sizes[2] = {sizeof by, sizeof read_mostly};
    cudaMemRangeAttribute attributes[2] = {cudaMemRangeAttributeAccessedBy, cudaMemRangeAttributeReadMostly};
    OK(cudaMemRangeGetAttributes(answers, sizes, attributes, 2, values, 4096));
    EXPECT(by[0] == cudaCpuDeviceId && by[1] == cudaInvalidDeviceId && read_mostly == 1);
    OK(cudaMemAdvise(values, bytes, cudaMemAdviseUnsetReadMostly, device));
    EXPECT(asked(cudaMemRangeAttributeReadMostly, 0, 4096) == 0);
    EXPECT(cudaMemRangeGetAttribute(by, 3, cudaMemRangeAttributeAccessedBy, values, bytes) == cudaErrorInvalidValue);
    EXPECT(cudaMemRangeGetAttribute(by, 4, cudaMemRangeAttributeReadMostly, by, 4) == cudaErrorInvalidValue);
    OK(scale(values, 1 << 20, 2));  // Touches the first 4 MiB only.
    OK(cudaDeviceSynchronize());
    EXPECT(free_at_first - free_bytes() == 4 << 20);
    OK(scale(values, count, 1));  // More than the device has.
    OK(cudaDeviceSynchronize());
    EXPECT(values[3] == 16 && values[count - 1] == count + 4);
    EXPECT(free_bytes() < 1 << 20);
    std::vector<int> out(count);
    OK(cudaMemcpy(out.data(), values, bytes, cudaMemcpyDeviceToHost));
    EXPECT(out[3] == 16);
    const cudaMemLocation nowhere = {cudaMemLocationTypeDevice, 1};
    EXPECT(cudaMemPrefetchAsync(values, bytes, nowhere, 0, nullptr) == cudaErrorInvalidDevice);
    OK(cudaFree(values));
    EXPECT(free_bytes() == free_at_first);
}

// Run with a capacity of 16 MiB (memory scale 1024): residency is by pages.
SCENARIO(host_faults, "host-faults") {
    const size_t bytes = 4 << 20, part = 1 << 20;
    const int count = bytes / sizeof(int);
    const cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    int *values = nullptr, *other = nullptr;
    OK(cudaFree(nullptr));
    const size_t free_at_first = free_bytes();
    auto resident = [&] { return free_at_first - free_bytes(); };
    OK(cudaMallocManaged((void **)&values, bytes, cudaMemAttachGlobal));
    OK(cudaMallocManaged((void **)&other, bytes, cudaMemAttachGlobal));
    for (int i = 0; i < count; i++) values[i] = i;
    OK(scale(values, count, 2));
    OK(cudaDeviceSynchronize());
    EXPECT(resident() == bytes);
    memset(values, 1, part);  // Its pages go back, the others stay.
    EXPECT(resident() == bytes - part && resident() == bytes - part);
    EXPECT(values[count - 1] == 2 * (count - 1) + 5);
    EXPECT(resident() <= bytes - part - 4096 && resident() >= bytes - part - (64 << 10));
    OK(scale(values, count, 1));
    OK(cudaDeviceSynchronize());
    EXPECT(resident() == bytes && values[0] == 0x01010101 + 5);
    int pipe_ends[2];
    EXPECT(pipe(pipe_ends) == 0 && write(pipe_ends[1], "12345678", 8) == 8);
    OK(cudaMemPrefetchAsync(values, bytes, device, 0, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(resident() == bytes && read(pipe_ends[0], values + count / 2, 8) == 8);  // By a system call too.
    EXPECT(resident() < bytes && memcmp(values + count / 2, "12345678", 8) == 0);
    OK(cudaMemPrefetchAsync(values, bytes, device, 0, nullptr));
    OK(cudaMemcpy(other, values, part, cudaMemcpyDeviceToDevice));  // The runtime's own copies are no host faults.
    OK(cudaDeviceSynchronize());
    EXPECT(resident() == bytes + part && other[0] == values[0]);
    OK(cudaFree(values));
    OK(cudaFree(other));
    EXPECT(free_bytes() == free_at_first);
}

// Run with two devices and a time scale that makes the kernel take long after its results are there.
SCENARIO(managed_elsewhere, "managed-elsewhere") {
    const size_t bytes = 8 << 20;
    const int count = bytes / sizeof(int);
    int *values = nullptr, *copy = nullptr;
    OK(cudaMallocManaged((void **)&values, bytes, cudaMemAttachGlobal));  // While device 0 is current.
    for (int i = 0; i < count; i++) values[i] = i;
    OK(cudaSetDevice(1));
    OK(cudaMalloc((void **)&copy, bytes));
    const size_t free_at_first = free_bytes();
    const cudaMemLocation here = {cudaMemLocationTypeDevice, 1};
    OK(cudaMemAdvise(values, bytes, cudaMemAdviseSetPreferredLocation, here));
    OK(cudaMemPrefetchAsync(values, bytes, here, 0, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(free_at_first - free_bytes() == bytes);
    OK(scale(values, count, 2));
    OK(cudaMemcpy(copy, values, bytes, cudaMemcpyDeviceToDevice));
    OK(cudaFree(values));
    OK(cudaStreamQuery(nullptr));  // The free has waited for this device, though the memory was made on the other.
    EXPECT(free_bytes() == free_at_first);

    OK(cudaSetDevice(0));
    OK(cudaMallocManaged((void **)&values, bytes, cudaMemAttachGlobal));
    for (int i = 0; i < count; i++) values[i] = i;
    OK(cudaSetDevice(1));
    OK(scale(values, count, 3));  // Nobody said that the memory is used here.
    OK(cudaMemcpy(copy, values, bytes, cudaMemcpyDeviceToDevice));
    OK(cudaFree(values));
    OK(cudaStreamQuery(nullptr));
    std::vector<int> out(count);
    OK(cudaMemcpy(out.data(), copy, bytes, cudaMemcpyDeviceToHost));
    EXPECT(out[0] == 5 && out[count - 1] == 3 * (count - 1) + 5);
}

// Run with a capacity of 16 MiB.
SCENARIO(out_of_memory, "out-of-memory") {
    void *big = nullptr, *small = nullptr;
    EXPECT(cudaMalloc(&big, 17 << 20) == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
    OK(cudaMalloc(&big, 12 << 20));
    EXPECT(cudaMalloc(&small, 8 << 20) == cudaErrorMemoryAllocation);
    EXPECT(cudaMalloc(&small, SIZE_MAX) == cudaErrorMemoryAllocation);
    OK(cudaFree(big));
    OK(cudaMalloc(&small, 8 << 20));
    OK(cudaDeviceReset());
    OK(cudaMalloc(&big, 12 << 20));
}

SCENARIO(streams, "streams") {
    const int count = 1 << 16;
    int *values = nullptr;
    cudaStream_t one, other;
    cudaEvent_t start, middle, end;
    OK(cudaMalloc((void **)&values, count * sizeof(int)));
    OK(cudaMemset(values, 0, count * sizeof(int)));
    OK(cudaDeviceSynchronize());
    int least = 1, greatest = 1, priority = 1;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(least == 0 && greatest < 0);
    OK(cudaStreamCreateWithPriority(&one, cudaStreamNonBlocking, greatest - 100));
    OK(cudaStreamGetPriority(one, &priority));
    EXPECT(priority == greatest);
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&middle));
    OK(cudaEventCreate(&end));
    float ms = -1;
    EXPECT(cudaEventElapsedTime(&ms, start, end) == cudaErrorInvalidResourceHandle);
    OK(cudaEventRecord(start, one));
    for (int i = 0; i < 20; i++) OK(scale(values, count, 1, one));  // 0 + 20 * 5
    OK(cudaEventRecord(middle, one));
    OK(cudaStreamWaitEvent(other, middle, 0));
    OK(scale(values, count, 2, other));  // 2 * 100 + 5, only if it waited
    OK(cudaEventRecord(end, other));
    OK(cudaEventSynchronize(end));
    OK(cudaEventQuery(end));
    OK(cudaStreamQuery(one));
    std::vector<int> out(count);
    OK(cudaMemcpy(out.data(), values, count * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(out[0] == 205 && out[count - 1] == 205);
    float first_ms = 0, all_ms = 0;
    OK(cudaEventElapsedTime(&first_ms, start, middle));
    OK(cudaEventElapsedTime(&all_ms, start, end));
    EXPECT(first_ms > 0 && all_ms > first_ms);
    std::printf("%.6f\n", all_ms);
    OK(scale(values, count, 1, one));
    OK(cudaStreamDestroy(one));
    EXPECT(scale(values, count, 1, one) == cudaErrorInvalidResourceHandle);
    OK(cudaFree(values));  // Waits for the destroyed stream's work.
    OK(cudaEventDestroy(start));
    EXPECT(cudaEventRecord(start, nullptr) == cudaErrorInvalidResourceHandle);
}

SCENARIO(launch_errors, "launch-errors") {
    int *values = nullptr, count = 1, factor = 1;
    OK(cudaMalloc((void **)&values, 1024));
    void *args[] = {&values, &count, &factor};
    const cudaError_t bad_shape = CUDART_VERSION < 13000 ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;
    EXPECT(cudaLaunchKernel(&scale_stub, dim3(1), dim3(1025), args, 0, nullptr) == bad_shape);
    EXPECT(cudaLaunchKernel(&scale_stub, dim3(0), dim3(32), args, 0, nullptr) == bad_shape);
    EXPECT(cudaLaunchKernel(&scale_stub, dim3(1, 65536), dim3(32), args, 48 << 10, nullptr) == bad_shape);
    EXPECT(cudaLaunchKernel(&scale_stub, dim3(1), dim3(32), args, 48 << 10, nullptr) == cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(&scale_stub, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    OK(cudaLaunchKernel(&scale_stub, dim3(1), dim3(32), args, 48 << 10, nullptr));
    EXPECT(cudaLaunchKernel(&orphan_stub, dim3(1), dim3(32), nullptr, 0, nullptr) == cudaErrorInvalidDeviceFunction);
    EXPECT(cudaLaunchKernel(args, dim3(1), dim3(32), nullptr, 0, nullptr) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaLaunchKernel(nullptr, dim3(1), dim3(32), nullptr, 0, nullptr) == cudaErrorInvalidDeviceFunction);
    EXPECT(cudaLaunchCooperativeKernel(&scale_stub, dim3(1), dim3(32), args, 128 << 10, nullptr) ==
           cudaErrorCooperativeLaunchTooLarge);
    OK(cudaLaunchKernel(&scale_stub, dim3(1), dim3(32), args, size_t(1) << 33, nullptr));  // 32 bits are looked at.
    cudaFuncAttributes attributes;
    OK(cudaFuncGetAttributes(&attributes, &scale_stub));
    EXPECT(attributes.sharedSizeBytes == 1024 && attributes.maxThreadsPerBlock == 1024);
    int blocks = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &scale_stub, 256, 0));
    EXPECT(blocks == 8);
    OK(cudaDeviceSynchronize());
    dim3 grid, block;
    size_t shared = 0;
    cudaStream_t stream;
    EXPECT(__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == cudaErrorMissingConfiguration);
    EXPECT(__cudaPushCallConfiguration(dim3(2, 3), dim3(4), 99, (cudaStream_t)1) == 0);
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(grid.x == 2 && grid.y == 3 && block.x == 4 && shared == 99 && stream == (cudaStream_t)1);

    OK(cudaLaunchKernel(&trap_stub, dim3(1), dim3(1), nullptr, 0, nullptr));
    EXPECT(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    EXPECT(cudaMalloc((void **)&values, 1024) == cudaErrorLaunchFailure);  // Sticky.
    EXPECT(cudaGetLastError() == cudaErrorLaunchFailure && cudaGetLastError() == cudaErrorLaunchFailure);
}

SCENARIO(questions, "questions") {
    EXPECT(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
    EXPECT(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
    EXPECT(std::string(cudaGetErrorName((cudaError_t)54321)) == "unrecognized error code");
    int number = 0;
    OK(cudaRuntimeGetVersion(&number));
    EXPECT(number == CUDART_VERSION);
    OK(cudaGetDeviceCount(&number));
    EXPECT(number == 2);
    EXPECT(cudaSetDevice(2) == cudaErrorInvalidDevice && cudaSetDevice(-1) == cudaErrorInvalidDevice);
    OK(cudaSetDevice(1));
    OK(cudaGetDevice(&number));
    EXPECT(number == 1);
    cudaDeviceProp properties;
    OK(cudaGetDeviceProperties(&properties, 1));
    EXPECT(properties.major == 9 && properties.warpSize == 32 && properties.managedMemory == 1);
    EXPECT(properties.concurrentManagedAccess == 1 && properties.multiProcessorCount == 132);
    OK(cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, 0));
    EXPECT(number == 80);
    std::printf("%s\n", properties.name);
}

// Takes 10 MiB of a shared device of 16 MiB, says so, and holds it until its standard input ends.
// Nothing is shared between processes, and a program may go another way.
SCENARIO(between_processes, "between-processes") {
    void *p = nullptr, *other = nullptr;
    cudaEvent_t event = nullptr, theirs = nullptr;
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t handle;
    OK(cudaMalloc(&p, 4096));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    EXPECT(cudaIpcGetMemHandle(&memory, p) == cudaErrorNotSupported);
    EXPECT(cudaIpcOpenMemHandle(&other, memory, cudaIpcMemLazyEnablePeerAccess) == cudaErrorNotSupported);
    EXPECT(cudaIpcCloseMemHandle(p) == cudaErrorNotSupported);
    EXPECT(cudaIpcGetEventHandle(&handle, event) == cudaErrorNotSupported);
    EXPECT(cudaIpcOpenEventHandle(&theirs, handle) == cudaErrorNotSupported);
    EXPECT(cudaGetLastError() == cudaErrorNotSupported && other == nullptr && theirs == nullptr);
    OK(cudaEventDestroy(event));
    OK(cudaFree(p));
}

SCENARIO(hold, "hold") {
    void *held = nullptr;
    OK(cudaMalloc(&held, 10 << 20));
    std::puts("held");
    std::fflush(stdout);
    std::getchar();
}

// Prints the code that a program gets for 10 MiB.
SCENARIO(take, "take") {
    void *taken = nullptr;
    std::printf("%d\n", (int)cudaMalloc(&taken, 10 << 20));
    cudaDeviceSynchronize();  // Must not repeat a complaint.
}

static void run_wild() { OK(cudaLaunchKernel(&wild_stub, dim3(1), dim3(1), nullptr, 0, nullptr)); }

// A fault of a kernel is an error of the device, which it does not recover from.
SCENARIO(wild, "wild") {
    void *memory = nullptr;
    OK(cudaMalloc(&memory, 1024));
    run_wild();
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    EXPECT(cudaGetLastError() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
    EXPECT(cudaFree(memory) == cudaErrorIllegalAddress);
    EXPECT(cudaLaunchKernel(&wild_stub, dim3(1), dim3(1), nullptr, 0, nullptr) == cudaErrorIllegalAddress);
    EXPECT(std::string(cudaGetErrorString(cudaErrorIllegalAddress)) == "an illegal memory access was encountered");
}

// A processor that divides by zero faults too, and so does a stack that overflows.
SCENARIO(division, "division") {
    OK(cudaLaunchKernel(&divide_stub, dim3(1), dim3(1), nullptr, 0, nullptr));
    EXPECT(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
}
SCENARIO(overflow, "overflow") {
    OK(cudaLaunchKernel(&deep_stub, dim3(1), dim3(1), nullptr, 0, nullptr));
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}

// A fault of the program's own: nothing to say about kernels.
SCENARIO(fault_on_host, "host-fault") {
    OK(cudaFree(nullptr));
    *(volatile int *)0x1230 = 1;
}

static void on_fault(int) { _exit(7); }

SCENARIO(own_handler, "own-handler") {
    std::signal(SIGSEGV, on_fault);
    run_wild();
    cudaDeviceSynchronize();
    EXPECT(!"the program's handler ends it");
}
