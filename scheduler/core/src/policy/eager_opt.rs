//! `EL_opt` (specification S-216): `EL_p_b` with both remedies. An eager kernel starts when every Normal task
//! there has launched its last, or when none of their kernels runs and the OS-ratio with its footprint stays allowed.
//! How the document joins the two remedies is reconstructed; the rule is in `gate.rs`.

use super::{GateRule, Placement, Policy, Traits, placement};
use crate::model::{Task, View};

#[derive(Debug)]
pub(super) struct EagerOpt;

impl Policy for EagerOpt {
    fn traits(&self) -> Traits {
        Traits { priorities: true, gate: GateRule::PerKernel, ..Traits::EAGER }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager(view, task)
    }
}
