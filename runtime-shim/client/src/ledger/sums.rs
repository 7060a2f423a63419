//! Sums over the allocations of each task, changed with every allocation, so that no call walks all of them.
//!
//! Trap: an allocation's share is subtracted as it was and added as it is. A change that bypasses
//! [`super::Ledger::change`] leaves the sums wrong for good.

use super::{BufferId, Held, Kind};
use crate::task::TaskKey;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What one allocation contributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub owner: TaskKey,
    pub bytes: u64,
    /// Bytes that its mapped memory takes beyond `bytes`.
    pub wasted: u64,
    /// Bytes moved in and not sent away since.
    pub moved: u64,
    /// It has data of the host to move in.
    pub has_data: bool,
    /// It has memory on its device without pages.
    pub lacks_pages: bool,
    pub is_absent: bool,
    pub is_dead: bool,
}

impl Share {
    fn nothing(owner: TaskKey) -> Share {
        let (bytes, wasted, moved) = (0, 0, 0);
        let (has_data, lacks_pages, is_absent, is_dead) = (false, false, false, false);
        Share { owner, bytes, wasted, moved, has_data, lacks_pages, is_absent, is_dead }
    }
}

/// Allocations of one task.
#[derive(Debug, Clone, Default)]
struct OfTask {
    all: BTreeSet<BufferId>,
    has_data: BTreeSet<BufferId>,
    lacks_pages: BTreeSet<BufferId>,
    /// With its arrays.
    bytes: u64,
    wasted: u64,
    moved: u64,
    arrays: usize,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    tasks: BTreeMap<TaskKey, OfTask>,
    absent: BTreeSet<BufferId>,
    dead: usize,
}

impl Sums {
    pub fn add(&mut self, id: BufferId, share: &Share) {
        self.tasks.entry(share.owner).or_default().all.insert(id);
        self.change(id, &Share::nothing(share.owner), share);
    }

    pub fn remove(&mut self, id: BufferId, share: &Share) {
        self.change(id, share, &Share::nothing(share.owner));
        if let Some(task) = self.tasks.get_mut(&share.owner) {
            task.all.remove(&id);
        }
        self.forget_empty(share.owner);
    }

    pub fn replace(&mut self, id: BufferId, before: &Share, now: &Share) {
        if before.owner == now.owner {
            self.change(id, before, now);
        } else {
            self.remove(id, before);
            self.add(id, now);
        }
    }

    /// Counts a change of an allocation that keeps its owner.
    fn change(&mut self, id: BufferId, before: &Share, now: &Share) {
        let Some(task) = self.tasks.get_mut(&now.owner) else { return };
        task.bytes = task.bytes - before.bytes + now.bytes;
        task.wasted = task.wasted - before.wasted + now.wasted;
        task.moved = task.moved - before.moved + now.moved;
        self.dead = self.dead - usize::from(before.is_dead) + usize::from(now.is_dead);
        note(&mut task.has_data, id, before.has_data, now.has_data);
        note(&mut task.lacks_pages, id, before.lacks_pages, now.lacks_pages);
        note(&mut self.absent, id, before.is_absent, now.is_absent);
    }

    pub fn add_array(&mut self, held: Held) {
        let task = self.tasks.entry(held.owner).or_default();
        task.bytes += held.bytes;
        task.arrays += 1;
    }

    pub fn remove_array(&mut self, held: Held) {
        let Some(task) = self.tasks.get_mut(&held.owner) else { return };
        task.bytes -= held.bytes;
        task.arrays -= 1;
        self.forget_empty(held.owner);
    }

    fn forget_empty(&mut self, owner: TaskKey) {
        if self.tasks.get(&owner).is_some_and(|task| task.all.is_empty() && task.arrays == 0) {
            self.tasks.remove(&owner);
        }
    }

    pub fn bytes(&self, owner: TaskKey) -> u64 {
        self.tasks.get(&owner).map_or(0, |task| task.bytes)
    }

    pub fn wasted(&self, owner: TaskKey) -> u64 {
        self.tasks.get(&owner).map_or(0, |task| task.wasted)
    }

    pub fn moved(&self, owner: TaskKey) -> u64 {
        self.tasks.get(&owner).map_or(0, |task| task.moved)
    }

    pub fn has_absent(&self) -> bool {
        !self.absent.is_empty()
    }

    pub fn has_dead(&self) -> bool {
        self.dead > 0
    }

    pub fn absent(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.absent.iter().copied()
    }

    pub fn of_task(&self, owner: TaskKey) -> impl Iterator<Item = BufferId> + '_ {
        self.tasks.get(&owner).into_iter().flat_map(|task| task.all.iter().copied())
    }

    /// All allocations, in their order.
    pub fn all(&self) -> impl Iterator<Item = BufferId> + '_ {
        let all: BTreeSet<BufferId> = self.tasks.values().flat_map(|task| task.all.iter().copied()).collect();
        all.into_iter()
    }

    /// The first of a task's allocations after `last` that has something of this kind to move in.
    pub fn next(&self, owner: TaskKey, kind: Kind, last: Option<BufferId>) -> Option<BufferId> {
        let task = self.tasks.get(&owner)?;
        let set = match kind {
            Kind::Data => &task.has_data,
            Kind::Unwritten => &task.lacks_pages,
        };
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        set.range((after, Bound::Unbounded)).next().copied()
    }
}

fn note(set: &mut BTreeSet<BufferId>, id: BufferId, was_in: bool, is_in: bool) {
    match (was_in, is_in) {
        (false, true) => _ = set.insert(id),
        (true, false) => _ = set.remove(&id),
        _ => {}
    }
}
