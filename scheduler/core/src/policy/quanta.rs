//! Exclusive time quanta, after nvshare (specification S-117): all memory is managed, every task starts at once on the
//! device with the fewest tasks, and on each device one task at a time may launch kernels. Its slice ends when its
//! quantum is over, or when it has been idle for a while, and another task has a kernel to launch.
//!
//! Unlike in nvshare, only launches wait for the turn, not copies: a copy into managed memory is filled by the host,
//! and its prefetch may evict pages of the task whose turn it is.

use super::{GateRule, MemoryRule, Placement, PolicyDef, Rounds, Traits, placement};
use crate::model::{Task, View};
use crate::reason::Reason;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "at once, in managed memory; one task of a device launches kernels at a time",
    source: "specification S-117",
    traits: Traits { gate: GateRule::Rounds(Rounds::QUANTA), memory: MemoryRule::Paged, ..Traits::CASE },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    let context = view.options.context_bytes;
    placement::fewest_tasks(view, task).unwrap_or(Placement::Wait(Reason::NoRoomForContext { context }))
}
