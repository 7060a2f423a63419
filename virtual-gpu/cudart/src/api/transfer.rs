//! Copies and fills.
//!
//! Trap: a copy from or to pageable host memory is over when its call returns, even the `Async` one: CUDA would stage
//! it, and the program may reuse the buffer at once.

use core::ffi::{c_int, c_void};

use super::{open, stream_key};
use crate::runtime::Runtime;
use crate::status::{Code, guard};
use crate::stream::StreamKey;
use crate::transfer::{Address, DeviceOp, Direction, Place, copy_ops, fill_bytes, fill_ops, move_bytes};

/// When the call returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Return {
    AtEnd,
    /// Before the end, if no pageable memory takes part.
    Early,
}

/// One end of a copy: where the bytes are and what that memory is.
#[derive(Clone, Copy)]
pub struct End {
    pub address: u64,
    pub place: Place,
}

impl End {
    pub fn new(runtime: &Runtime, pointer: *const c_void, bytes: usize) -> Result<End, Code> {
        let address = pointer as u64;
        let place = Place::of(&runtime.memory.lock().table, address, bytes as u64)?;
        Ok(End { address, place })
    }
}

/// # Safety
/// Both ranges are `bytes` long, and the host's ends stay valid until the copy is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) -> Code {
    guard("cudaMemcpy", bytes, || {
        let (runtime, device) = open()?;
        let stream = StreamKey::Default { device };
        // SAFETY: the caller says so.
        unsafe { copy(runtime, stream, to, from, bytes, kind, Return::AtEnd) }
    })
}

/// # Safety
/// As for [`cudaMemcpy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: u32,
    stream: *mut c_void,
) -> Code {
    guard("cudaMemcpyAsync", bytes, || {
        let (runtime, device) = open()?;
        // SAFETY: the caller says so.
        unsafe { copy(runtime, stream_key(stream, device), to, from, bytes, kind, Return::Early) }
    })
}

/// # Safety
/// As for [`cudaMemcpy`].
unsafe fn copy(
    runtime: &'static Runtime,
    stream: StreamKey,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: u32,
    returns: Return,
) -> Result<(), Code> {
    let direction = Direction::new(kind)?;
    if bytes == 0 {
        return Ok(());
    }
    if to.is_null() || from.is_null() {
        return Err(Code::cudaErrorInvalidValue);
    }
    let (to, from) = (End::new(runtime, to, bytes)?, End::new(runtime, from, bytes)?);
    // SAFETY: the caller says so.
    unsafe { copy_between(runtime, stream, to, from, bytes, direction, returns) }
}

/// Copies between two ends whose memory is known.
///
/// # Safety
/// As for [`cudaMemcpy`].
pub unsafe fn copy_between(
    runtime: &'static Runtime,
    stream: StreamKey,
    to: End,
    from: End,
    bytes: usize,
    direction: Direction,
    returns: Return,
) -> Result<(), Code> {
    let ops = copy_ops(to.place, from.place, direction)?;
    let pageable = [to, from].iter().any(|end| end.place == Place::Host { pinned: false });
    let completion = runtime.enqueue(stream, Vec::new(), move || {
        // SAFETY: device and managed ranges were found in live allocations, which are not freed before this work is
        // done; the caller vouches for the host's ends.
        unsafe { move_bytes(Address(to.address), Address(from.address), bytes) };
        run_all(runtime, ops)
    })?;
    if pageable || returns == Return::AtEnd { runtime.wait(&[completion]) } else { Ok(()) }
}

/// # Safety
/// The range is `bytes` long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemset(to: *mut c_void, value: c_int, bytes: usize) -> Code {
    guard("cudaMemset", bytes, || {
        let (runtime, device) = open()?;
        // SAFETY: the caller says so.
        unsafe { fill(runtime, StreamKey::Default { device }, to, value, bytes) }
    })
}

/// # Safety
/// The range is `bytes` long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemsetAsync(
    to: *mut c_void,
    value: c_int,
    bytes: usize,
    stream: *mut c_void,
) -> Code {
    guard("cudaMemsetAsync", bytes, || {
        let (runtime, device) = open()?;
        // SAFETY: the caller says so.
        unsafe { fill(runtime, stream_key(stream, device), to, value, bytes) }
    })
}

/// A fill of device memory does not wait, not even `cudaMemset` (CUDA runtime API, "API synchronization behavior").
///
/// # Safety
/// The range is `bytes` long.
unsafe fn fill(
    runtime: &'static Runtime,
    stream: StreamKey,
    to: *mut c_void,
    value: c_int,
    bytes: usize,
) -> Result<(), Code> {
    if bytes == 0 {
        return Ok(());
    }
    let end = End::new(runtime, to, bytes)?;
    let ops = fill_ops(end.place)?;
    // CUDA takes the low byte of the value.
    let value = value as u8;
    runtime.enqueue(stream, Vec::new(), move || {
        // SAFETY: the range was found in a live allocation, which is not freed before this work is done.
        unsafe { fill_bytes(Address(end.address), value, bytes) };
        run_all(runtime, ops)
    })?;
    Ok(())
}

fn run_all(runtime: &Runtime, ops: Vec<DeviceOp>) -> Result<u64, Code> {
    ops.into_iter().try_fold(0, |sum_ns, (device, op)| Ok(sum_ns + runtime.run_op(device, op)?))
}
