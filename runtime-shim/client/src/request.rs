//! Requests to the daemon about a task's life, in numbers; the user adds names.
//!
//! Trap: requests must leave in the order of the decisions. A shrink that is sent after another thread's end would
//! apply to the slot's next task.

use crate::task::{Geometry, Slot};
use eager_proto::request::BeginFlags;
use eager_units::AccessClass;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Begin(Begin),
    /// More bytes for a bound task.
    Extend(u64),
    /// Bytes that the task does not need any more.
    Shrink(u64),
    AllLaunched,
    /// The slot may be used again once this is answered.
    End,
    /// The gate holds this kernel.
    Held(Kernel),
    /// A watched task has kernels on its device, or has none any more.
    Busy,
    Idle,
    /// The program has seen that it was promoted: its data is being moved in, and its later kernels have high priority.
    Promoted,
}

/// A launch as the gate judges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Bytes that it touches.
    pub footprint: u64,
    /// Sum of the sizes of the allocations in its arguments.
    pub static_size: u64,
    pub access: AccessClass,
}

/// A task asks for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// The site that announced the task; 0 for the lazy task.
    pub site: u64,
    pub bytes: u64,
    pub geometry: Geometry,
    pub flags: BeginFlags,
}

/// Takes requests to the daemon.
pub trait Outbox {
    /// Sends a request; returns its sequence, which means nothing if the daemon is lost.
    fn send(&mut self, slot: Slot, request: Request) -> u32;
}

impl<F: FnMut(Slot, Request) -> u32> Outbox for F {
    fn send(&mut self, slot: Slot, request: Request) -> u32 {
        self(slot, request)
    }
}
