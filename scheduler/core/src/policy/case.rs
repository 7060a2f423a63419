//! CASE (Chen et al., PPoPP 2022) as its authors run it: wait until the whole requirement fits; at each release every
//! waiter is tried again, largest first. It backfills, so a large task can be overtaken without bound.

use super::{GateRule, Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;

#[derive(Debug)]
pub(super) struct Case;

impl Policy for Case {
    fn traits(&self) -> Traits {
        Traits {
            queue: QueueOrder::LargestFirst,
            eager: false,
            priorities: false,
            gate: GateRule::None,
            endless_memory: false,
        }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_wait(view, task)
    }
}
