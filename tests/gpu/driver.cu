// What NVIDIA's documents leave open about the driver and a card: `driver memory|copies MIB ROUNDS`, or `driver neighbour MIB
// ROUNDS WORK`, where WORK is the multiply-adds of a thread.
//
// Prints a line for each sample, `NAME VALUE UNIT`, or `NAME skipped WHY` where runtime or device lack a call. Kernels and copies
// are timed by events, other calls by the host's clock. Traps: what is free is said of the whole card, in pieces that the driver
// chooses; the neighbour is forked before the first CUDA call.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                             \
  do {                                                                          \
    cudaError_t error = (call);                                                 \
    if (error != cudaSuccess) {                                                 \
      fprintf(stderr, "driver: %s: %s\n", #call, cudaGetErrorString(error));    \
      _exit(1);                                                                 \
    }                                                                           \
  } while (0)

static const int BLOCKS = 1024, THREADS = 256;
static const double MIB = 1 << 20;
static const cudaMemLocation DEVICE = {cudaMemLocationTypeDevice, 0}, HOST = {cudaMemLocationTypeHost, 0};

__global__ void add_one(float4 *p, size_t count) {
  size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) p[i].x += 1;
}

__global__ void compute(float *out, int work) {
  float x = threadIdx.x;
  for (int i = 0; i < work; ++i) x = x * 0.999f + 0.5f;
  out[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = x;
}

static void sample(const std::string &name, double value, const char *unit) {
  printf("%s %.6f %s\n", name.c_str(), value, unit);
}

static void skipped(const std::string &name, const std::string &why) {
  printf("%s skipped %s\n", name.c_str(), why.c_str());
}

static double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Milliseconds of what `work` puts into the default stream.
template <typename Work> static float timed(Work work) {
  cudaEvent_t start, end;
  float ms = 0;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(start));
  work();
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaEventElapsedTime(&ms, start, end));
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(end));
  return ms;
}

static float use(void *p, size_t bytes) {
  return timed([&] { add_one<<<BLOCKS, THREADS>>>((float4 *)p, bytes / sizeof(float4)); });
}

// A kernel's code is loaded with its first launch.
static void warm_up() {
  void *p;
  CHECK(cudaMalloc(&p, sizeof(float4)));
  use(p, sizeof(float4));
  CHECK(cudaFree(p));
}

static bool is_managed_concurrent(const std::string &name) {
  int concurrent = 0;
  CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  if (!concurrent) skipped(name, "the device cannot move managed memory on demand");
  return concurrent;
}

// ---- memory: plain, managed, and mapped to addresses that stay

// The driver's calls for mapped memory, which the runtime lacks.
struct Mapping {
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) unreserve;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
};

// Empty, or the name of the first call that is missing.
static std::string find(Mapping &calls) {
  const struct {
    const char *name;
    void *place;
  } all[] = {{"cuMemGetAllocationGranularity", &calls.granularity}, {"cuMemAddressReserve", &calls.reserve},
             {"cuMemAddressFree", &calls.unreserve}, {"cuMemCreate", &calls.create}, {"cuMemRelease", &calls.release},
             {"cuMemMap", &calls.map}, {"cuMemUnmap", &calls.unmap}, {"cuMemSetAccess", &calls.set_access}};
  for (auto &call : all) {
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    cudaError_t error = cudaGetDriverEntryPointByVersion(call.name, (void **)call.place, 12000, cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return call.name;
  }
  return "";
}

static void check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "driver: %s: driver error %d\n", call, (int)result);
  _exit(1);
}

template <typename Get, typename Back> static void one_round(const std::string &kind, size_t bytes, Get get, Back back) {
  double start = now_ms();
  void *p = get();
  sample(kind + "_get", now_ms() - start, "ms");
  sample(kind + "_first_use", use(p, bytes), "ms");
  sample(kind + "_use", use(p, bytes), "ms");
  start = now_ms();
  back(p);
  sample(kind + "_give_back", now_ms() - start, "ms");
}

// Managed memory that was never written, when a kernel uses it first: as it is, on a device that it is advised to prefer, and
// after a prefetch, which makes its pages there.
static void managed(const std::string &kind, size_t bytes, bool is_advised, bool is_prefetched) {
  auto get = [&] {
    void *p;
    CHECK(cudaMallocManaged(&p, bytes));
    if (is_advised) CHECK(cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, DEVICE));
    if (is_prefetched) sample(kind + "_move", timed([&] { CHECK(cudaMemPrefetchAsync(p, bytes, DEVICE, 0, 0)); }), "ms");
    return p;
  };
  one_round(kind, bytes, get, [](void *p) { CHECK(cudaFree(p)); });
}

static void plain(size_t bytes) {
  auto get = [&] {
    void *p;
    CHECK(cudaMalloc(&p, bytes));
    return p;
  };
  one_round("plain", bytes, get, [](void *p) { CHECK(cudaFree(p)); });
}

// Addresses are reserved before and stay, so getting memory is making it and mapping it.
static void mapped(const Mapping &calls, const CUmemAllocationProp &prop, size_t bytes) {
  CUdeviceptr address;
  CUmemGenericAllocationHandle handle;
  CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  double map_ms = 0;
  check(calls.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  auto get = [&] {
    check(calls.create(&handle, bytes, &prop, 0), "cuMemCreate");
    double start = now_ms();
    check(calls.map(address, bytes, 0, handle, 0), "cuMemMap");
    check(calls.set_access(address, bytes, &access, 1), "cuMemSetAccess");
    map_ms = now_ms() - start;
    return (void *)address;
  };
  auto back = [&](void *) {
    check(calls.unmap(address, bytes), "cuMemUnmap");
    check(calls.release(handle), "cuMemRelease");
  };
  one_round("mapped", bytes, get, back);
  sample("mapped_get_map_only", map_ms, "ms");
  check(calls.unreserve(address, bytes), "cuMemAddressFree");
}

static void memory(size_t bytes, int rounds) {
  // The driver's calls find a context.
  warm_up();
  Mapping calls = {};
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  size_t granularity = 0;
  std::string missing = find(calls);
  if (missing.empty() && calls.granularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS)
    missing = "cuMemGetAllocationGranularity for the device";
  if (missing.empty() && bytes % granularity) missing = "a granularity that divides the size";
  if (!missing.empty()) skipped("mapped", "the driver has no " + missing);
  bool has_managed = is_managed_concurrent("managed");
  for (int r = 0; r < rounds; ++r) {
    plain(bytes);
    if (has_managed) {
      managed("managed", bytes, false, false);
      managed("managed_advised", bytes, true, false);
      managed("managed_prefetched", bytes, false, true);
    }
    if (missing.empty()) mapped(calls, prop, bytes);
  }
}

// ---- copies: where bytes are after a copy into managed memory

static double free_mib() {
  size_t free_bytes, total;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  return free_bytes / MIB;
}

static void copy(const std::string &name, const char *from, size_t bytes, const cudaMemLocation *preferred) {
  void *p;
  CHECK(cudaMallocManaged(&p, bytes));
  if (preferred) {
    cudaError_t error = cudaMemAdvise(p, bytes, cudaMemAdviseSetPreferredLocation, *preferred);
    if (error != cudaSuccess) {
      skipped(name, std::string("cudaMemAdvise: ") + cudaGetErrorString(error));
      CHECK(cudaFree(p));
      return;
    }
  }
  double before = free_mib();
  sample(name + "_copy", timed([&] { CHECK(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice)); }), "ms");
  sample(name + "_on_device", before - free_mib(), "MiB");
  sample(name + "_first_use", use(p, bytes), "ms");
  sample(name + "_on_device_after_use", before - free_mib(), "MiB");
  sample(name + "_use", use(p, bytes), "ms");
  CHECK(cudaFree(p));
}

static void copies(size_t bytes, int rounds) {
  if (!is_managed_concurrent("managed")) return;
  char *from = (char *)malloc(bytes);
  memset(from, 1, bytes);
  warm_up();
  for (int r = 0; r < rounds; ++r) {
    copy("preferred_nowhere", from, bytes, nullptr);
    copy("preferred_device", from, bytes, &DEVICE);
    copy("preferred_host", from, bytes, &HOST);
  }
  free(from);
}

// ---- neighbour: two processes, each with a context of its own, in streams of low or high priority

// What the neighbour does meanwhile. Faulting: one kernel at a time, on managed memory that was moved to the host before it.
enum Neighbour : char { Idle = 'i', Low = 'l', High = 'h', Resident = 'r', Faulting = 'f' };
// Of the neighbour's before it looks for an order, and of those that are timed beside it.
static const int BATCH = 4, TIMED = 32;

static cudaStream_t stream_of(bool high) {
  int least, greatest;
  cudaStream_t stream;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high ? greatest : least));
  return stream;
}

// Does what the last byte of a pipe says until the next one comes, and answers once it has; ends with the pipe.
static void be_neighbour(int orders, int answers, std::atomic<long> *kernels, size_t bytes, int work) {
  cudaStream_t streams[] = {stream_of(false), stream_of(true)};
  float *out;
  char *managed;
  CHECK(cudaMalloc(&out, BLOCKS * THREADS * sizeof *out));
  CHECK(cudaMallocManaged(&managed, bytes));
  use(managed, bytes);
  auto run = [&](char what, bool is_answered) {
    if (what == Idle) return;
    if (what == Faulting) {
      CHECK(cudaMemPrefetchAsync(managed, bytes, HOST, 0, 0));
      CHECK(cudaDeviceSynchronize());
      // The move takes as long as what is timed beside it: from here on the kernel faults.
      if (!is_answered && write(answers, &what, 1) != 1) _exit(0);
    }
    int count = what == Faulting ? 1 : BATCH;
    for (int i = 0; i < count; ++i) {
      if (what == Low || what == High) compute<<<BLOCKS, THREADS, 0, streams[what == High]>>>(out, work);
      else add_one<<<BLOCKS, THREADS>>>((float4 *)managed, bytes / sizeof(float4));
    }
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    *kernels += count;
  };
  char what = Idle;
  for (pollfd order = {orders, POLLIN, 0};;) {
    if (poll(&order, 1, what == Idle ? -1 : 0) > 0) {
      if (read(orders, &what, 1) != 1) _exit(0);
      run(what, false);
      if (what != Faulting && write(answers, &what, 1) != 1) _exit(0);
      continue;
    }
    run(what, true);
  }
}

// Milliseconds of a kernel: at the mean of all, and the longest, which a mean hides.
static void kernels_beside(const std::string &name, cudaStream_t stream, float *out, int work, bool is_kept) {
  cudaEvent_t marks[TIMED + 1];
  for (auto &mark : marks) CHECK(cudaEventCreate(&mark));
  CHECK(cudaEventRecord(marks[0], stream));
  for (int i = 0; i < TIMED; ++i) {
    compute<<<BLOCKS, THREADS, 0, stream>>>(out, work);
    CHECK(cudaEventRecord(marks[i + 1], stream));
  }
  CHECK(cudaGetLastError());
  CHECK(cudaEventSynchronize(marks[TIMED]));
  float all = 0, longest = 0;
  for (int i = 0; i < TIMED; ++i) {
    float ms;
    CHECK(cudaEventElapsedTime(&ms, marks[i], marks[i + 1]));
    all += ms;
    longest = std::max(longest, ms);
  }
  for (auto &mark : marks) CHECK(cudaEventDestroy(mark));
  if (!is_kept) return;
  sample(name, all / TIMED, "ms");
  sample(name + "_longest", longest, "ms");
}

static void neighbour(size_t bytes, int rounds, int work) {
  int orders[2], answers[2];
  void *shared = mmap(nullptr, sizeof(std::atomic<long>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || pipe(orders) || pipe(answers)) _exit(1);
  auto *kernels = new (shared) std::atomic<long>(0);
  pid_t child = fork();
  if (child < 0) _exit(1);
  if (child == 0) {
    close(orders[1]);
    close(answers[0]);
    be_neighbour(orders[0], answers[1], kernels, bytes, work);
  }
  // Whoever ends, the other one's pipe ends too.
  close(orders[0]);
  close(answers[1]);
  const struct {
    const char *name;
    Neighbour what;
    bool high;
  } cases[] = {{"low_alone", Idle, false},           {"high_alone", Idle, true},
               {"low_beside_low", Low, false},       {"low_beside_high", High, false},
               {"high_beside_low", Low, true},       {"low_beside_resident", Resident, false},
               {"low_beside_faulting", Faulting, false}};
  bool faults = is_managed_concurrent("low_beside_faulting");
  cudaStream_t streams[] = {stream_of(false), stream_of(true)};
  float *out;
  CHECK(cudaMalloc(&out, BLOCKS * THREADS * sizeof *out));
  for (int r = -1; r < rounds; ++r) {
    for (auto &one : cases) {
      if (one.what == Faulting && !faults) continue;
      char what = one.what;
      // A neighbour that has failed has said why.
      if (write(orders[1], &what, 1) != 1 || read(answers[0], &what, 1) != 1) _exit(1);
      long before = *kernels;
      // The first round warms up.
      bool is_kept = r >= 0;
      kernels_beside(one.name, streams[one.high], out, work, is_kept);
      if (is_kept && what != Idle) sample(std::string(one.name) + "_neighbours", *kernels - before, "kernels");
    }
  }
  close(orders[1]);
  waitpid(child, nullptr, 0);
}

int main(int argc, char **argv) {
  std::string what = argc > 3 ? argv[1] : "";
  size_t bytes = argc > 3 ? strtoull(argv[2], nullptr, 10) << 20 : 0;
  int rounds = argc > 3 ? atoi(argv[3]) : 0, work = argc > 4 ? atoi(argv[4]) : 0;
  if (bytes && rounds > 0 && what == "memory") memory(bytes, rounds);
  else if (bytes && rounds > 0 && what == "copies") copies(bytes, rounds);
  else if (bytes && rounds > 0 && work > 0 && what == "neighbour") neighbour(bytes, rounds, work);
  else {
    fprintf(stderr, "driver: memory MIB ROUNDS, copies MIB ROUNDS, or neighbour MIB ROUNDS WORK\n");
    return 2;
  }
  return 0;
}
