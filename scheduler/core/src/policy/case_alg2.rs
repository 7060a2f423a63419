//! CASE's Algorithm 2 (specification S-112): besides memory, the blocks and warps of the task's launch must find slots
//! on the device's SMs. Devices are tried from the least memory in use. CASE's own code gives up at the first device
//! without memory, which is right for equal devices only, so here the search goes on.

use super::{Placement, PolicyDef, Traits, placement, slots};
use crate::model::{Device, Task, View};
use crate::reason::Reason;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "where all that it asks for is free, and slots for its blocks and warps on the SMs",
    source: "specification S-112",
    traits: Traits { starts_by_room: false, ..Traits::CASE },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    let mut roomy: Vec<_> = placement::with_room(view, task).collect();
    roomy.sort_by_key(|(device, _)| (device.granted, device.id));
    let has_slots = |device: &Device| slots::hold(view, device, task);
    match roomy.iter().find(|(device, _)| has_slots(device)) {
        Some(&(device, free)) => placement::whole(device, task, free),
        None => match roomy.first() {
            Some((device, _)) => Placement::Wait(Reason::NoSlots {
                device: device.id,
                blocks: task.request.blocks,
                threads_per_block: task.request.threads_per_block,
            }),
            None => placement::no_room(view, task),
        },
    }
}
