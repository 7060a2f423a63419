//! `EL` (eager launch specification §4): start on what is free when the whole requirement is free nowhere. Nothing
//! protects the Normal tasks on the device, so two large tasks can slow each other down many times.

use super::{GateRule, Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;

#[derive(Debug)]
pub(super) struct Eager;

impl Policy for Eager {
    fn traits(&self) -> Traits {
        Traits {
            queue: QueueOrder::Fifo,
            eager: true,
            priorities: false,
            gate: GateRule::None,
            endless_memory: false,
        }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager(view, task)
    }
}
