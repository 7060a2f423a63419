// A program that takes, uses, checks and gives back memory at random, and can say at any time what it holds.
//
// Arguments: a seed, and the most MiB that it has at once. Commands on standard input: `stop` (begin nothing new), `report`, `go`; its
// end ends the program. A report is `holds BYTES asks BYTES parked|inside`: bytes that the daemon was told of, bytes of the call
// that is under way, and whether the program stands between two calls. A value that differs ends the program with a line.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <unistd.h>

static std::atomic<bool> stops{false}, ends{false}, is_parked{false};
static std::mutex told;
static size_t holds = 0, asks = 0;

static void say_wrong(const char *what, int error) {
  printf("WRONG %s: %s\n", what, error ? cudaGetErrorString(cudaError_t(error)) : "another value");
  fflush(stdout);
  _Exit(1);
}

__global__ void fill(unsigned *to, unsigned seed) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = i * 2654435761u + seed;
}
__global__ void turn(unsigned *to, unsigned by) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = (to[i] ^ by) * 2246822519u + i;
}

const int BUFFERS = 12, TURNS = 64;
struct Buffer {
  unsigned *at;
  size_t bytes;
  unsigned seed, turned, by[TURNS];
};
static Buffer buffers[BUFFERS];
static int count = 0;

static unsigned blocks(const Buffer &buffer) { return unsigned(buffer.bytes / 1024); }

static unsigned value(const Buffer &buffer, unsigned i) {
  unsigned value = i * 2654435761u + buffer.seed;
  for (unsigned turn = 0; turn < buffer.turned; turn++) value = (value ^ buffer.by[turn]) * 2246822519u + i;
  return value;
}

static unsigned long long draws;
static unsigned draw(unsigned limit) {
  draws ^= draws << 13, draws ^= draws >> 7, draws ^= draws << 17;
  return unsigned(draws % limit);
}

// Counted before the call that takes it and after the one that gives it back: in between a report says so.
static void asking(size_t bytes) { std::lock_guard<std::mutex> lock(told); asks = bytes; }
static void now_holds(size_t more, size_t less) {
  std::lock_guard<std::mutex> lock(told);
  holds = holds + more - less, asks = 0;
}

// Out of memory is an answer like another: the daemon, or a limit, said no.
static bool done(const char *what, cudaError_t error) {
  if (error && error != cudaErrorMemoryAllocation) say_wrong(what, error);
  if (error) cudaGetLastError();
  return !error;
}

// Only the last error tells that a kernel could not be started: waiting for it finds nothing to wait for.
static bool started(const char *what) { return done(what, cudaGetLastError()); }

static void check(const Buffer &buffer) {
  const unsigned looked = 4096;
  static unsigned host[looked];
  unsigned from = draw(unsigned(buffer.bytes / 4) - looked);
  if (!done("copy", cudaMemcpy(host, buffer.at + from, sizeof host, cudaMemcpyDeviceToHost))) return;
  for (unsigned i = 0; i < looked; i++) if (host[i] != value(buffer, from + i)) say_wrong("lazy memory", 0);
}

static void take(size_t most) {
  size_t bytes = size_t(1 + draw(24)) << 20, has = 0;
  for (int i = 0; i < count; i++) has += buffers[i].bytes;
  if (count == BUFFERS || has + bytes > most) return;
  Buffer &buffer = buffers[count];
  buffer.bytes = bytes, buffer.seed = draw(1u << 31), buffer.turned = 0;
  asking(bytes);
  bool took = done("cudaMalloc", cudaMalloc(&buffer.at, bytes));
  now_holds(took ? bytes : 0, 0);
  if (!took) return;
  count++;
  fill<<<blocks(buffer), 256>>>(buffer.at, buffer.seed);
  // What could not be started was not done.
  if (!started("fill") || !done("fill", cudaDeviceSynchronize())) {
    asking(bytes);
    cudaFree(buffer.at);
    count--;
    now_holds(0, bytes);
  }
}

static void give(int which) {
  check(buffers[which]);
  size_t bytes = buffers[which].bytes;
  asking(bytes);
  if (cudaError_t error = cudaFree(buffers[which].at)) say_wrong("cudaFree", error);
  buffers[which] = buffers[--count];
  now_holds(0, bytes);
}

static void use(Buffer &buffer) {
  if (buffer.turned == TURNS) return;
  unsigned by = draw(1u << 31);
  turn<<<blocks(buffer), 256>>>(buffer.at, by);
  if (started("turn")) buffer.by[buffer.turned++] = by;
  if (draw(2)) done("wait", cudaDeviceSynchronize());
}

// A task that the compiler announces: all of it is given back before the next report between two calls.
static void announced() {
  size_t bytes = size_t(1 + draw(64)) << 20;
  unsigned *one, words = unsigned(bytes / 4), host[1024], seed = draw(1u << 31);
  asking(bytes);
  if (done("cudaMalloc", cudaMalloc(&one, bytes))) {
    fill<<<bytes / 1024, 256>>>(one, seed);
    bool filled = started("fill");
    turn<<<bytes / 1024, 256>>>(one, 7);
    bool copied = started("turn") && filled && done("copy", cudaMemcpy(host, one + words - 1024, sizeof host, cudaMemcpyDeviceToHost));
    Buffer same = {one, bytes, seed, 1, {7}};
    for (unsigned i = 0; copied && i < 1024; i++) {
      if (host[i] != value(same, words - 1024 + i)) say_wrong("announced memory", 0);
    }
    if (cudaError_t error = cudaFree(one)) say_wrong("cudaFree", error);
  }
  asking(0);
}

static void listen() {
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    if (!strcmp(line, "stop\n")) stops = true;
    if (!strcmp(line, "go\n")) stops = false;
    if (!strcmp(line, "report\n")) {
      std::lock_guard<std::mutex> lock(told);
      printf("holds %zu asks %zu %s\n", holds, asks, is_parked ? "parked" : "inside");
      fflush(stdout);
    }
  }
  ends = true, stops = false;
}

int main(int, char **words) {
  draws = strtoull(words[1], nullptr, 10) * 2 + 1;
  size_t most = strtoull(words[2], nullptr, 10) << 20;
  std::thread(listen).detach();
  while (!ends) {
    while (stops && !ends) { is_parked = true; usleep(1000); }
    is_parked = false;
    unsigned what = draw(10);
    if (what < 4 || !count) { if (draw(3)) take(most); else if (!count) announced(); }
    else if (what < 7) use(buffers[draw(unsigned(count))]);
    else if (what < 9) give(int(draw(unsigned(count))));
    else while (count) give(count - 1);
    usleep(draw(4000));
  }
  while (count) give(count - 1);
  puts("all right");
  return 0;
}
