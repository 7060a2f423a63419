//! Tasks dealt out to the devices: of those with room, the one with the fewest tasks (specification S-136). A baseline
//! without a gate: what balance alone gives, against policies that also share a device's time.

use super::{Placement, PolicyDef, Traits, placement};
use crate::model::{Device, Task, View};
use crate::options::QueueOrder;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "on the device with the fewest tasks, in order of arrival",
    source: "specification S-136",
    traits: Traits { queue: QueueOrder::Fifo, ..Traits::CASE },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    let with_room = |device: &Device| view.room_for(device, task).is_some();
    placement::whole_on(view, task, placement::first_by(view, |device| device.tasks.len(), with_room))
}
