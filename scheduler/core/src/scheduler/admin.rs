//! Requests of people: devices that take no new tasks, tasks that are held or cancelled.
//!
//! Trap: a request here must change only what *starts*. Tasks that run keep their devices and grants, which may grow as
//! before.

use super::{Anomaly, Retry, Scheduler};
use crate::action::Action;
use crate::model::{Task, View};
use crate::policy::Placement;
use crate::reason::Reason;
use eager_units::{DeviceId, TaskId};

impl Scheduler {
    pub(super) fn drain(&mut self, id: DeviceId, drained: bool) -> Result<(), Anomaly> {
        let device = self.state.devices.get_mut(&id).ok_or(Anomaly::UnknownDevice)?;
        if device.drained == drained {
            return Err(Anomaly::RepeatedDrain);
        }
        device.drained = drained;
        // The reasons of waiting tasks may not hold any more, whichever way it went.
        self.retry = Retry::All;
        Ok(())
    }

    /// Returns the task if it waits.
    pub(super) fn waiting(&mut self, id: TaskId) -> Result<&mut Task, Anomaly> {
        let task = self.state.tasks.get_mut(&id).ok_or(Anomaly::UnknownTask)?;
        if task.bound().is_some() { Err(Anomaly::NotWaiting) } else { Ok(task) }
    }

    pub(super) fn hold_back(&mut self, id: TaskId, by: u32, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        self.waiting(id)?.request.held_by = Some(by);
        self.put_aside(id, out);
        // It may have been the first task, which blocked the others.
        self.retry = Retry::Fitting;
        Ok(())
    }

    /// The task enters the queue again behind those that are there ([`Scheduler::take_from_aside`]).
    pub(super) fn release(&mut self, id: TaskId) -> Result<(), Anomaly> {
        let held_by = self.waiting(id)?.request.held_by.take();
        held_by.map(drop).ok_or(Anomaly::NotHeld)
    }

    pub(super) fn cancel(&mut self, id: TaskId, by: u32, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        self.waiting(id)?;
        self.forget(id);
        out.push(Action::Refuse { task: id, reason: Reason::Cancelled { by } });
        self.retry = Retry::Fitting;
        Ok(())
    }

    /// The drained device that keeps a task waiting: the task would start there, or all devices are drained.
    pub(super) fn why_drained(&self, view: View<'_>, task: &Task) -> Option<Reason> {
        let mut drained = self.state.devices.values().filter(|device| device.drained).peekable();
        let first = drained.peek()?.id;
        let are_all = drained.count() == self.state.devices.len();
        let is_drained = |id| self.state.devices.get(&id).is_some_and(|device| device.drained);
        let without_drains = View { ignores_drains: true, ..view };
        match self.policy_placement(without_drains, task) {
            Placement::Bind { device, .. } if is_drained(device) => Some(Reason::Drained { device }),
            _ => are_all.then_some(Reason::Drained { device: first }),
        }
    }
}
