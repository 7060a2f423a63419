//! Converts a job to the steps of its program, with loops and gaps between launches unrolled.
//!
//! Trap: a row of equal launches stays one step; the shim splits it where a gate may close between launches.

use crate::job::{JobOp, KernelOp};

/// A step of a program, with loops and gaps unrolled.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    Host(f64),
    /// Waits until the stream is empty.
    Synchronize,
    Launch {
        kernel: &'a KernelOp,
        launches: u32,
    },
    Other(&'a JobOp),
}

/// Unrolls a job's loops.
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
