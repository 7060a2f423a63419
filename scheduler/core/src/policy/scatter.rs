//! Each task on a device drawn at random of those with room (specification S-136): how gCFS's source places the tasks of
//! its baseline. Without a gate.
//!
//! The draw is a function of the seed and the task's place in the order of arrival, so that a journal replays.

use super::{Placement, PolicyDef, Traits, placement};
use crate::model::{Device, Task, View};
use crate::options::QueueOrder;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "on a device drawn at random of those with room, in order of arrival",
    source: "specification S-136",
    traits: Traits { queue: QueueOrder::Fifo, ..Traits::CASE },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    let with_room = |device: &&Device| view.room_for(device, task).is_some();
    let devices: Vec<&Device> = view.state.devices.values().filter(with_room).collect();
    let drawn = mixed(view.options.scatter_seed ^ mixed(task.arrival)).checked_rem(devices.len() as u64);
    let device = drawn.and_then(|drawn| devices.get(usize::try_from(drawn).ok()?).copied());
    placement::whole_on(view, task, device)
}

/// The output function of SplitMix64 (Steele, Lea and Flood, 2014): equal inputs give equal numbers on any machine.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
