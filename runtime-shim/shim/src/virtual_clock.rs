//! Informs the stand-in CUDA runtime when the program sends to the daemon or waits for it, as a virtual clock
//! requires.
//!
//! Only the stand-in has these functions. With NVIDIA's runtime nothing happens here.

use crate::runtime::Span;
use libloading::os::unix::Library;
use std::sync::OnceLock;

struct Calls {
    turn: unsafe extern "C" fn(),
    await_daemon: unsafe extern "C" fn(u32, u32),
    awake: unsafe extern "C" fn(),
    mark: unsafe extern "C" fn(u32),
    call: unsafe extern "C" fn(u32),
    host_copied: unsafe extern "C" fn(u64, u64),
}

fn calls() -> Option<&'static Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    let found = CALLS.get_or_init(|| {
        let process = Library::this();
        // SAFETY: only the stand-in runtime defines these names, with these signatures
        // (`eager_cudart::api::clock_calls`), and a runtime that the program is linked with is never unloaded.
        unsafe {
            Some(Calls {
                turn: *process.get("eager_vgpu_turn").ok()?,
                await_daemon: *process.get("eager_vgpu_await_daemon").ok()?,
                awake: *process.get("eager_vgpu_awake").ok()?,
                mark: *process.get("eager_vgpu_mark").ok()?,
                call: *process.get("eager_vgpu_call").ok()?,
                host_copied: *process.get("eager_vgpu_host_copied").ok()?,
            })
        }
    });
    found.as_ref()
}

/// Called before any action that the daemon will see.
pub fn turn() {
    if let Some(calls) = calls() {
        // SAFETY: it takes nothing and may be called from any thread at any time.
        unsafe { (calls.turn)() };
    }
}

/// Sleeps until the daemon changes its answer in `slot` from the one with sequence `seen`.
pub fn asleep<T>(slot: u32, seen: u32, sleep: impl FnOnce() -> T) -> T {
    let Some(calls) = calls() else { return sleep() };
    // SAFETY: it may be called from any thread at any time, with plain numbers.
    unsafe { (calls.await_daemon)(slot, seen) };
    let woken = sleep();
    // SAFETY: it takes nothing and may be called from any thread at any time.
    unsafe { (calls.awake)() };
    woken
}

/// Runs a call that the compiler inserted directly after the program's previous call; it takes place before the
/// program's next host work.
pub fn in_mark<T>(tell: impl FnOnce() -> T) -> T {
    let _mark = calls().map(|calls| Between::begin(calls.mark));
    tell()
}

/// Runs the hook of a program's call: calls made by the hook are not the program's, and take place before its next
/// host work.
pub fn in_call<T>(hook: impl FnOnce() -> T) -> T {
    let _call = calls().map(|calls| Between::begin(calls.call));
    hook()
}

/// Reports that the CPU has copied into or out of managed memory, or filled it, because the program asked for it.
pub fn copied(managed: Span) {
    if let Some(calls) = calls() {
        // SAFETY: it may be called from any thread at any time, with plain numbers; the stand-in looks up the memory
        // itself.
        unsafe { (calls.host_copied)(managed.start, managed.bytes) };
    }
}

/// Passes 1 to a function at its begin and 0 at its end, also if a panic ends it.
struct Between(unsafe extern "C" fn(u32));

impl Between {
    fn begin(tell: unsafe extern "C" fn(u32)) -> Between {
        // SAFETY: the stand-in's function may be called from any thread at any time, with a plain number.
        unsafe { tell(1) };
        Between(tell)
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        // SAFETY: the stand-in's function may be called from any thread at any time, with a plain number.
        unsafe { (self.0)(0) };
    }
}
