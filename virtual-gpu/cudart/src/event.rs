//! Events: points in a stream that can be waited for and timed.
//!
//! An event that was never recorded counts as complete for a wait, but is an invalid handle for timing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::{CaptureId, NodeKey};
use crate::status::Code;
use crate::stream::Completion;

/// Place of an event's last record.
#[derive(Debug, Clone)]
pub enum Recorded {
    Never,
    InStream(Arc<Completion>),
    /// In a capture, after these nodes; the record itself never runs.
    InCapture(CaptureId, BTreeSet<NodeKey>),
}

/// An event made by `cudaEventCreate…`.
#[derive(Debug)]
pub struct Event {
    /// Only streams of this device may record it.
    pub device: u32,
    pub timing: bool,
    pub recorded: Recorded,
}

impl Event {
    /// End of the work before its record; `None` if it was never recorded.
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
/// `cudaErrorInvalidResourceHandle` if an event was not recorded or has timing disabled; `cudaErrorNotReady` if an
/// event has not been reached; `cudaErrorCapturedEvent`.
pub fn elapsed_ms(start: &Event, end: &Event) -> Result<f32, Code> {
    let at_ns = |event: &Event| {
        let recorded = event.completion()?.filter(|_| event.timing);
        recorded.ok_or(Code::cudaErrorInvalidResourceHandle)?.clock_ns().ok_or(Code::cudaErrorNotReady)
    };
    let (start_ns, end_ns) = (at_ns(start)?, at_ns(end)?);
    Ok((end_ns as f64 - start_ns as f64) as f32 / 1e6)
}
