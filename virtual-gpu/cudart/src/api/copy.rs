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
use crate::status::{Code, guard};
use crate::stream::{StreamKey, default_stream};
use crate::transfer::{Copy, Direction, Extent, Pageable, Region};

/// Time at which the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    AtEnd,
    /// Before the end, unless pageable memory takes part.
    Early,
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

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) -> Code {
    guard("cudaMemcpy", bytes, || {
        let (runtime, device) = open()?;
        let copy = Copy::line(to as u64, from as u64, bytes as u64, Direction::new(kind)?);
        submit_copy(runtime, default_stream(device), copy, Return::AtEnd)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: u32,
    stream: *mut c_void,
) -> Code {
    guard("cudaMemcpyAsync", bytes, || {
        let (runtime, device) = open()?;
        let copy = Copy::line(to as u64, from as u64, bytes as u64, Direction::new(kind)?);
        submit_copy(runtime, stream_key(stream, device), copy, Return::Early)
    })
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
    fn bytes(&self) -> usize {
        self.width.saturating_mul(self.height)
    }

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

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy2D(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: u32,
) -> Code {
    let plane = Plane { to, to_pitch, from, from_pitch, width, height, kind };
    guard("cudaMemcpy2D", plane.bytes(), || {
        let (runtime, device) = open()?;
        submit_copy(runtime, default_stream(device), plane.copy()?, Return::AtEnd)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy2DAsync(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: u32,
    stream: *mut c_void,
) -> Code {
    let plane = Plane { to, to_pitch, from, from_pitch, width, height, kind };
    guard("cudaMemcpy2DAsync", plane.bytes(), || {
        let (runtime, device) = open()?;
        submit_copy(runtime, stream_key(stream, device), plane.copy()?, Return::Early)
    })
}

/// Runs after all earlier and before all later work of both devices and the current one (CUDA runtime API,
/// `cudaMemcpyPeer`). CUDA does not block the host; here it waits, which is the simplest way to precede all later work.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyPeer(
    to: *mut c_void,
    to_device: c_int,
    from: *const c_void,
    from_device: c_int,
    bytes: usize,
) -> Code {
    guard("cudaMemcpyPeer", bytes, || {
        let (runtime, device) = open()?;
        for peer in [to_device, from_device] {
            runtime.wait_for_device(known_device(runtime, peer)?)?;
        }
        let copy = Copy::line(to as u64, from as u64, bytes as u64, Direction::Default);
        submit_copy(runtime, default_stream(device), copy, Return::AtEnd)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyPeerAsync(
    to: *mut c_void,
    to_device: c_int,
    from: *const c_void,
    from_device: c_int,
    bytes: usize,
    stream: *mut c_void,
) -> Code {
    guard("cudaMemcpyPeerAsync", bytes, || {
        let (runtime, device) = open()?;
        known_device(runtime, to_device)?;
        known_device(runtime, from_device)?;
        let copy = Copy::line(to as u64, from as u64, bytes as u64, Direction::Default);
        submit_copy(runtime, stream_key(stream, device), copy, Return::Early)
    })
}
