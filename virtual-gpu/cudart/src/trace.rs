//! The optional trace in the file that `EAGER_VGPU_TRACE` names: one JSON line per API call, one per change of the
//! server's ledger, and one per executed kernel with the memory it touched.
//!
//! Trap: calls may happen before `main` (registration), so the file must be opened at the first call, not earlier. A
//! trace that cannot be written is reported once and given up; the program goes on. The line of a call is written when
//! the call starts, so that the line of a change follows that of the call that made it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

use eager_gpu_model::AllocId;
use eager_vgpu_link::{Reply, Request};
use parking_lot::Mutex;
use serde::Serialize;

use crate::config::TRACE_VARIABLE;
use crate::device::current_device;
use crate::log::log_line;

#[derive(Serialize)]
struct Line {
    call: &'static str,
    bytes: usize,
    device: u32,
}

/// Bytes that the process holds after a change, device and managed memory together.
#[derive(Serialize)]
struct LedgerLine {
    held_bytes: u64,
}

/// An executed kernel; arguments that point to no allocation are null.
#[derive(Serialize)]
struct KernelLine<'k> {
    kernel: &'k str,
    /// Priority of its stream, unless its launch asked for another one.
    priority: i32,
    arguments: Vec<Option<TouchedArgument>>,
}

/// The allocation that an argument points to, in blocks of the touch map. Kernels touch allocations, not arguments: two
/// arguments into one allocation get equal entries.
#[derive(Debug, Clone, Serialize)]
pub struct TouchedArgument {
    pub address: u64,
    pub blocks: u64,
    pub blocks_read: u64,
    pub blocks_written: u64,
}

/// A request that changes the memory that the process holds on the server.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    Allocate { device: u32, bytes: u64 },
    Free { alloc: AllocId },
    CloseContext { device: u32 },
}

static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
/// Device and size of everything held; maintained only while a trace is written.
static HELD: Mutex<BTreeMap<AllocId, (u32, u64)>> = Mutex::new(BTreeMap::new());

/// Adds the line of a call, if tracing is on. `bytes` is 0 for calls without a size.
pub fn record(call: &'static str, bytes: usize) {
    let Some(file) = FILE.get_or_init(open) else { return };
    write(file, &Line { call, bytes, device: current_device() });
}

/// Change that `request` makes if it is granted; `None` also when tracing is off.
pub fn change_of(request: &Request) -> Option<Change> {
    let change = match *request {
        Request::Allocate { device, bytes, .. } => Change::Allocate { device, bytes },
        Request::Free { alloc } => Change::Free { alloc },
        Request::CloseContext { device } => Change::CloseContext { device },
        _ => return None,
    };
    FILE.get_or_init(open).is_some().then_some(change)
}

/// Adds the line of a change granted with `reply`.
pub fn changed(change: Change, reply: &Reply) {
    let Some(file) = FILE.get_or_init(open) else { return };
    let mut held = HELD.lock();
    match (change, reply) {
        (Change::Allocate { device, bytes }, Reply::Allocated(alloc)) => {
            held.insert(*alloc, (device, bytes));
        }
        (Change::Free { alloc }, _) => drop(held.remove(&alloc)),
        (Change::CloseContext { device }, _) => held.retain(|_, (on, _)| *on != device),
        (Change::Allocate { .. }, _) => {}
    }
    write(file, &LedgerLine { held_bytes: held.values().map(|(_, bytes)| bytes).sum() });
}

pub fn is_written() -> bool {
    FILE.get_or_init(open).is_some()
}

/// Adds the line of a kernel that has run.
pub fn kernel(name: &str, priority: i32, arguments: Vec<Option<TouchedArgument>>) {
    let Some(file) = FILE.get_or_init(open) else { return };
    write(file, &KernelLine { kernel: name, priority, arguments });
}

fn write(file: &Mutex<File>, line: &impl Serialize) {
    let mut text = serde_json::to_string(line).expect("a plain structure always serialises");
    text.push('\n');
    // One write per line, so that lines of several processes in one file do not mix. A full disk must not stop the
    // traced program.
    let _ = file.lock().write_all(text.as_bytes());
}

fn open() -> Option<Mutex<File>> {
    let path = std::env::var_os(TRACE_VARIABLE)?;
    match File::options().append(true).create(true).open(&path) {
        Ok(file) => Some(Mutex::new(file)),
        Err(e) => {
            log_line(format_args!("no trace: {TRACE_VARIABLE}={}: {e}", path.display()));
            None
        }
    }
}
