//! Machines whose GPUs NVML reports as a file describes them (`fake-nvml`), and daemons on them.
//!
//! The library reads the file at each query, so a test can change the machine under a running daemon.

use crate::daemon::Daemon;
use crate::{bin_dir, tool, until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

pub const GIB: u64 = 1 << 30;

/// Describes a GPU. Its uuid is that of the virtual device `number`: the number and nothing else.
pub fn gpu(name: &str, number: u8, total: u64) -> Value {
    json!({
        "name": name, "uuid": format!("GPU-{number:02x}000000-0000-0000-0000-000000000000"),
        "compute": [9, 0], "cores": 16896, "total": total, "reserved": GIB,
    })
}

/// A machine with a V100 and an H200, which NVML counts first and CUDA second.
pub fn machine() -> Value {
    json!({ "gpus": [gpu("H200", 1, 141 * GIB), gpu("V100", 0, 17 * GIB)] })
}

/// A machine and the file that describes it.
#[derive(Debug)]
pub struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub fn new(machine: &Value) -> Machine {
        let it = Machine { folder: tempfile::tempdir().expect("folder") };
        it.replace(machine);
        it
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("machine.json")
    }

    /// Replaces the file as a whole, because the library may read it at any time.
    pub fn replace(&self, machine: &Value) {
        let fresh = self.folder.path().join("fresh.json");
        std::fs::write(&fresh, machine.to_string()).expect("write");
        std::fs::rename(fresh, self.file()).expect("rename");
    }

    pub fn daemon(&self, args: &[&str]) -> Daemon {
        self.daemon_with(args, &[])
    }

    /// Starts a daemon on this machine, with further variables in its environment.
    pub fn daemon_with(&self, args: &[&str], variables: &[(&str, &Path)]) -> Daemon {
        let (library, file) = (library(), self.file());
        let own = [("EAGER_NVML", library.as_path()), ("EAGER_FAKE_NVML", file.as_path())];
        Daemon::start_with(args, &[&own, variables].concat())
    }

    /// Changes the machine, then kills the daemon and starts another.
    pub fn restarted(&self, daemon: Daemon, machine: &Value, args: &[&str]) -> Daemon {
        self.replace(machine);
        daemon.restarted(args, &[("EAGER_NVML", &library()), ("EAGER_FAKE_NVML", &self.file())])
    }

    /// Returns the line that a daemon prints when it does not start on this machine.
    pub fn refusal(&self, args: &[&str]) -> String {
        let mut command = Command::new(tool("eagerd"));
        command.arg("--run-dir").arg(self.folder.path().join("run")).args(args);
        command.env("EAGER_NVML", library()).env("EAGER_FAKE_NVML", self.file());
        let output = command.output().expect("run eagerd");
        assert!(!output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }
}

fn library() -> PathBuf {
    let library = bin_dir().join("libeager_fake_nvml.so");
    assert!(library.is_file(), "{} is missing: `cargo build --workspace` makes it", library.display());
    library
}

/// Returns the devices as `eager info` shows them.
pub fn devices(daemon: &Daemon) -> Vec<Value> {
    daemon.ask("info")["devices"].as_array().expect("devices").clone()
}

/// Waits until the daemon's first device satisfies `what`; returns the device.
pub fn wait_for(daemon: &Daemon, what: impl Fn(&Value) -> bool) -> Value {
    until(|| {
        let device = devices(daemon).swap_remove(0);
        if what(&device) { Ok(device) } else { Err(device) }
    })
}
