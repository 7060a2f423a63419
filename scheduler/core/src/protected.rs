//! Sums over a device's normal tasks on which the gates of its eager tasks depend. They are updated with each change,
//! because gates are judged at each kernel that starts or ends, and a device may have many tasks.
//!
//! Trap: stopped programs are not in the sums, so an event of one task can change the sums of every device on which its
//! *program* has another task. Only [`crate::model::State`] updates them; the invariants recompute them.

use crate::model::{Activity, Bound, Client};
use eager_units::{Bytes, Class, TaskId};
use std::collections::BTreeSet;

/// The normal tasks of a device that eager ones there wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protected {
    pub(crate) tasks: u32,
    /// Those of them that have launches to come.
    pub(crate) unfinished: u32,
    /// Memory that may be in use (`live`), and the part of it that cannot be evicted (`pinned`).
    pub(crate) live: Bytes,
    pub(crate) pinned: Bytes,
    /// Those with kernels on the device, or whose activity is not known.
    pub(crate) active: BTreeSet<TaskId>,
}

/// One task's part of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    unfinished: bool,
    live: Bytes,
    pinned: Bytes,
    active: bool,
}

impl Share {
    /// None if the task is eager itself, or if it has no kernel there and its program is stopped: then not even its
    /// memory counts, since a kernel held for it could be held for ever. A frozen process counts as idle, whatever it
    /// reported last.
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
    /// Replaces the share that was counted for a task.
    pub fn replace(&mut self, task: TaskId, old: Option<Share>, new: Option<Share>) {
        if let Some(old) = old {
            self.remove(task, old);
        }
        if let Some(new) = new {
            self.add(task, new);
        }
    }

    // Grants on a device are at most its capacity in sum, so these sums never saturate.
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
