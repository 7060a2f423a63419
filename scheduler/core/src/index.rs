//! Devices in the orders in which placement rules search them, so that a decision does not look at every device.
//!
//! Trap: code that changes what a device holds must put the device back into the index. The ledger does so for grants,
//! the scheduler for a task's class; the invariants compare the whole index.

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

/// Sort keys of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub free: FreeKey,
    pub load: LoadKey,
    pub tasks: TasksKey,
    /// The device can take another eager task.
    pub is_open: bool,
}

/// Orders that the index maintains. Policies that do not count memory search by tasks, all others by load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Orders {
    #[default]
    ByMemory,
    ByTasks,
    /// For `case` beside a replaced policy of the other kind.
    Both,
}

impl Orders {
    /// Orders that a policy with this memory rule searches.
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
    /// By load, within classes of similar free memory.
    by_load: BTreeSet<(u32, LoadKey)>,
    by_tasks: BTreeSet<TasksKey>,
}

impl DeviceIndex {
    pub fn of(orders: Orders) -> DeviceIndex {
        DeviceIndex { orders, ..DeviceIndex::default() }
    }

    /// Inserts a device, or moves it to where its keys place it now.
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

    /// The most free memory of any device; 0 without devices.
    pub fn most_free(&self) -> Bytes {
        self.by_free.first().map_or(Bytes::ZERO, |&(Reverse(free), _, _)| free)
    }

    /// All devices, the most free memory first.
    pub fn by_free(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.by_free.iter().map(|&(_, _, id)| id)
    }

    /// Devices that can take another eager task, the most free memory first.
    pub fn open_by_free(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.open.iter().map(|&(_, _, id)| id)
    }

    /// The least loaded device that `fits`. Devices in size classes below that of `wanted` are skipped. Few classes
    /// contain devices, and only in the first can a device have too little memory.
    pub fn least_loaded(&self, wanted: Bytes, fits: impl Fn(DeviceId) -> bool) -> Option<DeviceId> {
        let mut best: Option<LoadKey> = None;
        let mut next = self.first_of_class(class_of(wanted));
        while let Some((class, _)) = next {
            let devices = self.by_load.range((class, FIRST_LOAD)..).take_while(|(of, _)| *of == class);
            // Within the class, no device behind the best one so far can be better.
            let better = devices.map(|&(_, key)| key).take_while(|key| best.is_none_or(|best| *key < best));
            best = better.into_iter().find(|(_, _, id)| fits(*id)).or(best);
            next = self.first_of_class(class + 1);
        }
        best.map(|(_, _, id)| id)
    }

    fn first_of_class(&self, class: u32) -> Option<(u32, LoadKey)> {
        self.by_load.range((class, FIRST_LOAD)..).next().copied()
    }

    /// The first device in order of tasks that `fits`.
    pub fn fewest_tasks(&self, fits: impl Fn(DeviceId) -> bool) -> Option<DeviceId> {
        self.by_tasks.iter().map(|&(_, _, id)| id).find(|id| fits(*id))
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

/// Class of a size: sizes whose five leading bits are equal, at most 6 % apart.
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
