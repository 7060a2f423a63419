//! SA, single assignment: one task per device, in order of arrival (specification S-114). What a cluster without sharing does.

use super::{Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use crate::reason::Reason;

#[derive(Debug)]
pub(super) struct Sa;

impl Policy for Sa {
    fn traits(&self) -> Traits {
        Traits { queue: QueueOrder::Fifo, starts_by_room: false, ..Traits::CASE }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        match placement::with_room(view, task).find(|(device, _)| device.tasks.is_empty()) {
            Some((device, free)) => placement::whole(device, task, free),
            None => Placement::Wait(Reason::DevicesTaken),
        }
    }
}
