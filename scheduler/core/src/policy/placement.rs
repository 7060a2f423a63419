//! Placement rules that several policies share.
//!
//! Trap: every rule must break its last tie by the device index, or the choice between equal devices is arbitrary.

use super::Placement;
use crate::forecast;
use crate::model::{Device, Reservation, Task, View};
use crate::reason::Reason;
use eager_units::{Bytes, DeviceId};
use std::cmp::Reverse;

/// CASE's Algorithm 3 (specification S-111): of the devices with room for the whole requirement, the one with the
/// fewest warps in use. Ties go to the fewest tasks (all warps are 0 where no geometry is known), then to a device
/// where the program has its context, then to the lowest index. None if no device has room.
pub(super) fn whole_fewest_warps(view: View<'_>, task: &Task) -> Option<Placement> {
    let fits = |device: &Device| view.room_for(device, task).is_some();
    let best = first_by(view, |device| (device.warps, device.tasks.len()), fits)?;
    let device = view.cheapest_like(best, task, fits);
    Some(whole(device, task, view.room_for(device, task)?))
}

/// Normal Launch on a device that has `free` bytes for the task, enough for all of it.
pub(super) fn whole(device: &Device, task: &Task, free: Bytes) -> Placement {
    let reason = Reason::Fits { device: device.id, wanted: task.requirement, free };
    Placement::Bind { device: device.id, grant: task.requirement, reason }
}

/// Normal Launch on this device, if it is one with room; or else wait.
pub(super) fn whole_on(view: View<'_>, task: &Task, device: Option<&Device>) -> Placement {
    let room = device.and_then(|device| Some((device, view.room_for(device, task)?)));
    room.map_or_else(|| no_room(view, task), |(device, free)| whole(device, task, free))
}

/// Normal Launch, or else wait.
pub(super) fn whole_or_wait(view: View<'_>, task: &Task) -> Placement {
    whole_fewest_warps(view, task).unwrap_or_else(|| no_room(view, task))
}

/// Normal Launch on the first device with room, or else wait.
pub(super) fn whole_first_fit(view: View<'_>, task: &Task) -> Placement {
    match with_room(view, task).next() {
        Some((device, free)) => whole(device, task, free),
        None => no_room(view, task),
    }
}

/// Waits for memory; the reason names the device with the most free.
pub(crate) fn no_room(view: View<'_>, task: &Task) -> Placement {
    Placement::Wait(match (most_free(view, task), view.reservation) {
        (Some((_, most)), Some(Reservation { head, device, at, .. })) if most >= task.requirement => {
            Reason::WouldDelay { wanted: task.requirement, head, device, at }
        }
        (Some((device, most)), _) => Reason::NoRoom { wanted: task.requirement, most, device: device.id },
        (None, _) => Reason::NoRoomForContext { context: view.options.context_bytes },
    })
}

/// Waits: because of `reason` if no device takes the task's program, else for memory.
pub(super) fn no_room_or(view: View<'_>, task: &Task, reason: Reason) -> Placement {
    if view.state.devices.values().any(view.openness(task)) {
        no_room(view, task)
    } else {
        Placement::Wait(reason)
    }
}

/// The device with the fewest tasks (ties: least memory granted, then the lowest index) on which the task would fit
/// alone. For policies whose ledger does not count memory.
pub(super) fn fewest_tasks(view: View<'_>, task: &Task) -> Option<Placement> {
    let fits = |device: &Device| view.room_for(device, task).is_some();
    let device = first_by(view, |device| (device.tasks.len(), device.granted), fits)?;
    let reason = Reason::Assigned { device: device.id, tasks: device.tasks.len() as u32 };
    Some(Placement::Bind { device: device.id, grant: task.requirement, reason })
}

/// Normal Launch; else Eager Launch on the device with the most free memory (ties: the fewest warps, then the lowest
/// index) that can take another eager task, unless that would delay the head of the queue; else wait. This is the rule
/// of the published prototype (specification S-204), which says "least memory in use": the same on equal devices, and
/// worse on unequal ones.
pub(super) fn whole_or_eager(view: View<'_>, task: &Task) -> Placement {
    whole_or_eager_leaving(view, task, None)
}

/// [`whole_or_eager`], but an eager start leaves one of `parts` equal parts of its device free.
pub(super) fn whole_or_eager_leaving(view: View<'_>, task: &Task, parts: Option<u64>) -> Placement {
    if let Some(placement) = whole_fewest_warps(view, task) {
        return placement;
    }
    let (wanted, eager_per_device) = (task.requirement, view.options.eager_per_device);
    let least = wanted.percent(view.options.grant_percent_min);
    if let Some((device, free)) = most_free_open(view, task) {
        let granted = free.saturating_sub(device.left_to_others(parts));
        if granted >= least {
            let reason = Reason::StartsEagerly { device: device.id, wanted, granted };
            return Placement::Bind { device: device.id, grant: granted, reason };
        }
        return Placement::Wait(Reason::TooLittleToStart { wanted, most: granted, device: device.id, least });
    }
    Placement::Wait(match (most_free(view, task), view.reservation) {
        (Some(_), Some(Reservation { head, device, at, .. }))
            if head != task.id
                && view.state.devices.get(&device).is_some_and(|device| is_open(view, device)) =>
        {
            Reason::WouldDelay { wanted, head, device, at }
        }
        (Some((_, most)), _) => Reason::NoEagerPlace { wanted, most, eager_per_device },
        (None, _) => Reason::NoRoomForContext { context: view.options.context_bytes },
    })
}

/// Eager Launch on the device where the rest of the requirement is expected first (ties: the lowest index), if that is
/// soon enough ([`crate::Options::eager_promotion_within_ns`]); else wait. A task that is not promoted soon runs beside
/// others that would have had the memory whole (specification S-317). Devices on which a fault stalls all kernels are
/// excluded: there the task's paging would stop its neighbours (S-318).
pub(super) fn eager_if_soon(view: View<'_>, task: &Task) -> Placement {
    let (wanted, within) = (task.requirement, view.options.eager_promotion_within_ns);
    let least = wanted.percent(view.options.grant_percent_min);
    let pages_alone = |device: &Device| !device.profile.faults_stall;
    if !view.state.devices.values().any(pages_alone) {
        return no_room(view, task);
    }
    let candidates = with_free(view, task).filter(|(device, free)| {
        let granted = (*free).min(wanted);
        pages_alone(device)
            && is_open(view, device)
            && granted >= least
            && !forecast::delays_head(view, task, device, granted)
    });
    let soon = candidates.filter_map(|(device, free)| {
        let at = forecast::room_within(view, device, task.client, wanted, within)?;
        Some((at, device.id, free.min(wanted)))
    });
    match soon.min() {
        Some((at, device, granted)) => {
            let rest_in = at.saturating_sub(view.now);
            Placement::Bind {
                device,
                grant: granted,
                reason: Reason::StartsEarly { device, wanted, granted, rest_in },
            }
        }
        None => match most_free(view, task) {
            Some((device, most)) if most < wanted => {
                Placement::Wait(Reason::NoneSoon { wanted, most, device: device.id, within })
            }
            _ => no_room(view, task),
        },
    }
}

/// Devices that can take the task's context, with the bytes that they could grant it.
pub(super) fn with_free<'a>(
    view: View<'a>,
    task: &'a Task,
) -> impl Iterator<Item = (&'a Device, Bytes)> + use<'a> {
    view.state.devices.values().filter_map(move |device| Some((device, view.free_for(device, task)?)))
}

/// Devices that can take the whole task, with their free bytes for it.
pub(super) fn with_room<'a>(
    view: View<'a>,
    task: &'a Task,
) -> impl Iterator<Item = (&'a Device, Bytes)> + use<'a> {
    let is_open = view.openness(task);
    let open = view.state.devices.values().filter(move |device| is_open(device));
    open.filter_map(move |device| Some((device, view.room_for(device, task)?)))
}

/// The device that could grant the task most.
pub(crate) fn most_free<'a>(view: View<'a>, task: &Task) -> Option<(&'a Device, Bytes)> {
    best_of(view, task, |_| true)
}

/// True if the device can take another eager task.
fn is_open(view: View<'_>, device: &Device) -> bool {
    device.eager.len() < view.options.eager_per_device as usize
}

/// Of the devices on which the task may start eagerly, the one that could grant it most.
fn most_free_open<'a>(view: View<'a>, task: &Task) -> Option<(&'a Device, Bytes)> {
    let delays_head = |device: &Device| {
        let granted = view.free_for(device, task)?.min(task.requirement);
        Some(forecast::delays_head(view, task, device, granted))
    };
    best_of(view, task, |device| {
        is_open(view, device) && (view.reservation.is_none() || delays_head(device) == Some(false))
    })
}

/// The best of the devices that `takes` accepts and that admit the task. The client's own devices are all compared,
/// since it pays no context there; of the others, only the one with the most free memory.
fn best_of<'a>(view: View<'a>, task: &Task, takes: impl Fn(&Device) -> bool) -> Option<(&'a Device, Bytes)> {
    let takes = |device: &Device| takes(device) && view.admits(device, task);
    let own = view.state.clients.get(&task.client).map(|client| &client.contexts);
    let is_own = |id: &DeviceId| own.is_some_and(|own| own.contains(id));
    let by_free = |device: &Device| (Reverse(device.free()), device.warps);
    let best_foreign = first_by(view, by_free, |device| !is_own(&device.id) && takes(device));
    let own_devices = own.into_iter().flatten().filter_map(|id| view.state.devices.get(id));
    let candidates = own_devices.filter(|device| takes(device)).chain(best_foreign);
    let with_free = candidates.filter_map(|device| Some((device, view.free_for(device, task)?)));
    with_free.min_by_key(|(device, free)| (Reverse(*free), device.warps, device.id))
}

/// Of the devices that `takes` accepts, the one with the least key; of equal ones, that with the lowest index. Asks
/// only about devices that would be the best so far, since a question costs more than a comparison.
pub(super) fn first_by<'a, K: Ord>(
    view: View<'a>,
    key: impl Fn(&Device) -> K,
    takes: impl Fn(&Device) -> bool,
) -> Option<&'a Device> {
    let mut best: Option<(K, &Device)> = None;
    for device in view.state.devices.values() {
        let key = key(device);
        if best.as_ref().is_none_or(|(least, _)| key < *least) && takes(device) {
            best = Some((key, device));
        }
    }
    best.map(|(_, device)| device)
}
