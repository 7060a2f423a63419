//! Tasks that wait for memory of stopped processes, and block no other task meanwhile (specification S-719).
//!
//! Trap: users can stop their own processes, and must not pass other users by that. So a task is passed only if it
//! could not start even if all that goes on had ended; other memory that a task waits for is freed by itself, and such
//! a task is not passed.

use super::Scheduler;
use crate::model::{Device, Task};
use eager_units::{Bytes, DeviceId};

impl Scheduler {
    /// The first task in order of arrival that does not wait for a stopped process, nor for its own program's device.
    pub(super) fn first_come(&self) -> Option<&Task> {
        let mut waiting = self.queue.in_order_of_arrival().filter_map(|id| self.state.tasks.get(&id));
        waiting.find(|task| !self.waits_for_stopped(task) && !self.stays_with_program(task))
    }

    /// True if only memory of stopped processes can let the task start: no end of that wait can be predicted.
    fn waits_for_stopped(&self, task: &Task) -> bool {
        if self.state.frozen.is_empty() {
            return false;
        }
        let may_be_short = self.traits.eager && !task.request.whole;
        let share = if may_be_short { self.options.grant_percent_min } else { 100 };
        let least = task.requirement.percent(share).saturating_add(self.options.context_bytes);
        let takes = |device: &&Device| self.read().is_open_to(device, task) && device.capacity >= least;
        let mut devices = self.state.devices.values().filter(takes).peekable();
        devices.peek().is_some()
            && devices.all(|device| device.capacity.saturating_sub(self.stopped_hold(device.id)) < least)
    }

    /// Bytes that stopped processes hold on a device, including their contexts.
    fn stopped_hold(&self, device: DeviceId) -> Bytes {
        let stopped = self.state.frozen.iter().filter_map(|id| self.state.clients.get(id));
        let hold = stopped.map(|client| {
            let tasks = client.tasks.iter().filter_map(|id| self.state.tasks.get(id)?.bound());
            let grants: Bytes = tasks.filter(|bound| bound.device == device).map(|bound| bound.grant).sum();
            let has_context = client.contexts.contains(&device);
            grants.saturating_add(if has_context { self.options.context_bytes } else { Bytes::ZERO })
        });
        hold.sum()
    }
}
