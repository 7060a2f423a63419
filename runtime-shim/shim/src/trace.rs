//! The optional trace: a JSON line per accounting request sent to the daemon, and per buffer that dies, in the file
//! named by `EAGER_TRACE`. The stand-in runtime's trace may share the file; its lines are then in the order of the
//! events.
//!
//! Only requests that change what a task may hold are traced; hints (busy, idle, held kernels) are not. A trace that
//! cannot be written is reported once and given up.

use crate::reporter::to_stderr;
use eager_proto::request::{RequestBody, Slot};
use parking_lot::Mutex;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

/// Variable with the file for the trace of accounting requests; unset: no trace.
pub const ENV_TRACE: &str = "EAGER_TRACE";

/// A line of the trace.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Line {
    request: &'static str,
    slot: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lazy: Option<bool>,
}

static FILE: OnceLock<Mutex<File>> = OnceLock::new();

/// Writes the trace to `path` from now on.
pub fn start(path: &Path) {
    match File::options().append(true).create(true).open(path) {
        Ok(file) => drop(FILE.set(Mutex::new(file))),
        Err(error) => to_stderr(&format!("no trace: {ENV_TRACE}={}: {error}", path.display())),
    }
}

pub fn is_on() -> bool {
    FILE.get().is_some()
}

/// Traces a task's live requirement, which the daemon is not told yet.
pub fn record_live(slot: Slot, bytes: u64) {
    write(&Line { request: "task-live", slot: slot.index(), bytes: Some(bytes), lazy: None });
}

/// Traces that a buffer of this many bytes was declared dead.
pub fn record_dead(slot: Slot, bytes: u64) {
    write(&Line { request: "dead", slot: slot.index(), bytes: Some(bytes), lazy: None });
}

/// Traces that a dead buffer was used.
pub fn record_dead_use(slot: Slot) {
    write(&Line { request: "dead-use", slot: slot.index(), bytes: None, lazy: None });
}

/// Traces a request that was sent, if it is an accounting request.
pub fn record(slot: Slot, body: &RequestBody) {
    if let Some(line) = line(slot, body) {
        write(&line);
    }
}

fn write(line: &Line) {
    let Some(file) = FILE.get() else { return };
    let Ok(mut text) = serde_json::to_string(line) else { return };
    text.push('\n');
    // One write per line, so that it does not mix with the runtime's lines. A full disk must not stop the program.
    let _ = file.lock().write_all(text.as_bytes());
}

fn line(slot: Slot, body: &RequestBody) -> Option<Line> {
    let line = |request, bytes| Line { request, slot: slot.index(), bytes, lazy: None };
    match body {
        RequestBody::TaskBegin { requirement, flags, .. } => {
            Some(Line { lazy: Some(flags.lazy), ..line("task-begin", Some(*requirement)) })
        }
        RequestBody::TaskExtend { bytes } => Some(line("task-extend", Some(*bytes))),
        RequestBody::TaskShrink { bytes } => Some(line("task-shrink", Some(*bytes))),
        RequestBody::AllLaunched => Some(line("all-launched", None)),
        RequestBody::TaskEnd => Some(line("task-end", None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_proto::request::BeginFlags;

    #[test]
    fn only_accounting_requests_have_a_line() {
        let slot = Slot::new(3).expect("slot 3");
        let text =
            |body: &RequestBody| line(slot, body).map(|line| serde_json::to_string(&line).expect("JSON"));
        let begin = RequestBody::TaskBegin {
            requirement: 64,
            site: 0,
            blocks: 0,
            threads_per_block: 0,
            flags: BeginFlags::LAZY,
            function: String::new(),
        };
        let expected = r#"{"request":"task-begin","slot":3,"bytes":64,"lazy":true}"#;
        assert_eq!(text(&begin).as_deref(), Some(expected));
        assert_eq!(text(&RequestBody::TaskEnd).as_deref(), Some(r#"{"request":"task-end","slot":3}"#));
        assert_eq!(text(&RequestBody::Busy), None);
    }
}
