//! Processes and their ends: children that must not outlive their parent, and clients that must go.
//!
//! Trap: the signal is tied to the *thread* that starts the child; start it from one that lives as long as the process.

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The child gets `SIGKILL` when the calling thread ends, however it ends.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    let parent = Pid::this();
    let before_exec = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before the call above; then nobody would send the signal.
        if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing: both are safe there.
    unsafe { command.pre_exec(before_exec) }
}

/// Sends a signal to the process behind a pidfd, and never to another that has its number now.
pub fn signal(pidfd: &OwnedFd, signal: Signal) -> std::io::Result<()> {
    let named = rustix::process::Signal::from_named_raw(signal as i32);
    let named = named.ok_or(std::io::ErrorKind::InvalidInput)?;
    rustix::process::pidfd_send_signal(pidfd, named).map_err(Into::into)
}
