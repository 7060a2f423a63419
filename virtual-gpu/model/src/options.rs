//! What can be switched or varied in the model, with the defaults and where they come from.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// Switches and sensitivity factors. [`Options::default`] is a driver without MPS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Contexts share the SMs as one pool, stream priorities compare between processes, and a page fault stops only
    /// its own kernel (UM model §2.2–2.4). Without it contexts are time-sliced whole and a fault stalls all.
    pub mps: bool,
    /// The driver's density prefetcher grows a fault to 2 MiB (UM model §1.1).
    pub prefetcher: bool,
    /// Part of the paging time that a kernel's other warps hide, 0–0.3 (UM model §4.4).
    pub overlap: f64,
    /// Time slice of a context (UM model §2.2: 1,024 µs).
    pub slice: Nanos,
    /// Lost at each switch between contexts (UM model §2.2: 30–100 µs).
    pub slice_switch: Nanos,
    /// From launch to start on an idle device (UM model §2.5).
    pub launch: Nanos,
    /// Least time from one launch to the next (UM model §2.5).
    pub launch_interval: Nanos,
    /// Least time of one wave of blocks (UM model §4.2, `t_block`; estimate).
    pub wave: Nanos,
    /// Device memory of a context; `None`: 450 MiB without MPS (UM model §4.4), 100 MiB with it (design study §1).
    pub context_bytes: Option<u64>,
    /// What creating a context costs its process (UM model §4.4); the model reports it, the caller waits.
    pub context_create: Nanos,
    /// Part of the DRAM's data-sheet rate that kernels reach (UM model §4.2).
    pub dram_efficiency: f64,
    /// Part of the peak arithmetic rate that kernels reach (UM model §4.2: 0.4–0.6).
    pub compute_efficiency: f64,
    /// Least part of the SMs that a running kernel keeps from others, for kernels that only wait for memory
    /// (design study §1; a guess).
    pub sm_floor: f64,
    /// A kernel on managed memory that is all resident is slower by this (UM model §4.4: 1 %).
    pub managed_overhead: f64,
    /// Rate of a pageable copy as part of a pinned one (UM model §4.3).
    pub pageable_factor: f64,
    /// One host thread's copy, bytes per second (UM model §4.3: 5–10 GB/s).
    pub host_copy_bytes_per_s: f64,
    /// Overrides the card's link: rate in one direction while the other is busy.
    pub duplex: Option<f64>,
    /// Scales the rate inside a fault batch (UM model §4.4: ±30 %).
    pub migrate_factor: f64,
    /// Scales the fixed cost of a fault batch (UM model §4.4: 20–100 µs).
    pub batch_factor: f64,
    /// Blocks of 2 MiB that one fault batch serves when a kernel streams (UM model §4.3).
    pub batch_blocks: u32,
    /// Blocks paged between two looks at the rest of the device: resolution of the simulation, not of the driver.
    pub step_blocks: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mps: false,
            prefetcher: true,
            overlap: 0.0,
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
            duplex: None,
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
