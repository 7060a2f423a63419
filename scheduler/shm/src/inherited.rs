//! Descriptors that a service manager passes to a process that it starts (sd_listen_fds(3)), or a process to the
//! program that replaces it.
//!
//! Trap: the variables that name them stay in the environment, so every child, and every program that the process
//! becomes by `exec`, would take its own descriptors with these numbers for them. So they count only for the process
//! that they name, and only for descriptors that came through `exec`.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::dup2_raw;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// Names the process that the descriptors are for.
const ENV_LISTEN_PID: &str = "LISTEN_PID";
const ENV_LISTEN_FDS: &str = "LISTEN_FDS";
const ENV_LISTEN_FDNAMES: &str = "LISTEN_FDNAMES";
/// The first descriptor after the standard streams.
const FIRST: RawFd = 3;
/// More than any service manager keeps.
const COUNT_MAX: RawFd = 1 << 20;

/// Takes the descriptors for this process, with their names; they are closed on `exec` from now on. `get` reads the
/// environment. A second call does not return them again.
pub fn take(get: impl Fn(&str) -> Option<OsString>) -> Vec<(String, OwnedFd)> {
    let number = |name| get(name)?.to_str()?.parse::<RawFd>().ok();
    if number(ENV_LISTEN_PID) != i32::try_from(std::process::id()).ok() {
        return Vec::new();
    }
    let count = number(ENV_LISTEN_FDS).unwrap_or(0).clamp(0, COUNT_MAX);
    let names = get(ENV_LISTEN_FDNAMES).map(|names| names.to_string_lossy().into_owned()).unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    let numbers = FIRST..FIRST.saturating_add(count);
    numbers.zip(names).filter_map(|(number, name)| Some((name, adopt(number).ok()?))).collect()
}

/// Makes this process the owner of a descriptor that came through `exec`.
fn adopt(number: RawFd) -> nix::Result<OwnedFd> {
    // SAFETY: the borrow only serves to ask whether the descriptor is open, and how; a number that is not open gives an
    // error.
    let flags = fcntl(unsafe { BorrowedFd::borrow_raw(number) }, FcntlArg::F_GETFD)?;
    if FdFlag::from_bits_truncate(flags).contains(FdFlag::FD_CLOEXEC) {
        return Err(Errno::EBADF);
    }
    // SAFETY: the descriptor is open and does not close on `exec`, so it came through one: all that Rust's library, nix
    // and rustix open here does close. No code in the process knows it but by this number, and from the next line on it
    // closes on `exec` too, so that this function does not adopt it a second time.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    if let Err(errno) = fcntl(owned.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
        // It stays open, and with its previous owner.
        let _ = owned.into_raw_fd();
        return Err(errno);
    }
    Ok(owned)
}

/// Passes listening sockets to the program that this process becomes by `exec`, as a service manager would; returns the
/// variables to set. The `exec`, or the process's end, must follow at once: the numbers are taken from their users.
///
/// # Errors
/// No descriptors are left.
pub fn hand_down(listeners: &[(String, OwnedFd)]) -> nix::Result<[(&'static str, String); 3]> {
    let count = RawFd::try_from(listeners.len()).map_err(|_| Errno::EMFILE)?;
    // Moved out of the way first: a listener may have the number that another is to get.
    let aside = |(_, listener): &(String, OwnedFd)| fcntl(listener, FcntlArg::F_DUPFD_CLOEXEC(FIRST + count));
    let aside: Vec<RawFd> = listeners.iter().map(aside).collect::<nix::Result<_>>()?;
    for (number, from) in (FIRST..).zip(aside) {
        // SAFETY: `from` was made two lines before and has no other owner. The user of `number` may not be done with
        // it: what it finds there until the `exec` is a listening socket, which can be neither read nor written. It is
        // left open for that `exec`, so it is never closed by its owner.
        let given = unsafe { dup2_raw(BorrowedFd::borrow_raw(from), number) }?;
        let _ = given.into_raw_fd();
    }
    let names: Vec<&str> = listeners.iter().map(|(name, _)| name.as_str()).collect();
    Ok([
        (ENV_LISTEN_PID, std::process::id().to_string()),
        (ENV_LISTEN_FDS, count.to_string()),
        (ENV_LISTEN_FDNAMES, names.join(":")),
    ])
}
