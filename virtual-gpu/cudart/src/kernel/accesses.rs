//! Converts touched blocks to the model's accesses: ranges per allocation, density, pattern. Pure.
//!
//! Trap: the touch map knows whole blocks only; an allocation's last block must be cut to the allocation's end.

use eager_gpu_model::{Access, Pattern, Range};

use crate::memory::{Allocation, Kind};

/// A touched block, by index from the start of the touch map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TouchedBlock {
    pub index: u64,
    pub written: bool,
}

/// The address range in which block indices count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    pub base: u64,
    pub block_bytes: u64,
}

/// Parts of an allocation that a launch touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    pub allocation: Allocation,
    /// Ascending, disjoint and not adjacent.
    pub ranges: Vec<Range>,
    pub written: bool,
}

impl Touched {
    /// The whole of an allocation, for kernels that do not record touches.
    pub fn whole(allocation: Allocation) -> Touched {
        let ranges = vec![Range { offset: 0, bytes: allocation.bytes }];
        Touched { allocation, ranges, written: true }
    }

    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.bytes).sum()
    }
}

/// Groups touched blocks (ascending) by allocation (ascending by address); drops blocks outside all allocations.
pub fn by_allocation(blocks: Blocks, touched: &[TouchedBlock], allocations: &[Allocation]) -> Vec<Touched> {
    let first_of = |allocation: &Allocation| (allocation.address - blocks.base) / blocks.block_bytes;
    let end_of =
        |allocation: &Allocation| first_of(allocation) + allocation.bytes.div_ceil(blocks.block_bytes);
    let (mut rest, mut allocations) = (touched, allocations);
    let mut sorted = Vec::new();
    // Usually few blocks and many allocations: skips the allocations in between.
    while let Some(block) = rest.first() {
        let untouched = allocations.partition_point(|allocation| end_of(allocation) <= block.index);
        let Some((&allocation, others)) = allocations[untouched..].split_first() else { break };
        let (first, end) = (first_of(&allocation), end_of(&allocation));
        allocations = others;
        rest = &rest[rest.partition_point(|block| block.index < first)..];
        let (inside, after) = rest.split_at(rest.partition_point(|block| block.index < end));
        rest = after;
        if !inside.is_empty() {
            let ranges = merge(inside, first, blocks.block_bytes, allocation.bytes);
            sorted.push(Touched { allocation, ranges, written: inside.iter().any(|block| block.written) });
        }
    }
    sorted
}

fn merge(blocks: &[TouchedBlock], first: u64, block_bytes: u64, allocation_bytes: u64) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for block in blocks {
        let offset = (block.index - first) * block_bytes;
        let bytes = block_bytes.min(allocation_bytes - offset);
        match ranges.last_mut() {
            Some(last) if last.offset + last.bytes == offset => last.bytes += bytes,
            _ => ranges.push(Range { offset, bytes }),
        }
    }
    ranges
}

/// Accesses of a launch for the model. `global_bytes`: loads and stores that the kernel executed, 0 if not counted.
pub fn model_accesses(touched: &[Touched], global_bytes: u64) -> Vec<Access> {
    let touched_bytes: u64 = touched.iter().map(Touched::bytes).sum();
    // Loaded and stored bytes spread over touched bytes; reuse cannot raise the density of a block above 1.
    let density =
        if global_bytes == 0 { 1.0 } else { (global_bytes as f64 / touched_bytes.max(1) as f64).min(1.0) };
    touched
        .iter()
        .filter_map(|touched| match touched.allocation.kind {
            Kind::Pinned { .. } => None,
            Kind::Modelled { alloc, .. } => Some(Access {
                alloc,
                ranges: touched.ranges.clone(),
                pattern: pattern(&touched.ranges),
                density,
                write: touched.written,
            }),
        })
        .collect()
}

/// Random if the touches leave more than half of their span untouched, since the driver's prefetcher then gains
/// nothing; otherwise a sweep. The order in time is not recorded, so nothing finer can be derived.
fn pattern(ranges: &[Range]) -> Pattern {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Pattern::Stream };
    let span = last.offset + last.bytes - first.offset;
    let bytes: u64 = ranges.iter().map(|range| range.bytes).sum();
    if bytes * 2 < span { Pattern::Random } else { Pattern::Stream }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_gpu_model::{AllocId, AllocKind};

    const BLOCKS: Blocks = Blocks { base: 0x10_0000, block_bytes: 0x1000 };

    fn allocation(address: u64, bytes: u64) -> Allocation {
        let kind = Kind::Modelled { alloc: AllocId(address), kind: AllocKind::Managed };
        Allocation { address, bytes, device: 0, kind }
    }

    fn read(indices: &[u64]) -> Vec<TouchedBlock> {
        indices.iter().map(|&index| TouchedBlock { index, written: false }).collect()
    }

    #[test]
    fn blocks_become_merged_ranges_cut_to_the_allocation() {
        let allocations = [allocation(0x10_1000, 0x1800), allocation(0x10_8000, 0x10_0000)];
        let touched = by_allocation(BLOCKS, &read(&[0, 1, 2, 3, 8, 10, 11]), &allocations);
        assert_eq!(touched.len(), 2);
        assert_eq!(
            touched[0].ranges,
            [Range { offset: 0, bytes: 0x1800 }],
            "blocks 0 and 3 are in nobody's memory"
        );
        let far = [Range { offset: 0, bytes: 0x1000 }, Range { offset: 0x2000, bytes: 0x2000 }];
        assert_eq!(touched[1].ranges, far);
    }

    #[test]
    fn sparse_touches_are_random_and_density_is_bounded() {
        let allocations = [allocation(0x10_0000, 0x10_0000)];
        let touched = by_allocation(BLOCKS, &read(&[0, 9, 50]), &allocations);
        let [access] = &model_accesses(&touched, 0x300)[..] else { panic!("one allocation, one access") };
        assert_eq!((access.pattern, access.write), (Pattern::Random, false));
        assert!((access.density - 0x300 as f64 / 0x3000 as f64).abs() < 1e-12);
        assert_eq!(model_accesses(&touched, u64::MAX)[0].density, 1.0);
    }
}
