//! `EL_b` (specification S-211): `EL` with a barrier before the first kernel of an eager task, open once every
//! Normal task there has launched its last. A Normal task with long host work keeps the device idle behind it.

use super::{GateRule, Placement, Policy, Traits, placement};
use crate::model::{Task, View};

#[derive(Debug)]
pub(super) struct EagerB;

impl Policy for EagerB {
    fn traits(&self) -> Traits {
        Traits { gate: GateRule::Barrier, ..Traits::EAGER }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager(view, task)
    }
}
