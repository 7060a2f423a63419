//! A program of a few lines on a CUDA runtime of a few lines, with the real shim, and a real daemon on a device from a
//! file.
//!
//! Trap: the runtime's device memory is the heap, so a grant does not show how much memory is in use.

use crate::{bin_dir, run_ok, tool, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DEVICES: &str =
    r#"[{"name": "test", "memory": "1GiB", "sms": 80, "warps-per-sm": 64, "blocks-per-sm": 32}]"#;
pub const MIB: u64 = 1 << 20;

const RUNTIME: &str = r#"
#include <stdlib.h>
int cudaMalloc(void **out, size_t n) { *out = malloc(n); return 0; }
int cudaFree(void *p) { free(p); return 0; }
int cudaSetDevice(int device) { return device < 0; }
int cudaLaunchHostFunc(void *stream, void (*call)(void *), void *data) { call(data); return 0; }
"#;

/// A compiled program and runtime, and a daemon beside them.
#[derive(Debug)]
pub struct Place {
    pub dir: TempDir,
    pub daemon: Child,
    eagerd: PathBuf,
}

impl Place {
    /// Compiles `source` with these flags and starts a daemon. `name` is the source's file name, whose ending selects
    /// the language. Returns `None`, and prints why, if there is no compiler.
    pub fn new(name: &str, source: &str, flags: &[&str]) -> Option<Place> {
        Place::of(&bin_dir(), &bin_dir(), name, source, flags)
    }

    /// Takes daemon and shim from these folders, which may belong to another release.
    pub fn of(daemon: &Path, shim: &Path, name: &str, source: &str, flags: &[&str]) -> Option<Place> {
        let compiler = if name.ends_with(".c") { "cc" } else { "c++" };
        if !Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: needs a compiler: {compiler}");
            return None;
        }
        let dir = tempfile::tempdir().expect("folder");
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("devices.json"), DEVICES).expect("write");
        std::fs::write(path(name), source).expect("write");
        std::fs::write(path("runtime.c"), RUNTIME).expect("write");
        std::fs::copy(shim.join("libeager.so"), path("libeager.so")).expect("copy the library");
        let runtime =
            ["-shared", "-fPIC", "-Wl,-soname,libcudart.so.13", "-o", "libcudart.so.13", "runtime.c"];
        let program = ["-pthread", "-o", "program", name, "./libeager.so", "-ldl"];
        run_ok(Command::new("cc").args(runtime).current_dir(dir.path()));
        run_ok(Command::new(compiler).args(flags).args(program).current_dir(dir.path()));
        let eagerd = daemon.join("eagerd");
        let daemon = start_daemon(&eagerd, dir.path(), &[]);
        Some(Place { dir, daemon, eagerd })
    }

    /// Replaces the daemon, as an upgrade of the package does: sends the signal, and starts the daemon of this folder.
    pub fn upgrade(&mut self, signal: Signal, daemon: &Path) {
        kill(Pid::from_raw(self.daemon.id() as i32), signal).expect("signal");
        self.daemon.wait().expect("wait");
        self.eagerd = daemon.join("eagerd");
        self.restart_daemon_under(&[]);
    }

    /// Compiles a library that is loaded before others; returns its path.
    pub fn library(&self, name: &str, source: &str) -> PathBuf {
        let path = |ending: &str| self.dir.path().join(format!("{name}.{ending}"));
        std::fs::write(path("c"), source).expect("write");
        run_ok(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(path("so")).arg(path("c")));
        path("so")
    }

    /// Starts a new daemon under the command `wrapper`, after the old daemon was killed.
    pub fn restart_daemon_under(&mut self, wrapper: &[&str]) {
        self.daemon = start_daemon(&self.eagerd, self.dir.path(), wrapper);
    }

    pub fn kill_daemon(&mut self) {
        self.daemon.kill().expect("kill -9");
        self.daemon.wait().expect("wait");
    }

    pub fn program(&self, how: &str, on_loss: &str) -> Running {
        self.program_under(&[], how, on_loss)
    }

    /// Starts the program under the command `wrapper`.
    pub fn program_under(&self, wrapper: &[&str], how: &str, on_loss: &str) -> Running {
        let mut command = under(wrapper, &self.dir.path().join("program"));
        command
            .arg(how)
            .current_dir(self.dir.path())
            .env("LD_LIBRARY_PATH", self.dir.path())
            .env("EAGER_SOCKET", self.dir.path().join("run/client.sock"))
            .env("EAGER_ON_DAEMON_LOSS", on_loss)
            .env_remove("EAGER_DISABLE");
        Running::start(&mut command)
    }

    pub fn info(&self) -> serde_json::Value {
        let run_dir = self.dir.path().join("run");
        let out = run_ok(Command::new(tool("eager")).args(["info", "--json", "--run-dir"]).arg(run_dir));
        serde_json::from_str(&out).expect("JSON")
    }

    /// Waits until `count` tasks run or wait.
    pub fn until_tasks(&self, count: usize, when: &str) {
        until(|| {
            let row = &self.info()["daemon"];
            let tasks = row["running"].as_u64().unwrap_or(0) + row["waiting"].as_u64().unwrap_or(0);
            if tasks == count as u64 { Ok(()) } else { Err(format!("{when}: {row}")) }
        });
    }

    pub fn granted(&self) -> u64 {
        self.info()["devices"][0]["granted_bytes"].as_u64().expect("granted_bytes")
    }

    /// Waits until `bytes` bytes are granted; returns how long that took.
    pub fn until_granted(&self, bytes: u64, when: &str) -> Duration {
        let start = Instant::now();
        until(|| match self.granted() {
            granted if granted == bytes => Ok(()),
            granted => Err(format!("{when}: {granted} granted")),
        });
        start.elapsed()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The daemon may have ended already.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Returns the command that starts `program`, under `wrapper` if that is not empty.
fn under(wrapper: &[&str], program: &Path) -> Command {
    let Some((first, rest)) = wrapper.split_first() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command
}

fn start_daemon(eagerd: &Path, dir: &Path, wrapper: &[&str]) -> Child {
    let mut child = under(wrapper, eagerd)
        .arg("--devices-file")
        .arg(dir.join("devices.json"))
        .arg("--run-dir")
        .arg(dir.join("run"))
        .args(["--policy", "case", "--journal"])
        .arg(dir.join("journal.jsonl"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("start eagerd");
    let mut ready = String::new();
    BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut ready).expect("its first line");
    assert!(ready.contains("ready"), "eagerd printed {ready:?}");
    child
}

/// A program under the daemon, whose output is read line by line.
#[derive(Debug)]
pub struct Running {
    pub child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start");
        let out = BufReader::new(child.stdout.take().expect("stdout"));
        Running { child, out }
    }

    pub fn expect_line(&mut self, expected: &str) {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("its output");
        assert_eq!(line.trim_end(), expected);
    }

    /// Reads a line that must be one of the two; true for `one`.
    pub fn expect_either(&mut self, one: &str, other: &str) -> bool {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("its output");
        let line = line.trim_end();
        assert!(line == one || line == other, "it printed {line:?}");
        line == one
    }

    /// Returns the program's standard error, once the program has ended.
    pub fn stderr_text(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).expect("stderr");
        }
        text
    }

    pub fn send_line(&mut self) {
        writeln!(self.child.stdin.as_mut().expect("stdin")).expect("a line");
    }

    pub fn end(&mut self) -> ExitStatus {
        self.child.wait().expect("wait")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
