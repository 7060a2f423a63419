//! `EL_p_b` (specification S-212): priorities and barrier together.

use super::{GateRule, Placement, Policy, Traits, placement};
use crate::model::{Task, View};

#[derive(Debug)]
pub(super) struct EagerPb;

impl Policy for EagerPb {
    fn traits(&self) -> Traits {
        Traits { priorities: true, gate: GateRule::Barrier, ..Traits::EAGER }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager(view, task)
    }
}
