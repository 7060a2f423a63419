//! The child process that serves the virtual GPUs.
//!
//! Trap: it must go when the daemon goes, also by `kill -9`: the kernel sends it a signal then.

use crate::config::Clock;
use anyhow::{Context, bail};
use eager_proto::place::companion_folders;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Name of the server's executable.
const SERVER: &str = "eager-vgpud";

/// What to serve.
#[derive(Debug, Clone, Copy)]
pub struct VirtualSource<'a> {
    pub cards: &'a str,
    pub time_scale: f64,
    pub memory_scale: u64,
    pub clock: Clock,
    pub host_factor: f64,
    pub mps: bool,
}

/// The running server; killed on drop.
#[derive(Debug)]
pub struct VirtualGpus {
    child: Child,
}

impl VirtualGpus {
    /// Starts the server and waits until it listens at `socket`, which it says in its first line.
    pub fn start(source: &VirtualSource<'_>, socket: &Path) -> anyhow::Result<VirtualGpus> {
        let own = std::env::current_exe().context("cannot find my own executable")?;
        let server = server_of(&own);
        let mut command = Command::new(&server);
        command
            .args(["--cards", source.cards])
            .args(["--time-scale", &source.time_scale.to_string()])
            .args(["--memory-scale", &source.memory_scale.to_string()])
            .args(["--host-factor", &source.host_factor.to_string()])
            .args(["--clock", if source.clock == Clock::Virtual { "virtual" } else { "real" }])
            .arg(if source.mps { "--mps" } else { "--no-mps" })
            .arg("--socket")
            .arg(socket)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = eager_shm::process::end_with_parent(&mut command)
            .spawn()
            .with_context(|| format!("cannot start the virtual GPU server {}", server.display()))?;
        let stdout = child.stdout.take();
        let mut server = VirtualGpus { child };
        let mut ready = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut ready).context("reading from the virtual GPU server")?;
        }
        if ready.is_empty() {
            let status = server.child.wait().context("waiting for the virtual GPU server")?;
            bail!("the virtual GPU server did not start ({status}); its own message is above");
        }
        Ok(server)
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// The server that belongs to this daemon: the first that is there, or where the first should be.
fn server_of(daemon: &Path) -> PathBuf {
    let folders = companion_folders(daemon.parent().unwrap_or(Path::new("/")));
    let servers = folders.map(|folder| folder.join(SERVER));
    servers.iter().find(|server| server.is_file()).unwrap_or(&servers[0]).clone()
}

impl Drop for VirtualGpus {
    fn drop(&mut self) {
        // It holds nothing that must be saved, and its socket is removed with the run directory's. Errors mean that it
        // has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
