//! The gate, which holds the kernels of an over-subscribed task, and the activity of tasks that the daemon watches.
//!
//! Trap: the gate's word has no access class. What the gate admits was judged for the kernel that was asked for last.

use super::Client;
use crate::cell::{Cell, gate};
use crate::request::{Kernel, Outbox, Request};
use crate::task::{Slot, TaskKey};
use eager_units::AccessClass;

/// A kernel that is about to be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtGate {
    pub kernel: Kernel,
    /// The request for it, once the gate has held it.
    asked: Option<Asked>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    sequence: u32,
    /// The gate's word when it was last read.
    word: u64,
}

impl AtGate {
    pub fn new(kernel: Kernel) -> AtGate {
        AtGate { kernel, asked: None }
    }
}

impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    /// True if the kernel may start now (specification S-211, S-215). If not, wait until the slot's cell is no longer the
    /// one that was read, and ask again. The daemon is told once of a kernel that is held; it opens the gate by a larger
    /// allowance, or by making the task normal. It is told again if the gate was open and is closed now: then it believes
    /// that the kernel has started, but the program was stopped or had no processor. `word`: the gate's, read on its own.
    pub fn pass_gate(
        &mut self,
        key: TaskKey,
        at_gate: &mut AtGate,
        cell: &Cell<D>,
        word: u64,
        out: &mut impl Outbox,
    ) -> bool {
        let Some(task) = self.task_mut(key).filter(|_| cell.is_gated()) else { return true };
        let kernel = at_gate.kernel;
        let speaks_of_it = match at_gate.asked {
            Some(asked) => cell.answers(asked.sequence),
            // What was opened for a kernel that paging can keep up with may be too much for another one.
            None => kernel.access.streams() || !task.held_last.is_some_and(AccessClass::streams),
        };
        if speaks_of_it && gate::admits(word, kernel.footprint) {
            return true;
        }
        let sequence = match at_gate.asked {
            Some(asked) if !gate::may_have_opened(asked.word, word) => asked.sequence,
            _ => {
                task.held_last = Some(kernel.access);
                out.send(key.slot, Request::Held(kernel))
            }
        };
        at_gate.asked = Some(Asked { sequence, word });
        false
    }

    /// True if others wait for the end of the kernels that the slot's task has on its device, while it stands at its gate
    /// (specification S-139).
    pub fn is_awaited_at_gate(&self, slot: Slot, cell: &Cell<D>) -> bool {
        cell.is_gated() && self.tasks().any(|task| task.key.slot == slot && task.told_busy == Some(true))
    }

    /// Tells the daemon of tasks that it watches and that have become busy or idle. `send`: false if the request could not
    /// be sent; it is repeated the next time.
    pub fn tell_activity(
        &mut self,
        is_busy: impl Fn(&W) -> bool,
        mut send: impl FnMut(Slot, Request) -> bool,
    ) {
        for task in self.tasks_mut() {
            let busy = task.terms.watched.then(|| is_busy(&task.own));
            let request = match busy.filter(|_| task.told_busy != busy) {
                Some(true) => Some(Request::Busy),
                Some(false) => Some(Request::Idle),
                None => None,
            };
            let is_told = request.is_none_or(|request| send(task.key.slot, request));
            task.told_busy = busy.filter(|_| is_told);
        }
    }
}
