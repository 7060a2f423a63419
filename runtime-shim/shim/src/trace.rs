//! The optional trace: one JSON line per accounting request that went to the daemon, and per buffer that dies, into the
//! file that `EAGER_TRACE` names. The stand-in runtime's trace may share the file: the lines then stand in the order in
//! which things happened.
//!
//! Trap: only requests that change what a task may hold are here; hints (busy, idle, held kernels) are not. A trace that
//! cannot be written is said once and given up.

use crate::voice::to_stderr;
use eager_proto::request::{RequestBody, Slot};
use parking_lot::Mutex;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

/// File for the trace of accounting requests; unset: none.
pub const ENV_TRACE: &str = "EAGER_TRACE";

/// One line.
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

/// Adds what a task needs at once between first use and death of each of its buffers, which the daemon is not told yet.
pub fn record_live(slot: Slot, bytes: u64) {
    write(&Line { request: "task-live", slot: slot.index(), bytes: Some(bytes), lazy: None });
}

/// Adds that a buffer of so many bytes was declared dead.
pub fn record_dead(slot: Slot, bytes: u64) {
    write(&Line { request: "dead", slot: slot.index(), bytes: Some(bytes), lazy: None });
}

/// Adds that a dead buffer was used.
pub fn record_dead_use(slot: Slot) {
    write(&Line { request: "dead-use", slot: slot.index(), bytes: None, lazy: None });
}

/// Adds the line of a request that went out.
pub fn record(slot: Slot, body: &RequestBody) {
    if let Some(line) = line(slot, body) {
        write(&line);
    }
}

fn write(line: &Line) {
    let Some(file) = FILE.get() else { return };
    let Ok(mut text) = serde_json::to_string(line) else { return };
    text.push('\n');
    // One write per line, so that it does not mix with the runtime's. A full disk must not stop the program.
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
