//! Upgrades under running programs: daemon, shim and virtual GPUs of the previous release, built from this repository's
//! history, and of this release, in every order in which a package replaces them. `make test-long` runs these tests,
//! since they build a release.
//!
//! Trap: a running program keeps its library, so only the daemon is replaced under it; and only a program that starts
//! before the daemon restarts meets the old daemon with the new library.

use eager_tests::daemon::ready;
use eager_tests::place::{MIB, Place, Running};
use eager_tests::{bin_dir, has_toolchain, release_before, run, run_ok, text, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use tempfile::TempDir;

/// Takes as many MiB as its argument says, prints so, waits for a line; twice.
const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int eager_cudaMalloc(void **, size_t);
int eager_cudaFree(void *);
void eager_task_begin(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t);
void eager_task_end(uint64_t);
int main(int count, char **arguments) {
  char line[8];
  size_t bytes = (size_t)atoi(count > 1 ? arguments[1] : "") << 20;
  for (uint64_t site = 1; site < 3; site++) {
    void *p = 0;
    eager_task_begin(site, bytes, bytes, 0, 0);
    if (eager_cudaMalloc(&p, bytes)) { puts("refused"); return 1; }
    puts("holding"); fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    if (eager_cudaFree(p)) return 1;
    eager_task_end(site);
  }
  return 0;
}
"#;

/// Checks that programs that hold and programs that wait go on while the daemon is replaced.
fn goes_on(place: &mut Place, signal: Signal, next: &Path, when: &str) {
    let (mut holder, mut small) = (place.program("700", "wait:120"), place.program("100", "wait:120"));
    holder.expect_line("holding");
    small.expect_line("holding");
    let mut waits = place.program("600", "wait:120");
    place.until_tasks(3, when);
    assert_eq!(place.granted(), 800 * MIB, "{when}");

    place.upgrade(signal, next);
    assert_eq!(place.granted(), 800 * MIB, "{when}: before anybody came back");
    let mut newcomer = place.program("50", "wait:120");
    newcomer.expect_line("holding");
    place.until_tasks(4, when);
    assert_eq!(place.granted(), 850 * MIB, "{when}: one waits, as before");
    for _ in 0..2 {
        small.send_line();
    }
    assert!(small.end().success(), "{when}");
    place.until_granted(750 * MIB, when);
    // The holder's next task finds its memory given to the program that waited.
    holder.send_line();
    waits.expect_line("holding");
    place.until_granted(650 * MIB, when);
    for program in [&mut waits, &mut newcomer] {
        program.send_line();
        program.send_line();
    }
    holder.expect_line("holding");
    holder.send_line();
    for program in [&mut holder, &mut waits, &mut newcomer] {
        assert!(program.end().success(), "{when}");
    }
    for program in [&mut holder, &mut small, &mut waits, &mut newcomer] {
        assert_eq!(program.stderr_text(), "", "{when}");
    }
    place.until_granted(0, when);
}

#[test]
#[ignore = "long"]
fn long_programs_of_the_release_before_go_on_under_this_daemon() {
    let Some(before) = release_before::built("upgrade under running programs") else { return };
    let now = bin_dir();
    for (shim, what) in [(&before, "its own shim"), (&now, "this release's shim")] {
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            let Some(mut place) = Place::of(&before, shim, "program.c", PROGRAM, &[]) else { return };
            goes_on(&mut place, signal, &now, &format!("{what}, {signal}"));
        }
    }
}

#[test]
#[ignore = "long"]
fn long_programs_start_under_the_other_releases_daemon() {
    let Some(before) = release_before::built("programs under the other release's daemon") else { return };
    let now = bin_dir();
    for (daemon, shim) in [(&before, &now), (&now, &before)] {
        let Some(mut place) = Place::of(daemon, shim, "program.c", PROGRAM, &[]) else { return };
        goes_on(
            &mut place,
            Signal::SIGKILL,
            daemon,
            &format!("{} under {}", shim.display(), daemon.display()),
        );
    }
}

/// A downgrade of the package.
#[test]
#[ignore = "long"]
fn long_programs_go_on_under_the_daemon_of_the_release_before() {
    let Some(before) = release_before::built("downgrade under running programs") else { return };
    let now = bin_dir();
    let Some(mut place) = Place::of(&now, &now, "program.c", PROGRAM, &[]) else { return };
    goes_on(&mut place, Signal::SIGKILL, &before, "downgrade");
}

/// Fills 4 GiB and prints what is in them, twice; waits for a line in between.
const CUDA: &str = r#"
#include <cstdio>
__global__ void fill(int *to, int value) { to[threadIdx.x] = value * threadIdx.x; }
static int round(int value) {
  int *p, host[32], sum = 0;
  if (cudaError_t error = cudaMalloc(&p, size_t(4) << 30)) { printf("malloc: %s\n", cudaGetErrorString(error)); return 1; }
  fill<<<1, 32>>>(p, value);
  if (cudaError_t error = cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost)) {
    printf("copy: %s\n", cudaGetErrorString(error));
    return 1;
  }
  for (int i = 0; i < 32; i++) sum += host[i];
  printf("sum %d\n", sum); fflush(stdout);
  getchar();
  if (cudaError_t error = cudaFree(p)) { printf("free: %s\n", cudaGetErrorString(error)); return 1; }
  return 0;
}
int main() { return round(1) || round(2); }
"#;

/// A daemon of either release on one virtual GPU, in a folder that the next daemon finds.
struct VirtualGpus {
    dir: TempDir,
    daemon: Child,
}

impl VirtualGpus {
    fn start(bin: &Path) -> VirtualGpus {
        let dir = tempfile::tempdir().expect("folder");
        let daemon = daemon_on_virtual_gpus(bin, dir.path());
        VirtualGpus { dir, daemon }
    }

    fn replace(&mut self, bin: &Path) {
        kill(Pid::from_raw(self.daemon.id() as i32), Signal::SIGKILL).expect("kill -9");
        self.daemon.wait().expect("wait");
        self.daemon = daemon_on_virtual_gpus(bin, self.dir.path());
    }

    fn run(&self, bin: &Path, program: &Path) -> Running {
        let mut command = Command::new(bin.join("eager"));
        Running::start(command.arg("run").arg("--run-dir").arg(self.dir.path()).arg("--").arg(program))
    }

    fn info(&self) -> Value {
        let mut command = Command::new(bin_dir().join("eager"));
        let said = run_ok(command.args(["info", "--json", "--run-dir"]).arg(self.dir.path()));
        serde_json::from_str(&said).expect("JSON")
    }

    fn until_granted(&self, bytes: u64) {
        until(|| match self.info()["devices"][0]["granted_bytes"].as_u64() {
            Some(granted) if granted == bytes => Ok(()),
            granted => Err(format!("{granted:?} granted")),
        });
    }
}

impl Drop for VirtualGpus {
    fn drop(&mut self) {
        // SIGTERM, so that the daemon ends the server too.
        let _ = kill(Pid::from_raw(self.daemon.id() as i32), Signal::SIGTERM);
        let _ = self.daemon.wait();
    }
}

fn daemon_on_virtual_gpus(bin: &Path, dir: &Path) -> Child {
    let mut command = Command::new(bin.join("eagerd"));
    command
        .args(["--virtual", "1xV100-16GB", "--time-scale", "0", "--run-dir"])
        .arg(dir)
        .arg("--journal")
        .arg(dir.join("journal.jsonl"));
    ready(command)
}

fn compiled_by(bin: &Path, folder: &Path) -> PathBuf {
    let name = if bin == bin_dir() { "fills" } else { "fills-before" };
    let (source, program) = (folder.join("fills.cu"), folder.join(name));
    std::fs::write(&source, CUDA).expect("write the source");
    run_ok(Command::new(bin.join("eagercc")).arg("-O2").arg(&source).arg("-o").arg(&program));
    program
}

const GRANTED: u64 = 4 << 30;

/// Release 0.1.0's virtual GPUs end with their daemon; their programs get an error and a line, and the ledger follows.
#[test]
#[ignore = "long"]
fn long_a_program_compiled_by_the_release_before_must_be_compiled_again_and_one_line_says_so() {
    let Some(before) = release_before::built("programs compiled by the release before") else { return };
    if !has_toolchain("programs compiled by the release before") {
        return;
    }
    let (folder, now) = (tempfile::tempdir().expect("folder"), bin_dir());
    let old = compiled_by(&before, folder.path());
    let program = compiled_by(&now, folder.path());
    let mut gpus = VirtualGpus::start(&before);
    let mut caught = gpus.run(&before, &old);
    caught.expect_line("sum 496");
    gpus.until_granted(GRANTED);

    gpus.replace(&now);
    gpus.until_granted(GRANTED);
    assert_eq!(gpus.info()["daemon"]["unattached"].as_u64(), Some(1));
    let mut next = gpus.run(&now, &program);
    next.expect_line("sum 496");
    // The new program gives back at once what it has read for the last time.
    gpus.until_granted(GRANTED);
    caught.send_line();
    assert_eq!(caught.end().code(), Some(1));
    let said = caught.stderr_text();
    assert!(said.contains("the virtual GPU server went away") && said.lines().count() == 1, "{said}");
    gpus.until_granted(0);
    next.send_line();
    next.expect_line("sum 992");
    next.send_line();
    assert!(next.end().success());
    assert_eq!(next.stderr_text(), "");
    gpus.until_granted(0);

    // Its kernels are of an earlier binary interface: they do not run, and leave the memory as it is.
    let mut uncompiled = gpus.run(&now, &old);
    for line in ["sum 0", "sum 0"] {
        uncompiled.expect_line(line);
        uncompiled.send_line();
    }
    uncompiled.end();
    let said = uncompiled.stderr_text();
    assert!(said.contains("recompile the program") && said.lines().count() == 1, "{said}");
    let replayed =
        run_ok(Command::new(now.join("eager-sim")).arg("replay").arg(gpus.dir.path().join("journal.jsonl")));
    assert!(replayed.contains("in 2 pieces") && replayed.contains("all decided the same"), "{replayed}");
    let trace = gpus.dir.path().join("trace.json");
    let piece = gpus.dir.path().join("journal.jsonl.1");
    run_ok(Command::new(now.join("eager")).arg("trace").arg(piece).arg("-o").arg(&trace));
}

/// After the files are replaced and before the daemon restarts, a program that starts has the new library and finds the
/// old server. A program that was started before, and makes its first call after the restart, has the old library and
/// finds the new server.
#[test]
#[ignore = "long"]
fn long_a_library_of_one_release_and_virtual_gpus_of_the_other_say_so_in_a_line() {
    let Some(before) = release_before::built("libraries and virtual GPUs of two releases") else { return };
    if !has_toolchain("libraries and virtual GPUs of two releases") {
        return;
    }
    let (folder, now) = (tempfile::tempdir().expect("folder"), bin_dir());
    let program = compiled_by(&before, folder.path());
    for (server, library) in [(&before, &now), (&now, &before)] {
        let gpus = VirtualGpus::start(server);
        // This run makes the folder with the library under CUDA's name.
        run_ok(Command::new(library.join("eager")).args(["run", "--plain", "--", "true"]));
        let folders = [library.join("eager-virtual"), library.to_path_buf()];
        let output = run(Command::new(&program)
            .env("LD_LIBRARY_PATH", std::env::join_paths(folders).expect("paths"))
            .env("EAGER_VGPU_SOCKET", gpus.dir.path().join("vgpu.sock"))
            .env("EAGER_SOCKET", gpus.dir.path().join("client.sock")));
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let lines = said.lines().filter(|line| line.contains("protocol version"));
        assert_eq!(lines.count(), 1, "{said}");
        gpus.until_granted(0);
    }
}
