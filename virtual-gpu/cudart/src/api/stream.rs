//! Streams.
//!
//! Trap: stream handles are numbers of this library, not pointers; the smallest name CUDA's default streams.

use core::ffi::{c_int, c_void};

use super::device::{PRIORITY_GREATEST, PRIORITY_LEAST};
use super::{open, put, stream_key};
use crate::runtime::invalid_stream;
use crate::status::{Code, guard};
use crate::stream::StreamKey;

const NON_BLOCKING: u32 = 1;

/// # Safety
/// `stream` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreate(stream: *mut *mut c_void) -> Code {
    // SAFETY: the caller says so.
    guard("cudaStreamCreate", 0, || unsafe { create(stream, 0, PRIORITY_LEAST) })
}

/// # Safety
/// `stream` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreateWithFlags(stream: *mut *mut c_void, flags: u32) -> Code {
    // SAFETY: the caller says so.
    guard("cudaStreamCreateWithFlags", 0, || unsafe { create(stream, flags, PRIORITY_LEAST) })
}

/// Priorities outside the range are moved into it, as CUDA does.
///
/// # Safety
/// `stream` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreateWithPriority(
    stream: *mut *mut c_void,
    flags: u32,
    priority: c_int,
) -> Code {
    // SAFETY: the caller says so.
    guard("cudaStreamCreateWithPriority", 0, || unsafe { create(stream, flags, priority) })
}

/// # Safety
/// `stream` is valid for writing.
unsafe fn create(stream: *mut *mut c_void, flags: u32, priority: c_int) -> Result<(), Code> {
    let (runtime, device) = open()?;
    if stream.is_null() || flags & !NON_BLOCKING != 0 {
        return Err(Code::cudaErrorInvalidValue);
    }
    let priority = priority.clamp(PRIORITY_GREATEST, PRIORITY_LEAST);
    match runtime.streams.lock().create(device, priority, flags & NON_BLOCKING == 0) {
        // SAFETY: the caller says so.
        StreamKey::Created(handle) => unsafe { put(stream, handle as *mut c_void) },
        StreamKey::Default { .. } => Err(Code::cudaErrorUnknown),
    }
}

/// Returns at once; what is enqueued still runs.
#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamDestroy(stream: *mut c_void) -> Code {
    guard("cudaStreamDestroy", 0, || {
        let (runtime, device) = open()?;
        runtime.streams.lock().destroy(stream_key(stream, device)).map_err(invalid_stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamSynchronize(stream: *mut c_void) -> Code {
    guard("cudaStreamSynchronize", 0, || {
        let (runtime, device) = open()?;
        let last = runtime.streams.lock().last(stream_key(stream, device)).map_err(invalid_stream)?;
        runtime.wait(last.as_slice())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamQuery(stream: *mut c_void) -> Code {
    guard("cudaStreamQuery", 0, || {
        let (runtime, device) = open()?;
        let last = runtime.streams.lock().last(stream_key(stream, device)).map_err(invalid_stream)?;
        if last.is_none_or(|last| last.clock_ns().is_some()) { Ok(()) } else { Err(Code::cudaErrorNotReady) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: u32) -> Code {
    guard("cudaStreamWaitEvent", 0, || {
        let (runtime, device) = open()?;
        let recorded = {
            let events = runtime.events.lock();
            let event = events.get(&(event as u64)).ok_or(Code::cudaErrorInvalidResourceHandle)?;
            event.recorded.clone()
        };
        runtime.enqueue(stream_key(stream, device), recorded.into_iter().collect(), || Ok(0)).map(drop)
    })
}

/// # Safety
/// `priority` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetPriority(stream: *mut c_void, priority: *mut c_int) -> Code {
    guard("cudaStreamGetPriority", 0, || {
        let (runtime, device) = open()?;
        let described = runtime.streams.lock().describe(stream_key(stream, device));
        // SAFETY: the caller says so.
        unsafe { put(priority, described.map_err(invalid_stream)?.1) }
    })
}
