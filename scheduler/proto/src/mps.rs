//! Finds NVIDIA's Multi-Process Service (MPS), with which kernels of several programs run on a GPU at the same time.
//!
//! Each user may have an MPS of their own, behind a folder that the environment names; programs that are started in
//! another environment than the daemon do not share it. Trap: a control daemon that was killed leaves its file behind,
//! and the number in it may belong to another program later.

use std::path::{Path, PathBuf};

/// Environment variable with the folder of the control daemon (NVIDIA, "Multi-Process Service", environment variables).
const ENV_FOLDER: &str = "CUDA_MPS_PIPE_DIRECTORY";
const FOLDER: &str = "/tmp/nvidia-mps";
/// File with the control daemon's process number (NVIDIA, as above).
const PID_FILE: &str = "nvidia-cuda-mps-control.pid";
/// `nvidia-cuda-mps-control`, of which the kernel keeps 15 characters (proc_pid_comm(5)).
const NAME: &str = "nvidia-cuda-mps";

/// Where programs of this environment look for a control daemon.
pub fn folder() -> PathBuf {
    let named = std::env::var_os(ENV_FOLDER).filter(|folder| !folder.is_empty());
    named.map_or_else(|| PathBuf::from(FOLDER), PathBuf::from)
}

/// Process number of the control daemon that runs there, if one does.
pub fn control_pid(folder: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join(PID_FILE)).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    is_control(&stat).then_some(pid)
}

/// Parses `NUMBER (NAME) STATE …` (proc_pid_stat(5)): true for the control daemon's name, unless the process has ended.
fn is_control(stat: &str) -> bool {
    let of = stat.rsplit_once(") ").and_then(|(head, rest)| Some((head.split_once(" (")?.1, rest)));
    of.is_some_and(|(name, rest)| name == NAME && !rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Writes this text to the file of the process number; returns the control daemon found by it.
    fn found(text: &str) -> Option<u32> {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join(PID_FILE), format!("{text}\n")).expect("write");
        control_pid(folder.path())
    }

    #[test]
    fn a_control_daemon_runs_while_its_process_does() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(control_pid(folder.path()), None, "no file");
        let program = folder.path().join("nvidia-cuda-mps-control");
        std::os::unix::fs::symlink("/bin/sleep", &program).expect("link");
        let mut daemon = Command::new(program).arg("1000").spawn().expect("a process of that name");
        let pid = daemon.id();
        assert_eq!(found(&pid.to_string()), Some(pid));
        daemon.kill().expect("kill");
        daemon.wait().expect("wait");
        assert_eq!(found(&pid.to_string()), None, "it has ended");
    }

    #[test]
    fn a_file_that_was_left_is_not_believed() {
        assert_eq!(found(&std::process::id().to_string()), None, "another program has the number");
        for text in ["4194305", "?", "", "-1"] {
            assert_eq!(found(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_name_and_state() {
        assert!(is_control("12 (nvidia-cuda-mps) S 1 12 12 0"));
        assert!(
            !is_control("12 (nvidia-cuda-mps) Z 1 12 12 0"),
            "it has ended, and nobody has waited for it"
        );
        for other in ["12 (nvidia-smi) S 1", "12 (a (nvidia-cuda-mps) S 1", "12 (nvidia-cuda-mps", ""] {
            assert!(!is_control(other), "{other}");
        }
    }
}
