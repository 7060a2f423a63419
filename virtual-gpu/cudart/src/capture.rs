//! Checks of the rules of stream capture, before a call has any effect.
//!
//! Trap: a failed check has a side effect. It invalidates the capture that forbids the call, as in CUDA, and the end of
//! that capture returns the error.

use core::cell::Cell;

use crate::graph::{Graphs, Mode};
use crate::log::log_line;
use crate::runtime::Runtime;
use crate::status::Code;
use crate::stream::{StreamKey, thread_number};

thread_local! {
    static CALLER_MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Sets which captures forbid the calling thread's unsafe calls; returns the previous mode.
pub fn exchange_mode(mode: Mode) -> Mode {
    CALLER_MODE.replace(mode)
}

impl Runtime {
    /// Call before an operation that CUDA calls unsafe: it might synchronise, as `cudaMalloc` may.
    ///
    /// # Errors
    /// `cudaErrorStreamCaptureUnsupported`.
    pub fn check_unsafe_call(&self) -> Result<(), Code> {
        self.graphs.lock().check_unsafe_call(thread_number(), CALLER_MODE.get())
    }

    /// Call before waiting for a stream or querying whether it is done.
    ///
    /// # Errors
    /// `cudaErrorStreamCaptureUnsupported` for a captured stream, and those of [`Runtime::check_default_stream`].
    pub fn check_synchronisable(&self, stream: StreamKey) -> Result<(), Code> {
        let mut graphs = self.graphs.lock();
        if let Some(seen) = graphs.capture_of(stream) {
            graphs.invalidate(seen.id);
            return Err(Code::cudaErrorStreamCaptureUnsupported);
        }
        self.check_default_stream(&mut graphs, stream)
    }

    /// Call before waiting for a device.
    ///
    /// # Errors
    /// `cudaErrorStreamCaptureUnsupported` while a stream of the device is captured.
    pub fn check_device_synchronisable(&self, device: u32) -> Result<(), Code> {
        let mut graphs = self.graphs.lock();
        self.invalidate_streams(&mut graphs, |properties| properties.device == device)
            .map_err(|()| Code::cudaErrorStreamCaptureUnsupported)
    }

    /// Call before using a device's default stream, which would have to wait for captured work.
    ///
    /// # Errors
    /// `cudaErrorStreamCaptureImplicit` while a blocking stream of the device is captured.
    pub fn check_default_stream(&self, graphs: &mut Graphs, stream: StreamKey) -> Result<(), Code> {
        let StreamKey::Default { device } = stream else { return Ok(()) };
        self.invalidate_streams(graphs, |properties| properties.device == device && properties.blocking)
            .map_err(|()| Code::cudaErrorStreamCaptureImplicit)
    }

    /// Call before a stream waits for work that is not captured.
    ///
    /// # Errors
    /// `cudaErrorStreamCaptureIsolation` for a captured stream.
    pub fn check_isolation(&self, stream: StreamKey) -> Result<(), Code> {
        let mut graphs = self.graphs.lock();
        let Some(seen) = graphs.capture_of(stream) else {
            return self.check_default_stream(&mut graphs, stream);
        };
        graphs.invalidate(seen.id);
        Err(Code::cudaErrorStreamCaptureIsolation)
    }

    /// Call before allocating or freeing in a stream's order, which graphs here do not support.
    ///
    /// # Errors
    /// `cudaErrorNotSupported` for a captured stream, with a log line; and those of [`Runtime::check_default_stream`].
    pub fn check_uncaptured(&self, stream: StreamKey) -> Result<(), Code> {
        let mut graphs = self.graphs.lock();
        let Some(seen) = graphs.capture_of(stream) else {
            return self.check_default_stream(&mut graphs, stream);
        };
        graphs.invalidate(seen.id);
        log_line(format_args!(
            "graphs of virtual GPUs cannot contain allocations: allocate before the capture begins"
        ));
        Err(Code::cudaErrorNotSupported)
    }

    fn invalidate_streams(
        &self,
        graphs: &mut Graphs,
        is_one: impl Fn(crate::stream::Properties) -> bool,
    ) -> Result<(), ()> {
        if !graphs.any_capture() {
            return Ok(());
        }
        let streams = self.streams.lock();
        let met: Vec<StreamKey> = graphs
            .capturing_streams()
            .filter(|&stream| streams.describe(stream).is_ok_and(&is_one))
            .collect();
        drop(streams);
        for seen in met.iter().filter_map(|&stream| graphs.capture_of(stream)).collect::<Vec<_>>() {
            graphs.invalidate(seen.id);
        }
        if met.is_empty() { Ok(()) } else { Err(()) }
    }
}
