//! `EL` (specification S-204): start on what is free when the whole requirement is free nowhere. Nothing
//! protects the Normal tasks on the device, so two large tasks can slow each other down many times.

use super::{Placement, Policy, Traits, placement};
use crate::model::{Task, View};

#[derive(Debug)]
pub(super) struct Eager;

impl Policy for Eager {
    fn traits(&self) -> Traits {
        Traits::EAGER
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager(view, task)
    }
}
