//! A job as the steps that its program takes: loops, and gaps between launches, written out.
//!
//! Trap: a row of equal launches stays one step; the shim cuts it into pieces where a gate may close between them.

use crate::job::{JobOp, KernelOp};

/// A program step after loops and gaps are written out.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    Host(f64),
    /// Wait until the stream is empty.
    Synchronize,
    Launch {
        kernel: &'a KernelOp,
        launches: u32,
    },
    Other(&'a JobOp),
}

/// Writes a job's loops out.
pub fn unroll<'a>(ops: &'a [JobOp], steps: &mut Vec<Step<'a>>) {
    for op in ops {
        match op {
            JobOp::Repeat { times, ops } => {
                for _ in 0..*times {
                    unroll(ops, steps);
                }
            }
            JobOp::Host { seconds } => steps.push(Step::Host(*seconds)),
            JobOp::Kernel(kernel) if kernel.host_gap_s > 0.0 => {
                for _ in 0..kernel.launches {
                    steps.push(Step::Launch { kernel, launches: 1 });
                    steps.push(Step::Synchronize);
                    steps.push(Step::Host(kernel.host_gap_s));
                }
            }
            JobOp::Kernel(kernel) => steps.push(Step::Launch { kernel, launches: kernel.launches }),
            other => steps.push(Step::Other(other)),
        }
    }
}
