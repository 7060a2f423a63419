//! CASE with the queue of the published eager prototype (specification S-113): while the first waiter does not fit, nobody
//! behind it starts. A weaker baseline than `case`: say which one a comparison is against.

use super::{Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;

#[derive(Debug)]
pub(super) struct CaseFifo;

impl Policy for CaseFifo {
    fn traits(&self) -> Traits {
        Traits { queue: QueueOrder::Fifo, ..Traits::CASE }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_wait(view, task)
    }
}
