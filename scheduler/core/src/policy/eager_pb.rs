//! `EL_p_b` (eager launch specification §6): priorities and barrier together.

use super::{GateRule, Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;

#[derive(Debug)]
pub(super) struct EagerPb;

impl Policy for EagerPb {
    fn traits(&self) -> Traits {
        Traits {
            queue: QueueOrder::Fifo,
            eager: true,
            priorities: true,
            gate: GateRule::Barrier,
            endless_memory: false,
        }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager(view, task)
    }
}
