//! CASE (specification S-110) as its authors run it: wait until the whole requirement fits; at each release every
//! waiter is tried again, largest first. It backfills, so a large task can be overtaken without bound.

use super::{Placement, Policy, Traits, placement};
use crate::model::{Task, View};

#[derive(Debug)]
pub(super) struct Case;

impl Policy for Case {
    fn traits(&self) -> Traits {
        Traits::CASE
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_wait(view, task)
    }
}
