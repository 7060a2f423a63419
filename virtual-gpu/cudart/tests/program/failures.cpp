// What stays after a kernel has failed, and how a program ends that does not look.
#include "harness.h"

#include <dlfcn.h>

#include <iostream>

static void fail(const char *stub, cudaError_t expected) {
    OK(cudaLaunchKernel(stub, dim3(1), dim3(1), nullptr, 0, nullptr));
    EXPECT(cudaDeviceSynchronize() == expected);
}

// Every call whose name is on standard input, with nothing but zeros: the failure comes before any look at them.
static void expect_of_every_call(int expected) {
    using Call = int (*)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);
    int count = 0;
    for (std::string name; std::getline(std::cin, name); count++) {
        auto call = (Call)dlsym(RTLD_DEFAULT, name.c_str());
        EXPECT(call != nullptr);
        int code = call(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                        nullptr);
        if (code != expected) {
            std::fprintf(stderr, "%s gives %d, not %d\n", name.c_str(), code, expected);
            std::exit(1);
        }
    }
    std::printf("%d calls\n", count);
}

SCENARIO(sticky_address, "sticky-address") {
    fail(&wild_stub, cudaErrorIllegalAddress);
    expect_of_every_call(700);
}
SCENARIO(sticky_trap, "sticky-trap") {
    fail(&trap_stub, cudaErrorLaunchFailure);
    expect_of_every_call(719);
}
SCENARIO(sticky_assert, "sticky-assert") {
    fail(&assert_stub, cudaErrorAssert);
    expect_of_every_call(710);
    EXPECT(std::string(cudaGetErrorString(cudaErrorAssert)) == "device-side assert triggered");
}

// Functions that virtual GPUs do not have, each more than once.
SCENARIO(refused, "refused") {
    expect_of_every_call(cudaErrorNotSupported);
    EXPECT(cudaGetLastError() == cudaErrorNotSupported);
    OK(cudaFree(nullptr));
}

struct Destroyed {
    ~Destroyed() { std::puts("destroyed"); }
};

// The end of such a program: its destructors run, what it printed is written, and its status is what it says.
static void end_with(int status) {
    static Destroyed early;
    OK(cudaFree(nullptr));
    static Destroyed late;
    fail(&wild_stub, cudaErrorIllegalAddress);
    std::printf("goes on\n");
    std::exit(status);
}
SCENARIO(ignores, "ignores-a-fault") { end_with(0); }
SCENARIO(says, "says-a-fault") { end_with(3); }
SCENARIO(only_wrong, "only-wrong-arguments") { EXPECT(cudaFree((void *)1) == cudaErrorInvalidValue); }
