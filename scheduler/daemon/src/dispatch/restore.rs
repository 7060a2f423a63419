//! Takes over the clients of an earlier daemon, and moves all clients to a new scheduler when one breaks.
//!
//! Traps: a client that has not come back still holds its memory, so its grant must stay until its process ends. And a
//! process that claims to be such a client must be the one that the kernel reports, whatever id it names.

use crate::clients::identity;
use crate::clients::slots::TaskSlot;
use crate::dispatch::{Client, Dispatch};
use crate::persistence::state_file::{Kept, KeptClient};
use crate::process::service_manager;
use eager_core::PolicyName;
use eager_core::action::Reason;
use eager_core::event::{Event, Restored, TaskRequest};
use eager_proto::hello::{Hello, Refusal, Resume};
use eager_proto::request::Slot;
use eager_shm::daemon::{ClientPages, Peer};
use eager_units::{ClientId, DeviceId, TaskId};
use std::os::fd::OwnedFd;

impl Dispatch {
    /// Takes over the clients of an earlier daemon whose processes still live, and returns how many. `handles` are the
    /// pidfds that a service manager has kept of them.
    pub fn take_over(&mut self, old: Kept, handles: &mut service_manager::KeptDescriptors) -> usize {
        let mut contexts: Vec<_> = old.contexts().collect();
        for (device, at_ns) in old.drained {
            self.restore_drain(DeviceId(device), at_ns);
        }
        let mut tasks = Vec::new();
        for (id, mut kept) in old.clients {
            let id = ClientId(id);
            let Some(pidfd) = self.handle(id, &kept, handles) else { continue };
            let slots = std::mem::take(&mut kept.slots);
            let (pid, uid) = (kept.pid, kept.uid);
            // A client that was served before is served again, whatever the limit is now.
            let _ = self.quotas.admit(uid, self.now());
            self.enter(id, kept, Peer { pid, uid, pidfd }, None, None);
            for (index, kept) in slots {
                let Some(slot) = Slot::new(usize::from(index)) else { continue };
                self.restore_slot(id, slot, TaskSlot::restored(&kept));
                tasks.extend(kept.task.clone());
                self.state.slot(id.0, slot, kept, true);
            }
        }
        contexts.retain(|(client, _)| self.clients.contains_key(client));
        self.log_tasks_without_device(&tasks);
        if !tasks.is_empty() || !contexts.is_empty() {
            self.step(Event::Restored { tasks, contexts }, None);
        }
        self.clients.len()
    }

    /// Logs tasks on devices that are not served any more: their memory is in no ledger until the device is back.
    fn log_tasks_without_device(&mut self, tasks: &[Restored]) {
        let devices = &self.core.scheduler.state().devices;
        let lines: Vec<String> = tasks
            .iter()
            .filter(|task| !devices.contains_key(&task.device))
            .map(|Restored { task, device, .. }| {
                format!(
                    "{task} goes on, but {device} is not served any more: its memory there is not counted"
                )
            })
            .collect();
        lines.into_iter().for_each(|line| self.log(line));
    }

    /// A pidfd of a client's process; none if the process has ended.
    fn handle(
        &self,
        id: ClientId,
        kept: &KeptClient,
        handles: &mut service_manager::KeptDescriptors,
    ) -> Option<OwnedFd> {
        let Some(pidfd) = handles.take_client(id) else {
            return identity::find(kept.pid, kept.started)
                .inspect(|pidfd| self.manager.keep_client(id, pidfd));
        };
        if identity::is_alive(&pidfd) {
            return Some(pidfd);
        }
        self.manager.forget_client(id);
        None
    }

    /// The client that `peer` claims to be, if pid and uid are those of that client.
    pub fn find_resuming(&self, resume: &Resume, peer: &Peer) -> Result<ClientId, Refusal> {
        let id = ClientId(resume.client);
        let is_it = |client: &&Client| client.peer.pid == peer.pid && client.peer.uid == peer.uid;
        match self.clients.get(&id).filter(is_it) {
            Some(_) => Ok(id),
            None => Err(Refusal::Stranger { client: resume.client }),
        }
    }

    /// Fills new pages for a client that comes back with its current answers.
    pub fn prepare_pages(&mut self, id: ClientId, pages: ClientPages) -> Option<ClientPages> {
        let old = self.clients.get_mut(&id)?.pages.replace(pages);
        self.publish_all(id);
        let client = self.clients.get_mut(&id)?;
        std::mem::replace(&mut client.pages, old)
    }

    /// Serves a client that came back through its new socket and pages.
    pub fn resumed(&mut self, id: ClientId, hello: &Hello, socket: OwnedFd, pages: ClientPages) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.socket = Some(socket);
        client.is_held_by_process = hello.is_held_by_process();
        client.pages = Some(pages);
        client.gone_at = None;
    }

    /// Lets `case` decide after the policy broke while its scheduler is sound, until the policy agrees with `case`
    /// again.
    pub fn revert(&mut self, why: String) {
        let policy = self.core.scheduler.policy();
        self.step(Event::Reverted { why: why.clone() }, None);
        if self.core.reverted.is_some() {
            // The policy panicked in that step, and the scheduler was rebuilt.
            return;
        }
        if self.core.scheduler.replaced().is_none() {
            return self.rebuild(why);
        }
        self.log(format!("the policy {policy} {why}: case decides from now on"));
        self.core.mark_reverted(format!("{policy} {why}"));
        self.publish_everything();
    }

    /// Notes that the policy that was replaced decides again.
    pub fn reinstated(&mut self, policy: PolicyName, reason: &Reason) {
        self.core.reverted = None;
        self.log(format!("the policy {policy} {reason}"));
        self.publish_everything();
    }

    /// Publishes every slot of every client, since what programs see of their tasks depends on the policy.
    pub fn publish_everything(&mut self) {
        let ids: Vec<ClientId> = self.clients.keys().copied().collect();
        ids.into_iter().for_each(|id| self.publish_all(id));
    }

    /// Gives every task to a new scheduler under `case`: bound tasks stay bound, waiting tasks ask again in their old
    /// order.
    pub fn rebuild(&mut self, why: String) {
        let policy = self.core.scheduler.policy();
        let devices = self.core.scheduler.state().devices.values();
        let lost: Vec<DeviceId> = devices.filter(|device| device.lost).map(|device| device.id).collect();
        self.log(format!("the policy {policy} {why}: case decides from now on"));
        if let Err(error) = self.core.replace(format!("{policy} {why}")) {
            self.log(format!(
                "no new journal can be started ({error}): scheduling goes on without a journal"
            ));
        }
        let (bound, waiting) = self.all_tasks();
        let clients: Vec<Event> = self
            .clients
            .iter()
            .map(|(id, client)| {
                let kept = self.state.kept().clients.get(&id.0);
                Event::ClientConnected {
                    client: *id,
                    uid: client.peer.uid,
                    label: client.label.clone(),
                    informed: kept.is_some_and(|kept| kept.informed),
                    same_process: kept.and_then(|own| self.state.kept().earlier_of_process(*id, own)),
                    nice: identity::nice(client.peer.pid),
                }
            })
            .collect();
        clients.into_iter().for_each(|event| self.step(event, None));
        self.repeat_drains();
        let contexts = self.state.kept().contexts().collect();
        self.step(Event::Restored { tasks: bound, contexts }, None);
        lost.into_iter().for_each(|device| self.step(Event::DeviceLost { device }, None));
        for (task, client, request) in waiting {
            self.step(Event::TaskBegin { task, client, request }, None);
        }
        self.publish_everything();
    }

    /// Bound tasks and waiting tasks by the daemon's own notes, the waiting ones in order of arrival.
    fn all_tasks(&self) -> (Vec<Restored>, Vec<(TaskId, ClientId, TaskRequest)>) {
        let mut bound = Vec::new();
        let mut waiting = Vec::new();
        for (id, client) in &self.clients {
            let kept = self.state.kept().clients.get(&id.0);
            for (slot, state) in client.slots.used() {
                if let Some((task, request)) = state.asking() {
                    waiting.push((task, *id, request.clone()));
                } else if let Some(task) =
                    kept.and_then(|kept| kept.slots.get(&(slot.index() as u8))?.task.clone())
                    && state.task == Some(task.task)
                {
                    bound.push(task);
                }
            }
        }
        waiting.sort_by_key(|(task, ..)| *task);
        (bound, waiting)
    }
}
