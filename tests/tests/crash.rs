//! A job killed in the middle gives its memory back at once, and the others complete.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, text, until_holds};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// Takes 10 GiB, says so, and holds it until its standard input ends.
const HOLDER: &str = r#"
#include <cstdio>
__global__ void touch(char *p) { p[threadIdx.x] = 1; }
int main() {
  char *p = nullptr;
  if (cudaMalloc(&p, size_t(10) << 30) != cudaSuccess) return 1;
  touch<<<1, 32>>>(p);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  puts("holding"); fflush(stdout);
  while (getchar() != EOF) {}
  cudaFree(p);
  puts("done");
  return 0;
}
"#;

fn start(daemon: &Daemon, program: &std::path::Path) -> Child {
    daemon
        .run(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start")
}

#[test]
fn a_killed_job_frees_its_grant_and_the_next_one_runs() {
    if !has_toolchain("crash of a job") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "holder", HOLDER);

    for policy in ["case", "eager-opt"] {
        let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", policy]);
        let granted = || daemon.ask("info")["devices"][0]["granted_bytes"].as_u64().expect("granted_bytes");
        let mut first = start(&daemon, &program);
        let mut line = String::new();
        BufReader::new(first.stdout.take().expect("stdout")).read_line(&mut line).expect("read");
        assert_eq!(line, "holding\n", "under {policy}");
        assert!(granted() >= 10 << 30);

        let second = start(&daemon, &program);
        until_holds("the second job's request", || {
            daemon.ask("ps")["tasks"].as_array().map(Vec::len) == Some(2)
        });
        kill(Pid::from_raw(first.id() as i32), Signal::SIGKILL).expect("kill");
        let took = until_holds("the death of the first job", || {
            daemon.ask("ps")["tasks"].as_array().map(Vec::len) == Some(1)
        });
        eprintln!("under {policy}: the killed job was gone from the table after {took:?}");
        first.wait().expect("reap");

        // Closing its input lets the survivor end; it must do so with its whole grant and exit code 0.
        let output = second.wait_with_output().expect("second job");
        assert!(
            output.status.success() && text(&output).contains("done"),
            "under {policy}: {}",
            text(&output)
        );
        until_holds("the end of the second task", || granted() == 0);
    }
}
