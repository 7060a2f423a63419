//! Client-written page: a ring of requests and the launch counters.
//!
//! Trap: the daemon must copy a record out *once* and then [`decode`] the copy; the client may change the page at any
//! moment. `head` counts records ever published; the index is `head % RING_SLOTS`; the daemon's own count (`tail`) is
//! in the reply page, so that a client cannot move it.

use crate::{RING_SLOTS, TASK_SLOTS};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// As it lies in the ring.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RequestRecord {
    /// Chosen by the client, rising; the daemon publishes the last one it answered in the task's cell.
    pub sequence: u32,
    pub kind: u16,
    /// Task slot, below [`TASK_SLOTS`].
    pub slot: u16,
    pub words: [u64; 6],
    /// UTF-8, padded with NUL (kernel name, function name) or zero.
    pub text: [u8; 72],
}

/// Launches of one task; written by the client, hints only.
#[repr(C)]
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct TaskCounters {
    pub launched: u64,
    /// Launches known to have ended.
    pub retired: u64,
}

/// Layout of the page; accessed through atomics by eager-shm, never as a Rust reference.
#[repr(C)]
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RequestPage {
    pub magic: u32,
    pub major: u16,
    pub minor: u16,
    pub bytes: u32,
    /// Records ever published (wraps); release store by the client, pairs with the daemon's acquire load.
    pub head: u32,
    pub reserved: [u8; 48],
    pub counters: [TaskCounters; TASK_SLOTS],
    pub ring: [RequestRecord; RING_SLOTS],
}

/// A validated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub sequence: u32,
    pub slot: u8,
    pub body: RequestBody,
}

/// What a client can ask or tell. Sizes in bytes. Word numbers in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBody {
    /// Kind 1. A task asks for a device. Answered when bound or refused; the daemon may leave it waiting.
    TaskBegin {
        /// \[0\] sum of the sizes of the task's device memory objects, as known now.
        requirement: u64,
        /// \[1\] site id given by the pass, 0 for a lazy task.
        site: u64,
        /// \[2\] number of blocks and \[3\] threads per block of its largest known launch, 0 if unknown.
        blocks: u64,
        threads_per_block: u64,
        /// \[4\] bit 0: lazy (bound at its first launch, may extend); bit 1: memory is already managed.
        flags: u64,
        /// `text`: function that holds the task.
        function: String,
    },
    /// Kind 2. \[0\] more bytes wanted by a bound task. Answered like TaskBegin.
    TaskExtend { bytes: u64 },
    /// Kind 3. \[0\] bytes that the task freed for good.
    TaskShrink { bytes: u64 },
    /// Kind 4. No further launch will come from this task.
    AllLaunched,
    /// Kind 5. Nothing of the task remains on the device. The slot may be used again once answered.
    TaskEnd,
    /// Kind 6. An eager task's next kernel is held by the gate. \[0\] footprint, \[1\] static size, \[2\] access class
    /// (0 unknown, 1 one pass, 2 cyclic re-use, 3 sparse); `text`: kernel name.
    KernelHeld { footprint: u64, static_size: u64, access: u8, kernel: String },
    /// Kind 7 / 8. A watched task's launch counters went from idle to busy / busy to idle.
    Busy,
    Idle,
    /// Kind 9. The client saw the added memory: its remaining data is being moved in and its later kernels run with
    /// high priority.
    Promoted,
}

/// TaskBegin flag bits.
pub const BEGIN_LAZY: u64 = 1;
pub const BEGIN_MANAGED: u64 = 2;

const _: () = assert!(size_of::<RequestRecord>() == 128);
const _: () = assert!(size_of::<RequestPage>() == 64 + 16 * TASK_SLOTS + 128 * RING_SLOTS);
