//! Page that the client writes: a ring of requests and the launch counters.
//!
//! Trap: the daemon must copy a record out *once* and then [`decode`] the copy; the client may change the page at any
//! moment. `head` counts records ever published; the index is `head % RING_SLOTS`; the daemon's own count (`tail`) is
//! in the reply page, so that a client cannot move it.

use crate::{RING_SLOTS, TASK_SLOTS, text};
use eager_units::{AccessClass, Barred};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A request as it lies in the ring.
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

/// One of a client's [`TASK_SLOTS`] task slots: always in range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    pub const FIRST: Slot = Slot(0);

    /// `None` when there is no such slot.
    pub fn new(index: usize) -> Option<Slot> {
        u8::try_from(index).ok().filter(|_| index < TASK_SLOTS).map(Slot)
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    pub fn all() -> impl Iterator<Item = Slot> {
        (0..TASK_SLOTS).filter_map(Slot::new)
    }
}

/// A validated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub sequence: u32,
    pub slot: Slot,
    pub body: RequestBody,
}

/// A client's question or report. Sizes in bytes. Word numbers in brackets.
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
        /// \[4\]
        flags: BeginFlags,
        /// `text`: function that holds the task.
        function: String,
    },
    /// Kind 2. \[0\] more bytes wanted by a bound task. Answered like TaskBegin.
    TaskExtend {
        bytes: u64,
    },
    /// Kind 3. \[0\] bytes that the task freed for good.
    TaskShrink {
        bytes: u64,
    },
    /// Kind 4. No further launch will come from this task.
    AllLaunched,
    /// Kind 5. Nothing of the task remains on the device. The slot may be used again once answered.
    TaskEnd,
    /// Kind 6. An eager task's next kernel is held by the gate. \[0\] footprint, \[1\] static size, \[2\] access class
    /// (0 unknown, 1 one pass, 2 cyclic, 3 sparse); `text`: kernel name.
    KernelHeld {
        footprint: u64,
        static_size: u64,
        access: AccessClass,
        kernel: String,
    },
    /// Kind 7 / 8. A watched task's launch counters went from idle to busy / busy to idle.
    Busy,
    Idle,
    /// Kind 9. The client saw the added memory: its remaining data is being moved in and its later kernels run with
    /// high priority.
    Promoted,
}

impl RequestBody {
    /// Begin of a lazy task with this requirement; nothing is known of its launches.
    pub const fn lazy_begin(requirement: u64) -> RequestBody {
        RequestBody::TaskBegin {
            requirement,
            site: 0,
            blocks: 0,
            threads_per_block: 0,
            flags: BeginFlags::LAZY,
            function: String::new(),
        }
    }
}

/// Flags that a task declares when it asks for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BeginFlags {
    /// Bit 0. Bound at its first launch, may extend.
    pub lazy: bool,
    /// Bit 1. Its memory is already managed.
    pub managed: bool,
    /// Bit 2. It cannot run over-subscribed: it waits for all of its requirement, and an extension that does not fit is
    /// refused.
    pub whole: bool,
    /// Bits 16 to 63: devices 0 to 47 that it may not have.
    pub barred: Barred,
}

impl BeginFlags {
    pub const NONE: BeginFlags = BeginFlags { lazy: false, managed: false, whole: false, barred: Barred(0) };
    pub const LAZY: BeginFlags = BeginFlags { lazy: true, ..BeginFlags::NONE };
    pub const WHOLE: BeginFlags = BeginFlags { whole: true, ..BeginFlags::NONE };

    /// The flags of a word; None if one of its bits has no meaning.
    fn of(word: u64) -> Option<BeginFlags> {
        let flags = BeginFlags {
            lazy: word & BEGIN_LAZY != 0,
            managed: word & BEGIN_MANAGED != 0,
            whole: word & BEGIN_WHOLE != 0,
            barred: Barred(word >> BEGIN_BARRED_SHIFT),
        };
        (flags.word() == word).then_some(flags)
    }

    fn word(self) -> u64 {
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        flag(self.lazy, BEGIN_LAZY)
            | flag(self.managed, BEGIN_MANAGED)
            | flag(self.whole, BEGIN_WHOLE)
            | self.barred.0 << BEGIN_BARRED_SHIFT
    }
}

const BEGIN_LAZY: u64 = 1;
const BEGIN_MANAGED: u64 = 2;
const BEGIN_WHOLE: u64 = 4;
/// Position of the bit for device 0 among the barred devices.
const BEGIN_BARRED_SHIFT: u32 = 16;
/// Devices that have such a bit; later ones cannot be barred.
pub const BEGIN_BARRED_DEVICES: u32 = u64::BITS - BEGIN_BARRED_SHIFT;

/// Access classes by their numbers.
const ACCESS: [AccessClass; 4] =
    [AccessClass::Unknown, AccessClass::OnePass, AccessClass::Cyclic, AccessClass::Sparse];

fn access_of(number: u64) -> Option<AccessClass> {
    ACCESS.get(usize::try_from(number).ok()?).copied()
}

fn access_number(access: AccessClass) -> u64 {
    match access {
        AccessClass::Unknown => 0,
        AccessClass::OnePass => 1,
        AccessClass::Cyclic => 2,
        AccessClass::Sparse => 3,
    }
}

const KIND_TASK_BEGIN: u16 = 1;
const KIND_TASK_EXTEND: u16 = 2;
const KIND_TASK_SHRINK: u16 = 3;
const KIND_ALL_LAUNCHED: u16 = 4;
const KIND_TASK_END: u16 = 5;
const KIND_KERNEL_HELD: u16 = 6;
const KIND_BUSY: u16 = 7;
const KIND_IDLE: u16 = 8;
const KIND_PROMOTED: u16 = 9;

/// A record that no honest client writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("task slot {slot} does not exist: there are {TASK_SLOTS}")]
    Slot { slot: u16 },
    #[error("unknown request kind {kind}")]
    Kind { kind: u16 },
    #[error("unknown flag bits {flags:#x} in request kind {kind}")]
    Flags { kind: u16, flags: u64 },
    #[error("unknown access class {access}")]
    Access { access: u64 },
    #[error("word or text that request kind {kind} does not use is not zero")]
    NotZero { kind: u16 },
}

/// Checks a *copy* of a record. Every field that the kind does not use must be zero, so that a later minor version can
/// give it a meaning.
pub fn decode(record: &RequestRecord) -> Result<Request, Malformed> {
    let RequestRecord { sequence, kind, slot, words, text } = record;
    let slot = Slot::new(usize::from(*slot)).ok_or(Malformed::Slot { slot: *slot })?;
    let body = decode_body(*kind, words, text)?;
    Ok(Request { sequence: *sequence, slot, body })
}

fn decode_body(kind: u16, words: &[u64; 6], text: &[u8; 72]) -> Result<RequestBody, Malformed> {
    let (body, words_used, text_used) = match kind {
        KIND_TASK_BEGIN => (decode_begin(words, text)?, 5, true),
        KIND_TASK_EXTEND => (RequestBody::TaskExtend { bytes: words[0] }, 1, false),
        KIND_TASK_SHRINK => (RequestBody::TaskShrink { bytes: words[0] }, 1, false),
        KIND_ALL_LAUNCHED => (RequestBody::AllLaunched, 0, false),
        KIND_TASK_END => (RequestBody::TaskEnd, 0, false),
        KIND_KERNEL_HELD => (decode_held(words, text)?, 3, true),
        KIND_BUSY => (RequestBody::Busy, 0, false),
        KIND_IDLE => (RequestBody::Idle, 0, false),
        KIND_PROMOTED => (RequestBody::Promoted, 0, false),
        _ => return Err(Malformed::Kind { kind }),
    };
    let text_is_zero = text.iter().all(|&byte| byte == 0);
    if words[words_used..].iter().any(|&word| word != 0) || (!text_used && !text_is_zero) {
        return Err(Malformed::NotZero { kind });
    }
    Ok(body)
}

fn decode_begin(words: &[u64; 6], text: &[u8; 72]) -> Result<RequestBody, Malformed> {
    let [requirement, site, blocks, threads_per_block, flags, _] = *words;
    let flags = BeginFlags::of(flags).ok_or(Malformed::Flags { kind: KIND_TASK_BEGIN, flags })?;
    let function = text::unpack(text);
    Ok(RequestBody::TaskBegin { requirement, site, blocks, threads_per_block, flags, function })
}

fn decode_held(words: &[u64; 6], text: &[u8; 72]) -> Result<RequestBody, Malformed> {
    let [footprint, static_size, access, ..] = *words;
    let access = access_of(access).ok_or(Malformed::Access { access })?;
    Ok(RequestBody::KernelHeld { footprint, static_size, access, kernel: text::unpack(text) })
}

/// The record for a request; names that are too long are cut.
pub fn encode(request: &Request) -> RequestRecord {
    let mut words = [0; 6];
    let mut name = "";
    let kind = match &request.body {
        RequestBody::TaskBegin { requirement, site, blocks, threads_per_block, flags, function } => {
            words[..5].copy_from_slice(&[*requirement, *site, *blocks, *threads_per_block, flags.word()]);
            name = function;
            KIND_TASK_BEGIN
        }
        RequestBody::TaskExtend { bytes } => {
            words[0] = *bytes;
            KIND_TASK_EXTEND
        }
        RequestBody::TaskShrink { bytes } => {
            words[0] = *bytes;
            KIND_TASK_SHRINK
        }
        RequestBody::AllLaunched => KIND_ALL_LAUNCHED,
        RequestBody::TaskEnd => KIND_TASK_END,
        RequestBody::KernelHeld { footprint, static_size, access, kernel } => {
            words[..3].copy_from_slice(&[*footprint, *static_size, access_number(*access)]);
            name = kernel;
            KIND_KERNEL_HELD
        }
        RequestBody::Busy => KIND_BUSY,
        RequestBody::Idle => KIND_IDLE,
        RequestBody::Promoted => KIND_PROMOTED,
    };
    let slot = u16::from(request.slot.0);
    RequestRecord { sequence: request.sequence, kind, slot, words, text: text::pack(name) }
}

const _: () = assert!(size_of::<RequestRecord>() == 128);
const _: () = assert!(size_of::<RequestPage>() == 64 + 16 * TASK_SLOTS + 128 * RING_SLOTS);
