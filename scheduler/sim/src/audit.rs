//! The simulator's own books of grants and buffers, kept from events and actions only.
//!
//! Trap: do not read the scheduler's state here. Two books catch an error only if they are independent.

use eager_core::action::Action;
use eager_core::event::Event;
use eager_units::{Bytes, Class, ClientId, DeviceId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A rule that an action broke, with the task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{task}: {what}")]
pub struct Violation {
    pub task: TaskId,
    pub what: String,
}

#[derive(Debug)]
struct Entry {
    client: ClientId,
    requirement: Bytes,
    /// Device, grant and class, once bound.
    bound: Option<(DeviceId, Bytes, Class)>,
    managed: bool,
}

/// The simulator's books.
#[derive(Debug)]
pub struct Auditor {
    context_bytes: Bytes,
    endless: bool,
    capacities: BTreeMap<DeviceId, Bytes>,
    tasks: BTreeMap<TaskId, Entry>,
    /// The task that asks for more in this step.
    extends: Option<TaskId>,
    contexts: BTreeSet<(ClientId, DeviceId)>,
    /// Device memory of each buffer, by client and buffer name.
    buffers: BTreeMap<(ClientId, String), Held>,
}

/// Device memory of one buffer.
#[derive(Debug)]
struct Held {
    task: TaskId,
    bytes: Bytes,
    plain: bool,
}

impl Auditor {
    pub fn new(context_bytes: Bytes, endless: bool) -> Auditor {
        Auditor {
            context_bytes,
            endless,
            capacities: BTreeMap::new(),
            tasks: BTreeMap::new(),
            extends: None,
            contexts: BTreeSet::new(),
            buffers: BTreeMap::new(),
        }
    }

    /// Records an event.
    pub fn event(&mut self, event: &Event) {
        self.extends = match event {
            Event::TaskExtend { task, .. } => Some(*task),
            _ => None,
        };
        match event {
            Event::DeviceAdded { device, profile } => {
                self.capacities.insert(*device, profile.capacity);
            }
            Event::ClientGone { client } => {
                self.tasks.retain(|_, task| task.client != *client);
                self.contexts.retain(|(owner, _)| owner != client);
                self.buffers.retain(|(owner, _), _| owner != client);
            }
            Event::TaskBegin { task, client, request } => {
                let (client, requirement) = (*client, request.requirement);
                self.tasks.insert(*task, Entry { client, requirement, bound: None, managed: false });
            }
            Event::TaskExtend { task, bytes } => {
                if let Some(entry) = self.tasks.get_mut(task) {
                    entry.requirement = entry.requirement.saturating_add(*bytes);
                }
            }
            Event::TaskShrink { task, bytes } => {
                if let Some(entry) = self.tasks.get_mut(task) {
                    entry.requirement = entry.requirement.saturating_sub(*bytes);
                    if let Some((_, grant, _)) = &mut entry.bound {
                        *grant = (*grant).min(entry.requirement);
                    }
                }
            }
            Event::TaskEnd { task } => {
                self.tasks.remove(task);
            }
            _ => {}
        }
    }

    /// Records an action.
    ///
    /// # Errors
    /// The action breaks a rule.
    pub fn action(&mut self, action: &Action) -> Result<(), Violation> {
        match action {
            Action::Bind { task, device, class, grant, managed, .. } => {
                let entry = self.entry(*task)?;
                let rules = [
                    (entry.bound.is_none(), "bound twice"),
                    (*class != Class::Promoted, "promoted by its binding"),
                    ((*class == Class::Normal) == (*grant == entry.requirement), "class and grant disagree"),
                    (*class == Class::Normal || *managed, "eager in plain memory"),
                ];
                judge(*task, &rules)?;
                entry.bound = Some((*device, *grant, *class));
                entry.managed = *managed;
                let client = entry.client;
                self.contexts.insert((client, *device));
            }
            Action::Regrant { task, grant, class, .. } => {
                let extends = self.extends;
                let entry = self.entry(*task)?;
                let Some((device, before, _)) = entry.bound else {
                    return judge(*task, &[(false, "regranted while it waits")]);
                };
                let whole = *grant == entry.requirement;
                // A task that becomes over-subscribed by extending may give up managed memory (specification S-327).
                let gives_up = extends == Some(*task) && entry.managed && *class == Class::Eager;
                let rules = [
                    (*grant <= entry.requirement, "granted more than it wants"),
                    (*grant >= before || gives_up, "grant taken away"),
                    ((*class == Class::Eager) != whole, "class and grant disagree"),
                ];
                judge(*task, &rules)?;
                entry.bound = Some((device, *grant, *class));
            }
            Action::Refuse { task, .. } => {
                if self.entry(*task)?.bound.is_none() {
                    self.tasks.remove(task);
                }
            }
            Action::Wait { task, .. } => {
                let waits = self.entry(*task)?.bound.is_none();
                judge(*task, &[(waits, "asked to wait while it is bound")])?;
            }
            Action::SetGate { task, .. } | Action::Watch { task, .. } => {
                let bound = self.entry(*task)?.bound.is_some();
                judge(*task, &[(bound, "gated or watched while it waits")])?;
            }
            Action::Overrun { .. }
            | Action::Overstay { .. }
            | Action::Stranded { .. }
            | Action::Reinstated { .. } => {}
        }
        Ok(())
    }

    /// Records that a buffer got memory.
    ///
    /// # Errors
    /// The task's buffers hold more than the ledger counts for the task.
    pub fn takes(
        &mut self,
        client: ClientId,
        task: TaskId,
        buffer: &str,
        bytes: Bytes,
        plain: bool,
    ) -> Result<(), Violation> {
        let twice = self.buffers.insert((client, buffer.to_owned()), Held { task, bytes, plain }).is_some();
        let held = || self.buffers.values().filter(|held| held.task == task);
        let all: Bytes = held().map(|held| held.bytes).sum();
        let pinned: Bytes = held().filter(|held| held.plain).map(|held| held.bytes).sum();
        let entry = self.entry(task)?;
        let grant = entry.bound.map_or(Bytes::ZERO, |(_, grant, _)| grant);
        let rules = [
            (!twice, "a buffer takes memory twice"),
            (all <= entry.requirement, "its buffers hold more than it asked for"),
            (pinned <= grant, "its plain memory exceeds its grant"),
        ];
        judge(task, &rules)
    }

    /// Records that a buffer gave its memory back.
    pub fn returns(&mut self, client: ClientId, buffer: &str) {
        self.buffers.remove(&(client, buffer.to_owned()));
    }

    /// Checks that a step's buffers have memory on the device.
    ///
    /// # Errors
    /// A buffer has no memory: it is dead, or never had any.
    pub fn uses(&self, client: ClientId, task: TaskId, buffers: &BTreeSet<&str>) -> Result<(), Violation> {
        let is_missing = |name: &&&str| !self.buffers.contains_key(&(client, (**name).to_owned()));
        match buffers.iter().find(is_missing) {
            Some(name) => Err(Violation { task, what: format!("it uses `{name}`, which has no memory") }),
            None => Ok(()),
        }
    }

    /// Checks the sums after the actions of one step.
    ///
    /// # Errors
    /// A device is over-committed.
    pub fn balance(&self) -> Result<(), Violation> {
        if self.endless {
            return Ok(());
        }
        for (device, capacity) in &self.capacities {
            let held: Vec<_> = self
                .tasks
                .iter()
                .filter_map(|(task, entry)| entry.bound.filter(|b| b.0 == *device).map(|b| (*task, b.1)))
                .collect();
            let contexts = self.contexts.iter().filter(|(_, on)| on == device).count() as u64;
            let sum = held.iter().map(|(_, grant)| grant.0).sum::<u64>() + contexts * self.context_bytes.0;
            let last = held.last().map_or(TaskId(0), |(task, _)| *task);
            judge(last, &[(sum <= capacity.0, "its device is over-committed")])?;
        }
        Ok(())
    }

    /// Checks, after the last job, that no task is left.
    ///
    /// # Errors
    /// A task is left over.
    pub fn close(&self) -> Result<(), Violation> {
        match self.tasks.keys().next() {
            Some(&task) => judge(task, &[(false, "left over at the end")]),
            None => Ok(()),
        }
    }

    fn entry(&mut self, task: TaskId) -> Result<&mut Entry, Violation> {
        let what = "acted upon, but unknown or ended".to_owned();
        self.tasks.get_mut(&task).ok_or(Violation { task, what })
    }
}

fn judge(task: TaskId, rules: &[(bool, &str)]) -> Result<(), Violation> {
    match rules.iter().find(|(held, _)| !held) {
        Some((_, what)) => Err(Violation { task, what: (*what).to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::action::Reason;
    use eager_core::event::TaskRequest;

    const TASK: TaskId = TaskId(1);

    fn asked(bytes: u64) -> Auditor {
        let mut auditor = Auditor::new(Bytes(0), false);
        auditor.capacities.insert(DeviceId(0), Bytes(100));
        let request = TaskRequest { requirement: Bytes(bytes), ..TaskRequest::default() };
        auditor.event(&Event::TaskBegin { task: TASK, client: ClientId(1), request });
        auditor
    }

    fn bind(grant: u64, class: Class) -> Action {
        let managed = class == Class::Eager;
        let reason = Reason::NoDevice;
        Action::Bind { task: TASK, device: DeviceId(0), class, grant: Bytes(grant), managed, reason }
    }

    #[test]
    fn a_sound_binding_passes_and_leaves_nothing_when_it_ends() {
        let mut auditor = asked(100);
        auditor.action(&bind(100, Class::Normal)).unwrap();
        auditor.balance().unwrap();
        assert!(auditor.close().is_err());
        auditor.event(&Event::TaskEnd { task: TASK });
        auditor.close().unwrap();
    }

    #[test]
    fn over_commitment_double_binding_and_wrong_class_are_found() {
        let mut auditor = asked(101);
        auditor.action(&bind(101, Class::Normal)).unwrap();
        assert_eq!(auditor.balance().unwrap_err().to_string(), "task 1: its device is over-committed");
        assert!(auditor.action(&bind(101, Class::Normal)).is_err());
        assert!(asked(100).action(&bind(50, Class::Normal)).is_err());
        assert!(asked(100).action(&bind(100, Class::Eager)).is_err());
    }
}
