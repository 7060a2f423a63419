//! Replaces a policy that failed by `case`, and reinstates it once it agrees with `case`.
//!
//! Whenever `case` starts a task, the replaced policy is asked about the same task in the same state, and its proposal
//! is not carried out. After enough starts in a row that it would have allowed ([`AGREES_MIN`], twice as many after
//! each further reversion), it decides again. All of this follows from events, so that a journal replays.
//!
//! Trap: a policy that panics when it is asked must not be asked again, and one that never returns would hang this step
//! as it hung the step before. The daemon replaces such a policy by a scheduler that does not remember it, until a
//! policy is set.

use super::{Anomaly, Scheduler};
use crate::action::Action;
use crate::model::Task;
use crate::policy::{MemoryRule, Placement, Policy, PolicyName};
use crate::reason::Reason;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Starts in a row that a replaced policy has to allow before it decides again.
const AGREES_MIN: u32 = 8;
/// Doublings of that number; further reversions do not raise it any more.
const DOUBLINGS_MAX: u32 = 7;

/// The policy that `case` replaced, and how far it is from being reinstated.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) name: PolicyName,
    pub(super) policy: Policy,
    /// Starts in a row that the replaced policy would have allowed.
    pub(super) agreed: u32,
    pub(super) needed: u32,
}

/// Opinion of a replaced policy on a task that `case` starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    Yes,
    No,
    /// The policy may let the task wait: its own rules count more than memory.
    Free,
    Panicked,
}

impl Scheduler {
    /// The policy that `case` stands in for.
    pub fn replaced(&self) -> Option<PolicyName> {
        self.replaced.as_ref().map(|replaced| replaced.name)
    }

    pub(super) fn revert(&mut self, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        if self.replaced.is_some() {
            return Err(Anomaly::RepeatedReversion);
        }
        let case = Policy::of(PolicyName::Case);
        let empty = Scheduler::with(PolicyName::Case, case, self.options.clone());
        let mut actions = Vec::new();
        let mut next = self.transfer_to(empty, &mut actions)?;
        next.reversions = self.reversions.saturating_add(1);
        let broken = std::mem::replace(self, next);
        let needed = AGREES_MIN << broken.reversions.min(DOUBLINGS_MAX);
        self.replaced = Some(Replaced { name: broken.name, policy: broken.policy, agreed: 0, needed });
        out.append(&mut actions);
        Ok(())
    }

    /// Asks the replaced policy about a task that is about to start; None without a replaced policy.
    pub(super) fn replaced_agrees(&self, task: &Task) -> Option<Agreement> {
        let Replaced { policy, .. } = self.replaced.as_ref()?;
        let view = self.read();
        // The policy only reads, so a panic leaves nothing half done.
        let asked = catch_unwind(AssertUnwindSafe(|| (policy.traits(), policy.place(view, task))));
        Some(match asked {
            Err(_) => Agreement::Panicked,
            Ok((traits, Placement::Bind { device, grant, .. })) => {
                let device = view.state.devices.get(&device).filter(|device| view.admits(device, task));
                let free = device.and_then(|device| match traits.memory {
                    MemoryRule::Counted => view.free_for(device, task),
                    MemoryRule::Ignored | MemoryRule::Paged | MemoryRule::Endless => Some(device.task_max),
                });
                let is_allowed = grant <= task.requirement && free.is_some_and(|free| grant <= free);
                if is_allowed { Agreement::Yes } else { Agreement::No }
            }
            Ok((traits, Placement::Wait(_))) => {
                let mut empty = self.state.devices.values().filter(|device| device.tasks.is_empty());
                let is_owed =
                    traits.starts_by_room || empty.any(|device| view.room_for(device, task).is_some());
                if is_owed { Agreement::No } else { Agreement::Free }
            }
        })
    }

    pub(super) fn note_agreement(&mut self, agreement: Option<Agreement>) {
        let Some(replaced) = &mut self.replaced else { return };
        match agreement {
            Some(Agreement::Yes) => replaced.agreed += 1,
            Some(Agreement::No) => replaced.agreed = 0,
            Some(Agreement::Panicked) => self.replaced = None,
            Some(Agreement::Free) | None => {}
        }
    }

    /// Reinstates the replaced policy once it has agreed often enough; returns whether it did.
    pub(super) fn reinstate(&mut self, out: &mut Vec<Action>) -> bool {
        let Some(replaced) = self.replaced.take_if(|replaced| replaced.agreed >= replaced.needed) else {
            return false;
        };
        let Replaced { name, policy, agreed, .. } = replaced;
        let empty = Scheduler::with(name, policy, self.options.clone());
        let mut actions = Vec::new();
        // If a task cannot keep its device under that policy, all stay under `case`, for good.
        let Ok(mut next) = self.transfer_to(empty, &mut actions) else { return false };
        next.reversions = self.reversions;
        *self = next;
        out.push(Action::Reinstated { policy: name, reason: Reason::Agrees { starts: agreed } });
        out.append(&mut actions);
        true
    }
}
