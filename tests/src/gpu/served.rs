//! An `eagerd` for one step, and programs under it.
//!
//! Unlike the tests' own daemon, it reports errors as text: a step that fails must not end the others.

use super::bundle::{Build, Bundle, Devices};
use super::machine::{ENV_LIBRARY, Gpu};
use super::process::{Ended, Running, io_error, run};
use eager_journal::Journal;
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(20);
const ASK_LIMIT: Duration = Duration::from_secs(20);
/// Milliseconds between the daemon's looks at the device, which the kill and fault cases depend on.
const OBSERVE_MS: &str = "20";

/// A daemon that serves one GPU.
#[derive(Debug)]
pub struct Served<'a> {
    bundle: &'a Bundle,
    gpu: &'a Gpu,
    running: Running,
    folder: TempDir,
}

/// Sets a program's environment: the bundle's libraries, the GPU under test, and no variable of another Eager.
pub fn environment(command: &mut Command, bundle: &Bundle, gpu: &Gpu) {
    for (name, _) in std::env::vars_os() {
        let kept = [ENV_LIBRARY, "EAGER_FAKE_NVML"];
        if name.to_string_lossy().starts_with("EAGER_") && !kept.iter().any(|kept| name == *kept) {
            command.env_remove(name);
        }
    }
    // The driver's own libraries may be found only by the caller's path.
    let further = std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let folders = further.iter().flat_map(std::env::split_paths);
    let path = std::env::join_paths(std::iter::once(bundle.libraries()).chain(folders));
    command.env("LD_LIBRARY_PATH", path.unwrap_or_else(|_| bundle.libraries().into()));
    match bundle.contents.devices {
        Devices::Gpu => command.env("CUDA_VISIBLE_DEVICES", &gpu.uuid),
        Devices::Virtual => command.env("EAGER_VGPU", "H200").env("EAGER_VGPU_TIME_SCALE", "0"),
    };
}

/// Returns the command for a program of the bundle by itself, without a daemon.
pub fn alone(bundle: &Bundle, gpu: &Gpu, build: Build, binary: &str) -> Command {
    let mut command = Command::new(bundle.program(build, binary));
    environment(&mut command, bundle, gpu);
    command.env("EAGER_DISABLE", "1");
    command
}

impl<'a> Served<'a> {
    /// Starts the daemon.
    ///
    /// # Errors
    /// The daemon does not start; its own message is on standard error.
    pub fn start(bundle: &'a Bundle, gpu: &'a Gpu, policy: &str, capacity: u64) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(io_error("run directory"))?;
        let mut command = Command::new(bundle.tool("eagerd"));
        environment(&mut command, bundle, gpu);
        command.args(["--gpus", &gpu.number.to_string(), "--policy", policy]);
        command.args(["--device-memory", &capacity.to_string(), "--observe-ms", OBSERVE_MS]);
        command.arg("--run-dir").arg(folder.path().join("run"));
        command.arg("--journal").arg(folder.path().join("journal"));
        let mut running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        match running.first_line(START_LIMIT) {
            Some(line) if line.contains("ready") => Ok(Served { bundle, gpu, running, folder }),
            Some(line) => Err(format!("eagerd did not start: {:?}", line.trim())),
            None => Err(format!("eagerd was not ready after {} s", START_LIMIT.as_secs())),
        }
    }

    fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Returns the command that runs one of the measured programs under the daemon.
    pub fn program(&self, binary: &str, label: &str) -> Command {
        self.command(&self.bundle.program(Build::Eager, binary), label)
    }

    /// Returns the command that runs any program under the daemon.
    pub fn command(&self, program: &Path, label: &str) -> Command {
        let mut command = Command::new(self.bundle.tool("eager"));
        environment(&mut command, self.bundle, self.gpu);
        command.args(["run", "--label", label, "--run-dir"]).arg(self.run_dir()).arg("--");
        command.arg(program);
        command
    }

    /// Bytes granted now.
    pub fn granted(&self) -> Result<u64, String> {
        let mut command = Command::new(self.bundle.tool("eager"));
        environment(&mut command, self.bundle, self.gpu);
        let command = command.args(["info", "--json", "--run-dir"]).arg(self.run_dir());
        let info: serde_json::Value = serde_json::from_str(&run(command, ASK_LIMIT)?.succeeded()?.out)
            .map_err(|error| format!("eager info: {error}"))?;
        info["devices"][0]["granted_bytes"].as_u64().ok_or_else(|| format!("eager info: {info}"))
    }

    /// Ends the daemon in order; returns its journal.
    pub fn stop(mut self) -> Result<Journal, String> {
        eager_shm::process::signal(&self.running.pidfd, Signal::SIGTERM).map_err(io_error("eagerd"))?;
        if !self.running.ends_within(STOP_LIMIT) {
            self.running.kill()?;
            return Err("eagerd did not end after SIGTERM".to_owned());
        }
        let status = self.running.child.wait().map_err(io_error("eagerd"))?;
        if !status.success() {
            return Err(format!("eagerd ended with {status}"));
        }
        let text =
            std::fs::read_to_string(self.folder.path().join("journal")).map_err(io_error("the journal"))?;
        Journal::read(&text).map_err(|error| format!("the journal: {error}"))
    }
}

/// Runs a command with these arguments to its end; it must succeed.
pub fn run_with<S: AsRef<OsStr>>(
    command: &mut Command,
    words: &[S],
    limit: Duration,
) -> Result<Ended, String> {
    run(command.args(words), limit)?.succeeded()
}
