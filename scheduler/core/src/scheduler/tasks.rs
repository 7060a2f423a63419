//! Applies what programs report about their tasks: begin, change of size, last launch, kernels, end.
//!
//! Trap: none of this decides where or when a task starts. It changes the state and sets what is retried; the step then
//! settles the rest.

use super::{Anomaly, Retry, Scheduler, regrant};
use crate::action::Action;
use crate::event::{KernelRequest, TaskRequest};
use crate::model::{Activity, Task, TaskState};
use crate::policy::GateRule;
use crate::reason::Reason;
use eager_units::{Bytes, Class, ClientId, TaskId};

impl Scheduler {
    pub(super) fn begin(
        &mut self,
        id: TaskId,
        client: ClientId,
        request: TaskRequest,
    ) -> Result<(), Anomaly> {
        if self.state.tasks.contains_key(&id) {
            return Err(Anomaly::DuplicateTask);
        }
        if !self.state.clients.contains_key(&client) {
            return Err(Anomaly::UnknownClient);
        }
        if let Some(client) = self.state.clients.get_mut(&client) {
            client.tasks.insert(id);
        }
        self.arrivals += 1;
        let wanted = request.requirement;
        let task = Task {
            id,
            client,
            requirement: request.requirement,
            request,
            asked_at: self.now,
            arrival: self.arrivals,
            state: TaskState::Waiting { last_reported: None },
        };
        self.line_up(&task);
        let uid = self.uid_of(&task);
        self.state.tasks.insert(id, task);
        self.rank(uid);
        // A refused task does not count towards a stream of arrivals.
        if self.state.tasks.get(&id).is_some_and(|task| self.why_refused(task, 1).is_none()) {
            self.asked_last = Some(self.now);
        }
        let forgiven = self.forgive(client, wanted);
        self.retry = if forgiven { Retry::All } else { Retry::Newcomer(id) };
        Ok(())
    }

    /// Extends a bound task, and never makes it wait: two tasks that hold memory and wait for more could wait for each
    /// other. What does not fit is granted over-subscribed instead (CASE assumes that requirements are known, and has
    /// no rule for this). An extension beyond a limit is refused, as `cudaMalloc` would; so is one that does not fit,
    /// if the task cannot run over-subscribed.
    pub(super) fn extend(&mut self, id: TaskId, bytes: Bytes, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        let device = self.bound(id)?.device;
        let task = self.state.tasks.get_mut(&id).ok_or(Anomaly::UnknownTask)?;
        let wanted = task.requirement.saturating_add(bytes);
        let device = self.state.devices.get(&device).ok_or(Anomaly::NotBound)?;
        let (lost, device, capacity, free) = (device.lost, device.id, device.task_max, device.free());
        let most = capacity.saturating_sub(self.options.context_bytes);
        let limit = most.percent(self.options.oversize_percent_under(self.traits.starts_larger()));
        if wanted > limit {
            let reason = Reason::ExtendTooLarge { bytes, wanted, device, capacity, limit };
            out.push(Action::Refuse { task: id, reason });
            return Ok(());
        }
        if lost {
            out.push(Action::Refuse { task: id, reason: Reason::DeviceLost { device } });
            return Ok(());
        }
        if task.request.whole && free < bytes {
            out.push(Action::Refuse { task: id, reason: Reason::ExtendNotWhole { bytes, device, free } });
            return Ok(());
        }
        if let Some(reason) = self.extends_beyond_user(id, bytes) {
            out.push(Action::Refuse { task: id, reason });
            return Ok(());
        }
        let task = self.state.tasks.get_mut(&id).ok_or(Anomaly::UnknownTask)?;
        task.requirement = wanted;
        let parts = self.traits.sharing.eager_leaves;
        let missing = wanted.saturating_sub(self.bound(id)?.grant);
        // A task that missed memory before finds none free on its device (promotion grants all of it), so this adds
        // nothing.
        if self.state.grow(id, missing, parts) < missing && self.bound(id)?.managed {
            self.state.return_to_others(id, parts);
        }
        let bound = self.bound(id)?;
        let missing = wanted.saturating_sub(bound.grant);
        if missing == Bytes::ZERO {
            bound.reason = Reason::Extends { bytes, device, free };
        } else {
            bound.started_eager &= bound.class == Class::Eager;
            bound.promotion_done = false;
            bound.reason = Reason::ExtendsOver { bytes, device, free, missing };
            self.state.set_class(id, Class::Eager);
        }
        out.push(regrant(id, self.bound(id)?));
        Ok(())
    }

    pub(super) fn shrink(&mut self, id: TaskId, bytes: Bytes, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        let grant = self.bound(id)?.grant;
        self.state.shrink(id, bytes).ok_or(Anomaly::ShrankTooMuch)?;
        let requirement = self.state.tasks.get(&id).map_or(Bytes::ZERO, |task| task.requirement);
        let bound = self.bound(id)?;
        let promoted = bound.class == Class::Eager && bound.grant == requirement;
        if promoted {
            bound.reason = Reason::PromotedByShrinking { bytes };
            self.state.set_class(id, Class::Promoted);
            out.push(regrant(id, self.bound(id)?));
        } else if bound.grant != grant {
            bound.reason = Reason::Shrinks { bytes };
            out.push(regrant(id, bound));
        }
        self.retry = Retry::Fitting;
        Ok(())
    }

    pub(super) fn all_launched(&mut self, id: TaskId) -> Result<(), Anomaly> {
        let was_said = std::mem::replace(&mut self.bound(id)?.all_launched, true);
        if was_said { Err(Anomaly::RepeatedAllLaunched) } else { Ok(()) }
    }

    /// Ends a task. A waiting task may end too: it no longer wants a device.
    pub(super) fn end(&mut self, id: TaskId) -> Result<(), Anomaly> {
        let task = self.state.remove_task(id).ok_or(Anomaly::UnknownTask)?;
        self.leave_queue(&task);
        self.retry = Retry::Fitting;
        Ok(())
    }

    /// Notes a kernel at a closed gate. An ungated task may report one too: its gate opened while the message was under
    /// way. Then nothing waits, and the gates, settled next, drop the hold again.
    pub(super) fn kernel_held(&mut self, id: TaskId, kernel: KernelRequest) -> Result<(), Anomaly> {
        self.bound(id)?;
        if self.traits.gate != GateRule::None {
            self.state.hold(id, kernel, self.now);
            let now = self.now;
            if self.traits.shares_time() {
                self.bound(id)?.account.note_pause(now, false);
            }
        }
        Ok(())
    }

    pub(super) fn note_activity(&mut self, id: TaskId, activity: Activity) -> Result<(), Anomaly> {
        self.bound(id)?.activity = activity;
        if self.traits.rounds().is_some() {
            self.note_slice_activity(id, activity);
        }
        Ok(())
    }

    pub(super) fn promotion_done(&mut self, id: TaskId) -> Result<(), Anomaly> {
        let bound = self.bound(id)?;
        if bound.class != Class::Promoted {
            return Err(Anomaly::NotPromoted);
        }
        bound.promotion_done = true;
        Ok(())
    }
}
