//! The optional trace: one JSON line per API call into the file that `EAGER_VGPU_TRACE` names.
//!
//! Trap: calls may come before `main` (registration), so the file is opened at the first call and never earlier. A
//! trace that cannot be written is said once and given up; the program goes on.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

use parking_lot::Mutex;
use serde::Serialize;

use crate::config::TRACE_VARIABLE;
use crate::device::current_device;
use crate::status::say;

#[derive(Serialize)]
struct Line {
    call: &'static str,
    bytes: usize,
    device: u32,
}

static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();

/// Adds one line if a trace was asked for. `bytes` is 0 for calls that have no size.
pub fn record(call: &'static str, bytes: usize) {
    let Some(file) = FILE.get_or_init(open) else { return };
    let line = Line { call, bytes, device: current_device() };
    let mut text = serde_json::to_string(&line).expect("a plain structure always serialises");
    text.push('\n');
    // One write per line, so that lines of several processes on one file do not mix. A full disk must not stop the
    // program that is traced.
    let _ = file.lock().write_all(text.as_bytes());
}

fn open() -> Option<Mutex<File>> {
    let path = std::env::var_os(TRACE_VARIABLE)?;
    match File::options().append(true).create(true).open(&path) {
        Ok(file) => Some(Mutex::new(file)),
        Err(e) => {
            say(format_args!("no trace: {TRACE_VARIABLE}={}: {e}", path.display()));
            None
        }
    }
}
