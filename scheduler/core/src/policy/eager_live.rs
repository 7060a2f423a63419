//! Memory is held only while the device needs it (specification S-301): programs ask late, for what is live, and give
//! dead memory back, so that CASE's placement fits more tasks, the longest first. Once no new tasks arrive and few
//! wait, the first of the queue has a reservation, and eager launch remains for when no waiting task fits on any device
//! and the missing memory is expected within seconds. Kernels of tasks that are expected to hold memory for a short
//! time have a higher priority.
//!
//! The speed comes from what programs do ([`Habits`]), not from the order: without the habits, the policy is CASE with
//! another queue. Reservation and eager launch keep memory for one task that others could use at once. At the end of a
//! batch everything else waits for that task; in a stream the next long one follows anyway.

use super::{GateRule, Placement, PolicyDef, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use eager_units::{Habits, Nanos};

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "where the memory in use at once is free, requested late; over-subscribed only as a last resort",
    source: "specification S-301",
    traits: Traits {
        queue: QueueOrder::LongestRemaining,
        eager: true,
        priorities: true,
        gate: GateRule::PerKernel,
        last_resort: true,
        // specification S-314
        overtake_ns: Some(Nanos::from_secs(60)),
        reserve_head: true,
        // Chosen in a sweep over 0.5 to 8 s, on lists that no report shows: the smallest slowdown at no cost in
        // throughput (S-319).
        short_hold_ns: Some(Nanos::from_secs(3)),
        habits: Habits::LIVE,
        ..Traits::CASE
    },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    if let Some(placement) = placement::whole_fewest_warps(view, task) {
        return placement;
    }
    if view.last_resort { placement::eager_if_soon(view, task) } else { placement::no_room(view, task) }
}
