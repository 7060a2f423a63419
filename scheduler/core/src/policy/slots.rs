//! Blocks and warps on the SMs of a device, as CASE's Algorithm 2 emulates them (specification S-112): block by block,
//! round the SMs.
//!
//! Trap: keep no layout between calls. The tasks on the device are placed anew in the order of their ids, so that a
//! journal replays to the same answer.

use crate::model::{Device, Task, View};

/// Slots of one SM in use.
#[derive(Debug, Clone, Copy, Default)]
struct Sm {
    blocks: u32,
    warps: u32,
}

/// True if all of the task's blocks find a slot beside those of the tasks on the device. A launch that is larger than
/// the whole device counts as the whole device; one of unknown geometry needs no slots.
pub(super) fn hold(view: View<'_>, device: &Device, task: &Task) -> bool {
    let mut sms = vec![Sm::default(); device.profile.sms as usize];
    for (other, _) in view.tasks_on(device.id) {
        place(&mut sms, device, other);
    }
    place(&mut sms, device, task)
}

/// Places a task's blocks; false if some found no slot.
fn place(sms: &mut [Sm], device: &Device, task: &Task) -> bool {
    let warps = task.request.threads_per_block.div_ceil(32).min(device.profile.warps_per_sm);
    if warps == 0 || task.request.blocks == 0 || sms.is_empty() {
        return true;
    }
    let per_sm = (device.profile.warps_per_sm / warps).min(device.profile.blocks_per_sm);
    let mut left = task.request.blocks.min(u64::from(per_sm) * sms.len() as u64);
    while left > 0 {
        let before = left;
        for sm in sms.iter_mut() {
            let fits =
                sm.blocks < device.profile.blocks_per_sm && sm.warps + warps <= device.profile.warps_per_sm;
            if left > 0 && fits {
                sm.blocks += 1;
                sm.warps += warps;
                left -= 1;
            }
        }
        if left == before {
            return false;
        }
    }
    true
}
