//! Copies and fills of the program: which of them the CPU makes, in which pieces, and which wait on the host for the
//! memory that they write.
//!
//! Traps: the direction [`Direction::Unknown`] does not show where the source is, and the CPU must not read device memory,
//! so it makes no such copy. And a kept copy must reach the device before any later use of the memory, in the program's
//! order.

use super::{Client, Occasion};
use crate::buffers::Order;
use crate::ledger::{BufferId, Ledger, Origin, Part};
use crate::spans::Span;
use crate::task::TaskKey;

/// Bytes of managed memory that the CPU writes before a prefetch moves them in, at full size (specification S-309): large
/// against the cost of a prefetch (microseconds per 2 MiB block), small against the sizes that are copied.
pub const FILL_PIECE_BYTES: u64 = 32 << 20;

/// From where to where a call moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToDevice,
    ToHost,
    OnDevice,
    /// One value to all bytes.
    Fill,
    /// What the addresses tell, or between two places of the host.
    Unknown,
}

/// How a copy or fill is made (specification S-202, S-509).
#[derive(Debug, PartialEq, Eq)]
pub enum Route<D> {
    /// By the CPU into managed memory. The data is moved in as far as the grant goes, whereas a plain
    /// copy would pull every byte onto the device.
    Cpu(Pieces),
    /// By the CPU, from managed memory that no device has touched.
    CpuReads,
    /// By the runtime, on this device.
    Device(D),
    /// By the runtime: it uses no memory of a bound task.
    Elsewhere,
}

/// Managed memory that the CPU writes, piece by piece, so that moving one in overlaps with writing the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    pub whole: Part,
    /// Set if a device may still use the memory, which must be waited for.
    pub bound: Option<TaskKey>,
    written: u64,
}

impl Pieces {
    /// True if no piece has been taken.
    pub fn is_new(&self) -> bool {
        self.written == 0
    }

    /// The piece to write next, of at most `bytes_max` (0: any size); then tell it to [`Client::filled`].
    pub fn next(&mut self, bytes_max: u64) -> Option<Part> {
        let left = self.whole.span.bytes - self.written;
        let bytes = if bytes_max == 0 { left } else { left.min(bytes_max) };
        let span = Span { start: self.whole.span.start + self.written, bytes };
        self.written += bytes;
        (bytes > 0).then_some(Part { span, ..self.whole })
    }
}

/// Where an allocation is, as far as copies depend on it.
enum Place<D> {
    /// Managed, without a device so far.
    Unbound,
    Bound {
        owner: TaskKey,
        device: D,
        is_managed: bool,
    },
    /// The program's own managed memory before its task has a device, or memory of a task that is gone.
    Elsewhere,
}

impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    fn place(&self, part: Part) -> Option<Place<D>> {
        let found = self.ledger.get(part.buffer)?;
        let (owner, is_managed) = (found.owner, found.origin.is_rewritten());
        Some(match self.task(owner) {
            Some(task) if task.is_bound() => Place::Bound { owner, device: task.terms.device, is_managed },
            Some(_) if is_managed => Place::Unbound,
            _ => Place::Elsewhere,
        })
    }

    /// Decides who makes a copy or fill, and records what it moves in. `to`, `from`: the program's memory at that end.
    pub fn route(&mut self, direction: Direction, to: Option<Part>, from: Option<Part>) -> Route<D> {
        use Direction::{Fill, OnDevice, ToDevice, ToHost};
        let at = |part: Option<Part>| part.and_then(|part| self.place(part));
        let cpu =
            |bound| to.map_or(Route::Elsewhere, |whole| Route::Cpu(Pieces { whole, bound, written: 0 }));
        match (direction, at(to), at(from)) {
            (ToDevice | Fill, Some(Place::Unbound), None)
            | (OnDevice, Some(Place::Unbound), Some(Place::Unbound)) => cpu(None),
            (ToDevice, Some(Place::Bound { owner, is_managed: true, .. }), None)
                if !to.is_some_and(|to| self.has_room_for(to)) =>
            {
                cpu(Some(owner))
            }
            (ToHost, None, Some(Place::Unbound)) => Route::CpuReads,
            (_, Some(Place::Bound { device, .. }), _) | (_, _, Some(Place::Bound { device, .. })) => {
                if let Some(to) = to.filter(|_| direction == ToDevice) {
                    self.ledger.moved_in(to);
                }
                Route::Device(device)
            }
            _ => Route::Elsewhere,
        }
    }

    /// The CPU has written a part of managed memory. Returns what of its task's data to move in now.
    pub fn filled(&mut self, part: Part) -> Vec<Part> {
        self.ledger.filled(part);
        let owner = self.ledger.get(part.buffer).and_then(|found| self.task(found.owner));
        let Some(key) = owner.filter(|task| task.is_bound()).map(|task| task.key) else { return Vec::new() };
        self.plan_fetch(key, &Order::default(), Occasion::Filled)
    }

    /// True if a blocking copy between pageable host memory and this part passes through page-locked memory
    /// (specification S-306).
    pub fn uses_ring(&self, part: Part) -> bool {
        let origin = self.ledger.get(part.buffer).map(|found| found.origin);
        self.habits.fast_copies && matches!(origin, Some(Origin::Plain | Origin::Mapped { .. }))
    }

    /// The task, without a device so far, for whose memory a copy from the host can be kept, in the program's order
    /// (specification S-304). It must be asked for first, and the copy is kept if it has no device then.
    pub fn could_keep(&self, to: Part) -> Option<TaskKey> {
        let owner = self.ledger.get(to.buffer)?.owner;
        (self.habits.early_copies && self.is_deferred(owner)).then_some(owner)
    }
}

/// A copy from the host that waits until its task has memory. `C`: the copy, and its data.
#[derive(Debug)]
pub struct KeptCopy<C> {
    pub buffer: BufferId,
    pub bytes: u64,
    pub copy: C,
}

/// The copies of a program that wait, in its order.
#[derive(Debug)]
pub struct KeptCopies<C>(Vec<KeptCopy<C>>);

impl<C> Default for KeptCopies<C> {
    fn default() -> KeptCopies<C> {
        KeptCopies(Vec::new())
    }
}

impl<C> KeptCopies<C> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of host memory that they take.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|kept| kept.bytes).sum()
    }

    pub fn push(&mut self, kept: KeptCopy<C>) {
        self.0.push(kept);
    }

    /// Takes out the first one for memory of this task, to send it.
    pub fn take_first_of(&mut self, ledger: &Ledger, owner: TaskKey) -> Option<KeptCopy<C>> {
        let is_own = |kept: &KeptCopy<C>| ledger.get(kept.buffer).is_some_and(|found| found.owner == owner);
        self.0.iter().position(is_own).map(|first| self.0.remove(first))
    }

    /// Restores the copy that was taken out and could not be sent: the next call that names the memory tries again.
    pub fn put_back(&mut self, kept: KeptCopy<C>) {
        self.0.insert(0, kept);
    }

    /// Drops the copies for an allocation whose contents will not be read; returns their bytes.
    pub fn forget(&mut self, buffer: BufferId) -> u64 {
        let gone = self.0.extract_if(.., |kept| kept.buffer == buffer);
        gone.map(|kept| kept.bytes).sum()
    }

    /// All of them, to send them without a daemon.
    pub fn take_all(&mut self) -> Vec<KeptCopy<C>> {
        std::mem::take(&mut self.0)
    }
}
