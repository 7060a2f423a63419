//! Device time by nice value: programs of three nice values on one device, under a policy that shares its time
//! (specification S-133).
//!
//! Trap: the clock is the real one, so the kernels are long beside what a loaded machine takes for a hand-over.

use eager_tests::daemon::{Daemon, Holder};
use eager_tests::{compiled, has_toolchain, run_ok, tool, until};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Launches kernels that take 25 ms each on this daemon's device, and waits for each.
const SPIN: &str = r#"
#include <cstdio>
__global__ void add(float *a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] += 1;
}
int main() {
  const int n = 1 << 18;
  float *a;
  if (cudaMalloc(&a, n * sizeof(float)) != cudaSuccess) return 1;
  if (cudaMemset(a, 0, n * sizeof(float)) != cudaSuccess) return 2;
  for (;;) {
    add<<<n / 256, 256>>>(a, n);
    if (cudaDeviceSynchronize() != cudaSuccess) return 3;
  }
}
"#;

/// Device time in milliseconds that each nice value's task has had; None until three tasks have had some.
fn had(daemon: &Daemon) -> Option<Vec<(i64, u64)>> {
    let tasks = daemon.ask("ps")["tasks"].as_array()?.clone();
    let share = |task: &Value| Some((task["share"]["nice"].as_i64()?, task["share"]["had_ms"].as_u64()?));
    let mut had: Vec<(i64, u64)> = tasks.iter().filter_map(share).filter(|(_, had)| *had > 0).collect();
    had.sort_unstable();
    (had.len() == 3).then_some(had)
}

/// Writes a file of settings with these options; returns its path.
fn settings(folder: &Path, options: &str) -> String {
    let file = folder.join("eagerd.toml");
    std::fs::write(&file, format!("[options]\n{options}\n")).expect("settings");
    file.to_str().expect("a path").to_owned()
}

/// Arguments of a daemon with one device, scaled so that [`SPIN`]'s kernels are long.
fn under_fair(settings: &str) -> [&str; 10] {
    [
        "--virtual",
        "1xV100-16GB",
        "--memory-scale",
        "1024",
        "--time-scale",
        "10",
        "--policy",
        "fair",
        "--config",
        settings,
    ]
}

/// Nice value of this process; `nice` adds to it.
fn own_nice() -> i64 {
    run_ok(&mut Command::new("nice")).trim().parse().expect("a nice value")
}

/// Three programs, of this process's nice value and of 5 and 10 more.
fn started(daemon: &Daemon, program: &Path) -> [Holder; 3] {
    [0, 5, 10].map(|nice: i32| {
        let mut command = Command::new("nice");
        command.args(["-n", &nice.to_string()]).arg(tool("eager"));
        command.args(["run", "--run-dir"]).arg(daemon.run_dir()).arg("--").arg(program);
        Holder(command.stdout(Stdio::null()).spawn().expect("start nice"))
    })
}

fn sum(had: &[(i64, u64)]) -> u64 {
    had.iter().map(|(_, ms)| ms).sum()
}

#[test]
fn programs_have_device_time_by_their_nice_values_and_renice_changes_it() {
    if !has_toolchain("programs_have_device_time_by_their_nice_values") {
        return;
    }
    let own = own_nice();
    if own > 9 {
        eprintln!("SKIPPED: this process has nice {own}, and 10 more is not to be had");
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "spin", SPIN);
    let settings = settings(folder.path(), "round_ns = 100_000_000\nround_idle_ns = 50_000_000");
    let daemon = Daemon::start(&under_fair(&settings));
    let running = started(&daemon, &program);
    let shares = || {
        let before = until(|| had(&daemon).ok_or("three tasks that have had device time"));
        let after = until(|| {
            let now = had(&daemon).ok_or("three tasks")?;
            if sum(&now) >= sum(&before) + 4000 { Ok(now) } else { Err("4 s of device time") }
        });
        let all = (sum(&after) - sum(&before)) as f64;
        let share =
            |((nice, after), (_, before)): (&(i64, u64), &(i64, u64))| (*nice, (after - before) as f64 / all);
        after.iter().zip(&before).map(share).collect::<Vec<_>>()
    };
    // Due are 70, 23 and 7 %.
    let first = shares();
    assert_eq!(first.iter().map(|(nice, _)| *nice).collect::<Vec<_>>(), [0, 5, 10].map(|more| own + more));
    let [zero, five, ten] = [first[0].1, first[1].1, first[2].1];
    assert!((0.55..0.85).contains(&zero) && (0.12..0.35).contains(&five) && ten < 0.15, "{first:?}");
    // As its owner may: the first program becomes as little urgent as the last.
    let (last, pid) = ((own + 10).to_string(), running[0].0.id().to_string());
    let renice = Command::new("renice").args(["-n", &last, "-p", &pid]).output().expect("renice");
    assert!(renice.status.success(), "{renice:?}");
    until(|| {
        let nices: Vec<i64> = had(&daemon).ok_or("three tasks")?.iter().map(|(nice, _)| *nice).collect();
        if nices == [5, 10, 10].map(|more| own + more) {
            Ok(())
        } else {
            Err("the daemon to see the nice value")
        }
    });
    let second = shares();
    // Due are 60, 20 and 20 %.
    assert!((0.45..0.75).contains(&second[0].1), "{second:?}");
}

/// The program whose gate is open when the daemon dies never waits there, so it must find the new daemon by itself.
#[test]
fn after_a_restart_of_the_daemon_every_program_stands_at_its_gate_again() {
    if !has_toolchain("after_a_restart_of_the_daemon_every_program_stands_at_its_gate_again") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "spin", SPIN);
    // Slices of many kernels: one gate is open at almost any time.
    let settings = settings(folder.path(), "round_ns = 1_000_000_000");
    let daemon = Daemon::start(&under_fair(&settings));
    let _running = started(&daemon, &program);
    until(|| had(&daemon).ok_or("three tasks that have had device time"));
    let daemon = daemon.restarted(&under_fair(&settings), &[]);
    // The new daemon counts anew, and only what it has let through.
    until(|| had(&daemon).ok_or("three tasks that have had device time of the new daemon"));
}
