//! CG, a fixed number of tasks per device ("core to GPU" in CASE's evaluation; specification S-115): like a cluster
//! that shares devices and knows nothing of memory. Memory is not counted, so allocations may fail.

use super::{MemoryRule, Placement, PolicyDef, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use crate::reason::Reason;

pub(super) const POLICY: PolicyDef = PolicyDef {
    name: "cg",
    about: "on the device with the fewest tasks, at most 3; memory is not counted, so allocations can fail",
    source: "specification S-115",
    traits: Traits {
        queue: QueueOrder::Fifo,
        memory: MemoryRule::Ignored,
        starts_by_room: false,
        ..Traits::CASE
    },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    let tasks_per_device = view.options.tasks_per_device;
    placement::fewest_tasks(view, task, |tasks| tasks < tasks_per_device)
        .unwrap_or(Placement::Wait(Reason::DevicesFull { tasks_per_device }))
}
