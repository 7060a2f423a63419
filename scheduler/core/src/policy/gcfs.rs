//! Device time by nice value, after gCFS (specification S-131, S-132): each task goes to the device with the least sum of
//! weights, and there three tasks at a time launch kernels, each for its weight's share of a round of 12 ms, first come
//! first served.
//!
//! In the source one process runs networks layer by layer and may move them between devices. Here tasks belong to
//! processes of many users: they stay where they started, and what one had beyond its slice is taken off its next one.

use super::{GateRule, Placement, PolicyDef, Rounds, SliceLength, SliceOrder, Traits, placement};
use crate::model::{Device, Task, View};
use crate::options::QueueOrder;
use eager_units::Nanos;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "on the device with the least sum of weights; there, time by nice value in rounds",
    source: "specification S-131",
    traits: Traits {
        queue: QueueOrder::Fifo,
        gate: GateRule::Rounds(Rounds {
            in_flight: 3,
            while_saturated: false,
            length: SliceLength::Share,
            order: SliceOrder::LongestHeld,
        }),
        hold_ns_max: Some(Nanos::from_secs(30)),
        ..Traits::CASE
    },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    let load = |device: &Device| {
        let weights = view.tasks_on(device.id).map(|(other, _)| view.state.weight_of(other));
        (weights.fold(0, u64::saturating_add), device.tasks.len())
    };
    let with_room = |device: &Device| view.room_for(device, task).is_some();
    placement::whole_on(view, task, placement::first_by(view, load, with_room))
}
