//! A daemon that keeps the real daemon's rules and is otherwise scripted.

use super::cuda::uuid;
use crate::scheduler::{Scheduler, Unsent, Wake};
use eager_proto::TASK_SLOTS;
use eager_proto::hello::Uuid;
use eager_proto::reply::{
    CLASS_EAGER, CLASS_NORMAL, FLAG_EXTEND_REFUSED, FLAG_HIGH_PRIORITY, FLAG_MANAGED, FLAG_RELEASES,
    REASON_TOO_LARGE, STATE_BOUND, STATE_REFUSED, STATE_WAITING, TaskCell, gate,
};
use eager_proto::request::{RequestBody, Slot};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The daemon's answer to a begin.
#[derive(Debug, Clone, Copy)]
pub enum Decision {
    Normal,
    /// Bound normally by a daemon that wants dead memory back.
    Releasing,
    /// Bound with this grant, managed.
    Eager(u64),
    /// Bound with this grant, managed, by a daemon that wants dead memory back.
    EagerReleasing(u64),
    Refuse,
    /// Refused, since no device could ever hold it.
    TooLarge,
    /// Left waiting until a later step of the script.
    Wait,
}

/// Something that happens while a client sleeps.
pub type Step = Box<dyn FnOnce(&FakeDaemon) + Send>;

#[derive(Default)]
struct DaemonState {
    cells: [Option<TaskCell>; TASK_SLOTS],
    requests: Vec<RequestBody>,
    sequence: u32,
    decisions: VecDeque<Decision>,
    steps: VecDeque<Step>,
    device: u32,
    habits: Habits,
    uuids: Vec<Uuid>,
    refuse_extensions: bool,
    oversubscribe_extensions: bool,
    gone: bool,
    stopped: bool,
    launched: u64,
    retired: u64,
    cell_reads: u64,
    /// Longest duration of each sleep.
    sleeps: Vec<Duration>,
    violations: Vec<String>,
}

/// Work of another thread of the program before a request is sent.
type Meanwhile = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct FakeDaemon(Mutex<DaemonState>, Mutex<Vec<(RequestBody, Meanwhile)>>);

impl std::fmt::Debug for FakeDaemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeDaemon")
    }
}

/// What the daemon's policy wants of the program.
#[derive(Debug, Clone, Copy, Default)]
pub struct Habits {
    pub late_reservation: bool,
    pub early_copies: bool,
    pub live_requirement: bool,
    pub fast_copies: bool,
    pub grant_max: Option<u64>,
}

pub fn lazy_slot() -> Slot {
    eager_client::task::lazy_slot()
}

pub fn first_slot() -> Slot {
    Slot::FIRST
}

impl FakeDaemon {
    pub fn set_habits(&self, habits: Habits) {
        self.0.lock().habits = habits;
    }

    pub fn decide(&self, decision: Decision) {
        self.0.lock().decisions.push_back(decision);
    }

    /// Makes the daemon's devices these of the program's.
    pub fn serve(&self, numbers: &[i32]) {
        self.0.lock().uuids = numbers.iter().map(|&number| uuid(number)).collect();
    }

    pub fn bind_on(&self, device: u32) {
        self.0.lock().device = device;
    }

    /// Adds a step that runs while a client sleeps; each sleep runs one step.
    pub fn then(&self, step: impl FnOnce(&FakeDaemon) + Send + 'static) {
        self.0.lock().steps.push_back(Box::new(step));
    }

    pub fn die(&self) {
        self.0.lock().gone = true;
    }

    pub fn stop(&self) {
        self.0.lock().stopped = true;
    }

    pub fn refuse_extensions(&self, refuse: bool) {
        self.0.lock().refuse_extensions = refuse;
    }

    /// Makes the daemon grant extensions over-subscribed from now on.
    pub fn oversubscribe_extensions(&self) {
        self.0.lock().oversubscribe_extensions = true;
    }

    /// Runs `meanwhile` just before the next request that equals this one is sent.
    pub fn before(&self, request: RequestBody, meanwhile: impl FnOnce() + Send + 'static) {
        self.1.lock().push((request, Box::new(meanwhile)));
    }

    /// Requests since the last look.
    pub fn requests(&self) -> Vec<RequestBody> {
        std::mem::take(&mut self.0.lock().requests)
    }

    /// Kernels launched and retired.
    pub fn counters(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.launched, state.retired)
    }

    /// Number of cell reads since the last look.
    pub fn cell_reads(&self) -> u64 {
        std::mem::take(&mut self.0.lock().cell_reads)
    }

    /// The longest durations of the sleeps since the last call.
    pub fn sleeps(&self) -> Vec<Duration> {
        std::mem::take(&mut self.0.lock().sleeps)
    }

    /// Bytes that the daemon holds for a slot's task; `None`: no task.
    pub fn requirement(&self, slot: Slot) -> Option<u64> {
        let state = self.0.lock();
        let cell = state.cells[slot.index()].as_ref()?;
        (cell.state == STATE_BOUND).then_some(cell.requirement)
    }

    pub fn held(&self) -> u64 {
        Slot::all().filter_map(|slot| self.requirement(slot)).sum()
    }

    pub fn change(&self, slot: Slot, change: impl FnOnce(&mut TaskCell)) {
        let mut state = self.0.lock();
        let cell = state.cells[slot.index()].get_or_insert_with(empty_cell);
        change(cell);
        cell.sequence = cell.sequence.wrapping_add(2);
    }

    /// Binds a task that was left waiting.
    pub fn grant(&self, slot: Slot, flags: u32) {
        let (sequence, device) = {
            let state = self.0.lock();
            (state.sequence, state.device)
        };
        self.change(slot, |cell| {
            assert_eq!(cell.state, STATE_WAITING, "slot {}", slot.index());
            (cell.state, cell.device, cell.class) = (STATE_BOUND, device, CLASS_NORMAL);
            (cell.flags, cell.grant, cell.answered) = (flags, cell.requirement, sequence);
        });
    }

    /// Refuses a task that was left waiting.
    pub fn refuse(&self, slot: Slot) {
        let sequence = self.0.lock().sequence;
        self.change(slot, |cell| {
            assert_eq!(cell.state, STATE_WAITING, "slot {}", slot.index());
            (cell.state, cell.reason, cell.requirement, cell.answered) = (STATE_REFUSED, 9, 0, sequence);
        });
    }

    /// Requests that the real daemon would reject.
    pub fn violations(&self) -> Vec<String> {
        self.0.lock().violations.clone()
    }

    fn answer(state: &mut DaemonState, slot: Slot, sequence: u32, body: &RequestBody) {
        let decision = match body {
            RequestBody::TaskBegin { .. } => state.decisions.pop_front().unwrap_or(Decision::Normal),
            _ => Decision::Normal,
        };
        let (device, refuse) = (state.device, state.refuse_extensions);
        let mut cell = state.cells[slot.index()].take().unwrap_or_else(empty_cell);
        let has_task = cell.state != 0;
        let senseless = match body {
            RequestBody::TaskBegin { requirement, .. } => {
                decide(&mut cell, decision, *requirement, device);
                has_task
            }
            RequestBody::TaskExtend { bytes } => {
                cell.flags &= !FLAG_EXTEND_REFUSED;
                if refuse {
                    cell.flags |= FLAG_EXTEND_REFUSED;
                } else {
                    cell.requirement += bytes;
                    if state.oversubscribe_extensions {
                        (cell.class, cell.flags) = (CLASS_EAGER, cell.flags | FLAG_MANAGED);
                    }
                    cell.grant += if cell.class == CLASS_NORMAL { *bytes } else { 0 };
                }
                !has_task
            }
            RequestBody::TaskShrink { bytes } => {
                let short = cell.requirement < *bytes;
                cell.requirement = cell.requirement.saturating_sub(*bytes);
                cell.grant = cell.grant.min(cell.requirement);
                short || !has_task
            }
            RequestBody::TaskEnd => {
                (cell.state, cell.requirement, cell.grant) = (0, 0, 0);
                !has_task
            }
            _ => !has_task,
        };
        if senseless {
            state.violations.push(format!("slot {} {body:?} on {cell:?}", slot.index()));
        }
        cell.answered = if cell.state == STATE_WAITING { cell.answered } else { sequence };
        cell.sequence = cell.sequence.wrapping_add(2);
        state.cells[slot.index()] = Some(cell);
    }
}

fn empty_cell() -> TaskCell {
    TaskCell {
        sequence: 0,
        state: 0,
        answered: u32::MAX,
        device: 0,
        class: 0,
        flags: 0,
        grant: 0,
        requirement: 0,
        gate: gate::pack(true, 0, u64::MAX),
        reason: 0,
        reserved: 0,
        padding: [0; 8],
    }
}

fn decide(cell: &mut TaskCell, decision: Decision, requirement: u64, device: u32) {
    (cell.requirement, cell.device, cell.state) = (requirement, device, STATE_BOUND);
    match decision {
        Decision::Normal => {
            (cell.class, cell.flags, cell.grant) = (CLASS_NORMAL, FLAG_HIGH_PRIORITY, requirement)
        }
        Decision::Releasing => {
            let flags = FLAG_HIGH_PRIORITY | FLAG_RELEASES;
            (cell.class, cell.flags, cell.grant) = (CLASS_NORMAL, flags, requirement)
        }
        Decision::Eager(grant) => (cell.class, cell.flags, cell.grant) = (CLASS_EAGER, FLAG_MANAGED, grant),
        Decision::EagerReleasing(grant) => {
            (cell.class, cell.flags, cell.grant) = (CLASS_EAGER, FLAG_MANAGED | FLAG_RELEASES, grant);
        }
        Decision::Refuse => (cell.state, cell.reason, cell.requirement) = (STATE_REFUSED, 9, 0),
        Decision::TooLarge => {
            (cell.state, cell.reason, cell.requirement) = (STATE_REFUSED, REASON_TOO_LARGE, 0);
        }
        Decision::Wait => cell.state = STATE_WAITING,
    }
}

impl Scheduler for Arc<FakeDaemon> {
    fn habits(&self) -> eager_units::Habits {
        let Habits { late_reservation, early_copies, live_requirement, fast_copies, .. } =
            self.0.lock().habits;
        let release_dead = false;
        eager_units::Habits { release_dead, late_reservation, early_copies, live_requirement, fast_copies }
    }

    fn grant_max(&self) -> Option<u64> {
        self.0.lock().habits.grant_max
    }

    fn devices(&self) -> Vec<Uuid> {
        self.0.lock().uuids.clone()
    }

    fn send(&self, slot: Slot, body: RequestBody) -> Result<u32, Unsent> {
        let meanwhile = {
            let mut waiting = self.1.lock();
            let found = waiting.iter().position(|(wanted, _)| *wanted == body);
            found.map(|index| waiting.remove(index).1)
        };
        meanwhile.into_iter().for_each(|meanwhile| meanwhile());
        let mut state = self.0.lock();
        if state.gone {
            return Err(Unsent::Gone);
        }
        state.sequence += 1;
        let sequence = state.sequence;
        state.requests.push(body.clone());
        if !state.stopped {
            FakeDaemon::answer(&mut state, slot, sequence, &body);
        }
        Ok(sequence)
    }

    fn cell(&self, slot: Slot) -> Option<TaskCell> {
        let mut state = self.0.lock();
        state.cell_reads += 1;
        (!state.gone).then(|| state.cells[slot.index()].unwrap_or_else(empty_cell))
    }

    fn is_gone(&self) -> bool {
        self.0.lock().gone
    }

    fn sequence(&self, slot: Slot) -> u32 {
        self.0.lock().cells[slot.index()].map_or(0, |cell| cell.sequence)
    }

    fn reason(&self, slot: Slot) -> String {
        let state = self.0.lock();
        let refused = |cell: &TaskCell| cell.state == STATE_REFUSED || cell.flags & FLAG_EXTEND_REFUSED != 0;
        let refused = state.cells[slot.index()].as_ref().is_some_and(refused);
        if refused { "refused: too much is wanted".into() } else { String::new() }
    }

    fn gate(&self, slot: Slot) -> u64 {
        self.0.lock().cells[slot.index()].map_or(0, |cell| cell.gate)
    }

    fn flags(&self, slot: Slot) -> u32 {
        self.0.lock().cells[slot.index()].map_or(0, |cell| cell.flags)
    }

    fn wait(&self, slot: Slot, sequence: u32, timeout: Duration) -> Wake {
        let step = {
            let mut state = self.0.lock();
            state.sleeps.push(timeout);
            if state.gone {
                return Wake::Gone;
            }
            if state.stopped {
                return Wake::TimedOut;
            }
            if state.cells[slot.index()].is_some_and(|cell| cell.sequence != sequence) {
                return Wake::Changed;
            }
            state.steps.pop_front()
        };
        // A test that forgot a step ends here and not in an endless sleep.
        let step = step.unwrap_or_else(|| panic!("slot {} would sleep for ever", slot.index()));
        step(self);
        if self.0.lock().gone { Wake::Gone } else { Wake::Changed }
    }

    fn heard(&self) -> bool {
        !self.0.lock().stopped
    }

    fn add_launched(&self, _slot: Slot, launches: u64) {
        self.0.lock().launched += launches;
    }

    fn add_retired(&self, _slot: Slot, launches: u64) {
        self.0.lock().retired += launches;
    }
}
