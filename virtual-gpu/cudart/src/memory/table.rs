//! Allocations of the process, by address. Pure.
//!
//! Every call except a free accepts a pointer into the middle of an allocation as well as its start.

use std::collections::BTreeMap;
use std::sync::Arc;

use eager_gpu_model::{AllocId, AllocKind, Range};

/// Kind of memory of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Page-locked host memory, unknown to the model: made by the runtime, or by the program and registered with these
    /// flags.
    Pinned { flags: u32, registered: bool },
    /// Known to the model.
    Modelled { alloc: AllocId, kind: AllocKind },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub address: u64,
    pub bytes: u64,
    /// Device of the context that owns it.
    pub device: u32,
    pub kind: Kind,
}

impl Allocation {
    pub fn is_pinned(&self) -> bool {
        matches!(self.kind, Kind::Pinned { .. })
    }

    pub fn is_managed(&self) -> bool {
        matches!(self.kind, Kind::Modelled { kind: AllocKind::Managed, .. })
    }

    /// Range of `bytes` from `address` on; `None` if it leaves the allocation.
    pub fn range(&self, address: u64, bytes: u64) -> Option<Range> {
        let offset = address.checked_sub(self.address)?;
        (offset.checked_add(bytes)? <= self.bytes).then_some(Range { offset, bytes })
    }
}

/// Allocations that a kernel may touch: those that the model knows, by ascending address.
#[derive(Debug)]
pub struct Modelled {
    pub allocations: Box<[Allocation]>,
    pub some_are_managed: bool,
}

/// All live allocations.
#[derive(Debug, Default)]
pub struct Table {
    by_address: BTreeMap<u64, Allocation>,
    /// Cached for all launches until the next change: programs launch far more often than they allocate.
    modelled: Option<Arc<Modelled>>,
}

impl Table {
    pub fn insert(&mut self, allocation: Allocation) {
        self.modelled = None;
        let previous = self.by_address.insert(allocation.address, allocation);
        assert!(previous.is_none(), "two allocations at one address");
    }

    /// The allocation that contains `address`.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, candidate) = self.by_address.range(..=address).next_back()?;
        (address < candidate.address + candidate.bytes).then_some(candidate)
    }

    /// The allocation that starts at `address`.
    pub fn starting_at(&self, address: u64) -> Option<&Allocation> {
        self.by_address.get(&address)
    }

    /// True if any allocation overlaps the range.
    pub fn overlaps(&self, address: u64, bytes: u64) -> bool {
        let last_before_end = self.by_address.range(..address.saturating_add(bytes)).next_back();
        last_before_end.is_some_and(|(_, found)| found.address + found.bytes > address)
    }

    pub fn remove(&mut self, address: u64) -> Option<Allocation> {
        self.modelled = None;
        self.by_address.remove(&address)
    }

    /// Returns the modelled allocations as they are now; later changes do not affect it.
    pub fn modelled(&mut self) -> Arc<Modelled> {
        let all = &self.by_address;
        let made = self.modelled.get_or_insert_with(|| {
            let allocations: Box<[_]> = all.values().filter(|found| !found.is_pinned()).copied().collect();
            let some_are_managed = allocations.iter().any(Allocation::is_managed);
            Arc::new(Modelled { allocations, some_are_managed })
        });
        Arc::clone(made)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.by_address.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_into_the_middle_are_found_and_the_end_is_outside() {
        let mut table = Table::default();
        let kind = Kind::Modelled { alloc: AllocId(7), kind: AllocKind::Device };
        table.insert(Allocation { address: 0x1000, bytes: 16, device: 0, kind });
        assert_eq!(table.find(0x100f).unwrap().address, 0x1000);
        assert!(table.find(0x1010).is_none() && table.find(0xfff).is_none());
        let allocation = table.find(0x1008).unwrap();
        assert_eq!(allocation.range(0x1008, 8), Some(Range { offset: 8, bytes: 8 }));
        assert_eq!(allocation.range(0x1008, 9), None);
        assert_eq!(allocation.range(0x1008, u64::MAX), None);
        assert!(table.starting_at(0x1008).is_none());
        assert!(table.overlaps(0xff0, 17) && table.overlaps(0x100f, 1) && table.overlaps(0, u64::MAX));
        assert!(!table.overlaps(0xff0, 16) && !table.overlaps(0x1010, 16));
        assert!(table.remove(0x1000).is_some() && table.find(0x1008).is_none());
    }

    #[test]
    fn launches_share_the_modelled_allocations_until_one_comes_or_goes() {
        let allocation = |address, kind| Allocation { address, bytes: 16, device: 0, kind };
        let modelled = |kind| Kind::Modelled { alloc: AllocId(1), kind };
        let mut table = Table::default();
        table.insert(allocation(0x3000, modelled(AllocKind::Device)));
        table.insert(allocation(0x2000, Kind::Pinned { flags: 0, registered: false }));
        let before = table.modelled();
        assert!(Arc::ptr_eq(&before, &table.modelled()) && !before.some_are_managed);
        table.insert(allocation(0x1000, modelled(AllocKind::Managed)));
        let after = table.modelled();
        let addresses = |of: &Modelled| of.allocations.iter().map(|found| found.address).collect::<Vec<_>>();
        assert_eq!((addresses(&before), addresses(&after)), (vec![0x3000], vec![0x1000, 0x3000]));
        assert!(after.some_are_managed);
        table.remove(0x1000);
        assert_eq!(addresses(&table.modelled()), [0x3000]);
    }
}
