//! Simulator jobs at full size, from a configuration's trace.
//!
//! Trap: a descriptor stands for the program as published, not for the scaled run that the virtual GPU executes.

use crate::expression::ExpressionError;
use crate::host::{HostPhases, HostTimes};
use crate::program::{Class, Configuration, Program};
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
        let host = HostPhases::Known { seconds: &configuration.host, times: *times };
        let mut ops = self.trace(&configuration.full, &host)?.ops;
        if times.allocate_first {
            allocate_first(&mut ops);
        }
        let class_label = match configuration.class {
            Class::Small => SizeLabel::S,
            Class::Large => SizeLabel::L,
        };
        Ok(Job { name: configuration.id.0.clone(), class_label, ops })
    }
}

/// Moves the host work before the first allocations behind them.
fn allocate_first(ops: &mut [JobOp]) {
    let host = ops.iter().take_while(|op| matches!(op, JobOp::Host { .. })).count();
    let set_up = ops[host..]
        .iter()
        .take_while(|op| matches!(op, JobOp::TaskBegin { .. } | JobOp::Alloc { .. }))
        .count();
    ops[..host + set_up].rotate_left(host);
}
