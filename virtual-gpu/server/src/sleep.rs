//! Detects that the holder of the virtual clock sleeps, from the system's accounting of its threads.
//!
//! Traps: a thread that is runnable but has no processor does not sleep. Its time in the run queue must be subtracted,
//! and since the system adds that up only when the wait is over, a thread still in the queue must be recognised by its
//! state. A thread that waits for a disk does not sleep either.

use std::time::{Duration, Instant};

use crate::{Answer, Holder, Service};

/// A holder is inspected when it has held the clock for this long, and again after each further such time
/// (specification S-635).
pub const LOOK: Duration = Duration::from_millis(20);
/// Least part of the time between two looks that must have been sleep.
const ASLEEP_MIN: f64 = 0.5;

/// Inspects the holder of the clock.
#[derive(Debug, Default)]
pub struct SleepWatch {
    last: Option<Look>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    holder: Holder,
    at: Instant,
    /// Nanoseconds on a processor or waiting for one. `None` at the first look: most holders hold the clock for
    /// microseconds.
    busy_ns: Option<u64>,
}

impl SleepWatch {
    /// True if a holder must be inspected again.
    pub fn is_on(&self) -> bool {
        self.last.is_some()
    }

    /// Inspects the holder, if it is time; its sleep is counted as host time.
    pub fn look(&mut self, service: &mut Service, answers: &mut Vec<Answer>) {
        let Some(holder) = service.holder() else {
            self.last = None;
            return;
        };
        let at = Instant::now();
        let Some(last) = self.last.filter(|last| last.holder == holder) else {
            self.last = Some(Look { holder, at, busy_ns: None });
            return;
        };
        let passed = at.saturating_duration_since(last.at);
        if passed < LOOK {
            return;
        }
        // A process that is gone or cannot be inspected counts as asleep: it has no threads.
        let busy_ns = busy_ns(holder);
        let is_asleep = !threads(holder).iter().any(|thread| is_underway(holder.pid, *thread));
        self.last = Some(Look { holder, at, busy_ns: Some(busy_ns) });
        let Some(before_ns) = last.busy_ns.filter(|_| is_asleep) else { return };
        let passed_ns = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        let slept_ns = passed_ns.saturating_sub(busy_ns.saturating_sub(before_ns));
        if slept_ns as f64 >= ASLEEP_MIN * passed_ns as f64 {
            service.slept(holder, slept_ns, answers);
        }
    }
}

/// Time in ns of the holder's threads on a processor and, as far as it is over, waiting for one.
fn busy_ns(holder: Holder) -> u64 {
    let of = |thread: u32| {
        let text = std::fs::read_to_string(format!("/proc/{}/task/{thread}/schedstat", holder.pid)).ok()?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        Some(numbers.next()?.ok()? + numbers.next()?.ok()?)
    };
    threads(holder).into_iter().filter_map(of).sum()
}

/// The holder's thread, or all threads of its process.
fn threads(holder: Holder) -> Vec<u32> {
    match holder.thread {
        Some(thread) => vec![thread],
        None => {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", holder.pid)).into_iter().flatten();
            tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect()
        }
    }
}

/// True if a thread runs, is in a run queue or waits for a disk.
fn is_underway(pid: u32, thread: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok();
    // The parenthesised name before the state may contain any characters.
    let state = state.and_then(|text| text.rsplit_once(") ")?.1.chars().next());
    matches!(state, Some('R' | 'D'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_could_run_is_under_way_and_one_that_waits_is_not() {
        let pid = std::process::id();
        let id = || nix::unistd::gettid().as_raw().unsigned_abs();
        let (tell, told) = channel();
        let (release, held) = channel::<()>();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let teller = tell.clone();
            scope.spawn(|| {
                let held = held;
                tell.send(("waits", id())).unwrap();
                held.recv().ok()
            });
            let over = &over;
            scope.spawn(move || {
                teller.send(("spins", id())).unwrap();
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            for (what, thread) in told.iter().take(2) {
                let expected = what == "spins";
                // A thread that has sent its id is asleep soon, and a spinning one soon leaves the lock of the channel.
                while is_underway(pid, thread) != expected {
                    std::thread::yield_now();
                }
            }
            over.store(true, Relaxed);
            drop(release);
        });
        assert!(!is_underway(pid, u32::MAX), "there is no such thread");
    }
}
