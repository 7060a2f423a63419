//! The footprint profile: per kernel, the memory that its arguments can reach and the memory that it touched
//! (specification S-219). Pure; the caller writes the file.
//!
//! Footprints are whole blocks, in program bytes; a profile made at one memory scale is not valid at another.

use std::collections::BTreeMap;

use eager_gpu_model::AllocId;
use serde::Serialize;

use super::accesses::Touched;
use crate::memory::Kind;
use eager_exec::LaunchCost;

/// Version of the file's format.
const PROFILE_VERSION: u32 = 1;
/// A kernel is sparse if its footprint is below this part of the static size (specification S-405).
const SPARSE_BELOW: f64 = 0.1;
/// A kernel is cyclic if launches touch the same blocks again, at least this part of the static size.
const CYCLIC_FROM: f64 = 0.5;

/// How a kernel's launches visit their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// The kernel was not compiled to record its accesses.
    Unknown,
    OnePass,
    Cyclic,
    Sparse,
}

/// Maxima over the launches of one kernel.
#[derive(Debug, Clone, Serialize)]
pub struct KernelProfile {
    /// Sum of the sizes of the allocations that the arguments point to.
    pub static_bytes: u64,
    /// Bytes of the blocks touched.
    pub footprint_bytes: u64,
    pub launches: u64,
    pub access: AccessKind,
    /// Information for people; the scheduler does not use it.
    pub detail: Detail,
    #[serde(skip)]
    repeats: bool,
    #[serde(skip)]
    last_touched: BTreeMap<(AllocId, u64), u64>,
}

/// Further measurements of a kernel: sums over its launches, except the footprints, which are maxima.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// Modelled time of all launches, including waits for other work on the device.
    pub device_ns: u64,
    /// Bytes of executed global loads and stores, and floating-point operations in single and in double precision.
    pub global_bytes: u64,
    pub flops32: u64,
    pub flops64: u64,
    /// Footprints in whole pages of 4 KiB, blocks of 64 KiB and blocks of 2 MiB, counted from each allocation's start.
    pub footprint_4k_bytes: u64,
    pub footprint_64k_bytes: u64,
    pub footprint_2m_bytes: u64,
}

/// All kernels of a process.
#[derive(Debug, Serialize)]
pub struct Profile {
    version: u32,
    kernels: BTreeMap<String, KernelProfile>,
}

/// Data of a launch for the profile.
#[derive(Debug)]
pub struct LaunchSample<'a> {
    pub kernel: &'a str,
    pub static_bytes: u64,
    /// Touched memory in blocks of the model; `None`: not recorded.
    pub touched: Option<&'a [Touched]>,
    pub block_bytes: u64,
    /// Touched memory in pages.
    pub pages: &'a [Touched],
    pub cost: LaunchCost,
}

impl Profile {
    pub fn new() -> Profile {
        Profile { version: PROFILE_VERSION, kernels: BTreeMap::new() }
    }

    pub fn add(&mut self, sample: &LaunchSample<'_>) {
        let kernel = self.kernels.entry(sample.kernel.to_owned()).or_insert_with(|| KernelProfile {
            static_bytes: 0,
            footprint_bytes: 0,
            launches: 0,
            access: AccessKind::Unknown,
            detail: Detail::default(),
            repeats: false,
            last_touched: BTreeMap::new(),
        });
        kernel.launches += 1;
        kernel.static_bytes = kernel.static_bytes.max(sample.static_bytes);
        if let Some(touched) = sample.touched {
            kernel.add_touched(touched, sample.block_bytes);
        }
        kernel.detail.add(sample);
    }

    /// Adds the modelled time of a launch that was added before.
    pub fn took(&mut self, kernel: &str, device_ns: u64) {
        if let Some(kernel) = self.kernels.get_mut(kernel) {
            kernel.detail.device_ns += device_ns;
        }
    }
}

impl Detail {
    fn add(&mut self, sample: &LaunchSample<'_>) {
        self.global_bytes += sample.cost.global_bytes;
        self.flops32 += sample.cost.flops32;
        self.flops64 += sample.cost.flops64;
        for (most, block_bytes) in [
            (&mut self.footprint_4k_bytes, 4 << 10),
            (&mut self.footprint_64k_bytes, 64 << 10),
            (&mut self.footprint_2m_bytes, 2 << 20),
        ] {
            *most = (*most).max(sample.pages.iter().map(|touched| whole_blocks(touched, block_bytes)).sum());
        }
    }
}

/// Bytes of an allocation's blocks of size `block_bytes` that were touched; the last block ends with the allocation.
fn whole_blocks(touched: &Touched, block_bytes: u64) -> u64 {
    let (mut bytes, mut counted_to) = (0, 0);
    for range in &touched.ranges {
        let from = (range.offset / block_bytes * block_bytes).max(counted_to);
        let to = (range.offset + range.bytes).next_multiple_of(block_bytes).min(touched.allocation.bytes);
        bytes += to.saturating_sub(from);
        counted_to = counted_to.max(to);
    }
    bytes
}

impl KernelProfile {
    fn add_touched(&mut self, touched: &[Touched], block_bytes: u64) {
        let ranges: BTreeMap<(AllocId, u64), u64> = touched
            .iter()
            .filter_map(|touched| match touched.allocation.kind {
                Kind::Modelled { alloc, .. } => Some((alloc, touched)),
                Kind::Pinned { .. } => None,
            })
            .flat_map(|(alloc, touched)| {
                touched.ranges.iter().map(move |range| ((alloc, range.offset), range.bytes))
            })
            .collect();
        let footprint_bytes: u64 = ranges.values().map(|bytes| bytes.next_multiple_of(block_bytes)).sum();
        self.footprint_bytes = self.footprint_bytes.max(footprint_bytes);
        let again_bytes = overlap_bytes(&self.last_touched, &ranges);
        self.repeats |= self.launches > 1 && again_bytes as f64 >= CYCLIC_FROM * self.static_bytes as f64;
        self.last_touched = ranges;
        self.access = if (self.footprint_bytes as f64) < SPARSE_BELOW * self.static_bytes as f64 {
            AccessKind::Sparse
        } else if self.repeats {
            AccessKind::Cyclic
        } else {
            AccessKind::OnePass
        };
    }
}

/// Number of bytes in both sets of disjoint ranges.
fn overlap_bytes(left: &BTreeMap<(AllocId, u64), u64>, right: &BTreeMap<(AllocId, u64), u64>) -> u64 {
    let mut sum = 0;
    for (&(alloc, offset), &bytes) in right {
        // The first candidate may begin before `offset`.
        let before = left.range(..(alloc, offset)).next_back();
        let within = left.range((alloc, offset)..(alloc, offset + bytes));
        for (&(other, other_offset), &other_bytes) in before.into_iter().chain(within) {
            if other == alloc {
                let end = (offset + bytes).min(other_offset + other_bytes);
                sum += end.saturating_sub(offset.max(other_offset));
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Allocation;
    use eager_gpu_model::{AllocKind, Range};

    fn touched(offset: u64, bytes: u64) -> Touched {
        let kind = Kind::Modelled { alloc: AllocId(1), kind: AllocKind::Managed };
        let allocation = Allocation { address: 0x1000, bytes: 1 << 20, device: 0, kind };
        Touched { allocation, ranges: vec![Range { offset, bytes }], written: false }
    }

    fn profile(launches: &[(u64, u64)]) -> KernelProfile {
        let mut profile = Profile::new();
        for &(offset, bytes) in launches {
            let touched = [touched(offset, bytes)];
            let (static_bytes, block_bytes) = (1 << 20, 4096);
            let sample =
                LaunchSample { touched: Some(&touched), pages: &touched, ..unseen("k", static_bytes) };
            profile.add(&LaunchSample { block_bytes, ..sample });
        }
        profile.kernels["k"].clone()
    }

    fn unseen(kernel: &str, static_bytes: u64) -> LaunchSample<'_> {
        let cost = LaunchCost::default();
        LaunchSample { kernel, static_bytes, touched: None, block_bytes: 4096, pages: &[], cost }
    }

    #[test]
    fn footprints_count_each_block_of_a_size_once() {
        let mut two = touched(4096, 4096);
        two.ranges.push(Range { offset: 3 * 4096, bytes: 4096 });
        two.ranges.push(Range { offset: (1 << 20) - 4096, bytes: 4096 });
        let sizes = [4 << 10, 64 << 10, 2 << 20].map(|block_bytes| whole_blocks(&two, block_bytes));
        assert_eq!(sizes, [3 * 4096, 2 * 65536, 1 << 20], "the allocation ends before its first 2 MiB");
    }

    #[test]
    fn costs_and_times_are_sums_over_the_launches() {
        let mut profile = Profile::new();
        let cost = LaunchCost { global_bytes: 8, flops32: 2, flops64: 1 };
        for _ in 0..3 {
            profile.add(&LaunchSample { cost, ..unseen("k", 64) });
            profile.took("k", 1000);
        }
        let detail = &profile.kernels["k"].detail;
        assert_eq!((detail.device_ns, detail.global_bytes, detail.flops32, detail.flops64), (3000, 24, 6, 3));
    }

    #[test]
    fn access_kinds_follow_from_footprint_and_repetition() {
        let half = 1 << 19;
        assert_eq!(profile(&[(0, half)]).access, AccessKind::OnePass);
        assert_eq!(profile(&[(0, half), (half, half)]).access, AccessKind::OnePass);
        assert_eq!(profile(&[(0, half), (0, half)]).access, AccessKind::Cyclic);
        assert_eq!(profile(&[(0, 4096), (0, 4096)]).access, AccessKind::Sparse);
    }

    #[test]
    fn sizes_are_maxima_in_whole_blocks() {
        let kernel = profile(&[(0, 5000), (8192, 100)]);
        assert_eq!((kernel.static_bytes, kernel.footprint_bytes, kernel.launches), (1 << 20, 8192, 2));
    }

    #[test]
    fn the_file_has_the_documented_layout() {
        let mut profile = Profile::new();
        profile.add(&unseen("_Z1kv", 5));
        let expected = concat!(
            r#"{"version":1,"kernels":{"_Z1kv":{"static_bytes":5,"footprint_bytes":0,"launches":1,"access":"unknown","#,
            r#""detail":{"device_ns":0,"global_bytes":0,"flops32":0,"flops64":0,"footprint_4k_bytes":0,"#,
            r#""footprint_64k_bytes":0,"footprint_2m_bytes":0}}}}"#
        );
        assert_eq!(serde_json::to_string(&profile).unwrap(), expected);
    }
}
