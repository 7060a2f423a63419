//! Policies that give a device to a program from its start to its end (`sa`, `cg`; specification S-114, S-115).

use eager_tests::daemon::{Daemon, Holder};
use eager_tests::{compiled, has_toolchain, run_ok, text, until};
use std::io::Read;
use std::process::{Child, Stdio};

/// Two tasks, with host work between them, after host work of its own.
const TWO_TASKS: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
#include <unistd.h>
__global__ void fill(int *to, int value) { to[threadIdx.x] = value + threadIdx.x; }
static int last(int value) {
  int *buffer, host[32];
  if (cudaMalloc(&buffer, 64 << 20)) return -1;
  fill<<<1, 32>>>(buffer, value);
  if (cudaMemcpy(host, buffer, sizeof host, cudaMemcpyDeviceToHost)) return -2;
  cudaFree(buffer);
  return host[31];
}
int main() {
  puts("starts");
  fflush(stdout);
  usleep(200000);
  int sum = last(1);
  usleep(200000);
  printf("%d\n", sum + last(2));
}
"#;

/// Ends when its standard input does.
fn holder(daemon: &Daemon) -> Holder {
    let mut command = daemon.script(&["--quiet"], "read line");
    Holder(command.stdin(Stdio::piped()).spawn().expect("start"))
}

/// Starts a program that has to wait.
fn starts_waiting(daemon: &Daemon, program: &std::path::Path) -> Child {
    let mut command = daemon.verb(&["run"]);
    command.arg("--").arg(program).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("start")
}

#[test]
fn a_program_waits_before_it_starts_and_its_device_is_its_own_until_it_ends() {
    if !has_toolchain("assigned") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "two_tasks", TWO_TASKS);
    for (policy, options) in [("sa", ""), ("cg", "programs_per_device = 1")] {
        let settings = folder.path().join(format!("{policy}.toml"));
        std::fs::write(&settings, format!("[options]\n{options}\n")).expect("settings");
        let flags =
            ["--virtual", "1xV100-16GB", "--policy", policy, "--config", settings.to_str().expect("UTF-8")];
        let daemon = Daemon::start(&flags);
        // It never uses the device, and has it all the same.
        let mut first = holder(&daemon);
        until(|| match daemon.json(&["ps"])["tasks"][0]["device"].as_u64() {
            Some(0) => Ok(()),
            device => Err(format!("{device:?}")),
        });
        let mut second = starts_waiting(&daemon, &program);
        daemon.waiting_task();
        // A restart changes nothing of this.
        let daemon = daemon.restarted(&flags, &[]);
        daemon.waiting_task();
        let mut said = [0; 8];
        let mut stderr = second.stderr.take().expect("stderr");
        stderr.read_exact(&mut said).expect("a reason");
        drop(first.0.stdin.take());
        first.0.wait().expect("its end");
        // Its own request finds the device that `eager run` waited for, and its second task as well.
        let out = second.wait_with_output().expect("its end");
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).expect("stderr");
        let reason = format!("{}{rest}", String::from_utf8_lossy(&said));
        assert!(
            out.status.success() && text(&out).contains("starts\n65\n"),
            "{policy}: {}{reason}",
            text(&out)
        );
        let waited = "eager: the program's device: waits: every device has its ";
        assert!(reason.starts_with(waited), "{policy}: {reason}");
        assert!(!reason.contains("starts"), "it starts when the device is its own");
        until(|| match daemon.json(&["ps"])["tasks"].as_array().map(Vec::len) {
            Some(0) => Ok(()),
            tasks => Err(format!("{tasks:?}")),
        });
        assert!(run_ok(&mut daemon.verb(&["policy"])).contains("gives devices to whole programs"));
    }
}

/// Programs of the kind that waits for nothing under `case` run one after the other.
#[test]
fn many_programs_take_turns_on_the_devices() {
    if !has_toolchain("assigned") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "two_tasks", TWO_TASKS);
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--policy", "sa"]);
    let programs: Vec<Child> = (0..8).map(|_| starts_waiting(&daemon, &program)).collect();
    for program in programs {
        let out = program.wait_with_output().expect("its end");
        assert!(out.status.success() && text(&out).contains("65\n"), "{}", text(&out));
    }
}
