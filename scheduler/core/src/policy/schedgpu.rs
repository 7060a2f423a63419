//! Memory-only admission after SchedGPU (specification S-116): a task starts when its memory fits, and what else runs
//! does not matter. SchedGPU knows one device and wakes whoever fits; with several, the first one with room is taken,
//! so the first device fills while the others idle.

use super::{Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;

#[derive(Debug)]
pub(super) struct SchedGpu;

impl Policy for SchedGpu {
    fn traits(&self) -> Traits {
        Traits { queue: QueueOrder::Backfill, ..Traits::CASE }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_first_fit(view, task)
    }
}
