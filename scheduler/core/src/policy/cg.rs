//! CG, a fixed number of programs per device ("core to GPU" in CASE's evaluation; specification S-115): like a cluster
//! that shares devices and knows nothing of memory. Memory is not counted, so allocations may fail.

use super::{Assignment, MemoryRule, Placement, PolicyDef, Traits, placement};
use crate::model::{Device, Task, View};
use crate::options::QueueOrder;
use crate::reason::Reason;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "on its program's device, the one with the fewest programs when it started, at most 3; memory is not \
            counted, so allocations can fail",
    source: "specification S-115",
    traits: Traits {
        queue: QueueOrder::Fifo,
        memory: MemoryRule::Ignored,
        starts_by_room: false,
        assignment: Assignment::SomePrograms,
        ..Traits::CASE
    },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    let (load, is_open) = (|device: &Device| (device.programs.len(), device.granted), view.openness(task));
    let best =
        placement::first_by(view, load, |device| is_open(device) && view.room_for(device, task).is_some());
    let programs_per_device = view.options.programs_per_device;
    let Some(Device { id, programs, .. }) = best else {
        return placement::no_room_or(view, task, Reason::DevicesFull { programs_per_device });
    };
    let (device, programs) = (*id, programs.len() as u32);
    let reason = if view.has_device(task.client) {
        Reason::StaysWithProgram { device }
    } else {
        Reason::FewestPrograms { device, programs }
    };
    Placement::Bind { device, grant: task.requirement, reason }
}
