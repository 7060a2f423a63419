//! Switches and parameters of the model, with their defaults and sources.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// Which block leaves a full device first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eviction {
    /// Least recently migrated in, regardless of later use, as in the driver (specification S-504).
    #[default]
    Migrated,
    /// Least recently used, unlike the driver; for comparison.
    Used,
}

/// How kernels of one pool share the SMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Blocks of the most urgent kernel first, then in the order of arrival; other kernels get the slots left over, and
    /// a kernel keeps its SMs while it waits for page faults (specification S-512).
    #[default]
    Leftover,
    /// Equal shares within a priority, as a fluid; a kernel that waits for faults gets nothing.
    Fair,
}

/// Switches and sensitivity factors. [`Options::default`] is a driver without MPS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Contexts share the SMs as one pool, stream priorities compare between processes, and a page fault stops only its
    /// own kernel (specification S-507, S-511). If false, contexts are time-sliced as a whole and a fault stalls all.
    pub mps: bool,
    /// Order of eviction.
    pub eviction: Eviction,
    /// How kernels share the SMs.
    pub placement: Placement,
    /// The driver's density prefetcher grows a fault to 2 MiB (specification S-503).
    pub prefetcher: bool,
    /// Part of the paging time that a kernel's other warps hide, 0–0.3 (specification S-615).
    pub overlap: f64,
    /// Without MPS, part of their full speed at which other contexts run during a fault batch. 0: they stop, according
    /// to the driver's comments (specification S-507).
    pub stall_leak: f64,
    /// Time slice of a context (specification S-510: 1,024 µs).
    pub slice: Nanos,
    /// Time lost at each switch between contexts (specification S-510: 30–100 µs).
    pub slice_switch: Nanos,
    /// Time from launch to start on an idle device (specification S-605).
    pub launch: Nanos,
    /// Least time from one launch to the next (specification S-605).
    pub launch_interval: Nanos,
    /// Least time of one wave of blocks (specification S-604: a guess).
    pub wave: Nanos,
    /// Device memory of a context; `None`: 450 MiB without MPS, 100 MiB with it (specification S-608).
    pub context_bytes: Option<u64>,
    /// Time to create a context (specification S-608: 0.1–0.5 s).
    pub context_create: Nanos,
    /// Part of the DRAM's data-sheet rate that kernels reach (specification S-602).
    pub dram_efficiency: f64,
    /// Part of the peak arithmetic rate that kernels reach (specification S-603: 0.4–0.6).
    pub compute_efficiency: f64,
    /// Least part of the SMs that a running kernel takes, which applies to kernels that only wait for memory
    /// (specification S-609: a guess).
    pub sm_floor: f64,
    /// Relative slowdown of a kernel on managed memory that is all resident (specification S-616: 1 %).
    pub managed_overhead: f64,
    /// Rate of a pageable copy relative to a pinned one (specification S-617).
    pub pageable_factor: f64,
    /// Rate of one host thread's copy, bytes per second (specification S-618: 5–10 GB/s).
    pub host_copy_bytes_per_s: f64,
    /// Rate of all host threads' copies together, bytes per second; `None`: unlimited.
    pub host_memory_bytes_per_s: Option<f64>,
    /// Overrides the card's link: rate in one direction while the other is busy.
    pub duplex: Option<f64>,
    /// Scales all costs of a fault batch, including evictions.
    pub fault_factor: f64,
    /// Scales the rate inside a fault batch (specification S-631: ±30 %).
    pub migrate_factor: f64,
    /// Scales the fixed cost of a fault batch (specification S-631: 20–100 µs).
    pub batch_factor: f64,
    /// Blocks of 2 MiB that one fault batch serves when a kernel streams (specification S-610).
    pub batch_blocks: u32,
    /// Blocks paged before the rest of the device is simulated again: resolution of the simulation, not of the driver
    /// (S-630).
    pub step_blocks: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mps: false,
            eviction: Eviction::Migrated,
            placement: Placement::Leftover,
            prefetcher: true,
            overlap: 0.0,
            stall_leak: 0.0,
            slice: Nanos(1_024_000),
            slice_switch: Nanos(40_000),
            launch: Nanos(5_000),
            launch_interval: Nanos(2_000),
            wave: Nanos(3_000),
            context_bytes: None,
            context_create: Nanos(300_000_000),
            dram_efficiency: 0.75,
            compute_efficiency: 0.5,
            sm_floor: 0.5,
            managed_overhead: 0.01,
            pageable_factor: 0.5,
            host_copy_bytes_per_s: 8e9,
            host_memory_bytes_per_s: None,
            duplex: None,
            fault_factor: 1.0,
            migrate_factor: 1.0,
            batch_factor: 1.0,
            batch_blocks: 8,
            step_blocks: 32,
        }
    }
}

impl Options {
    /// Device memory that one context takes, in bytes.
    pub fn context_memory(&self) -> u64 {
        let default = if self.mps { 100 << 20 } else { 450 << 20 };
        self.context_bytes.unwrap_or(default)
    }
}
