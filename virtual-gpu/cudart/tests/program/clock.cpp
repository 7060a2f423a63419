// Programs whose times a virtual clock decides: work that contends, host work that is measured, waits outside CUDA.
#include "harness.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>

static float between(cudaEvent_t first, cudaEvent_t last) {
    float milliseconds;
    OK(cudaEventElapsedTime(&milliseconds, first, last));
    return milliseconds;
}

struct Events {
    cudaEvent_t first, last;
    Events() {
        OK(cudaEventCreate(&first));
        OK(cudaEventCreate(&last));
    }
};

// Copies and kernels on two streams, as often as the environment says; prints the modelled milliseconds.
SCENARIO(contend, "clock-contend") {
    const int count = 1 << 18;
    int rounds = std::atoi(std::getenv("ROUNDS"));
    std::vector<int> host = counting(count);
    cudaStream_t streams[2];
    int *values[2];
    for (int i = 0; i < 2; i++) {
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        OK(cudaMallocManaged((void **)&values[i], 5 * count * sizeof(int)));
    }
    Events events;
    OK(cudaEventRecord(events.first));
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 2; i++) {
            OK(cudaMemcpyAsync(values[i], host.data(), count * sizeof(int), cudaMemcpyHostToDevice, streams[i]));
            OK(scale(values[i], count, 3, streams[i]));
        }
        OK(cudaDeviceSynchronize());
        OK(cudaMemcpy(host.data(), values[0], 64, cudaMemcpyDeviceToHost));
    }
    OK(cudaEventRecord(events.last));
    while (cudaEventQuery(events.last) == cudaErrorNotReady) {}
    cudaGetLastError();
    std::printf("%.6f\n", between(events.first, events.last));
}

// Sleeps between two events; prints the modelled milliseconds.
SCENARIO(sleep_between, "clock-sleep") {
    Events events;
    OK(cudaEventRecord(events.first));
    OK(cudaDeviceSynchronize());
    usleep(60000);
    OK(cudaEventRecord(events.last));
    OK(cudaDeviceSynchronize());
    std::printf("%.6f\n", between(events.first, events.last));
}

// Computes until it is killed.
SCENARIO(spin, "clock-spin") {
    OK(cudaFree(nullptr));
    std::printf("spinning\n");
    std::fflush(stdout);
    for (volatile bool go_on = true; go_on;) {}
}

static std::mutex mutex;
static std::condition_variable changed;
static bool called = false;

// Waits outside CUDA for what CUDA does.
SCENARIO(wait_outside, "clock-outside") {
    int *values;
    OK(cudaMalloc((void **)&values, 1 << 20));
    OK(scale(values, 1 << 18, 1));
    OK(cudaLaunchHostFunc(
        nullptr,
        [](void *) {
            std::lock_guard<std::mutex> lock(mutex);
            called = true;
            changed.notify_all();
        },
        nullptr));
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { return called; });
    lock.unlock();
    std::thread other([values] { OK(cudaMemset(values, 0, 1 << 20)); OK(cudaDeviceSynchronize()); });
    other.join();
}
