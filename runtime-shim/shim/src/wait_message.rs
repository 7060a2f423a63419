//! Messages of a program that waits for the scheduler: the reason, and where to read more.
//!
//! `eager run` enables them. On a terminal the line is rewritten in place and erased when the wait is over; in a log
//! it appears once. Trap: a wait of less than a second must not be reported, and the line must be erased before the
//! program goes on, or it mixes with the program's own output.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Waits shorter than this are not reported.
const SILENT_WAIT_MAX: Duration = Duration::from_secs(1);

/// A wait.
#[derive(Debug)]
pub struct WaitMessage {
    since: Instant,
    on_terminal: bool,
    shown: Option<String>,
}

impl WaitMessage {
    /// Starts a wait now.
    pub fn new() -> WaitMessage {
        WaitMessage { since: Instant::now(), on_terminal: std::io::stderr().is_terminal(), shown: None }
    }

    /// Reports that the program still waits.
    pub fn show(&mut self, reason: impl FnOnce() -> String) {
        write(self.text(self.since.elapsed(), reason));
    }

    /// Erases the line when the wait is over.
    pub fn end(&mut self) {
        if self.shown.take().is_some() && self.on_terminal {
            write(Some("\r\x1b[K".into()));
        }
    }

    fn text(&mut self, waited: Duration, reason: impl FnOnce() -> String) -> Option<String> {
        if waited < SILENT_WAIT_MAX || (self.shown.is_some() && !self.on_terminal) {
            return None;
        }
        let more = format!("more: `eager explain pid {}`", std::process::id());
        let reason = reason();
        let reason = if reason.starts_with("waits") { reason } else { format!("waits: {reason}") };
        let line = if self.on_terminal {
            // Without line wrap (`?7l`), since a line longer than the terminal could not be erased completely.
            format!("\r\x1b[K\x1b[?7leager: {} s: {reason} ({more})\x1b[?7h", waited.as_secs())
        } else {
            format!("eager: {reason} ({more})\n")
        };
        (self.shown.as_ref() != Some(&line)).then(|| self.shown.insert(line).clone())
    }
}

/// Writes in one call, so that lines of several processes do not mix. A closed standard error is the user's choice.
fn write(text: Option<String>) {
    if let Some(text) = text {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_one_line_a_terminal_the_latest() {
        let mut log = WaitMessage { on_terminal: false, ..WaitMessage::new() };
        let mut ask = |ms, reason: &str| log.text(Duration::from_millis(ms), || reason.to_owned());
        assert_eq!(ask(900, "waits: soon"), None);
        let line = ask(1100, "waits: GPU 0 lacks 2 GiB").expect("a line");
        assert!(line.starts_with("eager: waits: GPU 0 lacks 2 GiB (more: `eager explain pid "), "{line}");
        assert_eq!(ask(5000, "waits: GPU 0 lacks 1 GiB"), None);

        let mut terminal = WaitMessage { on_terminal: true, ..WaitMessage::new() };
        let mut ask = |ms, reason: &str| terminal.text(Duration::from_millis(ms), || reason.to_owned());
        let first = ask(1100, "waits: a").expect("a line");
        assert!(first.starts_with("\r\x1b[K") && first.contains("eager: 1 s: waits: a ("), "{first:?}");
        assert_eq!(ask(1200, "waits: a"), None, "nothing is new");
        assert!(ask(2100, "waits: a").is_some() && ask(2100, "waits: b").is_some());
    }
}
