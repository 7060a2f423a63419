//! Copies of lines and planes, on one device and between two devices.
//!
//! Trap: a copy from or to pageable host memory must end before its call returns, even for `Async`: CUDA would stage
//! the data, and the program may reuse the buffer at once.

use core::ffi::{c_int, c_void};

use super::device::known_device;
use super::{open, stream_key};
use crate::clock;
use crate::command::Command;
use crate::runtime::{Runtime, Submitted};
use crate::status::Code;
use crate::stream::{StreamKey, default_stream};
use crate::transfer::{Copy, Direction, Extent, Pageable, Region};

/// Time at which the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    AtEnd,
    /// Before the end, unless pageable memory takes part.
    Early,
}

/// Makes a copy and submits it to the default stream, for calls that return at its end.
///
/// # Errors
/// An error in the call, or of earlier work.
pub fn copy_and_wait(make: impl FnOnce(&'static Runtime) -> Result<Copy, Code>) -> Result<(), Code> {
    let (runtime, device) = open()?;
    submit_copy(runtime, default_stream(device), make(runtime)?, Return::AtEnd)
}

/// Makes a copy and submits it to a stream, for calls that return early.
///
/// # Errors
/// An error in the call; also one of earlier work if pageable memory takes part.
pub fn copy_in(
    stream: *mut c_void,
    make: impl FnOnce(&'static Runtime) -> Result<Copy, Code>,
) -> Result<(), Code> {
    let (runtime, device) = open()?;
    submit_copy(runtime, stream_key(stream, device), make(runtime)?, Return::Early)
}

/// Submits a copy to a stream.
///
/// # Errors
/// An error in the call; also one of earlier work if the call waits.
pub fn submit_copy(
    runtime: &'static Runtime,
    stream: StreamKey,
    copy: Copy,
    returns: Return,
) -> Result<(), Code> {
    if copy.extent.is_empty() {
        return Ok(());
    }
    let copy = copy.resolved()?;
    let Pageable(pageable) = copy.check(runtime)?;
    if returns == Return::AtEnd {
        runtime.check_synchronisable(stream)?;
    }
    let to_host = copy.direction == Direction::DeviceToHost;
    match runtime.submit(stream, Command::Copy(copy))? {
        Submitted::Enqueued(completion) if pageable || returns == Return::AtEnd => {
            runtime.wait(&[completion])?;
        }
        _ => {}
    }
    if to_host {
        clock::downloaded();
    }
    Ok(())
}

fn line(to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) -> Result<Copy, Code> {
    Ok(Copy::line(to as u64, from as u64, bytes as u64, Direction::new(kind)?))
}

/// Rows of `width` bytes; pitches and width as the program gives them.
#[derive(Debug, Clone, Copy)]
struct Plane {
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: u32,
}

impl Plane {
    fn copy(&self) -> Result<Copy, Code> {
        let direction = Direction::new(self.kind)?;
        if self.width > self.to_pitch || self.width > self.from_pitch {
            return Err(Code::cudaErrorInvalidPitchValue);
        }
        Ok(Copy {
            to: Region::plane(self.to as u64, self.to_pitch as u64),
            from: Region::plane(self.from as u64, self.from_pitch as u64),
            extent: Extent::plane(self.width as u64, self.height as u64),
            direction,
        })
    }
}

api!(
    #[bytes(bytes)]
    #[per_thread(ptds)]
    fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) -> Result<(), Code> {
        copy_and_wait(|_| line(to, from, bytes, kind))
    }

    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMemcpyAsync(
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |_| line(to, from, bytes, kind))
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptds)]
    fn cudaMemcpy2D(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) -> Result<(), Code> {
        copy_and_wait(|_| Plane { to, to_pitch, from, from_pitch, width, height, kind }.copy())
    }

    #[bytes(width.saturating_mul(height))]
    #[per_thread(ptsz)]
    fn cudaMemcpy2DAsync(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |_| Plane { to, to_pitch, from, from_pitch, width, height, kind }.copy())
    }

    /// Runs after all earlier and before all later work of both devices and the current one (CUDA runtime API,
    /// `cudaMemcpyPeer`). CUDA does not block the host; here it waits, which is the simplest way to precede all later
    /// work.
    #[bytes(bytes)]
    fn cudaMemcpyPeer(
        to: *mut c_void,
        to_device: c_int,
        from: *const c_void,
        from_device: c_int,
        bytes: usize,
    ) -> Result<(), Code> {
        copy_and_wait(|runtime| {
            for peer in [to_device, from_device] {
                runtime.wait_for_device(known_device(runtime, peer)?)?;
            }
            Ok(Copy::line(to as u64, from as u64, bytes as u64, Direction::Default))
        })
    }

    #[bytes(bytes)]
    fn cudaMemcpyPeerAsync(
        to: *mut c_void,
        to_device: c_int,
        from: *const c_void,
        from_device: c_int,
        bytes: usize,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |runtime| {
            known_device(runtime, to_device)?;
            known_device(runtime, from_device)?;
            Ok(Copy::line(to as u64, from as u64, bytes as u64, Direction::Default))
        })
    }
);
