//! A bound for simulation: CASE on devices whose memory never ends. Not for real devices, where it over-commits.

use super::{GateRule, Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;

#[derive(Debug)]
pub(super) struct Infinite;

impl Policy for Infinite {
    fn traits(&self) -> Traits {
        Traits {
            queue: QueueOrder::LargestFirst,
            eager: false,
            priorities: false,
            gate: GateRule::None,
            endless_memory: true,
        }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_wait(view, task)
    }
}
