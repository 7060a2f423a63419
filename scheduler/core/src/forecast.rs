//! When memory is expected to be free, from the estimates of the tasks that hold it.
//!
//! Trap: a prediction is the sum of what tasks said before they started and does not move with the clock; one that has
//! passed without coming true stays in the past. So time alone can end a reason to start at once and never make one,
//! but for the moment when a predicted end comes near (`Scheduler::expect_promotions`).

use crate::action::Class;
use crate::model::{Device, Task, View};
use crate::units::{Bytes, ClientId, DeviceId, Nanos, TaskId};

/// A prediction for one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub at: Nanos,
    /// What is free there then, above what was asked for.
    pub spare: Bytes,
}

/// What the first of the queue is expected to get, and when (EASY backfilling's shadow time and extra nodes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    pub head: TaskId,
    pub device: DeviceId,
    pub at: Nanos,
    /// Free on the device besides what the head wants.
    pub spare: Bytes,
}

/// When the device will have so much for a task of this client, after the client's context and what eager tasks there
/// still miss, which they get first. None: not even when all have ended whose end can be told.
pub(crate) fn room_at(view: View<'_>, device: &Device, client: ClientId, wanted: Bytes) -> Option<Room> {
    let context = view.state.context_cost(device.id, client, view.options.context_bytes);
    let on_device = || view.tasks_on(device.id);
    let eager = on_device().filter(|(_, bound)| bound.class == Class::Eager);
    let missing: Bytes = eager.map(|(task, bound)| task.requirement.saturating_sub(bound.grant)).sum();
    let needed = wanted.saturating_add(context).saturating_add(missing);
    let mut free = device.free();
    let mut at = view.now;
    let mut ends: Vec<(Nanos, Bytes)> =
        on_device().filter_map(|(task, bound)| Some((bound.expected_end(task)?, bound.grant))).collect();
    ends.sort();
    for (end, grant) in ends {
        if free >= needed {
            break;
        }
        free = free.saturating_add(grant);
        at = end;
    }
    (free >= needed).then(|| Room { at, spare: free.saturating_sub(needed) })
}

/// Where the first of the queue is expected to start, and when.
pub(crate) fn reserve(view: View<'_>, head: &Task) -> Option<Reservation> {
    let rooms = view.state.devices.values().filter_map(|device| {
        let Room { at, spare } = room_at(view, device, head.client, head.requirement)?;
        Some(Reservation { head: head.id, device: device.id, at, spare })
    });
    rooms.min_by_key(|room| (room.at, room.device))
}

/// Would the task, holding so much of the device, keep the head of the queue from its predicted start?
pub(crate) fn delays_head(view: View<'_>, task: &Task, device: &Device, held: Bytes) -> bool {
    let Some(reserved) = view.reservation else { return false };
    if reserved.head == task.id || reserved.device != device.id {
        return false;
    }
    let context = view.state.context_cost(device.id, task.client, view.options.context_bytes);
    // A context stays longer than its task.
    if context > reserved.spare {
        return true;
    }
    let end = task.request.estimate.map(|estimate| view.now.0.saturating_add(estimate.hold.0));
    let ends_before = end.is_some_and(|end| end <= reserved.at.0);
    !ends_before && held.saturating_add(context) > reserved.spare
}
