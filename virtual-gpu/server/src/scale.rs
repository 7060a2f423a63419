//! Converts program bytes to modelled bytes, and real time to modelled time. Pure.
//!
//! Under memory scale N a program of 1/N size represents the full one: its bytes, and with them the work of its kernels
//! and the number of their blocks, count N times. This holds for work in proportion to the data (the seven programs of
//! the evaluation); a kernel of quadratic work would need N² and is modelled too fast.

use eager_gpu_model::{Access, Kernel, MemoryInfo, Nanos, Op, Range};

/// Nanoseconds of real time since the service began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RealNanos(pub u64);

/// How the server's clock runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Clock {
    /// Real time, by [`Scale::time`].
    #[default]
    Real,
    /// Modelled device time and the programs' own host time, whatever the machine takes to compute the results;
    /// [`Scale::time`] plays no part. `host_factor`: modelled seconds per second of a program's processor time.
    Virtual { host_factor: f64 },
}

/// The scales of memory and time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Modelled bytes per program byte, at least 1.
    pub memory: u64,
    /// Real nanoseconds per modelled nanosecond; 0: modelled time jumps from event to event without waiting.
    pub time: f64,
}

impl Scale {
    /// Modelled time at a real time; `None` when time jumps, so that they are unrelated.
    pub fn modelled(&self, real: RealNanos) -> Option<Nanos> {
        (self.time > 0.0).then(|| Nanos((real.0 as f64 / self.time) as u64))
    }

    /// Earliest real time at which [`Scale::modelled`] has certainly reached `modelled`.
    pub fn real(&self, modelled: Nanos) -> RealNanos {
        RealNanos(((modelled.0 as f64 * self.time).ceil() as u64).saturating_add(1))
    }

    pub fn to_model_bytes(&self, program_bytes: u64) -> u64 {
        program_bytes.saturating_mul(self.memory)
    }

    pub fn to_program_bytes(&self, model_bytes: u64) -> u64 {
        model_bytes / self.memory
    }

    pub fn range(&self, range: Range) -> Range {
        Range { offset: self.to_model_bytes(range.offset), bytes: self.to_model_bytes(range.bytes) }
    }

    pub fn memory_info(&self, info: MemoryInfo) -> MemoryInfo {
        MemoryInfo {
            total: self.to_program_bytes(info.total),
            free: self.to_program_bytes(info.free),
            device_bytes: self.to_program_bytes(info.device_bytes),
            managed_resident: self.to_program_bytes(info.managed_resident),
            context_bytes: self.to_program_bytes(info.context_bytes),
            host_bytes: self.to_program_bytes(info.host_bytes),
        }
    }

    /// The operation as the model sees it.
    pub fn op(&self, op: Op) -> Op {
        match op {
            Op::Kernel(kernel) => Op::Kernel(self.kernel(kernel)),
            Op::CopyToDevice { alloc, range, pinned } => {
                Op::CopyToDevice { alloc, range: self.range(range), pinned }
            }
            Op::CopyToHost { alloc, range, pinned } => {
                Op::CopyToHost { alloc, range: self.range(range), pinned }
            }
            Op::CopyOnDevice { from, from_range, to, to_offset } => Op::CopyOnDevice {
                from,
                from_range: self.range(from_range),
                to,
                to_offset: self.to_model_bytes(to_offset),
            },
            Op::Fill { alloc, range } => Op::Fill { alloc, range: self.range(range) },
            Op::Prefetch { alloc, range, to } => Op::Prefetch { alloc, range: self.range(range), to },
            Op::HostAccess { alloc, range } => Op::HostAccess { alloc, range: self.range(range) },
            Op::HostFault { alloc, range } => Op::HostFault { alloc, range: self.range(range) },
        }
    }

    fn kernel(&self, kernel: Kernel) -> Kernel {
        let access = |access: Access| Access {
            ranges: access.ranges.into_iter().map(|range| self.range(range)).collect(),
            ..access
        };
        Kernel {
            blocks: kernel.blocks.saturating_mul(self.memory),
            dram_bytes: kernel.dram_bytes.saturating_mul(self.memory),
            flops32: kernel.flops32.saturating_mul(self.memory),
            flops64: kernel.flops64.saturating_mul(self.memory),
            accesses: kernel.accesses.into_iter().map(access).collect(),
            ..kernel
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_time_of_an_event_is_late_enough_to_reach_it() {
        for time in [1e-6, 0.01, 1.0 / 3.0, 1.0, 7.77, 1e4] {
            let scale = Scale { memory: 1, time };
            for modelled in [0, 1, 999, 1_024_000, 123_456_789_012, 86_400_000_000_000] {
                let reached = scale.modelled(scale.real(Nanos(modelled))).unwrap();
                assert!(reached >= Nanos(modelled), "time scale {time}, {modelled} ns, reached {reached:?}");
            }
        }
    }
}
