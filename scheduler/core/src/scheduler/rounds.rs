//! Rounds on each device, for policies that give each task a slice of the device's time: who may launch kernels now, how
//! many tasks at once, and for how long (specification S-117).
//!
//! Trap: a slice that is over still holds its place until the task's last kernels have ended. If the next slice began
//! before, two tasks would page against each other.

use super::Scheduler;
use super::touched::Touched;
use crate::model::{Activity, Device, Slice, Task};
use crate::policy::Rounds;
use eager_units::{Nanos, TaskId};

impl Scheduler {
    /// Ends slices that are over and begins the next ones; marks the tasks whose slices began, changed or ended, whose
    /// gates follow.
    pub(super) fn settle_rounds(&mut self, now: &mut Touched) {
        let Some(rounds) = self.traits.rounds() else { return };
        for id in now.devices.iter() {
            let Some(device) = self.state.devices.get(&id) else { continue };
            let slices = self.slices_after(device, rounds);
            let is_in = |all: &[Slice], slice: &Slice| all.contains(slice);
            let ended = device.slices.iter().filter(|slice| !is_in(&slices, slice));
            let begun = slices.iter().filter(|slice| !is_in(&device.slices, slice));
            now.tasks.extend(ended.chain(begun).map(|slice| (id, slice.task)));
            if let Some(device) = self.state.devices.get_mut(&id) {
                device.slices = slices;
            }
        }
    }

    fn slices_after(&self, device: &Device, rounds: Rounds) -> Vec<Slice> {
        let mut slices = device.slices.clone();
        slices.retain_mut(|slice| {
            slice.is_over |= self.slice_ends(device, slice).is_some_and(|at| at <= self.now);
            let bound = self.state.tasks.get(&slice.task).and_then(Task::bound);
            let activity = bound.filter(|bound| bound.device == device.id).map(|bound| bound.activity);
            activity.is_some_and(|activity| !(slice.is_over && activity == Activity::Idle))
        });
        while slices.len() < rounds.in_flight as usize
            && let Some(task) = Self::next_in(device, &slices)
        {
            slices.push(Slice { task, since: self.now, idle_since: Some(self.now), is_over: false });
        }
        slices
    }

    /// When the slice ends in the current state; None while no other task wants the device.
    fn slice_ends(&self, device: &Device, slice: &Slice) -> Option<Nanos> {
        let is_wanted = Self::next_in(device, &device.slices).is_some();
        let after = |since: Nanos, by: Nanos| Nanos(since.0.saturating_add(by.0));
        let quantum = after(slice.since, self.options.quantum_ns);
        let idle = slice.idle_since.map(|since| after(since, self.options.quantum_idle_ns));
        is_wanted.then(|| idle.map_or(quantum, |idle| idle.min(quantum)))
    }

    /// When the first slice ends if nothing else happens.
    pub(super) fn slice_deadline(&self) -> Option<Nanos> {
        let slices = self
            .state
            .devices
            .values()
            .flat_map(|device| device.slices.iter().map(move |slice| (device, slice)));
        slices
            .filter(|(_, slice)| !slice.is_over)
            .filter_map(|(device, slice)| self.slice_ends(device, slice))
            .min()
    }

    /// The task whose kernel has been held at its gate for longest, of those that have no slice.
    fn next_in(device: &Device, slices: &[Slice]) -> Option<TaskId> {
        let mut held = device.held.iter().map(|&(_, task)| task);
        held.find(|task| slices.iter().all(|slice| slice.task != *task))
    }

    pub(super) fn note_slice_activity(&mut self, id: TaskId, activity: Activity) {
        let now = self.now;
        let device = self.state.tasks.get(&id).and_then(Task::bound).map(|bound| bound.device);
        let Some(device) = device.and_then(|device| self.state.devices.get_mut(&device)) else { return };
        if let Some(slice) = device.slices.iter_mut().find(|slice| slice.task == id) {
            slice.idle_since = (activity == Activity::Idle).then(|| slice.idle_since.unwrap_or(now));
        }
    }
}
