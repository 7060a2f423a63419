//! Events.
//!
//! Trap: recording an event again moves it; who waited for the earlier record still waits for that one.

use core::ffi::c_void;

use super::{open, put, stream_key};
use crate::event::{Event, elapsed_ms};
use crate::status::{Code, guard};

const DISABLE_TIMING: u32 = 2;
/// `cudaEventBlockingSync`, `cudaEventDisableTiming`, `cudaEventInterprocess`; the last is refused.
const FLAGS_KNOWN: u32 = 3;

/// # Safety
/// `event` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventCreate(event: *mut *mut c_void) -> Code {
    // SAFETY: the caller says so.
    guard("cudaEventCreate", 0, || unsafe { create(event, 0) })
}

/// # Safety
/// `event` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventCreateWithFlags(event: *mut *mut c_void, flags: u32) -> Code {
    // SAFETY: the caller says so.
    guard("cudaEventCreateWithFlags", 0, || unsafe { create(event, flags) })
}

/// # Safety
/// `event` is valid for writing.
unsafe fn create(event: *mut *mut c_void, flags: u32) -> Result<(), Code> {
    let (runtime, _) = open()?;
    if flags & !FLAGS_KNOWN != 0 {
        return Err(Code::cudaErrorInvalidValue);
    }
    let mut events = runtime.events.lock();
    let handle = events.last_key_value().map_or(1, |(&last, _)| last + 1);
    // SAFETY: the caller says so.
    unsafe { put(event, handle as *mut c_void)? };
    events.insert(handle, Event { timing: flags & DISABLE_TIMING == 0, recorded: None });
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventDestroy(event: *mut c_void) -> Code {
    guard("cudaEventDestroy", 0, || {
        let (runtime, _) = open()?;
        let removed = runtime.events.lock().remove(&(event as u64));
        removed.map(drop).ok_or(Code::cudaErrorInvalidResourceHandle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecord(event: *mut c_void, stream: *mut c_void) -> Code {
    guard("cudaEventRecord", 0, || {
        let (runtime, device) = open()?;
        let mut events = runtime.events.lock();
        let event = events.get_mut(&(event as u64)).ok_or(Code::cudaErrorInvalidResourceHandle)?;
        event.recorded = Some(runtime.enqueue(stream_key(stream, device), Vec::new(), || Ok(0))?);
        Ok(())
    })
}

/// No flag changes anything outside graphs, which do not exist here.
#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecordWithFlags(event: *mut c_void, stream: *mut c_void, _flags: u32) -> Code {
    cudaEventRecord(event, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventSynchronize(event: *mut c_void) -> Code {
    guard("cudaEventSynchronize", 0, || {
        let (runtime, _) = open()?;
        let recorded = {
            let events = runtime.events.lock();
            events.get(&(event as u64)).ok_or(Code::cudaErrorInvalidResourceHandle)?.recorded.clone()
        };
        runtime.wait(recorded.as_slice())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventQuery(event: *mut c_void) -> Code {
    guard("cudaEventQuery", 0, || {
        let (runtime, _) = open()?;
        let events = runtime.events.lock();
        let event = events.get(&(event as u64)).ok_or(Code::cudaErrorInvalidResourceHandle)?;
        let reached = event.recorded.as_ref().is_none_or(|recorded| recorded.clock_ns().is_some());
        if reached { Ok(()) } else { Err(Code::cudaErrorNotReady) }
    })
}

/// Modelled device time, not the time the CPU took.
///
/// # Safety
/// `milliseconds` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventElapsedTime(
    milliseconds: *mut f32,
    start: *mut c_void,
    end: *mut c_void,
) -> Code {
    guard("cudaEventElapsedTime", 0, || {
        let (runtime, _) = open()?;
        let events = runtime.events.lock();
        let find =
            |event: *mut c_void| events.get(&(event as u64)).ok_or(Code::cudaErrorInvalidResourceHandle);
        // SAFETY: the caller says so.
        unsafe { put(milliseconds, elapsed_ms(find(start)?, find(end)?)?) }
    })
}
