//! Lets people steer tasks and the policy while programs run.
//!
//! Trap: permission is decided here, by the uid of the connection and the uid that the task's process had when it
//! connected; nothing in the request may count.

use crate::admin::refusal::Refused;
use crate::admin::server::Caller;
use crate::clients::identity;
use crate::dispatch::Dispatch;
use crate::persistence::state_file::KeptClient;
use eager_core::PolicyName;
use eager_core::event::Event;
use eager_core::scheduler::Stage;
use eager_units::TaskId;
use nix::sys::signal::Signal;
use std::str::FromStr;

/// What was done, in one line, or why it was not.
type Outcome = Result<String, Refused>;

impl Dispatch {
    /// The uid of a task's user, if the caller may `act` on the task.
    fn may_steer(&self, by: Caller, task: TaskId, act: &'static str) -> Result<u32, Refused> {
        let uid = self.core.scheduler.task(task).map(|view| view.uid).ok_or(Refused::NoTask(task))?;
        if uid == by.uid || by.is_owner() { Ok(uid) } else { Err(Refused::NotItsUser { task, uid, act }) }
    }

    fn waits(&self, task: TaskId) -> bool {
        let view = self.core.scheduler.task(task);
        view.is_some_and(|view| matches!(view.stage, Stage::Waiting { .. }))
    }

    fn held_by(&self, task: TaskId) -> Option<u32> {
        self.core.scheduler.task(task)?.request.held_by
    }

    pub fn hold(&mut self, by: Caller, task: TaskId) -> Outcome {
        self.may_steer(by, task, "hold")?;
        if !self.waits(task) {
            return Err(Refused::Runs(task));
        }
        if let Some(uid) = self.held_by(task) {
            return Ok(format!("{task} is held already, by uid {uid}"));
        }
        self.set_hold(task, Some(by.uid), Event::Held { task, by: by.uid });
        Ok(format!("{task} is held: it does not start before `eager release {}`", task.0))
    }

    pub fn release(&mut self, by: Caller, task: TaskId) -> Outcome {
        self.may_steer(by, task, "release")?;
        let Some(uid) = self.held_by(task).filter(|_| self.waits(task)) else {
            return Err(Refused::NotHeld(task));
        };
        if uid != by.uid && !by.is_owner() {
            return Err(Refused::HeldByAnother { task, uid });
        }
        self.set_hold(task, None, Event::Released { task });
        Ok(format!("{task} is released, and is last in the queue"))
    }

    /// Sets the priority of a program's tasks among those of its user: of the waiting task, and of tasks that begin
    /// later.
    pub fn set_priority(&mut self, by: Caller, task: TaskId, priority: i8) -> Outcome {
        self.may_steer(by, task, "change the priority of")?;
        let (id, slot) = self.owner(task).ok_or(Refused::NoProcess(task))?;
        let client = self.clients.get_mut(&id).ok_or(Refused::NoProcess(task))?;
        client.priority = priority;
        client.slots.get_mut(slot).set_priority(priority);
        if let Some(kept) = self.state.kept().clients.get(&id.0).cloned() {
            self.state.client(id.0, KeptClient { priority, ..kept });
        }
        let waits = self.waits(task);
        if waits {
            self.step(Event::PrioritySet { task, priority }, None);
        }
        self.flush();
        let when = if waits { "" } else { " from its next task on: this one runs already" };
        Ok(format!("the program of {task} has priority {priority} among its user's tasks{when}"))
    }

    fn set_hold(&mut self, task: TaskId, held_by: Option<u32>, event: Event) {
        let owner = self.owner(task);
        if let Some((client, slot)) = owner
            && let Some(client) = self.clients.get_mut(&client)
        {
            client.slots.get_mut(slot).hold(held_by);
        }
        self.step(event, None);
        if let Some((client, slot)) = owner {
            self.note(client, slot, true);
            self.flush();
        }
    }

    /// Refuses a waiting task. The process of a running task gets the signal, that of a waiting task only with `ends`.
    pub fn cancel(&mut self, by: Caller, task: TaskId, signal: &str, ends: bool) -> Outcome {
        let uid = self.may_steer(by, task, "cancel")?;
        let waits = self.waits(task);
        // The signal comes first: a refused task has no owner any more.
        let sent = (ends || !waits).then(|| self.send_signal(by, uid, task, signal)).transpose()?;
        if !waits {
            return Ok(sent.unwrap_or_default());
        }
        self.step(Event::Cancelled { task, by: by.uid }, None);
        let refused = format!("{task} is refused: its program gets an out-of-memory error");
        Ok(sent.map_or(refused.clone(), |sent| format!("{refused}; {sent}")))
    }

    fn send_signal(&mut self, by: Caller, uid: u32, task: TaskId, signal: &str) -> Outcome {
        let signal = Signal::from_str(signal).map_err(|_| Refused::NoSignal(signal.to_owned()))?;
        let client = self.owner(task).map(|(client, _)| client);
        let found = client.and_then(|client| Some((client, &self.clients.get(&client)?.peer)));
        let (client, peer) = found.ok_or(Refused::NoProcess(task))?;
        // A process that has changed its user since it connected is not the caller's to end.
        if !by.is_owner() && identity::real_uid(peer.pid) != Some(by.uid) {
            return Err(Refused::ChangedUser { pid: peer.pid, task, uid });
        }
        eager_shm::process::signal(&peer.pidfd, signal)
            .map_err(|source| Refused::NotSignalled { pid: peer.pid, source })?;
        let said = format!("{signal} was sent to pid {}, the program of {task}", peer.pid);
        self.core.ended.set_end(client, "cancelled", &format!("{signal} was sent by uid {}", by.uid));
        Ok(said)
    }

    /// Lets another policy decide from now on.
    pub fn set_policy(&mut self, policy: PolicyName) -> Outcome {
        let policy = policy.for_devices()?;
        let before = self.core.scheduler.policy();
        if policy == before && self.core.reverted.is_none() {
            return Ok(format!("{policy} decides already"));
        }
        self.step(Event::PolicySet { policy }, None);
        if self.core.scheduler.policy() != policy {
            return Err(Refused::PolicyStays { before, policy });
        }
        self.core.reverted = None;
        self.publish_everything();
        let said = format!("{policy} decides from now on, in place of {before}");
        self.log(said.clone());
        Ok(said)
    }
}
