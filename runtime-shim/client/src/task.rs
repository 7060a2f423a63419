//! A task as its program keeps it: what the daemon knows of it, its bytes, its terms.
//!
//! Invariant: while a task is bound, the daemon holds [`Account::reserved`] for it, that is the bytes now allocated
//! plus the bytes that its open sites may still allocate. Every change of that sum is sent once (extend, shrink, end).
//! Traps: a slot is used again by later tasks, so a slot alone does not name one; and a static task *promised* its
//! bytes when it began, so its allocations take from the promise first and only bytes beyond it are an extension.

use crate::account::{Account, FrameId, Taken};
use crate::cell::Told;
use crate::way::ByName;
use eager_units::{AccessClass, Terms};

pub use eager_proto::request::Slot;

/// A task of this process; never reused, unlike its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskKey {
    pub slot: Slot,
    pub generation: u64,
}

/// The slot reserved for the lazy or the declared task, so that static tasks cannot use up all slots.
pub fn lazy_slot() -> Slot {
    Slot::all().last().unwrap_or_else(|| unreachable!("a client has task slots"))
}

/// Size of all that a program will allocate, as its user declared it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    pub bytes: u64,
    /// The task must never have less memory than that.
    pub whole: bool,
}

/// Origin of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Announced with its size by a site that begins.
    Static,
    /// Everything outside static tasks: requested at its first launch.
    Lazy,
    /// Everything that a program of a declared size does: requested at its first use of a device, and kept to the
    /// program's end.
    Declared,
}

/// Size of a task's launches, as far as it is known when the task is requested; 0: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    pub blocks: u64,
    pub threads_per_block: u64,
}

impl Geometry {
    pub const UNKNOWN: Geometry = Geometry { blocks: 0, threads_per_block: 0 };
}

/// A task's state at the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The lazy task before its first launch, or a refused site's first allocation: the daemon does not know it.
    Unbound,
    /// Static or declared, to be requested at its first use of a device: the daemon does not know it.
    Deferred,
    /// Requested and not decided on. The first thread that sees the decision enters it; no thread owns the request.
    Asked(Asked),
    Bound,
    /// With the number of the reason. Final, until its last site ends.
    Refused(u32),
}

/// A request that is not decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Sequence of the request.
    pub sequence: u32,
    /// Bytes requested. What the task turns out not to need meanwhile is returned when it is bound.
    pub bytes: u64,
    pub cause: Cause,
}

/// Cause of a request for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The begin of its site, which is not open yet.
    Begin,
    /// The first use of its device.
    Use,
    /// An allocation by a refused site in the lazy task. If it is refused, this allocation alone fails.
    Allocation { frame: FrameId, bytes: u64, taken: Taken },
    /// A device for the program's first context: the task ends at once.
    Foothold,
}

/// `D`: how the program numbers devices; `W`: what the user of this crate keeps with each task.
#[derive(Debug)]
pub struct Task<D, W> {
    pub key: TaskKey,
    pub kind: Kind,
    pub phase: Phase,
    pub account: Account,
    pub terms: Told<D>,
    /// Set if its memory comes with the first call that names the address.
    pub by_name: Option<ByName>,
    /// Announced by its site, for the request.
    pub(crate) site: u64,
    pub(crate) geometry: Geometry,
    /// The lazy task whose device the program's handles are on, when this task began. Both must have one device.
    pub(crate) beside: Option<TaskKey>,
    /// Of a deferred task: the lazy task that its thread had used when it began.
    pub(crate) lazy_used: Option<TaskKey>,
    /// Sequence of the last refused request for an allocation.
    pub(crate) refused_last: Option<u32>,
    pub(crate) sent_all_launched: bool,
    /// Sequence of the extension that is not answered.
    pub(crate) extending: Option<u32>,
    /// Answers to extensions that their threads have not seen: the number of the reason, if it was refused.
    pub(crate) extended: Vec<(u32, Option<u32>)>,
    /// Set for managed memory that is made for a bound task, until the pages for which its grant has room are made.
    pub lacks_pages: bool,
    /// Class of the last kernel that the gate held.
    pub(crate) held_last: Option<AccessClass>,
    /// Busy or idle, as the daemon was last told while it watches. `None` has it told again.
    pub told_busy: Option<bool>,
    pub own: W,
}

/// Message due to the daemon after a task's bytes or sites have become fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Shrink(u64),
    End,
}

impl<D: Default, W: Default> Task<D, W> {
    pub(crate) fn new(key: TaskKey, kind: Kind) -> Task<D, W> {
        let terms = Terms::none(D::default());
        Task {
            key,
            kind,
            phase: match kind {
                Kind::Static | Kind::Declared => Phase::Deferred,
                Kind::Lazy => Phase::Unbound,
            },
            account: Account::default(),
            terms: Told { sequence: 0, reason: 0, extend_refused: false, terms },
            by_name: None,
            site: 0,
            geometry: Geometry::UNKNOWN,
            beside: None,
            lazy_used: None,
            refused_last: None,
            sent_all_launched: false,
            extending: None,
            extended: Vec::new(),
            lacks_pages: false,
            held_last: None,
            told_busy: None,
            own: W::default(),
        }
    }
}

impl<D, W> Task<D, W> {
    pub fn is_bound(&self) -> bool {
        self.phase == Phase::Bound
    }

    /// True if its calls have to wait for a device that it asks for at its first use of one.
    pub fn is_deferred(&self) -> bool {
        match self.phase {
            Phase::Deferred => true,
            Phase::Asked(_) => self.kind != Kind::Lazy,
            Phase::Unbound | Phase::Bound | Phase::Refused(_) => false,
        }
    }

    /// True if the daemon has an open task for it.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.phase, Phase::Asked(_) | Phase::Bound | Phase::Refused(_))
    }

    /// The message due when `gone` bytes are no longer needed. `is_pinned`: the program has handles on the lazy task's
    /// device, so that this task keeps its device without memory.
    pub(crate) fn due(&self, gone: u64, is_pinned: bool) -> Due {
        let is_kept = self.kind == Kind::Lazy && is_pinned;
        let is_over = !self.account.is_open() && self.account.live() == 0 && !is_kept;
        match (self.phase, self.kind) {
            // Who asks for the lazy task is about to use it.
            (Phase::Unbound, _) | (Phase::Asked(_), Kind::Lazy) => Due::Nothing,
            _ if is_over => Due::End,
            (Phase::Bound, _) if gone > 0 => Due::Shrink(gone),
            // A task that waits cannot shrink. What it does not need is returned when it is bound.
            _ => Due::Nothing,
        }
    }

    /// True if the daemon must be told now that the task has made its last launch; true at most once. Lazy tasks say
    /// nothing: a site in them is not all that launches.
    pub(crate) fn takes_all_launched(&mut self) -> bool {
        let is_due = self.kind == Kind::Static
            && self.is_bound()
            && !self.sent_all_launched
            && self.account.is_open()
            && self.account.all_launched();
        self.sent_all_launched |= is_due;
        is_due
    }
}
