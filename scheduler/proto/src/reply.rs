//! Page that the daemon writes: one cell per task slot. The client maps it read-only (`F_SEAL_FUTURE_WRITE`).
//!
//! A cell is a seqlock: the daemon makes `sequence` odd, writes, makes it even, then wakes the futex on it. The client
//! reads again when `sequence` was odd or changed. Cells are state, not messages: a cell always shows what holds now,
//! so a lost wake-up or a restarted daemon cannot leave the two out of step. `gate` alone may also be read on its own,
//! without the seqlock: it is one word, and a launch costs one load. Each cell has a sentence beside it,
//! [`ReplyPage::texts`], written under the same seqlock.

use crate::TASK_SLOTS;
use eager_units::{Bytes, Class, DeviceId, Terms};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// True if `sequence` is `other` or came after it. Sequences wrap.
pub fn has_reached(sequence: u32, other: u32) -> bool {
    sequence.wrapping_sub(other) < 1 << 31
}

/// The answer for one task slot.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct TaskCell {
    /// Seqlock and futex word.
    pub sequence: u32,
    /// [`STATE_FREE`] …
    pub state: u32,
    /// `sequence` of the last request of this slot that was answered.
    pub answered: u32,
    /// Index of the device the task is bound to.
    pub device: u32,
    /// [`CLASS_NORMAL`] …
    pub class: u32,
    /// [`FLAG_MANAGED`] | …
    pub flags: u32,
    /// Bytes the ledger reserves for the task (`G`).
    pub grant: u64,
    /// Bytes it asked for in all (`M`).
    pub requirement: u64,
    /// See [`gate`].
    pub gate: u64,
    /// Why the task is in this state: number of the core's reason; in words in [`ReplyPage::texts`].
    pub reason: u32,
    pub reserved: u32,
    pub padding: [u8; 8],
}

impl TaskCell {
    /// True if the cell answers the request with this sequence (or a later one). Sequences wrap.
    pub fn answers(&self, sequence: u32) -> bool {
        has_reached(self.answered, sequence)
    }

    /// The cell with the state of a bound task.
    pub fn bound(self, terms: &Terms) -> TaskCell {
        let class = match terms.class {
            Class::Normal => CLASS_NORMAL,
            Class::Eager => CLASS_EAGER,
            Class::Promoted => CLASS_PROMOTED,
        };
        let flags = [
            (terms.managed, FLAG_MANAGED),
            (terms.watched, FLAG_WATCH),
            (terms.high_priority, FLAG_HIGH_PRIORITY),
            (terms.gated, FLAG_GATED),
            (terms.releases, FLAG_RELEASES),
        ];
        TaskCell {
            state: STATE_BOUND,
            device: terms.device.0,
            class,
            flags: flags.into_iter().filter(|(is_on, _)| *is_on).fold(0, |flags, (_, flag)| flags | flag),
            grant: terms.grant.0,
            ..self
        }
    }

    /// The terms of a bound task.
    pub fn terms(&self) -> Terms {
        let has = |flag: u32| self.flags & flag != 0;
        Terms {
            device: DeviceId(self.device),
            class: match self.class {
                CLASS_EAGER => Class::Eager,
                CLASS_PROMOTED => Class::Promoted,
                _ => Class::Normal,
            },
            grant: Bytes(self.grant),
            managed: has(FLAG_MANAGED),
            releases: has(FLAG_RELEASES),
            watched: has(FLAG_WATCH),
            gated: has(FLAG_GATED),
            high_priority: has(FLAG_HIGH_PRIORITY),
        }
    }
}

/// Layout of the page; accessed through atomics by eager-shm.
#[repr(C)]
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ReplyPage {
    pub magic: u32,
    pub major: u16,
    pub minor: u16,
    pub bytes: u32,
    /// Records the daemon has consumed (wraps); pairs with the client's acquire load before it re-uses a ring slot.
    pub tail: u32,
    pub reserved: [u8; 48],
    pub cells: [TaskCell; TASK_SLOTS],
    /// `reason` of each cell in words, for people: see [`crate::text`]. Empty for a free slot.
    pub texts: [[u8; REASON_BYTES]; TASK_SLOTS],
}

/// Room for a reason in words; a longer one is cut.
pub const REASON_BYTES: usize = 192;

/// [`TaskCell::reason`] of a task that is refused because it is larger than every device: the only refusal after which
/// a program may go on with a smaller request.
pub const REASON_TOO_LARGE: u32 = 4;

pub const STATE_FREE: u32 = 0;
pub const STATE_WAITING: u32 = 1;
pub const STATE_BOUND: u32 = 2;
pub const STATE_REFUSED: u32 = 3;

pub const CLASS_NONE: u32 = 0;
/// `G = M`.
pub const CLASS_NORMAL: u32 = 1;
/// `G < M`: runs over-subscribed.
pub const CLASS_EAGER: u32 = 2;
/// Was eager, now `G = M`.
pub const CLASS_PROMOTED: u32 = 3;

/// Allocate managed memory (preferred location: the device) instead of plain device memory.
pub const FLAG_MANAGED: u32 = 1;
/// Report idle→busy and busy→idle of the launch counters: another task waits for this task's kernels.
pub const FLAG_WATCH: u32 = 2;
/// Launch on a stream of the highest priority (else: the lowest).
pub const FLAG_HIGH_PRIORITY: u32 = 4;
/// Launches must look at the gate (else they are never held).
pub const FLAG_GATED: u32 = 8;
/// The last [`crate::request::RequestBody::TaskExtend`] answered was refused: the task keeps the device and the grant
/// it had (the state stays [`STATE_BOUND`]); `reason` says why.
pub const FLAG_EXTEND_REFUSED: u32 = 16;
/// Memory that the device is done with is to be given back at once, and reported as
/// [`crate::request::RequestBody::TaskShrink`].
pub const FLAG_RELEASES: u32 = 32;

/// The gate word: bit 63 go, bits 62–48 epoch, bits 47–0 the largest footprint allowed, in KiB.
pub mod gate {
    const GO: u64 = 1 << 63;
    const EPOCH_SHIFT: u32 = 48;
    const KIB_MASK: u64 = (1 << EPOCH_SHIFT) - 1;

    /// `allowed` is rounded down to KiB; `u64::MAX` means any footprint.
    pub fn pack(go: bool, epoch: u16, allowed: u64) -> u64 {
        let kib = (allowed / 1024).min(KIB_MASK);
        (if go { GO } else { 0 }) | (u64::from(epoch & 0x7fff) << EPOCH_SHIFT) | kib
    }

    /// The go bit of a gate word.
    pub fn is_open(word: u64) -> bool {
        word & GO != 0
    }

    /// How often the gate had changed when it got this word, modulo 2^15.
    pub fn epoch(word: u64) -> u16 {
        // Fifteen bits are left: the go bit is the highest.
        ((word & !GO) >> EPOCH_SHIFT) as u16
    }

    /// True if the gate has changed at least twice between these words and is closed in the later one: it may have been
    /// open in between.
    pub fn may_have_opened(before: u64, after: u64) -> bool {
        !is_open(after) && epoch(after).wrapping_sub(epoch(before)) & 0x7fff >= 2
    }

    /// True if a kernel that touches `footprint` bytes may start. (Rounded up to KiB; the largest allowance admits
    /// any.)
    pub fn admits(word: u64, footprint: u64) -> bool {
        let kib = word & KIB_MASK;
        word & GO != 0 && (kib == KIB_MASK || footprint.div_ceil(1024) <= kib)
    }
}

const _: () = assert!(size_of::<TaskCell>() == 64);
const _: () = assert!(size_of::<ReplyPage>() == 64 + (64 + REASON_BYTES) * TASK_SLOTS);

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// Each of the five flags alone and all together, with each class.
    #[test]
    fn terms_are_read_as_they_were_written() {
        for (number, class) in
            (0..32).flat_map(|n| [Class::Normal, Class::Eager, Class::Promoted].map(|c| (n, c)))
        {
            let is = |bit: u32| number >> bit & 1 == 1;
            let (device, grant) = (DeviceId(3), Bytes(5));
            let [managed, releases, watched, gated, high_priority] = [is(0), is(1), is(2), is(3), is(4)];
            let terms = Terms { device, class, grant, managed, releases, watched, gated, high_priority };
            let cell = TaskCell::new_zeroed().bound(&terms);
            assert_eq!((cell.terms(), cell.state), (terms, STATE_BOUND));
        }
    }
}
