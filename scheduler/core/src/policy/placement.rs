//! Placement rules that several policies share.
//!
//! Trap: every rule ends in the device index, so that equal devices are not chosen by luck.

use super::Placement;
use crate::model::{Device, Task, View};
use crate::reason::Reason;
use crate::units::Bytes;
use std::cmp::Reverse;

/// CASE's Algorithm 3 (Chen et al., PPoPP 2022): of the devices with room for the whole requirement, the one with the
/// fewest warps in use; equal: with the fewest tasks (all warps are 0 where no geometry is known), then the lowest index.
pub(super) fn whole_fewest_warps(view: View<'_>, task: &Task) -> Option<Placement> {
    let fitting =
        view.state.devices.values().filter(|device| view.free_for(device, task.client) >= task.requirement);
    let device = fitting.min_by_key(|device| (device.warps, device.tasks.len(), device.id))?;
    let free = view.free_for(device, task.client);
    Some(Placement::Bind {
        device: device.id,
        grant: task.requirement,
        reason: Reason::Fits { device: device.id, wanted: task.requirement, free },
    })
}

/// Normal Launch, or else wait.
pub(super) fn whole_or_wait(view: View<'_>, task: &Task) -> Placement {
    whole_fewest_warps(view, task).unwrap_or_else(|| {
        Placement::Wait(match most_free(view, task, |_| true) {
            Some((device, most)) => Reason::NoRoom { wanted: task.requirement, most, device: device.id },
            None => Reason::NoDevice,
        })
    })
}

/// Normal Launch; else Eager Launch on the device with the most free memory (equal: the fewest warps, then the lowest
/// index) that has no eager task too many; else wait. This is the rule of the published prototype, which says "least
/// memory in use": the same on equal devices, and better on unequal ones.
pub(super) fn whole_or_eager(view: View<'_>, task: &Task) -> Placement {
    if let Some(placement) = whole_fewest_warps(view, task) {
        return placement;
    }
    let least = task.requirement.percent(view.options.grant_percent_min);
    let takes_eager = |device: &Device| {
        let room =
            device.free() >= view.state.context_cost(device.id, task.client, view.options.context_bytes);
        room && view.free_for(device, task.client) >= least
            && view.eager_tasks_on(device.id) < view.options.eager_per_device
    };
    match most_free(view, task, takes_eager) {
        Some((device, free)) => {
            let reason = Reason::StartsEagerly { device: device.id, wanted: task.requirement, granted: free };
            Placement::Bind { device: device.id, grant: free, reason }
        }
        None => Placement::Wait(Reason::NoEagerPlace {
            wanted: task.requirement,
            most: most_free(view, task, |_| true).map_or(Bytes::ZERO, |(_, most)| most),
            eager_per_device: view.options.eager_per_device,
        }),
    }
}

fn most_free<'a>(
    view: View<'a>,
    task: &Task,
    takes: impl Fn(&Device) -> bool,
) -> Option<(&'a Device, Bytes)> {
    let devices = view.state.devices.values().filter(|device| takes(device));
    let free = devices.map(|device| (device, view.free_for(device, task.client)));
    free.min_by_key(|(device, free)| (Reverse(*free), device.warps, device.id))
}
