//! One task at a time while its kernels fill the device, after the contention manager (specification S-137): tasks start
//! in order of arrival where memory is free, and while those that launch kernels fill a device, the next one's launches
//! wait until they have no kernel there.
//!
//! The source stops a whole container before its copies, from a monitor that looks every 60 ms. Here only launches wait,
//! and memory is known before a task starts.

use super::{GateRule, Placement, PolicyDef, Rounds, SliceLength, SliceOrder, Traits, placement};
use crate::model::{Device, Task, View};
use crate::options::QueueOrder;
use crate::reason::Reason;
use eager_units::Nanos;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "where memory is free, in order of arrival; one at a time launches kernels while they fill the device",
    source: "specification S-137",
    traits: Traits {
        queue: QueueOrder::Fifo,
        starts_by_room: false,
        gate: GateRule::Rounds(Rounds {
            in_flight: 1,
            while_saturated: true,
            length: SliceLength::Endless,
            order: SliceOrder::LongestHeld,
        }),
        hold_ns_max: Some(Nanos::from_secs(30)),
        ..Traits::CASE
    },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    let percent = view.options.memory_percent_max;
    let with_room = |device: &Device| view.room_for(device, task).is_some();
    // A task that is larger than the limit has an empty device.
    let within_limit = |device: &Device| {
        let kept_free = device.capacity.saturating_sub(device.capacity.percent(percent));
        device.tasks.is_empty() || device.free() >= task.requirement.saturating_add(kept_free)
    };
    let open = |device: &Device| with_room(device) && within_limit(device);
    let device = placement::first_by(view, |device| device.tasks.len(), open);
    match placement::first_by(view, |device| device.id, with_room).filter(|_| device.is_none()) {
        Some(full) => {
            let (device, wanted) = (full.id, task.requirement);
            Placement::Wait(Reason::OverMemoryLimit { device, wanted, percent })
        }
        None => placement::whole_on(view, task, device),
    }
}
