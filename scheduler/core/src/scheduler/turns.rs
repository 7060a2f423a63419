//! Turns on each device, for policies that give the device to one task at a time (`quanta`).
//!
//! Trap: a turn that is over still holds the device until the task's last kernels have ended. If the next turn started
//! before, two tasks would page against each other.

use super::Scheduler;
use super::touched::Touched;
use crate::model::{Activity, Device, Task, Turn};
use crate::policy::GateRule;
use eager_units::{Nanos, TaskId};

impl Scheduler {
    /// Ends turns that are over and starts the next ones; marks the tasks whose turn it was and is, whose gates follow.
    pub(super) fn settle_turns(&mut self, now: &mut Touched) {
        if self.traits.gate != GateRule::Turns {
            return;
        }
        for id in now.devices.iter() {
            let Some(device) = self.state.devices.get(&id) else { continue };
            let (before, turn) = (device.turn, self.turn_after(device));
            if turn != before {
                now.tasks.extend([before, turn].into_iter().flatten().map(|turn| (id, turn.task)));
            }
            if let Some(device) = self.state.devices.get_mut(&id) {
                device.turn = turn;
            }
        }
    }

    fn turn_after(&self, device: &Device) -> Option<Turn> {
        let next = Self::longest_held(device);
        let start = |task| Turn { task, since: self.now, idle_since: Some(self.now), is_over: false };
        let Some(mut turn) = device.turn.filter(|turn| device.tasks.contains(&turn.task)) else {
            return next.map(start);
        };
        let ends = self.turn_ends(device, &turn);
        turn.is_over |= ends.is_some_and(|at| at <= self.now);
        let activity = self.state.tasks.get(&turn.task).and_then(Task::bound).map(|bound| bound.activity);
        match activity {
            Some(Activity::Idle) if turn.is_over => next.map(start),
            _ => Some(turn),
        }
    }

    /// When the turn ends in the current state; None while no other task wants the device.
    fn turn_ends(&self, device: &Device, turn: &Turn) -> Option<Nanos> {
        let is_wanted = device.held.iter().any(|&(_, task)| task != turn.task);
        let after = |since: Nanos, by: Nanos| Nanos(since.0.saturating_add(by.0));
        let quantum = after(turn.since, self.options.quantum_ns);
        let idle = turn.idle_since.map(|since| after(since, self.options.quantum_idle_ns));
        is_wanted.then(|| idle.map_or(quantum, |idle| idle.min(quantum)))
    }

    /// When the first turn ends if nothing else happens.
    pub(super) fn turn_deadline(&self) -> Option<Nanos> {
        let turns = self.state.devices.values().filter_map(|device| Some((device, device.turn?)));
        turns
            .filter(|(_, turn)| !turn.is_over)
            .filter_map(|(device, turn)| self.turn_ends(device, &turn))
            .min()
    }

    /// The task whose kernel has been held at its gate for longest.
    fn longest_held(device: &Device) -> Option<TaskId> {
        device.held.first().map(|&(_, task)| task)
    }

    pub(super) fn note_turn_activity(&mut self, id: TaskId, activity: Activity) {
        let now = self.now;
        let device = self.state.tasks.get(&id).and_then(Task::bound).map(|bound| bound.device);
        let turn = device.and_then(|device| self.state.devices.get_mut(&device)?.turn.as_mut());
        if let Some(turn) = turn.filter(|turn| turn.task == id) {
            turn.idle_since = (activity == Activity::Idle).then(|| turn.idle_since.unwrap_or(now));
        }
    }
}
