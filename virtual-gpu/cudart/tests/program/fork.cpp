// Children of fork: after CUDA was used every call is an error at once, before they are programs of their own.
//
// Trap: a child may not use stdio locks that another thread held; it ends by _exit but where exit itself is looked at.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "harness.h"

// How a child ended, which must not hang: an alarm ends it.
template <typename Body> static void child(Body body) {
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        alarm(20);
        body();
        _exit(9);
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void uses_nothing() {
    void *memory = nullptr;
    int count = 0;
    bool refused = cudaMalloc(&memory, 4096) == cudaErrorInitializationError &&
                   cudaGetDeviceCount(&count) == cudaErrorInitializationError &&
                   cudaDeviceSynchronize() == cudaErrorInitializationError &&
                   cudaFree(nullptr) == cudaErrorInitializationError &&
                   cudaGetLastError() == cudaErrorInitializationError && cudaGetLastError() == cudaSuccess &&
                   std::strcmp(cudaGetErrorString(cudaErrorInitializationError), "initialization error") == 0;
    if (!refused) _exit(1);
}

SCENARIO(forked_after, "fork") {
    char *memory = nullptr;
    OK(cudaMalloc(reinterpret_cast<void **>(&memory), 1 << 20));
    // Other threads and streams are in calls, and hold locks, whenever the fork comes.
    bool over = false;
    std::thread busy([&] {
        cudaStream_t stream;
        OK(cudaStreamCreate(&stream));
        while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
            OK(cudaMemsetAsync(memory, 1, 1 << 20, stream));
            OK(cudaStreamSynchronize(stream));
        }
    });
    for (int i = 0; i < 50; i++) {
        child([] { uses_nothing(); _exit(0); });
        // Exit handlers run.
        child([] { uses_nothing(); std::exit(0); });
    }
    child([] { execl("/bin/true", "true", nullptr); });
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/bin/true", "true", nullptr);
        _exit(1);
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    busy.join();
    OK(cudaMemset(memory, 2, 1 << 20));
    OK(cudaFree(memory));
}

SCENARIO(forked_before, "fork-before") {
    auto uses = [] {
        char *memory = nullptr, byte = 0;
        OK(cudaMalloc(reinterpret_cast<void **>(&memory), 4096));
        OK(cudaMemset(memory, 7, 4096));
        OK(cudaMemcpy(&byte, memory, 1, cudaMemcpyDeviceToHost));
        EXPECT(byte == 7);
        OK(cudaFree(memory));
    };
    child([&] { uses(); _exit(0); });
    uses();
}

SCENARIO(forked_and_ended, "fork-and-end") {
    void *memory = nullptr;
    OK(cudaMalloc(&memory, 1 << 20));
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        alarm(60);
        uses_nothing();
        char byte;
        while (read(0, &byte, 1) > 0) {
        }
        _exit(0);
    }
    _exit(0);
}
