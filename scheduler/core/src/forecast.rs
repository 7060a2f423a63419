//! Predicts when memory will be free, from the estimates of the tasks that hold it.
//!
//! Trap: no task may become able to start between two steps (`invariants::Violation::Stranded`), nor by the start of
//! another task. Starts only move predictions back. A predicted end that comes near by time alone needs a deadline
//! (`Scheduler::expect_promotions`); for a head's reservation, an end that has passed stays in the past.

use crate::model::{Bound, Device, Reservation, Task, View};
use eager_units::{Bytes, Class, ClientId, Nanos};

/// A prediction for one device.
#[derive(Debug, Clone, Copy)]
struct Room {
    at: Nanos,
    /// Bytes free there at that time, beyond what was asked for.
    spare: Bytes,
}

/// When the device will have `wanted` bytes for a task of this client, after the client's context and what eager tasks
/// there still miss, which they get first. None if even the end of all tasks with a predicted end does not free enough.
/// `expects` maps a predicted end to the time at which it is counted, or to None to leave it out.
fn room_at(
    view: View<'_>,
    device: &Device,
    client: ClientId,
    wanted: Bytes,
    expects: impl Fn(Nanos) -> Option<Nanos>,
) -> Option<Room> {
    let context = view.state.context_cost(device, client, view.options.context_bytes);
    let on_device = || view.tasks_on(device.id);
    let eager = on_device().filter(|(_, bound)| bound.class == Class::Eager);
    let missing: Bytes = eager.map(|(task, bound)| task.requirement.saturating_sub(bound.grant)).sum();
    let needed = wanted.saturating_add(context).saturating_add(missing);
    let mut free = device.free();
    let mut at = view.now;
    let end = |(task, bound): (&Task, &Bound)| Some((expects(bound.expected_end(task)?)?, bound.grant));
    let mut ends: Vec<(Nanos, Bytes)> = on_device().filter_map(end).collect();
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

/// When the device is expected to have `wanted` bytes, if that is within `soon`. Tasks that are late count as about to
/// end, unless they are later than `soon`: then nothing is known of them.
pub(crate) fn room_within(
    view: View<'_>,
    device: &Device,
    client: ClientId,
    wanted: Bytes,
    soon: Nanos,
) -> Option<Nanos> {
    let expects = |end: Nanos| (view.now.saturating_sub(end) <= soon).then_some(end.max(view.now));
    let at = room_at(view, device, client, wanted, expects)?.at;
    (at.saturating_sub(view.now) <= soon).then_some(at)
}

/// Where and when the first task of the queue is expected to start.
pub(crate) fn reserve(view: View<'_>, head: &Task) -> Option<Reservation> {
    let devices = view.state.devices.values().filter(|device| view.admits(device, head));
    let rooms = devices.filter_map(|device| {
        let Room { at, spare } = room_at(view, device, head.client, head.requirement, Some)?;
        Some(Reservation { head: head.id, device: device.id, at, spare })
    });
    rooms.min_by_key(|room| (room.at, room.device))
}

/// True if the task, holding `held` bytes of the device, would delay the predicted start of the queue's head
/// (specification S-315).
pub(crate) fn delays_head(view: View<'_>, task: &Task, device: &Device, held: Bytes) -> bool {
    let Some(reserved) = view.reservation else { return false };
    if reserved.head == task.id || reserved.device != device.id {
        return false;
    }
    let context = view.state.context_cost(device, task.client, view.options.context_bytes);
    // A context stays longer than its task.
    if context > reserved.spare {
        return true;
    }
    let end = task.request.estimate.map(|estimate| view.now.0.saturating_add(estimate.hold.0));
    let ends_before = end.is_some_and(|end| end <= reserved.at.0);
    !ends_before && held.saturating_add(context) > reserved.spare
}
