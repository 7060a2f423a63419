//! Events: a point in a stream that can be waited for and timed.
//!
//! Trap: an event that was never recorded counts as complete for waiting, and as an invalid handle for timing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::{CaptureId, NodeKey};
use crate::status::Code;
use crate::stream::Completion;

/// Where an event was recorded last.
#[derive(Debug, Clone)]
pub enum Recorded {
    Never,
    InStream(Arc<Completion>),
    /// In a capture: these nodes, and nothing that will ever happen.
    InCapture(CaptureId, BTreeSet<NodeKey>),
}

/// What `cudaEventCreate…` made.
#[derive(Debug)]
pub struct Event {
    /// Only streams of this device record it.
    pub device: u32,
    pub timing: bool,
    pub recorded: Recorded,
}

impl Event {
    /// The end of the work before its record; `None` if there is no record.
    ///
    /// # Errors
    /// `cudaErrorCapturedEvent`.
    pub fn completion(&self) -> Result<Option<Arc<Completion>>, Code> {
        match &self.recorded {
            Recorded::Never => Ok(None),
            Recorded::InStream(completion) => Ok(Some(Arc::clone(completion))),
            Recorded::InCapture(..) => Err(Code::cudaErrorCapturedEvent),
        }
    }
}

/// Modelled milliseconds of device time between two events.
///
/// # Errors
/// `cudaErrorInvalidResourceHandle` if one was not recorded or does not time; `cudaErrorNotReady` if one has not been
/// reached; `cudaErrorCapturedEvent`.
pub fn elapsed_ms(start: &Event, end: &Event) -> Result<f32, Code> {
    let at_ns = |event: &Event| {
        let recorded = event.completion()?.filter(|_| event.timing);
        recorded.ok_or(Code::cudaErrorInvalidResourceHandle)?.clock_ns().ok_or(Code::cudaErrorNotReady)
    };
    let (start_ns, end_ns) = (at_ns(start)?, at_ns(end)?);
    Ok((end_ns as f64 - start_ns as f64) as f32 / 1e6)
}
