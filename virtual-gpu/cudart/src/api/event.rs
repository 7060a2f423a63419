//! Events.
//!
//! Trap: recording an event again moves it, but a stream that waits for the earlier record must still wait for that
//! one.

use core::ffi::c_void;
use std::sync::Arc;

use super::{open, readiness, stream_key};
use crate::command::Command;
use crate::event::{Event, Recorded, elapsed_ms};
use crate::ffi::Out;
use crate::graph::Work;
use crate::log::log_line;
use crate::runtime::{Runtime, Submitted, invalid_stream};
use crate::status::Code;
use crate::stream::Completion;

/// No effect, since waits never spin here.
const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

fn create(event: Out<*mut c_void>, flags: u32) -> Result<(), Code> {
    let (runtime, device) = open()?;
    event.check()?;
    let timing = flags & DISABLE_TIMING == 0;
    if flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0 {
        return Err(Code::cudaErrorInvalidValue);
    }
    if flags & INTERPROCESS != 0 {
        // CUDA has no timed interprocess events either.
        if timing {
            return Err(Code::cudaErrorInvalidValue);
        }
        log_line(format_args!("cudaEventInterprocess: virtual GPUs share no events between processes"));
        return Err(Code::cudaErrorNotSupported);
    }
    let mut events = runtime.events.lock();
    let handle = events.last_key_value().map_or(1, |(&last, _)| last + 1);
    events.insert(handle, Event { device, timing, recorded: Recorded::Never });
    event.put(handle as *mut c_void)
}

fn record(event: *mut c_void, stream: *mut c_void, external: bool) -> Result<(), Code> {
    let (runtime, device) = open()?;
    let key = stream_key(stream, device);
    let mut events = runtime.events.lock();
    let handle = event as u64;
    let event = events.get_mut(&handle).ok_or(Code::cudaErrorInvalidResourceHandle)?;
    let stream_device = runtime.streams.lock().describe(key).map_err(invalid_stream)?.device;
    if stream_device != event.device {
        return Err(Code::cudaErrorInvalidResourceHandle);
    }
    let captured = {
        let mut graphs = runtime.graphs.lock();
        match graphs.ends(key) {
            Some(_) if external => return graphs.capture(key, Work::Record(handle)).map(drop),
            ends => ends,
        }
    };
    event.recorded = match (captured, external) {
        (Some((capture, nodes)), _) => Recorded::InCapture(capture, nodes),
        // Outside a capture the flag is invalid (CUDA runtime API, `cudaEventRecordWithFlags`).
        (None, true) => return Err(Code::cudaErrorInvalidValue),
        (None, false) => match runtime.submit(key, Command::Nothing)? {
            Submitted::Enqueued(completion) => Recorded::InStream(completion),
            Submitted::Captured => return Err(Code::cudaErrorUnknown),
        },
    };
    Ok(())
}

/// End of the work before an event's record; `None` if it was never recorded.
fn completion(event: *mut c_void) -> Result<(&'static Runtime, Option<Arc<Completion>>), Code> {
    let (runtime, _) = open()?;
    let events = runtime.events.lock();
    let event = events.get(&(event as u64)).ok_or(Code::cudaErrorInvalidResourceHandle)?;
    Ok((runtime, event.completion()?))
}

api!(
    fn cudaEventCreate(event: Out<*mut c_void>) -> Result<(), Code> {
        create(event, 0)
    }

    fn cudaEventCreateWithFlags(event: Out<*mut c_void>, flags: u32) -> Result<(), Code> {
        create(event, flags)
    }

    fn cudaEventDestroy(event: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let removed = runtime.events.lock().remove(&(event as u64));
        removed.map(drop).ok_or(Code::cudaErrorInvalidResourceHandle)
    }

    #[per_thread(ptsz)]
    fn cudaEventRecord(event: *mut c_void, stream: *mut c_void) -> Result<(), Code> {
        record(event, stream, false)
    }

    #[per_thread(ptsz)]
    fn cudaEventRecordWithFlags(event: *mut c_void, stream: *mut c_void, flags: u32) -> Result<(), Code> {
        const EXTERNAL: u32 = 1;
        if flags & !EXTERNAL != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        record(event, stream, flags == EXTERNAL)
    }

    fn cudaEventSynchronize(event: *mut c_void) -> Result<(), Code> {
        let (runtime, recorded) = completion(event)?;
        runtime.wait(recorded.as_slice())
    }

    fn cudaEventQuery(event: *mut c_void) -> Result<(), Code> {
        let (_, recorded) = completion(event)?;
        readiness(recorded.is_none_or(|recorded| recorded.clock_ns().is_some()))
    }

    /// Returns modelled device time, not the time that the CPU took.
    fn cudaEventElapsedTime(
        milliseconds: Out<f32>,
        start: *mut c_void,
        end: *mut c_void,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let events = runtime.events.lock();
        let find =
            |event: *mut c_void| events.get(&(event as u64)).ok_or(Code::cudaErrorInvalidResourceHandle);
        milliseconds.put(elapsed_ms(find(start)?, find(end)?)?)
    }
);
