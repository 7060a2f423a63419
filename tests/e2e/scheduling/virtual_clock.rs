//! Events that a daemon receives from programs on a virtual clock, and their times. Modelled times are the same on
//! every machine, so they are compared to the nanosecond where nothing is measured.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, run_ok, tool, until};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SECOND: u64 = 1_000_000_000;

/// Returns time and body of each event of the journal, up to the program's end, which the daemon notices a little later
/// than the test.
fn events(daemon: &Daemon) -> Vec<(u64, Value)> {
    until(|| {
        let journal = std::fs::read_to_string(daemon.journal()).expect("the journal");
        // The last line may be incomplete.
        let whole = &journal[..journal.rfind('\n').map_or(0, |end| end + 1)];
        let lines =
            whole.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of the journal"));
        let events: Vec<_> =
            lines.filter_map(|line| Some((line["now"].as_u64()?, line["event"].clone()))).collect();
        let has_ended = !when(&events, "client-gone").is_empty();
        if has_ended { Ok(events) } else { Err(format!("the program's end, in {events:?}")) }
    })
}

fn when(events: &[(u64, Value)], name: &str) -> Vec<u64> {
    events.iter().filter(|(_, event)| event["event"] == name).map(|(now, _)| *now).collect()
}

fn daemon(policy: &str) -> Daemon {
    Daemon::start(&["--virtual", "2xV100-16GB", "--clock", "virtual", "--policy", policy])
}

fn run(daemon: &Daemon, program: &Path, host_times: &str) -> String {
    let mut command = daemon.run(program);
    run_ok(command.env("EAGER_VGPU_HOST_TIMES", host_times).env("EAGER_RING_AFTER_BYTES", "0"))
}

/// Copies more than one piece of the ring out, and frees much later.
const WRITER: &str = r#"
#include <cstdio>
#include <vector>
__global__ void set(int *p, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = 1; }
int main() {
  const int n = 3 << 20;
  std::vector<int> out(n);
  int *p = nullptr;
  long sum = 0;
  if (cudaMalloc(&p, n * sizeof(int)) != cudaSuccess) return 1;
  set<<<n / 256, 256>>>(p, n);
  if (cudaMemcpy(out.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  for (int value : out) sum += value;
  if (cudaFree(p) != cudaSuccess) return 1;
  printf("sum %ld\n", sum);
  return 0;
}
"#;

/// Dead memory goes back right after the last copy, before the host work that follows. A copy in pieces is one copy:
/// the host work stated for a second copy never happens.
#[test]
fn memory_that_dies_goes_back_before_the_host_work_behind_it() {
    if !has_toolchain("memory_that_dies_goes_back_before_the_host_work_behind_it") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "writer", WRITER);
    let daemon = daemon("eager-live");
    assert_eq!(run(&daemon, &program, "0:1,1:10,2:100"), "sum 3145728\n");
    let events = events(&daemon);
    assert_eq!(when(&events, "task-begin"), [SECOND]);
    let [back] = when(&events, "task-shrink")[..] else { panic!("{events:?}") };
    let [end] = when(&events, "client-gone")[..] else { panic!("{events:?}") };
    assert!(back < 2 * SECOND, "{back}");
    assert!(end >= back + 10 * SECOND && end < 13 * SECOND, "{end}");
}

/// Page-locked memory, and a wait for the device, before there is a task; the kernel reads the page-locked memory
/// itself.
const PINNED: &str = r#"
#include <cstdio>
__global__ void add(int *p, const int *h) { p[threadIdx.x] += h[threadIdx.x]; }
int main() {
  int *h = nullptr, *p = nullptr, out[64], sum = 0;
  unsigned flags = 99;
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  if (cudaMallocHost((void **)&h, 64 * sizeof(int)) != cudaSuccess) return 2;
  for (int i = 0; i < 64; ++i) h[i] = i;
  if (cudaMalloc(&p, 64 * sizeof(int)) != cudaSuccess) return 3;
  if (cudaMemcpy(p, h, 64 * sizeof(int), cudaMemcpyHostToDevice) != cudaSuccess) return 4;
  add<<<1, 64>>>(p, h);
  if (cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess) return 5;
  if (cudaHostGetFlags(&flags, h) != cudaSuccess || flags > 3) return 6;
  if (cudaFree(p) != cudaSuccess || cudaFreeHost(h) != cudaSuccess) return 7;
  for (int value : out) sum += value;
  printf("sum %d\n", sum);
  return 0;
}
"#;

/// Making a context takes 0.3 s on a virtual GPU. The task is requested without a context, and makes its first on the
/// device that it gets.
#[test]
fn a_program_has_no_context_before_its_first_task() {
    if !has_toolchain("a_program_has_no_context_before_its_first_task") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "pinned", PINNED);
    let ends = [false, true].map(|drained| {
        let daemon = daemon("case");
        if drained {
            run_ok(Command::new(tool("eager")).args(["drain", "0", "--run-dir"]).arg(daemon.run_dir()));
        }
        assert_eq!(run(&daemon, &program, "0:1"), "sum 4032\n");
        let events = events(&daemon);
        assert_eq!(when(&events, "task-begin"), [SECOND]);
        let [end] = when(&events, "task-end")[..] else { panic!("{events:?}") };
        end
    });
    assert!(ends[0] > SECOND + 3 * SECOND / 10, "with one context: {ends:?}");
    assert_eq!(ends[0], ends[1], "on the first device and on the second");
}

/// Copies a number of MiB in, uses them, and copies a little out.
const FILLER: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void sum(const int *in, int n, int *out) { int s = 0; for (int i = threadIdx.x; i < n; i += 64) s += in[i]; out[threadIdx.x] = s; }
int main(int argc, char **argv) {
  const int n = atoi(argv[1]) << 18;
  std::vector<int> in(n, 1);
  int *p = nullptr, *q = nullptr, out[64], total = 0;
  if (cudaMalloc(&p, n * sizeof(int)) != cudaSuccess || cudaMalloc(&q, sizeof out) != cudaSuccess) return 1;
  if (cudaMemcpy(p, in.data(), n * sizeof(int), cudaMemcpyHostToDevice) != cudaSuccess) return 1;
  sum<<<1, 64>>>(p, n, q);
  if (cudaMemcpy(out, q, sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  for (int value : out) total += value;
  if (cudaFree(p) != cudaSuccess || cudaFree(q) != cudaSuccess) return 1;
  printf("total %d\n", total);
  return 0;
}
"#;

/// Under `quanta` memory is managed. A copy into it takes as long as one of pageable memory in the model (6 GB/s); and a
/// task is idle from its last copy on, not from the end of the host work after it.
#[test]
fn a_copy_into_managed_memory_takes_time_and_a_task_is_idle_before_its_host_work() {
    if !has_toolchain("a_copy_into_managed_memory_takes_time_and_a_task_is_idle_before_its_host_work") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "filler", FILLER);
    let held = [32, 64].map(|mib| {
        let daemon = daemon("quanta");
        let mut command = daemon.run(&program);
        command.arg(mib.to_string()).env("EAGER_VGPU_HOST_TIMES", "0:1,1:10");
        assert_eq!(run_ok(&mut command), format!("total {}\n", mib << 18));
        let events = events(&daemon);
        let [held] = when(&events, "kernel-held")[..] else { panic!("{events:?}") };
        let [end] = when(&events, "task-end")[..] else { panic!("{events:?}") };
        let idle = when(&events, "idle").into_iter().filter(|&at| at > held).min();
        assert!(idle.is_some_and(|idle| idle < 2 * SECOND) && end > 11 * SECOND, "{events:?}");
        held
    });
    // 32 MiB at 6 GB/s.
    let more_ns = held[1] - held[0];
    assert!((5_592_405..5_600_000).contains(&more_ns), "{more_ns} ns: {held:?}");
}
