//! Counts of the calls that were forwarded to CUDA, by reason, and of the buffers that were declared dead: a line
//! each at the end of the program, if `EAGER_STATS=1`.
//!
//! Calls that the shim carries out itself are not counted, since a launch must not pay for a statistic.

use crate::outcome::Why;
use crate::reporter::to_stderr;
use std::sync::atomic::{AtomicU64, Ordering};

/// `1`: print the counts at the end.
pub const ENV_STATS: &str = "EAGER_STATS";

static COUNTS: [AtomicU64; Why::ALL.len()] = [const { AtomicU64::new(0) }; Why::ALL.len()];

static DEAD: AtomicU64 = AtomicU64::new(0);
static DEAD_USES: AtomicU64 = AtomicU64::new(0);
static BELIEVED: AtomicU64 = AtomicU64::new(0);
static BELIEVED_USES: AtomicU64 = AtomicU64::new(0);

/// Counts a buffer that the compiler proves dead.
pub fn count_dead() {
    DEAD.fetch_add(1, Ordering::Relaxed);
}

/// Counts a use of a buffer after the compiler declared it dead.
pub fn count_dead_use() {
    DEAD_USES.fetch_add(1, Ordering::Relaxed);
}

/// Counts a buffer that is moved to the host because it is believed dead.
pub fn count_believed() {
    BELIEVED.fetch_add(1, Ordering::Relaxed);
}

/// Counts a use of a buffer believed dead, which moves it back.
pub fn count_believed_use() {
    BELIEVED_USES.fetch_add(1, Ordering::Relaxed);
}

/// Counts a forwarded call.
pub fn count(why: Why) {
    // Relaxed: a sum that is read once, at the end.
    COUNTS[why as usize].fetch_add(1, Ordering::Relaxed);
}

/// Prints the counts when the program ends.
pub fn print_at_exit() {
    extern "C" fn print() {
        to_stderr(&line(&Why::ALL.map(|why| COUNTS[why as usize].load(Ordering::Relaxed))));
        let (dead, uses) = (DEAD.load(Ordering::Relaxed), DEAD_USES.load(Ordering::Relaxed));
        if dead > 0 {
            to_stderr(&format!(
                "buffers declared dead before they were freed: {dead}, used after that: {uses}"
            ));
        }
        let (believed, uses) = (BELIEVED.load(Ordering::Relaxed), BELIEVED_USES.load(Ordering::Relaxed));
        if believed > 0 {
            to_stderr(&format!("buffers moved to the host, believed dead: {believed}, brought back: {uses}"));
        }
    }
    // SAFETY: the function lives as long as the library, which is never unloaded; it neither panics nor unwinds.
    let _ = unsafe { libc::atexit(print) };
}

fn line(counts: &[u64; Why::ALL.len()]) -> String {
    let some = Why::ALL.iter().zip(counts).filter(|(_, count)| **count > 0);
    let parts: Vec<String> = some.map(|(why, count)| format!("{count} {}", why.words())).collect();
    let text = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
    format!("calls forwarded to CUDA unchanged: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_happened_only() {
        let mut counts = [0; Why::ALL.len()];
        assert_eq!(line(&counts), "calls forwarded to CUDA unchanged: none");
        (counts[Why::NoDaemon as usize], counts[Why::AsItIs as usize]) = (2, 30);
        assert_eq!(
            line(&counts),
            "calls forwarded to CUDA unchanged: 2 without a daemon, 30 on the task's device"
        );
    }
}
