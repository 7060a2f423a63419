//! Devices in the orders in which placement rules look at them, so that a decision does not look at each.
//!
//! Trap: an index is only as good as its upkeep. The ledger, which alone changes what a device holds, and the scheduler,
//! where a task's class changes, put a device back after every change; invariants compare all of it.

use crate::units::{Bytes, DeviceId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most free memory, then fewest warps, then lowest index.
pub(crate) type FreeKey = (Reverse<Bytes>, u64, DeviceId);
/// Fewest warps, then fewest tasks, then lowest index.
pub(crate) type LoadKey = (u64, usize, DeviceId);

/// What places a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    pub free: FreeKey,
    pub load: LoadKey,
    /// It can take another eager task.
    pub is_open: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceIndex {
    keys: BTreeMap<DeviceId, Keys>,
    by_free: BTreeSet<FreeKey>,
    open: BTreeSet<FreeKey>,
    /// By load within classes of free memory.
    by_load: BTreeMap<u32, BTreeSet<LoadKey>>,
}

impl DeviceIndex {
    /// Puts a device where it now belongs.
    pub fn put(&mut self, id: DeviceId, keys: Keys) {
        match self.keys.insert(id, keys) {
            Some(old) if old == keys => return,
            Some(old) => self.take_out(old),
            None => {}
        }
        self.by_free.insert(keys.free);
        self.by_load.entry(class_of(keys.free.0.0)).or_default().insert(keys.load);
        if keys.is_open {
            self.open.insert(keys.free);
        }
    }

    fn take_out(&mut self, keys: Keys) {
        self.by_free.remove(&keys.free);
        self.open.remove(&keys.free);
        let class = class_of(keys.free.0.0);
        let is_empty = self.by_load.get_mut(&class).is_some_and(|devices| {
            devices.remove(&keys.load);
            devices.is_empty()
        });
        if is_empty {
            self.by_load.remove(&class);
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
        let classes = self.by_load.range(class_of(wanted)..);
        let best = classes.filter_map(|(_, devices)| devices.iter().find(|(_, _, id)| fits(*id)));
        best.min().map(|&(_, _, id)| id)
    }
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
        Keys { free: (Reverse(Bytes(free)), warps, id), load: (warps, 0, id), is_open: warps < 5 }
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
