//! Tells whether a process is the same one as before.
//!
//! Trap: the kernel reuses process ids. A process is its id *and* its start time, within one boot of the machine; and
//! data from `/proc` is valid only if the process is still alive after it was read.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, OwnedFd};

/// Number that no other run of a daemon has, barring chance; never 0.
pub fn run() -> u64 {
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let digits: String = uuid.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    u64::from_str_radix(&digits, 16).unwrap_or_default().max(u64::from(std::process::id()))
}

/// Start time of the process in the kernel's ticks since boot; 0 where `/proc` does not tell.
pub fn started(pid: i32) -> u64 {
    start_field(&stat(pid)).unwrap_or(0)
}

/// When a process started, in the kernel's ticks since boot, and the id of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub started: u64,
    pub parent: i32,
}

/// Where the process comes from; none where `/proc` does not tell.
pub fn origin(pid: i32) -> Option<Origin> {
    let stat = stat(pid);
    Some(Origin { started: start_field(&stat)?, parent: parent_field(&stat)? })
}

/// Nice value of the process (that of its first thread); 0 where `/proc` does not tell.
pub fn nice(pid: i32) -> i8 {
    nice_field(&stat(pid)).unwrap_or(0)
}

/// True if `/proc` shows the process as stopped by a signal or a debugger.
pub fn is_stopped(pid: i32) -> bool {
    matches!(state_field(&stat(pid)), Some("T" | "t"))
}

/// True if a signal (SIGSTOP, Ctrl-Z) has stopped the process with all its threads. Under a debugger some threads may
/// run.
pub fn is_stopped_by_signal(pid: i32) -> bool {
    state_field(&stat(pid)) == Some("T")
}

/// The process's real uid now; none where `/proc` does not tell.
pub fn real_uid(pid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The process's line in `/proc` (proc(5)); empty where `/proc` does not tell.
fn stat(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
}

/// Field 19: the nice value.
fn nice_field(stat: &str) -> Option<i8> {
    field(stat, 19)?.parse().ok()
}

/// Field 3: the state.
fn state_field(stat: &str) -> Option<&str> {
    field(stat, 3)
}

/// Field 4: the parent's process id.
fn parent_field(stat: &str) -> Option<i32> {
    field(stat, 4)?.parse().ok()
}

/// Field 22: the start time.
fn start_field(stat: &str) -> Option<u64> {
    field(stat, 22)?.parse().ok()
}

/// A field by its number in proc(5), from the third on. The second is the command's name in parentheses, which may hold
/// any characters.
fn field(stat: &str, number: usize) -> Option<&str> {
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(number - 3)
}

/// Opens a pidfd of the process with this id and start time; `None` if it has ended.
pub fn find(pid: i32, start: u64) -> Option<OwnedFd> {
    let pidfd = eager_shm::daemon::open_pidfd(pid).ok()?;
    let same = start != 0 && started(pid) == start;
    (same && is_alive(&pidfd)).then_some(pidfd)
}

/// True until the process ends. A zombie counts as ended: it holds nothing.
pub fn is_alive(pidfd: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(0)
}

/// Identifies this boot of the machine; empty where the kernel does not tell.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_one_that_started_at_another_time_is_not() {
        let pid = std::process::id() as i32;
        let start = started(pid);
        assert!(start > 0);
        assert!(find(pid, start).is_some());
        assert_eq!(real_uid(pid), Some(nix::unistd::Uid::current().as_raw()));
        assert!(find(pid, start + 1).is_none() && find(pid, 0).is_none());
    }

    #[test]
    fn a_name_cannot_move_the_fields() {
        let stat = "7 (a) 9 9) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1000 1\n";
        assert_eq!(start_field(stat), Some(4242));
        assert_eq!((state_field(stat), state_field("")), (Some("S"), None));
        assert_eq!((parent_field(stat), parent_field("")), (Some(1), None));
        assert_eq!(start_field(""), None);
        assert_eq!(start_field("7 (a) S"), None);
    }

    #[test]
    fn a_zombie_has_ended() {
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = child.id() as i32;
        let pidfd = eager_shm::daemon::open_pidfd(pid).expect("a pidfd");
        let mut ended = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut ended, PollTimeout::from(30_000u16)), Ok(1));
        assert!(find(pid, started(pid)).is_none(), "nobody has waited for it, and it has ended");
        child.wait().expect("wait");
    }
}
