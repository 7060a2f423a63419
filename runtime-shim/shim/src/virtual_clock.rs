//! Tells the stand-in CUDA runtime when the program speaks to the daemon or waits for it: a virtual clock must know.
//!
//! Trap: only the stand-in has these functions. NVIDIA's runtime does not, and then nothing happens here.

use libloading::os::unix::Library;
use std::sync::OnceLock;

struct Calls {
    turn: unsafe extern "C" fn(),
    await_daemon: unsafe extern "C" fn(u32, u32),
    awake: unsafe extern "C" fn(),
    mark: unsafe extern "C" fn(u32),
    pieces: unsafe extern "C" fn(u32),
}

fn calls() -> Option<&'static Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    let found = CALLS.get_or_init(|| {
        let process = Library::this();
        // SAFETY: only the stand-in runtime defines these names, with these signatures (`eager_cudart::api::clock_calls`), and
        // nothing unloads a runtime that the program is linked with.
        unsafe {
            Some(Calls {
                turn: *process.get("eager_vgpu_turn").ok()?,
                await_daemon: *process.get("eager_vgpu_await_daemon").ok()?,
                awake: *process.get("eager_vgpu_awake").ok()?,
                mark: *process.get("eager_vgpu_mark").ok()?,
                pieces: *process.get("eager_vgpu_pieces").ok()?,
            })
        }
    });
    found.as_ref()
}

/// Before something that the daemon will see.
pub fn turn() {
    if let Some(calls) = calls() {
        // SAFETY: it takes nothing and may be called from any thread at any time.
        unsafe { (calls.turn)() };
    }
}

/// A sleep until the daemon changes its answer in `slot` from the one with sequence `seen`.
pub fn asleep<T>(slot: u32, seen: u32, sleep: impl FnOnce() -> T) -> T {
    let Some(calls) = calls() else { return sleep() };
    // SAFETY: as for `turn`, with plain numbers.
    unsafe { (calls.await_daemon)(slot, seen) };
    let woken = sleep();
    // SAFETY: as for `turn`.
    unsafe { (calls.awake)() };
    woken
}

/// A mark of the compiler's, right behind the program's call before: what is told here comes before its next host work.
pub fn in_mark<T>(tell: impl FnOnce() -> T) -> T {
    between(|calls| calls.mark, tell)
}

/// One copy of the program's, made by several.
pub fn in_pieces<T>(copy: impl FnOnce() -> T) -> T {
    between(|calls| calls.pieces, copy)
}

fn between<T>(tell: impl Fn(&Calls) -> unsafe extern "C" fn(u32), act: impl FnOnce() -> T) -> T {
    let Some(calls) = calls() else { return act() };
    // SAFETY: as for `turn`, with a plain number.
    unsafe { tell(calls)(1) };
    let done = act();
    // SAFETY: as above.
    unsafe { tell(calls)(0) };
    done
}
