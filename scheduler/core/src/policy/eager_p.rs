//! `EL_p` (specification S-210): `EL` with Normal tasks on high-priority streams. Across processes the
//! priority works only under MPS (S-511); it ranks the use of SMs and does nothing about paging.

use super::{Placement, Policy, Traits, placement};
use crate::model::{Task, View};

#[derive(Debug)]
pub(super) struct EagerP;

impl Policy for EagerP {
    fn traits(&self) -> Traits {
        Traits { priorities: true, ..Traits::EAGER }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager(view, task)
    }
}
