//! The scheduler: takes an event, settles everything that follows from it, and returns actions with reasons.
//!
//! Trap: events come from untrusted programs. An event that makes no sense changes nothing and is counted
//! ([`Scheduler::anomalies`]); it must neither panic nor become an error that the caller has to handle.

mod admin;
mod aside;
mod circle;
mod company;
mod explain;
mod image;
mod lines;
mod lost;
mod observed;
mod overdue;
mod overstay;
mod ranks;
mod restore;
mod revert;
mod rounds;
mod serve;
mod settle;
mod stopped;
mod switch;
mod tasks;
mod touched;
mod view;

pub use explain::{Offer, Outlook, Standing};
pub use image::{Image, InvalidImage};
pub use view::{DeviceView, Share, Stage, TaskView};

use crate::action::Action;
use crate::event::{DeviceProfile, Event};
use crate::limits::Limits;
use crate::model::{Activity, Bound, Client, Device, Seen, State, Task, View};
use crate::options::Options;
use crate::policy::{GateRule, MemoryRule, Policy, PolicyName, Traits};
use crate::queue::Queue;
use eager_units::{Bytes, ClientId, DeviceId, Nanos, TaskId};
use lines::Lines;
use revert::Replaced;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use touched::Touched;

/// Capacity of a device whose memory is not limited: large, and far from overflow.
const ENDLESS: Bytes = Bytes(1 << 60);

/// Kinds of events that make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anomaly {
    TimeWentBack,
    DuplicateDevice,
    DuplicateClient,
    DuplicateTask,
    UnknownClient,
    UnknownDevice,
    /// The task never began, has ended or was refused, or its client is gone.
    UnknownTask,
    /// The task has no device yet.
    NotBound,
    /// The task gave back more than it ever had.
    ShrankTooMuch,
    RepeatedAllLaunched,
    /// The task was not promoted.
    NotPromoted,
    /// The device is drained already, or is not drained.
    RepeatedDrain,
    /// The task has a device already.
    NotWaiting,
    /// The task is not held.
    NotHeld,
    /// The device is lost already, or is not lost.
    RepeatedLoss,
    /// `case` decides in place of a failed policy already.
    RepeatedReversion,
    /// A policy proposed a placement that the ledger does not allow: a defect of the policy.
    DroppedProposal,
    /// A task of an earlier scheduler whose device or client does not exist, or whose grant does not fit any more.
    NotRestored,
}

/// Policy, options, and the state that events change.
#[derive(Debug)]
pub struct Scheduler {
    name: PolicyName,
    policy: Policy,
    traits: Traits,
    options: Options,
    state: State,
    anomalies: BTreeMap<Anomaly, u64>,
    /// Time of the last step.
    now: Nanos,
    arrivals: u64,
    /// When a task that was not refused last asked for a device.
    asked_last: Option<Nanos>,
    queue: Queue,
    /// Waiting tasks that may not enter the queue yet.
    aside: BTreeSet<TaskId>,
    /// The user of each queued task, and the tasks that wait behind the queue.
    lines: Lines,
    retry: Retry,
    /// Devices that this step affected: their eager tasks, slices, gates and watches are looked at.
    touched: Touched,
    /// Time of the last event from a program that holds something.
    silent_since: Nanos,
    /// Earliest time at which a predicted end is near enough for an eager start.
    promotion_expected: Option<Nanos>,
    /// The policy that `case` stands in for.
    replaced: Option<Replaced>,
    /// How often a policy was replaced since the last [`Event::PolicySet`].
    reversions: u32,
    /// When the last uninformed client disconnected.
    uninformed_gone: Option<Nanos>,
    /// The first overdue task, and the step since which it is; for the invariants only.
    overdue_since: Option<(TaskId, Nanos)>,
}

/// Waiting tasks that may be able to start after this step's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    None,
    /// Nothing was freed, so only the task that arrived with this event.
    Newcomer(TaskId),
    NewcomerAndFitting(TaskId),
    /// Memory was freed or a task left the queue: tasks that fit now.
    Fitting,
    /// Every waiting task: no earlier reason to wait needs to hold any more, as after a new device.
    All,
}

impl Scheduler {
    pub fn new(name: PolicyName, options: Options) -> Scheduler {
        let policy = Policy::of(name);
        Scheduler::with(name, policy, options)
    }

    fn with(name: PolicyName, policy: Policy, options: Options) -> Scheduler {
        let traits = policy.traits().under(&options);
        Scheduler {
            name,
            traits,
            policy,
            state: State::default(),
            options,
            anomalies: BTreeMap::new(),
            now: Nanos::default(),
            arrivals: 0,
            asked_last: None,
            queue: Queue::new(traits.queue),
            aside: BTreeSet::new(),
            lines: Lines::default(),
            retry: Retry::None,
            touched: Touched::default(),
            silent_since: Nanos::default(),
            promotion_expected: None,
            replaced: None,
            reversions: 0,
            uninformed_gone: None,
            overdue_since: None,
        }
    }

    /// Replaces the policy by a faulty one before anything has happened, for tests of the code that must survive one.
    #[cfg(feature = "test-tools")]
    pub fn spoil(&mut self, fault: crate::policy::faulty::Fault) {
        let faulty = Policy::with_fault(self.name, Some(fault));
        *self = Scheduler::with(self.name, faulty, self.options.clone());
    }

    /// Takes in one event and appends the actions that follow, in order. `now` must not go back; if it does, the time
    /// of the last step is used.
    pub fn step(&mut self, now: Nanos, event: Event, out: &mut Vec<Action>) {
        if now < self.now {
            self.count(Anomaly::TimeWentBack);
        }
        self.charge_slices(now.saturating_sub(self.now));
        self.now = self.now.max(now);
        if let Err(anomaly) = self.take_in(event, out) {
            self.count(anomaly);
        }
        self.retry_by_clock();
        self.take_from_aside();
        self.settle_all(out);
        if self.reinstate(out) {
            self.settle_all(out);
        }
        self.find_overstays(out);
        self.note_overdue();
    }

    fn settle_all(&mut self, out: &mut Vec<Action>) {
        self.settle(out);
        // A refused or bound task may have made room for other tasks of its user.
        while self.take_from_aside() || self.take_from_behind() {
            self.settle(out);
        }
    }

    /// When to send [`Event::Tick`] if no other event comes before.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let deadlines = [
            self.hold_deadline(),
            self.slice_deadline(),
            self.circle_deadline(),
            self.promotion_expected,
            self.aside_deadline(),
            self.overstay_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn hold_deadline(&self) -> Option<Nanos> {
        self.state.devices.values().filter_map(|device| self.held_until(device)).min()
    }

    /// Notes an event of a client, and marks the devices of its tasks, since gates there depend on whether one of its
    /// programs is stopped. `marked`: a task whose device is marked already.
    fn touch_client(&mut self, id: ClientId, marked: Option<TaskId>) {
        let Some(client) = self.state.clients.get(&id) else { return };
        if client.contexts.is_empty() {
            // The client holds nothing anywhere, and has no part in a circle.
            return;
        }
        self.silent_since = self.now;
        if self.traits.gate != GateRule::None {
            let others = client.tasks.iter().filter(|id| Some(**id) != marked);
            let bound = others.filter_map(|id| self.state.tasks.get(id)?.bound());
            bound.for_each(|bound| self.touched.devices.add(bound.device));
        }
    }

    fn touch_task(&mut self, id: TaskId) {
        let Some(task) = self.state.tasks.get(&id) else { return };
        if let Some(bound) = task.bound() {
            self.touched.tasks.push((bound.device, id));
            self.touched.devices.add(bound.device);
        }
        self.touch_client(task.client, Some(id));
    }

    fn touch_all(&mut self) {
        self.touched.everything = true;
        self.state.devices.keys().for_each(|&id| self.touched.devices.add(id));
    }

    fn take_in(&mut self, event: Event, out: &mut Vec<Action>) -> Result<(), Anomaly> {
        // Marked before the event is applied, since a task that ends is gone after it.
        match &event {
            Event::TaskExtend { task, .. }
            | Event::TaskShrink { task, .. }
            | Event::AllLaunched { task }
            | Event::TaskEnd { task }
            | Event::KernelHeld { task, .. }
            | Event::Busy { task }
            | Event::Idle { task }
            | Event::Promoted { task } => self.touch_task(*task),
            Event::TaskBegin { client, .. }
            | Event::ClientGone { client }
            | Event::Frozen { client }
            | Event::Reniced { client, .. }
            | Event::Thawed { client } => self.touch_client(*client, None),
            Event::DeviceAdded { .. }
            | Event::ClientConnected { .. }
            | Event::Observed { .. }
            | Event::Drained { .. }
            | Event::Undrained { .. }
            | Event::Held { .. }
            | Event::Released { .. }
            | Event::PrioritySet { .. }
            | Event::Cancelled { .. }
            | Event::PolicySet { .. }
            | Event::Reverted { .. }
            | Event::DeviceLost { .. }
            | Event::DeviceFound { .. } => {}
            Event::Tick | Event::Restored { .. } | Event::LimitsSet { .. } => self.touch_all(),
        }
        match event {
            Event::DeviceAdded { device, profile } => self.add_device(device, profile),
            Event::ClientConnected { client, uid, label, informed, same_process, nice } => {
                self.add_client(client, uid, label, informed, same_process, nice)
            }
            Event::Reniced { client, nice } => self.renice(client, nice),
            Event::ClientGone { client } => self.drop_client(client),
            Event::TaskBegin { task, client, request } => self.begin(task, client, request),
            Event::TaskExtend { task, bytes } => self.extend(task, bytes, out),
            Event::TaskShrink { task, bytes } => self.shrink(task, bytes, out),
            Event::AllLaunched { task } => self.all_launched(task),
            Event::TaskEnd { task } => self.end(task),
            Event::KernelHeld { task, kernel } => self.kernel_held(task, kernel),
            Event::Busy { task } => self.note_activity(task, Activity::Busy),
            Event::Idle { task } => self.note_activity(task, Activity::Idle),
            Event::Promoted { task } => self.promotion_done(task),
            Event::Frozen { client } => self.freeze(client, true),
            Event::Thawed { client } => self.freeze(client, false),
            Event::Tick => Ok(()),
            Event::Restored { tasks, contexts } => self.restore(tasks, &contexts),
            Event::Observed { device, foreign, clients } => self.observe(device, foreign, clients, out),
            Event::LimitsSet { limits } => self.set_limits(limits),
            Event::Drained { device } => self.drain(device, true),
            Event::Undrained { device } => self.drain(device, false),
            Event::Held { task, by } => self.hold_back(task, by, out),
            Event::Released { task } => self.release(task),
            Event::PrioritySet { task, priority } => self.set_priority(task, priority),
            Event::Cancelled { task, by } => self.cancel(task, by, out),
            Event::PolicySet { policy } => self.set_policy(policy, out),
            Event::Reverted { .. } => self.revert(out),
            Event::DeviceLost { device } => self.lose_device(device, out),
            Event::DeviceFound { device } => self.recover_device(device),
        }
    }

    fn add_device(&mut self, id: DeviceId, profile: DeviceProfile) -> Result<(), Anomaly> {
        if self.state.devices.contains_key(&id) {
            return Err(Anomaly::DuplicateDevice);
        }
        let device = Device {
            id,
            capacity: if self.traits.memory == MemoryRule::Counted { profile.capacity } else { ENDLESS },
            task_max: match self.traits.memory {
                MemoryRule::Counted => profile.capacity,
                MemoryRule::Ignored | MemoryRule::Paged => profile.capacity.min(ENDLESS),
                MemoryRule::Endless => ENDLESS,
            },
            profile,
            granted: Bytes::ZERO,
            drained: false,
            lost: false,
            contexts: Bytes::ZERO,
            programs: BTreeMap::new(),
            idle: BTreeMap::new(),
            foreign: Seen::default(),
            unaccounted: Bytes::ZERO,
            warps: 0,
            tasks: BTreeSet::new(),
            eager: BTreeSet::new(),
            held: BTreeSet::new(),
            slices: Vec::new(),
            virtual_time: 0,
        };
        self.state.add_device(device);
        self.touched.devices.add(id);
        self.retry = Retry::All;
        Ok(())
    }

    fn set_limits(&mut self, limits: Limits) -> Result<(), Anomaly> {
        self.options.limits = limits;
        self.look_behind();
        self.retry = Retry::All;
        Ok(())
    }

    fn add_client(
        &mut self,
        id: ClientId,
        uid: u32,
        label: String,
        informed: bool,
        same_process: Option<ClientId>,
        nice: i8,
    ) -> Result<(), Anomaly> {
        if self.state.clients.contains_key(&id) {
            return Err(Anomaly::DuplicateClient);
        }
        let earlier = same_process.and_then(|earlier| self.state.clients.get(&earlier));
        let client = Client {
            id,
            uid,
            label,
            informed,
            first_of_process: earlier.filter(|earlier| earlier.uid == uid).map(Client::program),
            tasks: BTreeSet::new(),
            contexts: BTreeSet::new(),
            idle_on: BTreeSet::new(),
            has_held: false,
            frozen: false,
            nice,
        };
        self.state.insert_client(client);
        Ok(())
    }

    fn drop_client(&mut self, id: ClientId) -> Result<(), Anomaly> {
        let context_bytes = self.options.context_bytes;
        if self.state.clients.get(&id).is_some_and(|client| !client.informed) {
            self.uninformed_gone = Some(self.now);
        }
        let (removed, contexts) =
            self.state.remove_client(id, context_bytes).ok_or(Anomaly::UnknownClient)?;
        contexts.iter().for_each(|&device| self.touched.devices.add(device));
        let frees_device = self.traits.assignment.is_by_program() || context_bytes > Bytes::ZERO;
        if (frees_device && !contexts.is_empty()) || !removed.is_empty() || self.traits.looks_at_the_clock() {
            self.retry = Retry::Fitting;
        }
        for task in removed {
            self.leave_queue(&task);
        }
        self.forget_use(id);
        Ok(())
    }

    /// Notes that a client's process stopped or continues. A stopped process cannot report that its kernels have ended,
    /// so the daemon looks at the device.
    fn freeze(&mut self, id: ClientId, frozen: bool) -> Result<(), Anomaly> {
        self.state.clients.get_mut(&id).ok_or(Anomaly::UnknownClient)?.frozen = frozen;
        if frozen {
            self.state.frozen.insert(id);
        } else {
            self.state.frozen.remove(&id);
        }
        Ok(())
    }

    fn renice(&mut self, id: ClientId, nice: i8) -> Result<(), Anomaly> {
        self.state.clients.get_mut(&id).ok_or(Anomaly::UnknownClient)?.nice = nice;
        Ok(())
    }

    fn bound(&mut self, id: TaskId) -> Result<&mut Bound, Anomaly> {
        let task = self.state.tasks.get_mut(&id).ok_or(Anomaly::UnknownTask)?;
        task.bound_mut().ok_or(Anomaly::NotBound)
    }

    fn count(&mut self, anomaly: Anomaly) {
        *self.anomalies.entry(anomaly).or_insert(0) += 1;
    }

    pub(crate) fn is_queued(&self, task: &Task) -> bool {
        self.queue.contains(task)
    }

    /// True if the task waits in exactly one place: in the queue, beside it, or behind it.
    pub(crate) fn waits_in_one_place(&self, task: &Task) -> bool {
        let places = [self.is_queued(task), self.aside.contains(&task.id), self.is_behind(task.id)];
        places.into_iter().filter(|stands| *stands).count() == 1
    }

    fn leave_queue(&mut self, task: &Task) {
        self.dequeue(task);
        self.aside.remove(&task.id);
    }

    fn read(&self) -> View<'_> {
        let (state, options, now) = (&self.state, &self.options, self.now);
        View {
            state,
            options,
            now,
            last_resort: false,
            reservation: None,
            ignores_drains: false,
            programs_per_device: self.traits.assignment.programs_per_device(&self.options),
            only: None,
            beside: None,
        }
    }
}

fn regrant(task: TaskId, bound: &Bound) -> Action {
    Action::Regrant { task, grant: bound.grant, class: bound.class, reason: bound.reason.clone() }
}
