//! Signals to clients that must end.

use nix::sys::signal::Signal;
use std::os::fd::OwnedFd;

/// Sends a signal to the process behind a pidfd, and never to another process that has its number now.
pub fn signal(pidfd: &OwnedFd, signal: Signal) -> std::io::Result<()> {
    let named = rustix::process::Signal::from_named_raw(signal as i32);
    let named = named.ok_or(std::io::ErrorKind::InvalidInput)?;
    rustix::process::pidfd_send_signal(pidfd, named).map_err(Into::into)
}
