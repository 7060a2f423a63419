//! SA, single assignment: one task per device, in order of arrival. What a cluster without sharing does.

use super::{GateRule, Placement, Policy, Traits};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use crate::reason::Reason;

#[derive(Debug)]
pub(super) struct Sa;

impl Policy for Sa {
    fn traits(&self) -> Traits {
        Traits {
            queue: QueueOrder::Fifo,
            eager: false,
            priorities: false,
            gate: GateRule::None,
            endless_memory: false,
        }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        let mut empty = view.state.devices.values().filter(|device| device.tasks.is_empty());
        let fitting = empty.find(|device| view.free_for(device, task.client) >= task.requirement);
        match fitting {
            Some(device) => Placement::Bind {
                device: device.id,
                grant: task.requirement,
                reason: Reason::Fits {
                    device: device.id,
                    wanted: task.requirement,
                    free: view.free_for(device, task.client),
                },
            },
            None => Placement::Wait(Reason::DevicesTaken),
        }
    }
}
