//! Managed memory of bound tasks: which copies go straight to the device, and what is moved in at which occasion.
//!
//! Trap: kernels use data that is not on their device all the same, by page faults. To move in more than the grant would
//! take room that the daemon gave to others.

use super::Client;
use crate::buffers::Order;
use crate::cell::Told;
use crate::ledger::{BufferId, Part, Unwritten};
use crate::request::{Outbox, Request};
use crate::task::TaskKey;

/// Occasion at which data is moved in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The host has filled memory.
    Filled,
    /// The task has more memory than before.
    Grown,
    /// A kernel uses memory that the task has taken over.
    TakenOver,
    /// A kernel is about to start. It would make the pages of memory that was never written by faults, at a tenth of the
    /// rate (specification S-225).
    Kernel,
}

/// What new terms of a task bring it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Nothing to act on.
    Terms,
    /// A larger grant: more of its data moves in ([`Occasion::Grown`]).
    Grant,
    /// All its memory: the rest of its data moves in, and its later kernels run with high priority (specification S-208,
    /// S-210).
    Promotion,
}

impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    /// Enters terms that a bound task's cell shows. `None`: they are older than the known ones.
    pub fn adopt(&mut self, key: TaskKey, told: Told<D>, out: &mut impl Outbox) -> Option<News> {
        let task = self.task_mut(key).filter(|task| told.is_newer_than(&task.terms))?;
        let before = std::mem::replace(&mut task.terms, told);
        if told.promoted_since(&before) {
            out.send(key.slot, Request::Promoted);
            return Some(News::Promotion);
        }
        Some(if told.grant > before.grant { News::Grant } else { News::Terms })
    }

    /// True if a copy may put this part of managed memory of a bound task onto the device (specification S-202). What
    /// does not fit is filled by the CPU, and moved in as far as the grant goes.
    pub fn has_room_for(&self, part: Part) -> bool {
        let owner = self.ledger.get(part.buffer).and_then(|found| self.task(found.owner));
        let Some(task) = owner.filter(|task| task.is_bound()) else { return false };
        let room = match (task.terms.is_eager(), task.terms.managed) {
            (true, _) => task.terms.grant.0,
            (false, true) => return true,
            // Managed for want of room that was granted: there is no knowing how much there is.
            (false, false) => 0,
        };
        self.ledger.fits(task.key, part, room)
    }

    /// Chooses what of a task's managed memory to move in, within its grant, and records it as moved.
    pub fn plan_fetch(&mut self, key: TaskKey, order: &Order<BufferId>, occasion: Occasion) -> Vec<Part> {
        let Some(task) = self.task(key) else { return Vec::new() };
        let (is_eager, grant) = (task.terms.is_eager(), task.terms.grant.0);
        // Data of a task with its full grant is moved in whole, however it is used.
        let not: &[BufferId] = if is_eager { &order.sparse } else { &[] };
        let unwritten = match occasion {
            Occasion::Filled | Occasion::Grown => Unwritten::Nothing,
            Occasion::TakenOver => Unwritten::First,
            // In the grant of an over-subscribed task only what the kernel uses is worth its place.
            Occasion::Kernel if is_eager => Unwritten::First,
            Occasion::Kernel => Unwritten::All,
        };
        let plan = self.ledger.plan_fetch(key, grant, &order.first, not, unwritten);
        let lacks_pages = self.ledger.lacks_pages(key, grant);
        if let Some(task) = self.task_mut(key) {
            task.lacks_pages = lacks_pages;
        }
        plan
    }
}
