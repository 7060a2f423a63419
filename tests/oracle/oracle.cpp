// Stands behind a generated, instrumented program in place of libeager.so and the CUDA runtime, and watches.
//
// It keeps what a static task promised (runtime-shim/abi, TASK_BEGIN and TASK_REUSES) next to what is allocated, and
// complains, one line each, when the program breaks a rule of the interface: less promised than allocated, a use outside
// the task that owns the memory, a launch after all-launched, a begin without its end. Each run of a function is a
// process of its own, because programs may exit. Trap: which task an allocation belongs to is known only where the report
// says that everything is static (`strict`); elsewhere the begins and ends alone are judged.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

struct Dim3 {
  unsigned x, y, z;
};

// Layouts of runtime-shim/abi, version 3.
struct TaskRow {
  uint64_t site;
  const char *function;
  uint32_t line, launch_sites;
  const uint64_t *covered;
  uint32_t covered_count, flags;
};

struct ModuleTable {
  uint32_t abi_version, kernel_count, task_count, runtime_count;
  const char *source;
  const void *kernels;
  const TaskRow *tasks;
  const void *runtime;
};

struct Function {
  const char *name;
  void (*run)(unsigned long bits, unsigned long n);
};

extern Function functions[];

namespace {

constexpr uint32_t REUSES = 1;

// One begun site that has not ended.
struct Frame {
  uint64_t id, site, requirement, promised, live, live_max;
  // Memory that was allocated since the begin, whoever promised it.
  uint64_t made, made_max;
  bool covered, all_launched;
  const TaskRow *row;
};

struct Buffer {
  uint64_t bytes;
  // The frame that promised it; 0: none did.
  uint64_t frame;
  // Frames up to this one had begun.
  uint64_t frames_begun;
  bool dead, used;
};

// Made at its first use: modules register before the constructors of this file run.
std::map<uint64_t, const TaskRow *> &rows() {
  static std::map<uint64_t, const TaskRow *> all;
  return all;
}

std::vector<Frame> frames;
std::map<char *, Buffer> buffers;
uint64_t frames_begun = 0;
bool strict = false, complained = false;
// Buffers that were used and then freed, and those of them that were declared dead in between.
unsigned lives = 0, lives_dead = 0;
char *next_address = (char *)0x700000000000;

void complain(const char *what, uint64_t number = 0) {
  complained = true;
  printf("wrong: %s (%llu)\n", what, (unsigned long long)number);
}

Frame *frame_of(uint64_t id) {
  for (Frame &frame : frames)
    if (frame.id == id) return &frame;
  return nullptr;
}

// The buffer that a used pointer means; complains about uses that no task answers for.
void use(const void *pointer, bool launch) {
  char *address = (char *)pointer;
  if (!address) return;
  auto found = buffers.find(address);
  if (found == buffers.end()) return complain("the generated program itself uses freed memory");
  if (found->second.dead) complain("a buffer is used that was declared dead");
  found->second.used = true;
  // Beside a lazy task it cannot be told which task an allocation belongs to.
  if (!found->second.frame || !strict) return;
  Frame *frame = frame_of(found->second.frame);
  if (!frame) return complain(launch ? "a launch uses memory of a task that has ended" : "a call uses memory of a task that has ended");
  if (launch && frame->all_launched) complain("a launch after all-launched", frame->site);
}

bool is_covered(uint64_t site) {
  for (const Frame &outer : frames)
    if (outer.row)
      for (uint32_t i = 0; i < outer.row->covered_count; i++)
        if (outer.row->covered[i] == site) return true;
  return false;
}

} // namespace

extern "C" {
char eager_abi_v3;

void eager_module_register(const ModuleTable *module) {
  for (uint32_t i = 0; i < module->task_count; i++) rows()[module->tasks[i].site] = &module->tasks[i];
}

void eager_task_begin(uint64_t site, uint64_t bytes, uint64_t live_bytes, uint64_t, uint32_t) {
  if (live_bytes > bytes) complain("more live bytes than bytes", live_bytes);
  bool covered = is_covered(site);
  const TaskRow *row = rows().count(site) ? rows()[site] : nullptr;
  if (!row) complain("a begin of a site that the module does not list", site);
  frames.push_back({++frames_begun, site, bytes, covered ? 0 : bytes, 0, 0, 0, 0, covered, false, row});
}

void eager_all_launched(uint64_t site) {
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    if (frame->site == site) {
      if (frame->all_launched) complain("all-launched twice", site);
      frame->all_launched = true;
      return;
    }
  complain("all-launched outside of the task", site);
}

void eager_task_end(uint64_t site) {
  for (size_t i = frames.size(); i-- > 0;)
    if (frames[i].site == site) {
      Frame &frame = frames[i];
      if (!frame.all_launched) complain("an end before all-launched", site);
      // What a covered site uses counts for the one around it.
      if (!frame.covered)
        printf("task %016llx %llu %llu %llu\n", (unsigned long long)site, (unsigned long long)frame.requirement,
               (unsigned long long)frame.live_max, (unsigned long long)frame.made_max);
      frames.erase(frames.begin() + i);
      return;
    }
  complain("an end without a begin", site);
}

void eager_buffer_dead(void *pointer) {
  auto found = buffers.find((char *)pointer);
  if (pointer && found == buffers.end()) return complain("a pointer that is no buffer is declared dead");
  if (pointer) found->second.dead = true;
}

int eager_cudaMalloc(void **pointer, size_t bytes) {
  char *address = next_address;
  next_address += (bytes + 255) / 256 * 256 + 256;
  uint64_t owner = 0;
  // From the innermost promise; a covered site takes from those around it.
  for (size_t i = frames.size(); i-- > 0 && !owner;) {
    Frame &frame = frames[i];
    if (frame.promised < bytes) continue;
    frame.promised -= bytes;
    frame.live += bytes;
    if (frame.live > frame.live_max) frame.live_max = frame.live;
    owner = frame.id;
  }
  if (!owner && strict) complain(frames.empty() ? "an allocation outside of any task" : "an allocation beyond what was promised", bytes);
  for (Frame &frame : frames) {
    frame.made += bytes;
    if (frame.made > frame.made_max) frame.made_max = frame.made;
  }
  buffers[address] = {bytes, owner, frames_begun, false, false};
  *pointer = address;
  return 0;
}

int eager_cudaFree(void *pointer) {
  if (!pointer) return 0;
  auto found = buffers.find((char *)pointer);
  if (found == buffers.end()) {
    complain("the generated program itself frees twice");
    return 1;
  }
  // A dead buffer is freed like any other.
  bool dead = found->second.dead, used = found->second.used;
  found->second.dead = false;
  use(pointer, false);
  lives += used;
  lives_dead += used && dead;
  if (Frame *frame = frame_of(found->second.frame)) {
    frame->live -= found->second.bytes;
    if (frame->row && frame->row->flags & REUSES) frame->promised += found->second.bytes;
  }
  for (Frame &frame : frames)
    if (frame.id <= found->second.frames_begun) frame.made -= found->second.bytes;
  buffers.erase(found);
  return 0;
}

int eager_cudaMemcpy(void *to, const void *from, size_t, int kind) {
  if (kind == 1) use(to, false);
  if (kind == 2) use(from, false);
  return 0;
}

int eager_cudaMemset(void *to, int, size_t) {
  use(to, false);
  return 0;
}

// An instrumented object carries the addresses of the runtime's own functions, for the shim. Nothing here calls them.
#define RUNTIME(name)                                          \
  int name() {                                                 \
    complain("a call of " #name " went around the interface"); \
    return 1;                                                  \
  }
RUNTIME(cudaMalloc)
RUNTIME(cudaFree)
RUNTIME(cudaMemcpy)
RUNTIME(cudaMemset)
RUNTIME(cudaLaunchKernel)

static Dim3 configured;

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3, size_t, void *) {
  configured = grid;
  return 0;
}

unsigned __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, void *stream) {
  *grid = configured;
  *block = {1, 1, 1};
  *shared = 0;
  *(void **)stream = nullptr;
  return 0;
}

int eager_cudaLaunchKernel(const void *, Dim3 grid, Dim3, void **args, size_t, void *) {
  for (unsigned i = 0; i < grid.x; i++) use(*(void **)args[i], true);
  return 0;
}
}

static void run(const Function &function, unsigned long bits, unsigned long n) {
  try {
    function.run(bits, n);
  } catch (int) {
  }
  if (!frames.empty()) complain("a task that did not end", frames.back().site);
  printf("lives %u %u\n", lives, lives_dead);
  fflush(stdout);
  _exit(complained);
}

// Arguments: function (or all), first seed, runs per function, and "strict" before the names of all-static functions.
int main(int argc, char **argv) {
  unsigned long seed = strtoul(argv[2], nullptr, 10), runs = strtoul(argv[3], nullptr, 10);
  setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
  for (Function *function = functions; function->name; function++) {
    if (strcmp(argv[1], "all") && strcmp(argv[1], function->name)) continue;
    strict = false;
    for (int i = 4; i < argc; i++) strict |= !strcmp(argv[i], function->name);
    for (unsigned long i = 0; i < runs; i++) {
      // splitmix64: every bit pattern of a run follows from the seed.
      uint64_t bits = (seed + i) * 0x9e3779b97f4a7c15;
      bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
      bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
      bits ^= bits >> 31;
      printf("run %s %llu\n", function->name, (unsigned long long)bits);
      fflush(stdout);
      pid_t child = fork();
      if (child == 0) run(*function, bits, 1 + bits % 1000);
      int status = 0;
      waitpid(child, &status, 0);
      if (!WIFEXITED(status)) printf("wrong: ended by signal %d\n", WTERMSIG(status));
    }
  }
  fflush(stdout);
}
