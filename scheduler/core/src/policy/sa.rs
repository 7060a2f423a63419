//! SA, single assignment: one program per device, in order of arrival (specification S-114), as on a cluster without
//! sharing.

use super::{Assignment, Placement, PolicyDef, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use crate::reason::Reason;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "on its program's own device, which no other program has until that program ends",
    source: "specification S-114",
    traits: Traits {
        queue: QueueOrder::Fifo,
        starts_by_room: false,
        assignment: Assignment::OneProgram,
        ..Traits::CASE
    },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    match placement::with_room(view, task).next() {
        Some((device, free)) => placement::whole(device, task, free),
        None => placement::no_room_or(view, task, Reason::DevicesTaken),
    }
}
