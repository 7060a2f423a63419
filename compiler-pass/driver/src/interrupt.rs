//! Removes the scratch folder when a signal ends the driver.
//!
//! A thread waits for a signal, passes it on to the running compiler and to that compiler's processes, removes the
//! folder, and lets the signal take its default effect. Traps: a signal that was ignored when the driver started
//! (`nohup`, a job in the background) must stay ignored. And clang's own driver, when it is ended, leaves its processes
//! running, which then write the files again that it has removed.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Process id of the running compiler.
static RUNNING: Mutex<Option<u32>> = Mutex::new(None);

/// Set once a signal that ends the driver has arrived.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Number of attempts to remove the folder while a compiler that is ending still writes there.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// Makes a signal that ends the driver remove `scratch`. If no thread can be started, the folder stays.
pub fn clean_up(scratch: &Path) {
    let ignored = ignored();
    let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0);
    let scratch = scratch.to_path_buf();
    let watch = move || {
        // Registered in this thread, so that a signal is caught only when a thread handles it.
        let Ok(mut signals) = Signals::new(wanted) else { return };
        let Some(signal) = signals.forever().next() else { return };
        INTERRUPTED.store(true, Ordering::SeqCst);
        pass_on(signal);
        for _ in 0..TRIES {
            let _ = std::fs::remove_dir_all(&scratch);
            if running().is_none() && !scratch.exists() {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = emulate_default_handler(signal);
    };
    let _ = std::thread::Builder::new().name("signals".into()).spawn(watch);
}

fn running() -> Option<u32> {
    *RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for a compiler that was started.
///
/// # Errors
/// If it could not be started, or waited for.
pub fn wait(started: std::io::Result<Child>) -> std::io::Result<ExitStatus> {
    let note = |child| *RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = child;
    let mut child = started?;
    note(Some(child.id()));
    let status = child.wait();
    note(None);
    while INTERRUPTED.load(Ordering::SeqCst) {
        // The signal ends the driver; the compiler's result no longer matters.
        std::thread::park();
    }
    status
}

/// Passes a signal on to the running compiler and to all processes below it. A signal to the driver alone, as from
/// `make`, does not reach them. The processes are listed first, because a process that has ended no longer shows its
/// children.
fn pass_on(signal: i32) {
    let mut family: Vec<u32> = running().into_iter().collect();
    let mut seen = 0;
    while let Some(&pid) = family.get(seen) {
        family.extend(children(pid));
        seen += 1;
    }
    let Ok(first) = Signal::try_from(signal) else { return };
    for (index, pid) in family.into_iter().enumerate() {
        // A shell makes the processes that it starts in the background ignore SIGINT.
        let signal = if index == 0 { first } else { Signal::SIGTERM };
        // The process may have ended by itself.
        let _ = i32::try_from(pid).map(|pid| kill(Pid::from_raw(pid), signal));
    }
}

/// Processes that a process has started (proc(5): `children`); none if that cannot be read.
fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Signals that this process ignores, as a mask (proc(5): `SigIgn`); none if that cannot be read.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
