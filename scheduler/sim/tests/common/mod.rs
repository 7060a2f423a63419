//! Small jobs for tests, shaped like the programs of the evaluation.
// Each test program uses only a part of this.
#![allow(dead_code)]

use eager_core::PolicyName;
use eager_gpu_model::{Card, Pattern, card};
use eager_sim::SimOptions;
use eager_sim::job::*;
use eager_units::AccessClass;

pub const GIB: u64 = 1 << 30;

pub fn options(policy: PolicyName, devices: usize) -> SimOptions {
    let cards: Vec<Card> = vec![card("V100-16GB").unwrap(); devices];
    SimOptions { trace: true, journal: true, ..SimOptions::new(cards, policy) }
}

/// Shape of a job: host work, one buffer filled, a kernel that sweeps it `launches` times, copied out, output
/// written, freed. Times in seconds.
#[derive(Debug, Clone)]
pub struct Shape {
    pub name: &'static str,
    pub bytes: u64,
    pub host_before: f64,
    pub launches: u32,
    /// Host time after each launch; 0: back to back.
    pub gap: f64,
    /// Arithmetic of one launch, in seconds on a V100 at the model's efficiency.
    pub compute: f64,
    pub access: AccessClass,
    /// Host time between the copy out and the free, in which the memory is dead.
    pub tail: f64,
}

pub const CYCLIC: Shape = Shape {
    name: "cyclic",
    bytes: 12 * GIB,
    host_before: 1.0,
    launches: 100,
    gap: 0.0002,
    compute: 0.04,
    access: AccessClass::Cyclic,
    tail: 10.0,
};

pub const ONE_PASS: Shape = Shape {
    name: "one-pass",
    bytes: 6 * GIB,
    host_before: 2.0,
    launches: 1,
    gap: 0.0,
    compute: 5.0,
    access: AccessClass::OnePass,
    tail: 0.0,
};

pub fn job(shape: &Shape) -> Job {
    let card = card("V100-16GB").unwrap();
    let buffer = || "data".to_owned();
    let efficiency = eager_gpu_model::Options::default().compute_efficiency;
    let kernel = KernelOp {
        name: format!("{}_kernel", shape.name),
        launches: shape.launches,
        host_gap_s: shape.gap,
        blocks: 1 << 16,
        threads_per_block: 256,
        shared_bytes: 0,
        registers_per_thread: 32,
        dram_bytes: shape.bytes,
        flops32: 0,
        flops64: (shape.compute * card.flops64_per_s * efficiency) as u64,
        accesses: vec![BufferAccess {
            buffer: buffer(),
            parts: vec![],
            pattern: Pattern::Stream,
            density: 1.0,
            write: true,
        }],
        access_class: shape.access,
        footprint: shape.bytes,
    };
    let ops = vec![
        JobOp::Host { seconds: shape.host_before },
        JobOp::TaskBegin { requirement: shape.bytes, blocks: 1 << 16, threads_per_block: 256, lazy: false },
        JobOp::Alloc { buffer: buffer(), bytes: shape.bytes },
        JobOp::CopyToDevice { buffer: buffer(), bytes: shape.bytes, pinned: false },
        JobOp::Kernel(kernel),
        JobOp::AllLaunched,
        JobOp::CopyToHost { buffer: buffer(), bytes: shape.bytes / 8, pinned: false },
        JobOp::Host { seconds: shape.tail },
        JobOp::Free { buffer: buffer() },
        JobOp::TaskEnd,
    ];
    let class_label = if shape.bytes > 4 * GIB { SizeLabel::L } else { SizeLabel::S };
    Job { name: shape.name.to_owned(), class_label, informed: true, nice: 0, ops }
}
