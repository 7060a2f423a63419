//! Programs that start while the daemon restarts wait for it: none runs unscheduled, none finds the GPU full.
//!
//! Trap: the programs' requests are chosen so that no two fit on the device; a program that runs unscheduled therefore
//! takes the memory of another. Nothing here asserts how long a program waits.

use eager_tests::daemon::ready;
use eager_tests::{compiled, has_toolchain, run, run_ok, text, tool};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ALICE: u32 = 61_001;

/// Takes 9 of 16 GiB, uses them, and gives them back.
const PROGRAM: &str = r#"
#include <cstdio>
__global__ void touch(char *p) { p[threadIdx.x] = 1; }
int main() {
  char *p = nullptr;
  if (cudaError_t error = cudaMalloc(&p, size_t(9) << 30)) { printf("malloc: %s\n", cudaGetErrorString(error)); return 1; }
  touch<<<1, 32>>>(p);
  if (cudaError_t error = cudaDeviceSynchronize()) { printf("run: %s\n", cudaGetErrorString(error)); return 1; }
  cudaFree(p);
  puts("done");
  return 0;
}
"#;

fn start(run_dir: &Path) -> Child {
    let mut command = Command::new(tool("eagerd"));
    command
        .args(["--virtual", "1xV100-16GB", "--time-scale", "0", "--run-dir"])
        .arg(run_dir)
        .stderr(Stdio::null());
    ready(command)
}

fn end(daemon: &mut Child, signal: Signal) {
    kill(Pid::from_raw(daemon.id() as i32), signal).expect("signal");
    daemon.wait().expect("wait");
}

fn newcomer_command(run_dir: &Path, program: &Path) -> Command {
    let mut command = Command::new(tool("eager"));
    command.args(["run", "--run-dir"]).arg(run_dir).arg("--").arg(program).current_dir("/");
    // A machine under load may take long to start a daemon; that time is not tested here.
    command.env("EAGER_CONNECT_MAX", "120").env("EAGER_ON_DAEMON_LOSS", "wait:120");
    command
}

fn newcomer(run_dir: &Path, program: &Path, uid: Option<u32>) -> Output {
    let mut command = newcomer_command(run_dir, program);
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    run(&mut command)
}

/// True if the program was not scheduled, or found the memory taken.
fn is_harmed(output: &Output) -> bool {
    let said = text(output);
    let words = ["plain CUDA", "unscheduled", "out of memory", "CUDA calls fail"];
    !output.status.success() || !said.contains("done") || words.iter().any(|word| said.contains(word))
}

fn newcomers_under_restarts(restarts: usize) {
    if !has_toolchain("newcomers") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("open to others");
    let (run_dir, program) = (folder.path().join("run"), compiled(folder.path(), "newcomer", PROGRAM));
    let other = Uid::effective().is_root().then_some(ALICE);
    if other.is_none() {
        eprintln!("SKIPPED: newcomers of another user: only root can be several users");
    }
    let (is_over, harmed, served) = (AtomicBool::new(false), Mutex::new(Vec::new()), Mutex::new(0));
    let mut daemon = start(&run_dir);
    // The first run makes a folder beside the tools, which other users may not.
    run_ok(&mut newcomer_command(&run_dir, &program));
    std::thread::scope(|scope| {
        for index in 0..4 {
            let uid = other.filter(|_| index % 2 == 0);
            let (is_over, harmed, served) = (&is_over, &harmed, &served);
            let (run_dir, program) = (&run_dir, &program);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let output = newcomer(run_dir, program, uid);
                    *served.lock().expect("lock") += 1;
                    if is_harmed(&output) {
                        harmed.lock().expect("lock").push(format!("uid {uid:?}: {}", text(&output)));
                    }
                }
            });
        }
        let served = || *served.lock().expect("lock");
        for index in 0..restarts {
            let before = served();
            let deadline = Instant::now() + Duration::from_secs(60);
            while served() < before + 2
                && harmed.lock().expect("lock").is_empty()
                && Instant::now() < deadline
            {
                std::thread::sleep(Duration::from_millis(7));
            }
            let signal = if index % 2 == 0 { Signal::SIGKILL } else { Signal::SIGTERM };
            end(&mut daemon, signal);
            // The gap in which newcomers used to run unscheduled.
            std::thread::sleep(Duration::from_millis(200));
            daemon = start(&run_dir);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    end(&mut daemon, Signal::SIGTERM);
    let (harmed, served) = (harmed.into_inner().expect("lock"), served.into_inner().expect("lock"));
    eprintln!("{served} newcomers over {restarts} restarts, {} harmed", harmed.len());
    assert!(harmed.is_empty(), "{}", harmed.join("\n"));
    assert!(served > restarts, "only {served} newcomers");
}

#[test]
fn newcomers_wait_for_a_daemon_that_is_being_started_again() {
    newcomers_under_restarts(6);
}

#[test]
#[ignore = "long"]
fn long_newcomers_over_200_restarts_all_wait() {
    newcomers_under_restarts(200);
}

/// Starts 80 `eager run` of one user at once, each of which must end well. A program that is disconnected before its
/// first message, or refused because there are too many, must retry.
fn crowd_ends_well(run_dir: &Path, uid: u32, arguments: &[&str]) {
    let one = |index: usize| {
        let mut command = Command::new(tool("eager"));
        command.args(["run", "--quiet", "--run-dir"]).arg(run_dir).args(arguments);
        command.args(["--", "sh", "-c", "echo done"]).env("EAGER_CONNECT_MAX", "120").uid(uid).gid(uid);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir("/");
        command.spawn().unwrap_or_else(|error| panic!("program {index}: {error}"))
    };
    let programs: Vec<Child> = (0..80).map(one).collect();
    let ends = programs.into_iter().map(|program| program.wait_with_output().expect("its end"));
    let failed: Vec<String> =
        ends.filter(|end| !end.status.success() || text(end) != "done\n").map(|end| text(&end)).collect();
    assert!(failed.is_empty(), "{arguments:?}: {} of 80 failed:\n{}", failed.len(), failed.join(""));
}

/// One daemon has few descriptors, and so few places for programs that have not sent their first message.
#[test]
fn eighty_programs_of_one_user_that_start_at_once_all_end_well() {
    if !Uid::effective().is_root() {
        eprintln!("SKIPPED: only root can be several users, and has no limits as one");
        return;
    }
    for descriptors in ["20000", "600"] {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("open to all");
        let run_dir = folder.path().join("run");
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n $1; shift; exec \"$@\"", "sh", descriptors]).arg(tool("eagerd"));
        command.args(["--virtual", "2xV100-16GB", "--time-scale", "0", "--run-dir"]).arg(&run_dir);
        let mut daemon = ready(command);
        // The first run makes a folder beside the tools, which other users may not.
        run_ok(Command::new(tool("eager")).args(["run", "--plain", "true"]));
        let first = ["run", "--mem", "1MiB", "--run-dir"];
        run_ok(Command::new(tool("eager")).args(first).arg(&run_dir).args(["--", "true"]));
        crowd_ends_well(&run_dir, ALICE, &["--after", "1"]);
        crowd_ends_well(&run_dir, ALICE, &["--mem", "1GiB", "-n", "2"]);
        end(&mut daemon, Signal::SIGTERM);
    }
}

#[test]
fn a_run_without_a_daemon_is_refused_unless_it_may_be_plain() {
    let folder = tempfile::tempdir().expect("folder");
    // The state file shows that a daemon ran here; no new one starts.
    std::fs::write(folder.path().join("eagerd.state"), "").expect("state");
    let eager = |flags: &[&str]| {
        let mut command = Command::new(tool("eager"));
        command
            .arg("run")
            .args(flags)
            .arg("--run-dir")
            .arg(folder.path())
            .args(["--", "sh", "-c", "echo ran"]);
        command.env("EAGER_CONNECT_MAX", "1.2");
        command
    };
    let refused = run(&mut eager(&[]));
    let said = text(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("waiting for one, 1.2 s at most") && said.contains("--or-plain"), "{said}");
    assert!(!said.contains("ran"), "{said}");
    let quiet = text(&run(&mut eager(&["--quiet"])));
    assert!(!quiet.contains("waiting") && quiet.contains("--or-plain"), "quiet while it waits: {quiet}");
    let said = run_ok(&mut eager(&["--or-plain"]));
    assert!(said.contains("ran"), "{said}");
    let output = run(eager(&[]).env("EAGER_CONNECT_MAX", "soon"));
    assert!(text(&output).contains("is not a number of seconds"), "{}", text(&output));
}
