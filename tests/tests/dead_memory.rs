//! Memory that the device is done with is another program's, long before it is freed.

use eager_tests::{daemon::Daemon, eagercc, has_toolchain, text};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Computes on 10 GiB, copies a few bytes out, and frees them only when its standard input ends.
const WRITER: &str = r#"
#include <cstdio>
__global__ void count(int *p) { p[threadIdx.x] = threadIdx.x; }
int main() {
  int *p = nullptr, out[32], sum = 0;
  if (cudaMalloc(&p, size_t(10) << 30) != cudaSuccess) return 1;
  count<<<1, 32>>>(p);
  if (cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  puts("copied"); fflush(stdout);
  while (getchar() != EOF) {}
  for (int value : out) sum += value;
  if (cudaFree(p) != cudaSuccess) return 1;
  printf("sum %d\n", sum);
  return 0;
}
"#;

fn start(daemon: &Daemon, program: &Path) -> Child {
    let mut command = daemon.run(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start")
}

/// The next line of a program's output, which stays open.
fn next_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut output = BufReader::with_capacity(1, child.stdout.take().expect("stdout"));
    output.read_line(&mut line).expect("read");
    child.stdout = Some(output.into_inner());
    line
}

/// Fails loudly after the deadline, which is no measurement.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ends_well(child: Child) {
    let output = child.wait_with_output().expect("wait");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(text(&output), "sum 496\n");
}

#[test]
fn under_eager_live_the_next_program_runs_while_the_first_writes_its_output() {
    if !has_toolchain("dead memory") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let source = folder.path().join("writer.cu");
    std::fs::write(&source, WRITER).expect("write writer.cu");
    let program = folder.path().join("writer");
    eagercc(&[&source], &program);

    for (policy, gives_back) in [("case", false), ("eager-live", true)] {
        let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", policy]);
        let granted = || daemon.ask("info")["devices"][0]["granted_bytes"].as_u64().expect("granted_bytes");
        let mut first = start(&daemon, &program);
        assert_eq!(next_line(&mut first), "copied\n", "under {policy}");
        if gives_back {
            wait_until("the return of dead memory", || granted() == 0);
        } else {
            assert_eq!(granted(), 10 << 30);
        }
        let mut second = start(&daemon, &program);
        if gives_back {
            assert_eq!(next_line(&mut second), "copied\n", "beside the first, which holds nothing");
            assert!(first.try_wait().expect("ask").is_none(), "the first still writes");
        } else {
            let waits = || {
                let tasks = daemon.ask("ps")["tasks"].clone();
                tasks.as_array().is_some_and(|tasks| tasks.len() == 2) && granted() == 10 << 30
            };
            wait_until("the second one's request", waits);
        }
        // Waiting for it closes its input.
        ends_well(first);
        if !gives_back {
            assert_eq!(next_line(&mut second), "copied\n", "after the first");
        }
        ends_well(second);
        wait_until("the end of all tasks", || granted() == 0);
    }
}
