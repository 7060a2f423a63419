// The test program: its kernels, written by hand against the kernel ABI so that this test needs no device compiler, and
// the choice of a scenario. Trap: the structures below mirror `eager_exec::abi`, whose version the build passes on.
#include "harness.h"

struct BlockContext {
    uint32_t block_idx[3], block_dim[3], grid_dim[3], shared_bytes;
    uint8_t *shared, *scratch;
    uint64_t scratch_bytes, touch_base, touch_limit;
    uint8_t *touch_map;
    uint32_t touch_shift, phase;
    uint64_t global_bytes, flops32, flops64, frame_stride;
    const struct Helpers *helpers;
    struct Wait *waits;
    uint64_t grid_workspace;
    const struct Assertion *assertion;
    uint64_t reserved[4];
};
struct Assertion {
    const char *message, *file, *function;
    uint32_t line, thread_idx[3];
};
struct Helpers {
    uint8_t *(*grow_scratch)(BlockContext *, uint64_t);
    int32_t (*vprintf)(const char *, const void *);
    void (*trap)(BlockContext *);
};
struct ParamDesc { uint32_t size, align; };
struct KernelEntry {
    const char *name;
    void (*run_block)(BlockContext *, const void *const *);
    const ParamDesc *params;
    uint32_t param_count, mode, static_shared_bytes, flags, threads_max, cluster;
};
struct VariableEntry { const char *name; void *address; uint64_t bytes; };
struct KernelTable {
    uint32_t abi_version, kernel_count, variable_count, reserved;
    const KernelEntry *kernels;
    const VariableEntry *variables;
    const void *device_code;
    const struct VariableMemory *memory;
};
struct MemoryRange { void *start; uint64_t bytes; };
struct VariableMemory { MemoryRange initialised, zeroed; };
static_assert(sizeof(BlockContext) == 192 && sizeof(KernelEntry) == 48, "the ABI's sizes");

extern "C" void eager_vgpu_register(const KernelTable *);
extern "C" void **__cudaRegisterFatBinary(void *);
extern "C" void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, dim3 *, dim3 *,
                                       int *);
extern "C" void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
// ---- kernels ----

// Whole pages of variables: a __constant__ one, and one that holds its address in device code.
static struct alignas(4096) { int offset, *where; } device_memory = {5, &device_memory.offset};
static int &device_offset = device_memory.offset;
char shadow_offset, shadow_where;  // The host's shadows of them: only their addresses count.

static void touch(BlockContext *ctx, const void *address, bool write) {
    uint64_t index = ((uint64_t)address - ctx->touch_base) >> ctx->touch_shift;
    if (index > ctx->touch_limit) index = ctx->touch_limit;
    ctx->touch_map[2 * index + write] = 1;
    ctx->global_bytes += 4;
}

// values[i] = values[i] * factor + offset, for i < count
static void scale_block(BlockContext *ctx, const void *const *args) {
    int *values = *(int *const *)args[0];
    int count = *(const int *)args[1], factor = *(const int *)args[2];
    for (uint32_t thread = 0; thread < ctx->block_dim[0]; thread++) {
        uint32_t i = ctx->block_idx[0] * ctx->block_dim[0] + thread;
        if (i >= (uint32_t)count) continue;
        touch(ctx, values + i, false);
        touch(ctx, values + i, true);
        values[i] = values[i] * factor + device_offset;
        ctx->flops32 += 2;
    }
}
static void trap_block(BlockContext *ctx, const void *const *) { ctx->helpers->trap(ctx); }
static void assert_block(BlockContext *ctx, const void *const *) {
    const Assertion assertion = {"n < 4", "a.cu", "void k(int)", 7, {3, 0, 0}};
    ctx->assertion = &assertion;
    ctx->helpers->trap(ctx);
}
static void wild_block(BlockContext *, const void *const *) { *(volatile int *)0x1230 = 1; }
static volatile int zero = 0;
static void divide_block(BlockContext *, const void *const *) { zero = 7 / zero; }
static int deep(volatile int *above) {
    volatile int here[1024] = {*above};
    return zero ? 0 : deep(here) + here[0];
}
static void deep_block(BlockContext *, const void *const *) { deep(&zero); }

static const ParamDesc scale_params[] = {{8, 8}, {4, 4}, {4, 4}};
static const KernelEntry kernels[] = {
    {"_Z5scalePiii", scale_block, scale_params, 3, 0, 1024, 3},
    {"_Z4trapv", trap_block, nullptr, 0, 0, 0, 0},
    {"_Z4wildv", wild_block, nullptr, 0, 0, 0, 0},
    {"_Z6dividev", divide_block, nullptr, 0, 0, 0, 0},
    {"_Z4deepv", deep_block, nullptr, 0, 0, 0, 0},
    {"_Z7assertsv", assert_block, nullptr, 0, 0, 0, 0},
};
static const VariableEntry variables[] = {{"offset", &device_memory.offset, sizeof(int)},
                                          {"where", &device_memory.where, sizeof(int *)}};
static const VariableMemory memory = {{&device_memory, sizeof device_memory}, {nullptr, 0}};
static const KernelTable table = {KERNEL_ABI_VERSION, 6, 2, 0, kernels, variables, nullptr, &memory};

// Host stubs: only their addresses count.
char scale_stub, trap_stub, wild_stub, divide_stub, deep_stub, orphan_stub, assert_stub;

__attribute__((constructor(101))) static void register_cpu_code() { eager_vgpu_register(&table); }
__attribute__((constructor)) static void register_host_code() {
    static char blob;
    void **handle = __cudaRegisterFatBinary(&blob);
    auto add = [&](char *stub, const char *name) {
        __cudaRegisterFunction(handle, stub, (char *)name, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    };
    add(&scale_stub, "_Z5scalePiii");
    add(&trap_stub, "_Z4trapv");
    add(&wild_stub, "_Z4wildv");
    add(&divide_stub, "_Z6dividev");
    add(&deep_stub, "_Z4deepv");
    add(&assert_stub, "_Z7assertsv");
    add(&orphan_stub, "_Z6orphanv");
    __cudaRegisterVar(handle, &shadow_offset, (char *)"offset", "offset", 0, sizeof(int), 1, 0);
    __cudaRegisterVar(handle, &shadow_where, (char *)"where", "where", 0, sizeof(int *), 0, 0);
}

cudaError_t scale(int *values, int count, int factor, cudaStream_t stream) {
    void *args[] = {&values, &count, &factor};
    return cudaLaunchKernel(&scale_stub, dim3((count + 255) / 256), dim3(256), args, 0, stream);
}

std::vector<int> counting(int count) {
    std::vector<int> values(count);
    for (int i = 0; i < count; i++) values[i] = i;
    return values;
}

size_t free_bytes() {
    size_t free = 0, total = 0;
    OK(cudaMemGetInfo(&free, &total));
    return free;
}

static Scenario *scenarios;

Scenario::Scenario(const char *name, void (*run)()) : name(name), run(run), next(scenarios) { scenarios = this; }

int main(int argc, char **argv) {
    for (Scenario *scenario = scenarios; scenario; scenario = scenario->next) {
        if (argc == 2 && !std::strcmp(argv[1], scenario->name)) {
            scenario->run();
            return 0;
        }
    }
    std::fprintf(stderr, "usage: %s SCENARIO\n", argv[0]);
    return 2;
}
