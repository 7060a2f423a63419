//! SA, single assignment: one task per device, in order of arrival (specification S-114), as in a cluster without
//! sharing.

use super::{Placement, PolicyDef, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use crate::reason::Reason;

pub(super) const POLICY: PolicyDef = PolicyDef {
    name: "sa",
    about: "on a device of its own, as on clusters without GPU sharing",
    source: "specification S-114",
    traits: Traits { queue: QueueOrder::Fifo, starts_by_room: false, ..Traits::CASE },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    match placement::with_room(view, task).find(|(device, _)| device.tasks.is_empty()) {
        Some((device, free)) => placement::whole(device, task, free),
        None => Placement::Wait(Reason::DevicesTaken),
    }
}
