//! The shim's messages to the user: whole lines on standard error, each topic once.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Destination of the lines.
pub type Sink = Box<dyn Fn(&str) + Send + Sync>;

/// Writes messages, each topic once.
pub struct Reporter {
    sink: Sink,
    reported: Mutex<BTreeSet<&'static str>>,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").field("reported", &self.reported).finish_non_exhaustive()
    }
}

impl Reporter {
    pub fn new(sink: Sink) -> Reporter {
        Reporter { sink, reported: Mutex::default() }
    }

    /// Writes `line` unless a message about `topic` was written before.
    pub fn report_once(&self, topic: &'static str, line: impl FnOnce() -> String) {
        if self.reported.lock().insert(topic) {
            self.report(&line());
        }
    }

    pub fn report(&self, line: &str) {
        (self.sink)(line);
    }
}

/// Writes `eager: LINE` to standard error in one call, so that lines of several processes do not mix. A closed or full
/// standard error is the user's choice: the line is dropped.
pub fn to_stderr(line: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("eager: {line}\n").as_bytes());
}

/// The loader's message: its errors name only the call that failed, and hold the rest as their source.
pub fn loader_message(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
