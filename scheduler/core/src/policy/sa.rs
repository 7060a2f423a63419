//! SA, single assignment: one task per device, in order of arrival (specification S-114). What a cluster without sharing does.

use super::{Placement, Policy, Traits};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use crate::reason::Reason;

#[derive(Debug)]
pub(super) struct Sa;

impl Policy for Sa {
    fn traits(&self) -> Traits {
        Traits { queue: QueueOrder::Fifo, ..Traits::CASE }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        let empty = view.state.devices.values().filter(|device| device.tasks.is_empty());
        let mut fitting = empty
            .filter_map(|device| Some((device.id, view.free_for(device, task)?)))
            .filter(|(_, free)| *free >= task.requirement);
        match fitting.next() {
            Some((device, free)) => {
                let reason = Reason::Fits { device, wanted: task.requirement, free };
                Placement::Bind { device, grant: task.requirement, reason }
            }
            None => Placement::Wait(Reason::DevicesTaken),
        }
    }
}
