//! Lines for the administrator, with a limit: a client must not be able to fill the disk.
//!
//! Trap: what is suppressed is counted and said later, so that a quiet log is not mistaken for a quiet system.

use eager_core::units::Nanos;

const WINDOW: Nanos = Nanos::from_secs(10);
const LINES_PER_WINDOW: u32 = 20;

/// Decides which lines are said.
#[derive(Debug, Default)]
pub struct LogLimit {
    window_start: Nanos,
    said: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Lines to print for this one: none, itself, or itself after a note on those that were left out.
    pub fn admit(&mut self, now: Nanos, line: String) -> Vec<String> {
        let mut lines = Vec::new();
        if now.saturating_sub(self.window_start) >= WINDOW {
            if self.suppressed > 0 {
                lines.push(format!("{} more messages were left out", self.suppressed));
            }
            *self = LogLimit { window_start: now, said: 0, suppressed: 0 };
        }
        if self.said < LINES_PER_WINDOW {
            self.said += 1;
            lines.push(line);
        } else {
            self.suppressed += 1;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut limit = LogLimit::default();
        let said = (0..50).filter(|_| !limit.admit(Nanos(1), "x".into()).is_empty()).count();
        assert_eq!(said, 20);
        let later = limit.admit(Nanos::from_secs(11), "y".into());
        assert_eq!(later, ["30 more messages were left out", "y"]);
        assert_eq!(limit.admit(Nanos::from_secs(12), "z".into()), ["z"]);
    }
}
