//! Events: a point in a stream that can be waited for and timed.
//!
//! Trap: an event that was never recorded counts as complete for waiting, and as an invalid handle for timing.

use std::sync::Arc;

use crate::status::Code;
use crate::stream::Completion;

/// What `cudaEventCreate…` made.
#[derive(Debug)]
pub struct Event {
    /// Only streams of this device record it.
    pub device: u32,
    pub timing: bool,
    /// The latest record.
    pub recorded: Option<Arc<Completion>>,
}

/// Modelled milliseconds of device time between two events.
///
/// # Errors
/// `cudaErrorInvalidResourceHandle` if one was not recorded or does not time; `cudaErrorNotReady` if one has not been
/// reached.
pub fn elapsed_ms(start: &Event, end: &Event) -> Result<f32, Code> {
    let at_ns = |event: &Event| {
        let recorded =
            event.recorded.as_ref().filter(|_| event.timing).ok_or(Code::cudaErrorInvalidResourceHandle)?;
        recorded.clock_ns().ok_or(Code::cudaErrorNotReady)
    };
    let (start_ns, end_ns) = (at_ns(start)?, at_ns(end)?);
    Ok((end_ns as f64 - start_ns as f64) as f32 / 1e6)
}
