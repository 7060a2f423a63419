// Times what a card file says of a GPU: copies, prefetches, page faults, arithmetic, launches, time slices. `eager calibrate`
// compiles and runs it, on a real GPU and on the virtual one that its results describe, and compares.
//
// Prints one JSON object per line: the device, then samples {"measure", "amount", "ms"}. All times are CUDA events': a host's
// clock says nothing on a virtual one. Traps: managed memory in sum stays far below what is free, since a driver may hang when
// it must evict for it; the neighbour of the time slices is forked before the first CUDA call.
//
// calibrate MIB ROUNDS WORK [alone]: size of the buffers, samples of each, multiply-adds of a thread; `alone`: no time slices.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                                                       \
  do {                                                                                                    \
    cudaError_t error = (call);                                                                           \
    if (error != cudaSuccess) {                                                                           \
      fprintf(stderr, "calibrate: %s: %s\n", #call, cudaGetErrorString(error));                           \
      exit(1);                                                                                            \
    }                                                                                                     \
  } while (0)

static const size_t BLOCK = 2 << 20;  // What the driver pages at once.
static const int LAUNCHES = 1000;
static const int CHAINS = 8;
static const int NEIGHBOUR_KERNELS = 400;
static const int THREADS = 256;

__global__ void nothing() {}

__global__ void read_all(const float4 *from, float *sink, size_t count) {
  size_t step = (size_t)gridDim.x * blockDim.x;
  float sum = 0;
  // All of it: a model counts the bytes that are touched.
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    sum += from[i].x + from[i].y + from[i].z + from[i].w;
  if (sum == 1234.5f) *sink = sum;
}

__global__ void copy_all(const float4 *from, float4 *to, size_t count) {
  size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) to[i] = from[i];
}

template <typename T> __global__ void multiply_add(T *out, T factor, int rounds) {
  T chain[CHAINS];
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) chain[c] = threadIdx.x + c;
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) chain[c] = chain[c] * factor + factor;
  }
  T sum = 0;
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) sum += chain[c];
  out[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

static cudaEvent_t started, ended;

static void begin(cudaStream_t stream = 0) { CHECK(cudaEventRecord(started, stream)); }

static float end(cudaStream_t stream = 0) {
  float ms = 0;
  CHECK(cudaEventRecord(ended, stream));
  CHECK(cudaEventSynchronize(ended));
  CHECK(cudaEventElapsedTime(&ms, started, ended));
  return ms;
}

static void sample(const char *measure, double amount, float ms) {
  printf("{\"measure\":\"%s\",\"amount\":%.0f,\"ms\":%.6f}\n", measure, amount, ms);
}

static void to_host(void *p, size_t bytes) {
#if CUDART_VERSION >= 13000
  cudaMemLocation host = {cudaMemLocationTypeHost, 0};
  CHECK(cudaMemPrefetchAsync(p, bytes, host, 0, 0));
#else
  CHECK(cudaMemPrefetchAsync(p, bytes, cudaCpuDeviceId, 0));
#endif
  CHECK(cudaDeviceSynchronize());
}

static void to_device(void *p, size_t bytes) {
#if CUDART_VERSION >= 13000
  cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
  CHECK(cudaMemPrefetchAsync(p, bytes, device, 0, 0));
#else
  CHECK(cudaMemPrefetchAsync(p, bytes, 0, 0));
#endif
}

static void copies(size_t bytes, int rounds) {
  char *pinned, *pinned_back, *device, *device_back;
  CHECK(cudaMallocHost((void **)&pinned, bytes));
  CHECK(cudaMallocHost((void **)&pinned_back, bytes));
  CHECK(cudaMalloc((void **)&device, bytes));
  CHECK(cudaMalloc((void **)&device_back, bytes));
  char *pageable = (char *)malloc(bytes);
  memset(pinned, 1, bytes);
  memset(pageable, 1, bytes);
  cudaStream_t up, down;
  CHECK(cudaStreamCreateWithFlags(&up, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&down, cudaStreamNonBlocking));
  cudaEvent_t both;
  CHECK(cudaEventCreate(&both));
  for (int r = 0; r < rounds; ++r) {
    begin();
    CHECK(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, 0));
    sample("copy_to_device", bytes, end());
    begin();
    CHECK(cudaMemcpyAsync(pinned_back, device_back, bytes, cudaMemcpyDeviceToHost, 0));
    sample("copy_to_host", bytes, end());
    begin();
    CHECK(cudaMemcpy(device, pageable, bytes, cudaMemcpyHostToDevice));
    sample("pageable_to_device", bytes, end());
    CHECK(cudaDeviceSynchronize());
    begin(up);
    CHECK(cudaStreamWaitEvent(down, started, 0));
    CHECK(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, up));
    CHECK(cudaMemcpyAsync(pinned_back, device_back, bytes, cudaMemcpyDeviceToHost, down));
    CHECK(cudaEventRecord(both, down));
    CHECK(cudaStreamWaitEvent(up, both, 0));
    sample("copy_both_ways", bytes, end(up));
  }
  CHECK(cudaStreamDestroy(up));
  CHECK(cudaStreamDestroy(down));
  free(pageable);
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFreeHost(pinned_back));
  CHECK(cudaFree(device));
  CHECK(cudaFree(device_back));
}

static void paging(size_t bytes, int rounds, int grid, float *sink) {
  char *managed;
  CHECK(cudaMallocManaged((void **)&managed, bytes));
  memset(managed, 1, bytes);
  for (int r = 0; r < rounds; ++r) {
    to_host(managed, bytes);
    begin();
    to_device(managed, bytes);
    sample("prefetch", bytes, end());
    for (size_t size = BLOCK; size <= bytes; size *= 4) {
      to_host(managed, bytes);
      begin();
      read_all<<<grid, THREADS>>>((float4 *)managed, sink, size / sizeof(float4));
      sample("fault_in", size, end());
      begin();
      read_all<<<grid, THREADS>>>((float4 *)managed, sink, size / sizeof(float4));
      sample("fault_in_resident", size, end());
    }
  }
  CHECK(cudaFree(managed));
}

static void kernels(size_t bytes, int rounds, int grid, int work) {
  float4 *from, *to;
  CHECK(cudaMalloc((void **)&from, bytes));
  CHECK(cudaMalloc((void **)&to, bytes));
  CHECK(cudaMemset(from, 0, bytes));
  double flops = 2.0 * grid * THREADS * work * CHAINS;
  nothing<<<1, 1>>>();
  for (int r = 0; r < rounds; ++r) {
    begin();
    copy_all<<<grid, THREADS>>>(from, to, bytes / sizeof(float4));
    sample("read_and_write", 2.0 * bytes, end());
    begin();
    multiply_add<float><<<grid, THREADS>>>((float *)to, 0.999f, work);
    sample("flops32", flops, end());
    begin();
    multiply_add<double><<<grid, THREADS>>>((double *)to, 0.999, work);
    sample("flops64", flops, end());
    begin();
    for (int i = 0; i < LAUNCHES; ++i) nothing<<<1, 1>>>();
    sample("launches", LAUNCHES, end());
  }
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
}

// Forked before CUDA is used: waits for a byte, or for the end of the pipe, then keeps the GPU busy for a while.
static void neighbour(int pipe, int grid, int work) {
  char go;
  if (read(pipe, &go, 1) != 1) _exit(0);
  double *out;
  CHECK(cudaMalloc((void **)&out, (size_t)grid * THREADS * sizeof(double)));
  for (int i = 0; i < NEIGHBOUR_KERNELS; ++i) {
    multiply_add<double><<<grid, THREADS>>>(out, 0.999, work);
    if (i % 8 == 7) CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaDeviceSynchronize());
  _exit(0);
}

// A kernel that is stalled by others' time slices takes longer by what they take.
static void slices(int pipe, int rounds, int grid, int work) {
  double *out;
  CHECK(cudaMalloc((void **)&out, (size_t)grid * THREADS * sizeof(double)));
  for (int alone = 1; alone >= 0; --alone) {
    if (!alone && write(pipe, "g", 1) != 1) exit(1);
    for (int r = 0; r < 20 * rounds; ++r) {
      begin();
      multiply_add<double><<<grid, THREADS>>>(out, 0.999, work / 16);
      sample(alone ? "kernel_alone" : "kernel_beside_a_neighbour", 1, end());
    }
  }
  CHECK(cudaFree(out));
}

int main(int argc, char **argv) {
  size_t bytes = (argc > 3 ? strtoull(argv[1], nullptr, 10) : 0) << 20;
  int rounds = argc > 3 ? atoi(argv[2]) : 0;
  int work = argc > 3 ? atoi(argv[3]) : 0;
  bool alone = argc > 4 && !strcmp(argv[4], "alone");
  int pipes[2];
  if (bytes < BLOCK || rounds < 1 || work < 16 || pipe(pipes)) {
    fprintf(stderr, "calibrate: it is calibrate MIB ROUNDS WORK [alone], from 2, 1 and 16\n");
    return 2;
  }
  pid_t child = alone ? -1 : fork();
  const int grid = 1024;
  if (child == 0) {
    close(pipes[1]);
    neighbour(pipes[0], grid, work);
  }
  close(pipes[0]);
  cudaDeviceProp properties;
  size_t free_bytes = 0, total = 0;
  CHECK(cudaSetDevice(0));
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  if (bytes > free_bytes / 8) {
    fprintf(stderr, "calibrate: buffers of %zu MiB are more than an eighth of the %zu MiB that are free\n", bytes >> 20,
            free_bytes >> 20);
    return 1;
  }
  printf("{\"name\":\"%s\",\"major\":%d,\"minor\":%d,\"memory_bytes\":%zu,\"sms\":%d,\"threads_per_sm\":%d,"
         "\"blocks_per_sm\":%d,\"shared_bytes_per_sm\":%zu,\"registers_per_sm\":%d}\n",
         properties.name, properties.major, properties.minor, total, properties.multiProcessorCount,
         properties.maxThreadsPerMultiProcessor, properties.maxBlocksPerMultiProcessor,
         properties.sharedMemPerMultiprocessor, properties.regsPerMultiprocessor);
  // Who reads it may end this here, before minutes of measuring.
  fflush(stdout);
  CHECK(cudaEventCreate(&started));
  CHECK(cudaEventCreate(&ended));
  float *sink;
  CHECK(cudaMalloc((void **)&sink, sizeof *sink));
  copies(bytes, rounds);
  paging(bytes, rounds, grid, sink);
  kernels(bytes, rounds, grid, work);
  if (!alone) slices(pipes[1], rounds, grid, work);
  // The neighbour ends when the pipe does, also if this process ends anywhere above.
  close(pipes[1]);
  if (!alone) waitpid(child, nullptr, 0);
  CHECK(cudaFree(sink));
  return 0;
}
