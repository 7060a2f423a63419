//! Devices in the orders in which placement rules look at them, so that a decision does not look at each.
//!
//! Trap: an index is only as good as its upkeep. The ledger, which alone changes what a device holds, and the scheduler,
//! where a task's class changes, put a device back after every change; invariants compare all of it.

use crate::policy::MemoryRule;
use eager_units::{Bytes, DeviceId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most free memory, then fewest warps, then lowest index.
pub(crate) type FreeKey = (Reverse<Bytes>, u64, DeviceId);
/// Fewest warps, then fewest tasks, then lowest index.
pub(crate) type LoadKey = (u64, usize, DeviceId);
/// Fewest tasks, then least memory granted, then lowest index.
pub(crate) type TasksKey = (usize, Bytes, DeviceId);

/// What places a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub free: FreeKey,
    pub load: LoadKey,
    pub tasks: TasksKey,
    /// It can take another eager task.
    pub is_open: bool,
}

/// What policies that do not count memory look at in place of the other orders, which are not kept then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Orders {
    #[default]
    ByMemory,
    ByTasks,
    /// A policy of the other kind is asked beside the one that decides.
    Both,
}

impl Orders {
    /// What a policy of this kind looks at.
    pub(crate) fn under(rule: MemoryRule) -> Orders {
        match rule {
            MemoryRule::Counted | MemoryRule::Endless => Orders::ByMemory,
            MemoryRule::Ignored | MemoryRule::Paged => Orders::ByTasks,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceIndex {
    orders: Orders,
    keys: BTreeMap<DeviceId, Keys>,
    by_free: BTreeSet<FreeKey>,
    open: BTreeSet<FreeKey>,
    /// By load within classes of free memory.
    by_load: BTreeSet<(u32, LoadKey)>,
    by_tasks: BTreeSet<TasksKey>,
}

impl DeviceIndex {
    pub fn of(orders: Orders) -> DeviceIndex {
        DeviceIndex { orders, ..DeviceIndex::default() }
    }

    /// Puts a device where it now belongs.
    pub fn put(&mut self, id: DeviceId, keys: Keys) {
        let old = self.keys.insert(id, keys);
        let moved = old.is_none_or(|old| old.free != keys.free);
        if self.orders != Orders::ByMemory {
            replace(&mut self.by_tasks, old.map(|old| old.tasks), keys.tasks);
        }
        if self.orders != Orders::ByTasks {
            replace(&mut self.by_load, old.map(load_key), load_key(keys));
        }
        replace(&mut self.by_free, old.map(|old| old.free), keys.free);
        if moved || old.is_none_or(|old| old.is_open != keys.is_open) {
            if let Some(old) = old.filter(|old| old.is_open) {
                self.open.remove(&old.free);
            }
            if keys.is_open {
                self.open.insert(keys.free);
            }
        }
    }

    pub fn keys(&self, id: DeviceId) -> Option<&Keys> {
        self.keys.get(&id)
    }

    pub fn len(&self) -> usize {
        self.by_free.len()
    }

    /// The most free memory of any device.
    pub fn most_free(&self) -> Bytes {
        self.by_free.first().map_or(Bytes::ZERO, |&(Reverse(free), _, _)| free)
    }

    /// All devices, the most free memory first.
    pub fn by_free(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.by_free.iter().map(|&(_, _, id)| id)
    }

    /// Those that can take another eager task, the most free memory first.
    pub fn open_by_free(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.open.iter().map(|&(_, _, id)| id)
    }

    /// The least loaded device that `fits`; those with less than `wanted` free are not asked. The number of classes with
    /// devices in them is small, and only of the first are there devices that turn out not to fit.
    pub fn least_loaded(&self, wanted: Bytes, fits: impl Fn(DeviceId) -> bool) -> Option<DeviceId> {
        let mut best: Option<LoadKey> = None;
        let mut next = self.first_of_class(class_of(wanted));
        while let Some((class, _)) = next {
            let devices = self.by_load.range((class, FIRST_LOAD)..).take_while(|(of, _)| *of == class);
            // Nothing in the class can be better than what stands behind the best.
            let better = devices.map(|&(_, key)| key).take_while(|key| best.is_none_or(|best| *key < best));
            best = better.into_iter().find(|(_, _, id)| fits(*id)).or(best);
            next = self.first_of_class(class + 1);
        }
        best.map(|(_, _, id)| id)
    }

    fn first_of_class(&self, class: u32) -> Option<(u32, LoadKey)> {
        self.by_load.range((class, FIRST_LOAD)..).next().copied()
    }

    /// The first device in order of tasks that `fits`, of those that `take` as many tasks and one more.
    pub fn fewest_tasks(
        &self,
        takes: impl Fn(usize) -> bool,
        fits: impl Fn(DeviceId) -> bool,
    ) -> Option<DeviceId> {
        let able = self.by_tasks.iter().take_while(|(tasks, _, _)| takes(*tasks));
        able.map(|&(_, _, id)| id).find(|id| fits(*id))
    }
}

const FIRST_LOAD: LoadKey = (0, 0, DeviceId(0));

fn load_key(keys: Keys) -> (u32, LoadKey) {
    (class_of(keys.free.0.0), keys.load)
}

fn replace<K: Ord>(set: &mut BTreeSet<K>, old: Option<K>, new: K) {
    if old.as_ref() == Some(&new) {
        return;
    }
    if let Some(old) = old {
        set.remove(&old);
    }
    set.insert(new);
}

/// Sizes whose five leading bits are equal form a class: at most 6 % apart.
fn class_of(free: Bytes) -> u32 {
    const BITS: u32 = 4;
    let magnitude = free.0.max(1 << BITS).ilog2();
    let rest = (free.0 >> (magnitude - BITS)) as u32;
    (magnitude << (BITS + 1)) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(id: u32, free: u64, warps: u64) -> Keys {
        let id = DeviceId(id);
        let tasks = (0, Bytes::ZERO, id);
        Keys { free: (Reverse(Bytes(free)), warps, id), load: (warps, 0, id), tasks, is_open: warps < 5 }
    }

    #[test]
    fn classes_keep_the_order_of_sizes() {
        let sizes = [0, 1, 15, 16, 17, 31, 32, 33, 100, 1 << 20, (1 << 30) + 5, 12 << 30, 13 << 30, u64::MAX];
        let classes: Vec<u32> = sizes.iter().map(|&size| class_of(Bytes(size))).collect();
        assert!(classes.is_sorted(), "{classes:?}");
        assert_ne!(class_of(Bytes(12 << 30)), class_of(Bytes(13 << 30)));
    }

    #[test]
    fn the_least_loaded_with_room_is_found_wherever_it_moved() {
        let mut index = DeviceIndex::default();
        for (id, free, warps) in [(0, 100, 9), (1, 200, 5), (2, 300, 7), (3, 10, 0)] {
            index.put(DeviceId(id), keys(id, free, warps));
        }
        let free = [100, 200, 300, 10];
        let with_room = |wanted: u64| index.least_loaded(Bytes(wanted), |id| free[id.0 as usize] >= wanted);
        assert_eq!(with_room(5), Some(DeviceId(3)));
        assert_eq!(with_room(11), Some(DeviceId(1)));
        assert_eq!(with_room(201), Some(DeviceId(2)));
        assert_eq!(with_room(301), None);
        assert_eq!(index.open_by_free().collect::<Vec<_>>(), [DeviceId(3)]);
        index.put(DeviceId(2), keys(2, 0, 1));
        assert_eq!(index.most_free(), Bytes(200));
        assert_eq!(index.open_by_free().collect::<Vec<_>>(), [DeviceId(3), DeviceId(2)]);
        assert_eq!((index.len(), index.by_free().last()), (4, Some(DeviceId(2))));
    }
}
