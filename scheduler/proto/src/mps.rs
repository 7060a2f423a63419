//! Where NVIDIA's Multi-Process Service (MPS) is found. With it several programs' kernels run on a GPU at the same time.
//!
//! Trap: each user may have an MPS of its own, behind a folder that the environment names. Programs that are started in
//! another environment than the daemon do not share it.

use std::path::{Path, PathBuf};

/// Names the folder of the control daemon (NVIDIA, "Multi-Process Service", environment variables).
const ENV_FOLDER: &str = "CUDA_MPS_PIPE_DIRECTORY";
const FOLDER: &str = "/tmp/nvidia-mps";
/// Holds the control daemon's process number (the same).
const PID_FILE: &str = "nvidia-cuda-mps-control.pid";

/// Where programs of this environment look for a control daemon.
pub fn folder() -> PathBuf {
    let named = std::env::var_os(ENV_FOLDER).filter(|folder| !folder.is_empty());
    named.map_or_else(|| PathBuf::from(FOLDER), PathBuf::from)
}

/// The control daemon that runs there, by its process number.
pub fn control_pid(folder: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join(PID_FILE)).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    Path::new("/proc").join(pid.to_string()).exists().then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_daemon_runs_while_its_process_does() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(control_pid(folder.path()), None);
        let own = std::process::id();
        for (text, pid) in [(own.to_string(), Some(own)), ("4194305".into(), None), ("?".into(), None)] {
            std::fs::write(folder.path().join(PID_FILE), format!("{text}\n")).expect("write");
            assert_eq!(control_pid(folder.path()), pid, "{text}");
        }
    }
}
