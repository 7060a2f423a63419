//! Log lines on standard error, a few per user and window: a client must not be able to fill the disk, nor to drown the
//! lines about other clients.
//!
//! Trap: standard error may be a pipe that is no longer read; a failed write must not end the server.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(10);
const LINES_PER_WINDOW: u32 = 10;
/// Users with a window of their own; further users share the server's.
const USERS_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Log {
    /// Windows by uid; `None`: the server's own.
    windows: BTreeMap<Option<u32>, Window>,
}

#[derive(Debug)]
struct Window {
    start: Instant,
    written: u32,
    left_out: u64,
}

impl Log {
    /// Logs `line`. `uid`: the user that caused it; `None`: the server itself.
    pub fn write(&mut self, uid: Option<u32>, line: &str) {
        for line in self.admit(Instant::now(), uid, line) {
            // An error means that standard error is closed, and there is no other place to report it.
            let _ = writeln!(std::io::stderr(), "eager-vgpud: {line}");
        }
    }

    fn admit(&mut self, now: Instant, uid: Option<u32>, line: &str) -> Vec<String> {
        let is_over = |window: &Window| now.saturating_duration_since(window.start) >= WINDOW;
        if self.windows.len() >= USERS_MAX && !self.windows.contains_key(&uid) {
            self.windows.retain(|_, window| !is_over(window));
        }
        let uid = uid.filter(|uid| self.windows.len() < USERS_MAX || self.windows.contains_key(&Some(*uid)));
        let window = self.windows.entry(uid).or_insert(Window { start: now, written: 0, left_out: 0 });
        let mut lines = Vec::new();
        if is_over(window) {
            if window.left_out > 0 {
                let whose = uid.map_or(String::new(), |uid| format!(" of uid {uid}"));
                lines.push(format!("{} more messages{whose} were left out", window.left_out));
            }
            *window = Window { start: now, written: 0, left_out: 0 };
        }
        if window.written < LINES_PER_WINDOW {
            window.written += 1;
            lines.push(line.to_owned());
        } else {
            window.left_out += 1;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_leaves_others_their_lines() {
        let (mut log, start) = (Log::default(), Instant::now());
        let said: usize = (0..100).map(|_| log.admit(start, Some(7), "x").len()).sum();
        assert_eq!(said, 10);
        assert_eq!(log.admit(start, Some(8), "other"), ["other"]);
        assert_eq!(log.admit(start, None, "own"), ["own"]);
        assert_eq!(log.admit(start + WINDOW, Some(7), "y"), ["90 more messages of uid 7 were left out", "y"]);
        let said: usize = (0..10_000).map(|uid| log.admit(start + WINDOW, Some(uid), "x").len()).sum();
        assert!(said <= USERS_MAX + 10 && log.windows.len() <= USERS_MAX + 1, "{said}");
    }
}
