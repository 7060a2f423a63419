//! What the normal tasks of a device mean for the gates of the eager ones beside them, in sums that are kept as things
//! change: a gate is judged at each kernel that comes or goes, and many tasks may lie on a device.
//!
//! Trap: who stands still is not in the sums, and that depends on the task's *program*, so what happens to one task can
//! change the sums of every device on which its program has another. Only the ledger keeps them; invariants make them anew.

use crate::model::{Activity, Bound, Client};
use eager_units::{Bytes, Class, TaskId};
use std::collections::BTreeSet;

/// The normal tasks of a device that eager ones there wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protected {
    pub(crate) tasks: u32,
    /// Those of them with launches to come.
    pub(crate) unfinished: u32,
    /// Memory that may be in use, and of it what cannot be evicted.
    pub(crate) live: Bytes,
    pub(crate) pinned: Bytes,
    /// Those with kernels on the device, or of which nobody knows.
    pub(crate) active: BTreeSet<TaskId>,
}

/// One task's part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    unfinished: bool,
    live: Bytes,
    pinned: Bytes,
    active: bool,
}

impl Share {
    /// None: the task is eager itself; or it has no kernel there and its program stands still, and then not even its
    /// memory counts: a kernel held for it could be held for ever. What a stopped process has told of its kernels last
    /// does not hold any more.
    pub fn of(bound: &Bound, owner: &Client) -> Option<Share> {
        let active = bound.activity != Activity::Idle && !owner.frozen;
        if bound.class == Class::Eager || (!active && owner.is_stopped()) {
            return None;
        }
        let pinned = if bound.managed { Bytes::ZERO } else { bound.grant };
        let is_done = bound.all_launched && !active;
        let live = if is_done { pinned } else { bound.grant };
        Some(Share { unfinished: !bound.all_launched, live, pinned, active })
    }
}

impl Protected {
    /// Puts a task's share in the place of the one that was counted.
    pub fn replace(&mut self, task: TaskId, old: Option<Share>, new: Option<Share>) {
        if let Some(old) = old {
            self.remove(task, old);
        }
        if let Some(new) = new {
            self.add(task, new);
        }
    }

    // Grants on a device are at most its capacity together, so nothing is cut off here.
    pub fn add(&mut self, task: TaskId, share: Share) {
        self.tasks += 1;
        self.unfinished += u32::from(share.unfinished);
        self.live = self.live.saturating_add(share.live);
        self.pinned = self.pinned.saturating_add(share.pinned);
        if share.active {
            self.active.insert(task);
        }
    }

    pub fn remove(&mut self, task: TaskId, share: Share) {
        self.tasks -= 1;
        self.unfinished -= u32::from(share.unfinished);
        self.live = self.live.saturating_sub(share.live);
        self.pinned = self.pinned.saturating_sub(share.pinned);
        if share.active {
            self.active.remove(&task);
        }
    }
}
