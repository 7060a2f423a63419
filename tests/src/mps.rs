//! Imitates a running NVIDIA Multi-Process Service: its file, and a process of its name.
//!
//! Trap: the process answers nothing; a test that queries MPS needs a control program as well.

use std::path::Path;
use std::process::{Child, Command};

/// File that marks a running MPS, in the folder that `CUDA_MPS_PIPE_DIRECTORY` names.
pub const PID_FILE: &str = "nvidia-cuda-mps-control.pid";

/// The imitated control daemon; killed on drop.
#[derive(Debug)]
pub struct Control(Child);

impl Control {
    /// Starts `sleep` under a name that begins as the control daemon's; the kernel keeps only that much of a name.
    pub fn start(folder: &Path) -> Control {
        let program = folder.join("nvidia-cuda-mps-daemon");
        std::os::unix::fs::symlink("/bin/sleep", &program).expect("link");
        let child = Command::new(program).arg("1000").spawn().expect("a process of that name");
        std::fs::write(folder.join(PID_FILE), child.id().to_string()).expect("write");
        Control(child)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
