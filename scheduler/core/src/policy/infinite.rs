//! A bound for simulation: CASE on devices whose memory never ends (specification S-118). Not for real devices, where it
//! over-commits.

use super::{MemoryRule, Placement, Policy, Traits, placement};
use crate::model::{Task, View};

#[derive(Debug)]
pub(super) struct Infinite;

impl Policy for Infinite {
    fn traits(&self) -> Traits {
        Traits { memory: MemoryRule::Endless, ..Traits::CASE }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_wait(view, task)
    }
}
