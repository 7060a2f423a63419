// What the checks of a GPU need besides the seven programs: `probe launch|task|spin BYTES|illegal|memory BYTES`.
//
// Compiled with and without the pass, like the programs. Trap: whoever reads its lines waits for them, so each is flushed;
// nothing in here runs longer than about a minute even if nobody ends it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

#define CHECK(call)                                                             \
  do {                                                                          \
    cudaError_t error = (call);                                                 \
    if (error != cudaSuccess) {                                                 \
      fprintf(stderr, "probe: %s: %s\n", #call, cudaGetErrorString(error));     \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

static double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void say(const char *line) {
  puts(line);
  fflush(stdout);
}

__global__ void nothing(int *p) {
  if (threadIdx.x == 0) *p = 1;
}

__global__ void touch(char *p, size_t bytes) {
  size_t step = size_t(gridDim.x) * blockDim.x * 4096;
  for (size_t at = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4096; at < bytes; at += step) p[at] = 1;
}

// Each step waits for the one before: some 4 cycles of a GPU, so a minute at 2 GHz.
__global__ void spin(volatile float *p) {
  float x = *p;
  for (long long i = 0; i < 30000000000LL; ++i) {
    x = x * 0.999f + 0.001f;
    if ((i & 0xfffff) == 0) *p = x;
  }
  *p = x;
}

__global__ void wild(int *p) { p[threadIdx.x] = 1; }

// Nanoseconds of one launch, of batches that end with a wait.
static int launch() {
  const int batches = 20, batch = 1000;
  int *p;
  CHECK(cudaMalloc(&p, sizeof *p));
  for (int i = 0; i < batches; ++i) {
    double start = now_ns();
    for (int j = 0; j < batch; ++j) nothing<<<1, 32>>>(p);
    CHECK(cudaDeviceSynchronize());
    printf("%.1f\n", (now_ns() - start) / batch);
  }
  CHECK(cudaFree(p));
  return 0;
}

// Nanoseconds of one task: memory, a kernel, its end.
static void one_task(size_t bytes) {
  int *p;
  CHECK(cudaMalloc(&p, bytes));
  nothing<<<1, 32>>>(p);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(p));
}

static int task() {
  for (int i = 0; i < 200; ++i) {
    double start = now_ns();
    one_task(4 << 20);
    printf("%.1f\n", now_ns() - start);
  }
  return 0;
}

// Managed memory of this size, all of it on the device, and a kernel that does not end soon.
static int spin_on(size_t bytes) {
  char *p;
  CHECK(cudaMallocManaged(&p, bytes));
  touch<<<1024, 256>>>(p, bytes);
  CHECK(cudaDeviceSynchronize());
  spin<<<1, 1>>>((volatile float *)p);
  CHECK(cudaGetLastError());
  say("running");
  CHECK(cudaDeviceSynchronize());
  return 0;
}

// 0 if the device says what happened.
static int illegal() {
  int *p;
  CHECK(cudaMalloc(&p, 4096));
  nothing<<<1, 32>>>(p);
  CHECK(cudaDeviceSynchronize());
  wild<<<1, 32>>>((int *)0x10);
  cudaError_t error = cudaDeviceSynchronize();
  say(cudaGetErrorName(error));
  return error != cudaErrorIllegalAddress;
}

// Says what it has, and goes on with each line that it reads.
static int memory(size_t bytes) {
  char line[16];
  auto has = [&](const char *what) {
    say(what);
    return fgets(line, sizeof line, stdin) != nullptr;
  };
  char *plain = nullptr, *managed = nullptr;
  if (!has("nothing")) return 1;
  CHECK(cudaFree(nullptr));
  if (!has("context")) return 1;
  CHECK(cudaMalloc(&plain, bytes));
  touch<<<256, 256>>>(plain, bytes);
  CHECK(cudaDeviceSynchronize());
  if (!has("plain")) return 1;
  CHECK(cudaMallocManaged(&managed, bytes));
  touch<<<256, 256>>>(managed, bytes);
  CHECK(cudaDeviceSynchronize());
  if (!has("managed")) return 1;
  CHECK(cudaFree(plain));
  CHECK(cudaFree(managed));
  return !has("freed");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  size_t bytes = argc > 2 ? strtoull(argv[2], nullptr, 10) : 0;
  if (!strcmp(what, "launch")) return launch();
  if (!strcmp(what, "task")) return task();
  if (!strcmp(what, "illegal")) return illegal();
  if (!strcmp(what, "spin") && bytes) return spin_on(bytes);
  if (!strcmp(what, "memory") && bytes) return memory(bytes);
  fprintf(stderr, "probe: launch, task, illegal, spin BYTES, or memory BYTES\n");
  return 2;
}
