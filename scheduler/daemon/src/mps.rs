//! Is NVIDIA's Multi-Process Service running? Then several programs' kernels run on a GPU at the same time.
//!
//! Trap: each user may have an MPS of its own, behind a folder that the environment names. Programs that are started in
//! another environment than the daemon do not share it.

use std::path::{Path, PathBuf};

/// Names the folder of the control daemon (NVIDIA, "Multi-Process Service", environment variables).
const ENV_FOLDER: &str = "CUDA_MPS_PIPE_DIRECTORY";
const FOLDER: &str = "/tmp/nvidia-mps";
/// Holds the control daemon's process number (the same).
const PID_FILE: &str = "nvidia-cuda-mps-control.pid";

/// Does a control daemon run where programs of this environment look for it?
pub fn is_running() -> bool {
    let named = std::env::var_os(ENV_FOLDER).filter(|folder| !folder.is_empty());
    runs_in(&named.map_or_else(|| PathBuf::from(FOLDER), PathBuf::from))
}

fn runs_in(folder: &Path) -> bool {
    let pid = std::fs::read_to_string(folder.join(PID_FILE)).ok();
    let pid: Option<u32> = pid.and_then(|text| text.trim().parse().ok());
    pid.is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_daemon_runs_while_its_process_does() {
        let folder = tempfile::tempdir().expect("folder");
        assert!(!runs_in(folder.path()));
        for (text, runs) in
            [(std::process::id().to_string(), true), ("4194305".into(), false), ("?".into(), false)]
        {
            std::fs::write(folder.path().join(PID_FILE), format!("{text}\n")).expect("write");
            assert_eq!(runs_in(folder.path()), runs, "{text}");
        }
    }
}
