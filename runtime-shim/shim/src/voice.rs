//! The shim's few words to the user: whole lines on standard error, each thing once.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Where lines go.
pub type Sink = Box<dyn Fn(&str) + Send + Sync>;

/// Says each thing once.
pub struct Voice {
    sink: Sink,
    said: Mutex<BTreeSet<&'static str>>,
}

impl std::fmt::Debug for Voice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Voice").field("said", &self.said).finish_non_exhaustive()
    }
}

impl Voice {
    pub fn new(sink: Sink) -> Voice {
        Voice { sink, said: Mutex::default() }
    }

    /// Says `line` unless something was said about `topic` before.
    pub fn once(&self, topic: &'static str, line: impl FnOnce() -> String) {
        if self.said.lock().insert(topic) {
            self.say(&line());
        }
    }

    pub fn say(&self, line: &str) {
        (self.sink)(line);
    }
}

/// Writes `eager: LINE` to standard error in one call, so that lines of several processes do not mix. A closed or full
/// standard error is the user's choice: the line is dropped.
pub fn to_stderr(line: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("eager: {line}\n").as_bytes());
}

/// What the loader says: its errors name only the call that failed, and have the rest as their source.
pub fn of_loader(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
