//! Tasks that have had their devices for longer than a task may: reported once, and ended where the limits require it.
//!
//! The time of a stay starts when the task is bound. For a restored task it starts anew, since its first binding is not
//! known any more.

use super::Scheduler;
use crate::action::{Action, Ending};
use crate::limits::Overstay;
use crate::model::{Bound, Stay, Task};
use crate::reason::Reason;
use eager_units::{Nanos, TaskId};

impl Scheduler {
    /// The next measure against a task for its stay, and when it is due; None if there is none.
    fn next_of_stay(&self, bound: &Bound) -> Option<(Nanos, Stay)> {
        let limits = &self.options.limits;
        let ends = Nanos(bound.bound_at.0.saturating_add(limits.task_ns_max?.0));
        match (bound.stay, limits.overstay) {
            (Stay::Within, Overstay::Observe) => Some((ends, Stay::Over)),
            (Stay::Within | Stay::Over, Overstay::End) => Some((ends, Stay::Asked { at: self.now })),
            (Stay::Asked { at }, Overstay::End) => {
                // Later than the step that asked the process to end.
                Some((Nanos(at.0.saturating_add(limits.overstay_grace_ns.0.max(1))), Stay::Killed))
            }
            _ => None,
        }
    }

    /// Bound tasks with the next measure of each. Looks at all tasks, so only where there is a limit.
    fn stays(&self) -> impl Iterator<Item = (&Task, &Bound, Nanos, Stay)> {
        let tasks = self.options.limits.task_ns_max.map(|_| self.state.tasks.values());
        tasks.into_iter().flatten().filter_map(|task| {
            let bound = task.bound()?;
            let (at, next) = self.next_of_stay(bound)?;
            Some((task, bound, at, next))
        })
    }

    pub(super) fn overstay_deadline(&self) -> Option<Nanos> {
        self.stays().map(|(_, _, at, _)| at).min()
    }

    pub(super) fn find_overstays(&mut self, out: &mut Vec<Action>) {
        let Some(limit) = self.options.limits.task_ns_max else { return };
        let mut over: Vec<(TaskId, Stay)> = Vec::new();
        for (task, bound, _, next) in self.stays().filter(|(_, _, at, _)| *at <= self.now) {
            let held = self.now.saturating_sub(bound.bound_at);
            let ending = match next {
                Stay::Within | Stay::Over => None,
                Stay::Asked { .. } => Some(Ending::Terminate),
                Stay::Killed => Some(Ending::Kill),
            };
            let reason = Reason::Overstays { task: task.id, device: bound.device, held, limit };
            out.push(Action::Overstay { task: task.id, client: task.client, ending, reason });
            over.push((task.id, next));
        }
        for (id, stay) in over {
            if let Ok(bound) = self.bound(id) {
                bound.stay = stay;
            }
        }
    }
}
