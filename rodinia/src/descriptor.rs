//! Simulator jobs from a configuration's trace: at full size, or as the scaled run on a virtual GPU.
//!
//! Trap: a descriptor describes the program as published; the scaled run differs from it in more than size (fewer
//! iterations, other grids), so only [`Program::scaled_descriptor`] may be compared with real processes.

use crate::expression::ExpressionError;
use crate::host::{HostPhases, HostTimes};
use crate::manifest::Class;
use crate::program::{Configuration, MEMORY_SCALE, Program, Run};
use eager_sim::job::{Job, JobOp, SizeLabel};

impl Program {
    /// The simulator's job for one of this program's configurations.
    ///
    /// # Errors
    /// A formula has no value; cannot happen for a configuration of a parsed manifest.
    pub fn descriptor(
        &self,
        configuration: &Configuration,
        times: &HostTimes,
    ) -> Result<Job, ExpressionError> {
        let mut ops = self.operations_with_host(&configuration.full, configuration, times)?;
        if times.allocate_first {
            allocate_first(&mut ops);
        }
        Ok(job(configuration, ops))
    }

    /// The simulator's job for the scaled run of a configuration on devices with a memory scale of [`MEMORY_SCALE`]:
    /// the scaled program, with each byte and each operation counted that many times. Host phases are those of the
    /// configuration at full size.
    ///
    /// # Errors
    /// As [`Program::descriptor`].
    pub fn scaled_descriptor(
        &self,
        configuration: &Configuration,
        times: &HostTimes,
    ) -> Result<Job, ExpressionError> {
        let mut ops = self.operations_with_host(&configuration.scaled, configuration, times)?;
        scale(&mut ops);
        Ok(job(configuration, ops))
    }

    /// Host phases of the scaled run: for each, the number of copies to the host before it, and its seconds.
    ///
    /// # Errors
    /// As [`Program::descriptor`].
    pub fn host_phases(
        &self,
        configuration: &Configuration,
        times: &HostTimes,
    ) -> Result<Vec<(u32, f64)>, ExpressionError> {
        fn walk(ops: &[JobOp], downloads: &mut u32, phases: &mut Vec<(u32, f64)>) {
            for op in ops {
                match op {
                    JobOp::CopyToHost { .. } => *downloads += 1,
                    JobOp::Host { seconds } => phases.push((*downloads, *seconds)),
                    JobOp::Repeat { times, ops } => (0..*times).for_each(|_| walk(ops, downloads, phases)),
                    _ => {}
                }
            }
        }
        let ops = self.operations_with_host(&configuration.scaled, configuration, times)?;
        let mut phases = Vec::new();
        walk(&ops, &mut 0, &mut phases);
        Ok(phases)
    }

    fn operations_with_host(
        &self,
        run: &Run,
        configuration: &Configuration,
        times: &HostTimes,
    ) -> Result<Vec<JobOp>, ExpressionError> {
        let host = HostPhases::Known { seconds: &configuration.host, times: *times };
        Ok(self.trace(run, &host)?.ops)
    }
}

fn job(configuration: &Configuration, ops: Vec<JobOp>) -> Job {
    let class_label = match configuration.class {
        Class::Small => SizeLabel::S,
        Class::Large => SizeLabel::L,
    };
    Job { name: configuration.id.0.clone(), class_label, informed: true, nice: 0, ops }
}

/// Multiplies the values that a virtual GPU of that memory scale multiplies. The geometry that a task announces is
/// kept, since the daemon sees the program's own.
fn scale(ops: &mut [JobOp]) {
    for op in ops {
        match op {
            JobOp::TaskBegin { requirement, .. } => *requirement *= MEMORY_SCALE,
            JobOp::Alloc { bytes, .. }
            | JobOp::CopyToDevice { bytes, .. }
            | JobOp::CopyToHost { bytes, .. }
            | JobOp::CopyOnDevice { bytes, .. }
            | JobOp::Fill { bytes, .. } => *bytes *= MEMORY_SCALE,
            JobOp::Kernel(kernel) => {
                kernel.blocks *= MEMORY_SCALE;
                kernel.dram_bytes *= MEMORY_SCALE;
                kernel.flops32 *= MEMORY_SCALE;
                kernel.flops64 *= MEMORY_SCALE;
                kernel.footprint *= MEMORY_SCALE;
            }
            JobOp::Repeat { ops, .. } => scale(ops),
            JobOp::Host { .. } | JobOp::AllLaunched | JobOp::Free { .. } | JobOp::TaskEnd => {}
        }
    }
}

/// Moves the host work before the first allocations to after them.
fn allocate_first(ops: &mut [JobOp]) {
    let host = ops.iter().take_while(|op| matches!(op, JobOp::Host { .. })).count();
    let set_up = ops[host..]
        .iter()
        .take_while(|op| matches!(op, JobOp::TaskBegin { .. } | JobOp::Alloc { .. }))
        .count();
    ops[..host + set_up].rotate_left(host);
}
