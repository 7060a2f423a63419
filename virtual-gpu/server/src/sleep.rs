//! Notices that whoever holds the virtual clock sleeps, from what the system counts of its threads.
//!
//! Trap: a thread that could run but gets no processor does not sleep: the time it waits in the run queue is taken off.

use std::time::{Duration, Instant};

use crate::{Answer, Holder, Service};

/// A holder is looked at when it has held the clock for so long, and again after each further such time.
pub const LOOK: Duration = Duration::from_millis(20);
/// Of the time between two looks, the part that must have been sleep.
const ASLEEP_MIN: f64 = 0.5;

/// Looks at whoever holds the clock.
#[derive(Debug, Default)]
pub struct Watch {
    last: Option<Look>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    holder: Holder,
    at: Instant,
    /// Nanoseconds on a processor or waiting for one. Not looked for at first: most hold the clock for microseconds.
    busy_ns: Option<u64>,
}

impl Watch {
    /// Is somebody to be looked at again?
    pub fn is_on(&self) -> bool {
        self.last.is_some()
    }

    /// Looks at the holder, if it is time; what it has slept counts as its host time.
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
        // A process that is gone, or of which nothing can be seen, sleeps.
        let busy_ns = busy_ns(holder).unwrap_or(0);
        self.last = Some(Look { holder, at, busy_ns: Some(busy_ns) });
        let Some(before_ns) = last.busy_ns else { return };
        let passed_ns = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        let slept_ns = passed_ns.saturating_sub(busy_ns.saturating_sub(before_ns));
        if slept_ns as f64 >= ASLEEP_MIN * passed_ns as f64 {
            service.slept(holder, slept_ns, answers);
        }
    }
}

/// Time of the holder's thread, or of all threads of its process, on a processor and waiting for one.
fn busy_ns(holder: Holder) -> Option<u64> {
    let tasks = format!("/proc/{}/task", holder.pid);
    let of = |thread: &str| {
        let text = std::fs::read_to_string(format!("{tasks}/{thread}/schedstat")).ok()?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        Some(numbers.next()?.ok()? + numbers.next()?.ok()?)
    };
    match holder.thread {
        Some(thread) => of(&thread.to_string()),
        None => {
            let threads = std::fs::read_dir(&tasks).ok()?.filter_map(Result::ok);
            Some(threads.filter_map(|thread| of(thread.file_name().to_str()?)).sum())
        }
    }
}
