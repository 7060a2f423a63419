//! Reads a journal line by line, and tracks devices, tasks and their open slices.
//!
//! Trap: count an extension only when it is granted; the answer is an action of the same line.

use super::{Entry, Event, FlowId, Shows, Timeline, Track, TrackId, What};
use crate::names;
use eager_core::action::{Action, Gate};
use eager_core::event::{Event as Happened, KernelRequest};
use eager_core::journal::JournalLine;
use eager_core::model;
use eager_core::reason::Reason;
use eager_core::scheduler::Image;
use eager_units::{Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Reader {
    pub timeline: Timeline,
    now: Nanos,
    queue: Option<TrackId>,
    /// Track of commands to the daemon, once there was a command.
    commands: Option<TrackId>,
    devices: BTreeMap<DeviceId, Device>,
    clients: BTreeMap<ClientId, String>,
    tasks: BTreeMap<TaskId, Task>,
}

#[derive(Debug)]
struct Device {
    group: TrackId,
    granted: TrackId,
    missing: TrackId,
    tasks: TrackId,
    /// Values last shown on the three counters, so that unchanged values are not repeated.
    shown: [Option<u64>; 3],
    /// Track of memory used by programs that are not scheduled, once there was any.
    foreign: Option<TrackId>,
    /// By reason why no new task starts here: its track, once the reason applied, and whether it applies now.
    closed: BTreeMap<&'static str, (TrackId, bool)>,
}

#[derive(Debug)]
struct Task {
    client: ClientId,
    name: String,
    requirement: Bytes,
    /// Track of the task's wait, while it waits.
    waits: Option<TrackId>,
    held_by: Option<u32>,
    bound: Option<Bound>,
}

#[derive(Debug)]
struct Bound {
    device: DeviceId,
    class: Class,
    grant: Bytes,
    track: TrackId,
    held: Option<KernelRequest>,
    /// Track of the task's kernels, and whether any run.
    kernels: Option<(TrackId, bool)>,
}

fn note(name: &'static str, value: impl ToString) -> (&'static str, String) {
    (name, names::in_text(&value.to_string()))
}

impl Reader {
    pub fn line(&mut self, line: &JournalLine) {
        self.now = line.now;
        self.happened(&line.event);
        for action in &line.actions {
            self.decided(action, &line.event);
        }
        // Ends come last, because the same step may have promoted other tasks with the memory of the task that ended.
        match &line.event {
            Happened::TaskEnd { task } => self.end(*task),
            Happened::ClientGone { client } => {
                let theirs = self.tasks.iter().filter(|(_, task)| task.client == *client);
                for task in theirs.map(|(id, _)| *id).collect::<Vec<_>>() {
                    self.end(task);
                }
            }
            _ => {}
        }
        self.count();
    }

    /// Starts from the state that a piece records at its beginning. Reasons for waiting are in earlier pieces only.
    pub fn begin_with(&mut self, image: &Image) {
        self.now = image.now();
        for model::Device { id, profile, drained, lost, .. } in image.devices() {
            self.happened(&Happened::DeviceAdded { device: *id, profile: profile.clone() });
            self.close(*id, "drained", *drained);
            self.close(*id, "lost", *lost);
        }
        for client in image.clients() {
            self.clients.insert(client.id, client.label.clone());
        }
        let mut tasks: Vec<&model::Task> = image.tasks().iter().collect();
        tasks.sort_by_key(|task| (task.arrival, task.id));
        for task in tasks {
            self.begun(task.id, task.client, &task.request.function, task.requirement);
            match task.bound() {
                None => {
                    self.wait(task.id, &"it waited before this begins");
                    self.hold_back(task.id, task.request.held_by);
                }
                Some(bound) => {
                    self.bind(task.id, bound.device, bound.class, bound.grant, &bound.reason);
                    if let Some((kernel, _)) = &bound.held {
                        self.hold(task.id, kernel);
                    }
                    self.kernels(task.id, bound.watched && bound.activity == model::Activity::Busy);
                }
            }
        }
        self.count();
    }

    fn happened(&mut self, event: &Happened) {
        match event {
            Happened::DeviceAdded { device, profile } => {
                let group = self.track(format!("{device}: {}", profile.name), None, Shows::Tracks);
                let [granted, missing, tasks] = [
                    ("memory granted", Shows::Bytes),
                    ("memory missing to eager tasks", Shows::Bytes),
                    ("tasks", Shows::Count),
                ]
                .map(|(name, shows)| self.track(name.into(), Some(group), shows));
                self.devices.insert(
                    *device,
                    Device {
                        group,
                        granted,
                        missing,
                        tasks,
                        shown: [None; 3],
                        foreign: None,
                        closed: BTreeMap::new(),
                    },
                );
            }
            Happened::ClientConnected { client, label, .. } => {
                self.clients.insert(*client, label.clone());
            }
            Happened::TaskBegin { task, client, request } => {
                self.begun(*task, *client, &request.function, request.requirement);
                self.hold_back(*task, request.held_by);
            }
            Happened::Restored { tasks, .. } => {
                for task in tasks {
                    let reason = Reason::Restored { device: task.device, grant: task.grant };
                    self.begun(task.task, task.client, &task.request.function, task.requirement);
                    self.bind(task.task, task.device, task.class, task.grant, &reason);
                }
            }
            Happened::TaskShrink { task, bytes } => {
                if let Some(task) = self.tasks.get_mut(task) {
                    task.requirement = task.requirement.saturating_sub(*bytes);
                }
            }
            Happened::AllLaunched { task } => self.mark(*task, "all launched", "task", Vec::new()),
            Happened::KernelHeld { task, kernel } => self.hold(*task, kernel),
            Happened::Busy { task } => self.kernels(*task, true),
            Happened::Idle { task } => self.kernels(*task, false),
            Happened::Promoted { task } => self.mark(*task, "data moved in", "promoted", Vec::new()),
            Happened::Reniced { client, nice } => self.mark_command(format!("{client} has nice {nice}")),
            Happened::TaskExtend { .. }
            | Happened::TaskEnd { .. }
            | Happened::ClientGone { .. }
            | Happened::Cancelled { .. }
            | Happened::Frozen { .. }
            | Happened::Thawed { .. }
            | Happened::Tick => {}
            Happened::LimitsSet { .. } => self.mark_command("other limits".into()),
            Happened::PolicySet { policy } => self.mark_command(format!("policy {policy} set")),
            Happened::Reverted { why } => self.mark_command(format!("case decides: the policy {why}")),
            Happened::Held { task, by } => self.hold_back(*task, Some(*by)),
            Happened::Released { task } => self.hold_back(*task, None),
            Happened::PrioritySet { task, priority } => {
                self.mark_command(format!("{task} has priority {priority}"))
            }
            Happened::Observed { device, foreign, .. } => self.foreign(*device, *foreign),
            Happened::Drained { device } => self.close(*device, "drained", true),
            Happened::Undrained { device } => self.close(*device, "drained", false),
            Happened::DeviceLost { device } => self.close(*device, "lost", true),
            Happened::DeviceFound { device } => self.close(*device, "lost", false),
        }
    }

    fn foreign(&mut self, id: DeviceId, bytes: Bytes) {
        let Some(&Device { group, foreign, .. }) = self.devices.get(&id) else { return };
        if foreign.is_none() && bytes == Bytes::ZERO {
            return;
        }
        let name = || "memory of programs not scheduled".to_owned();
        let track = foreign.unwrap_or_else(|| self.track(name(), Some(group), Shows::Bytes));
        if let Some(device) = self.devices.get_mut(&id) {
            device.foreign = Some(track);
        }
        self.put(track, What::Value(bytes.0));
    }

    /// Opens or closes the slice in which no new task starts on the device for this reason.
    fn close(&mut self, id: DeviceId, why: &'static str, now: bool) {
        let Some(device) = self.devices.get(&id) else { return };
        let (group, known) = (device.group, device.closed.get(why).copied());
        if known.is_some_and(|(_, is_so)| is_so) == now {
            return;
        }
        let name = || format!("nothing new starts: {why}");
        let track = known.map_or_else(|| self.track(name(), Some(group), Shows::Slices), |(track, _)| track);
        if let Some(device) = self.devices.get_mut(&id) {
            device.closed.insert(why, (track, now));
        }
        let slice = Event { name: why.into(), category: "device", ..Event::default() };
        self.put(track, if now { What::Begin(slice) } else { What::End });
    }

    fn begun(&mut self, id: TaskId, client: ClientId, function: &str, requirement: Bytes) {
        let label = self.clients.get(&client).map_or("", String::as_str);
        let name = match function {
            "" => format!("{id}: {label}"),
            function => format!("{id}: {label} ({})", names::readable(function)),
        };
        self.tasks.insert(id, Task { client, name, requirement, waits: None, held_by: None, bound: None });
    }

    /// Marks in the task's wait the slice from when a person holds the task to when it is released or its wait ends.
    fn hold_back(&mut self, id: TaskId, by: Option<u32>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let before = std::mem::replace(&mut task.held_by, by);
        let Some(track) = task.waits.filter(|_| before.is_some() != by.is_some()) else { return };
        self.put(track, by.map_or(What::End, held_slice));
    }

    fn end_wait(&mut self, id: TaskId) {
        self.hold_back(id, None);
        if let Some(track) = self.tasks.get_mut(&id).and_then(|task| task.waits.take()) {
            self.put(track, What::End);
        }
    }

    /// Marks a command to the daemon. The journal also has policy changes that failed; the lines after them show
    /// that.
    fn mark_command(&mut self, name: String) {
        let new_track = || new_track(&mut self.timeline, "daemon".into(), None, Shows::Slices);
        let track = *self.commands.get_or_insert_with(new_track);
        self.put(track, What::Mark(Event { name, category: "daemon", ..Event::default() }));
    }

    fn decided(&mut self, action: &Action, event: &Happened) {
        match action {
            Action::Wait { task, reason } => self.wait(*task, reason),
            Action::Bind { task, device, class, grant, reason, .. } => {
                self.bind(*task, *device, *class, *grant, reason);
            }
            Action::Regrant { task, grant, class, reason } => {
                if let Happened::TaskExtend { task: asks, bytes } = event
                    && asks == task
                    && let Some(task) = self.tasks.get_mut(task)
                {
                    task.requirement = task.requirement.saturating_add(*bytes);
                }
                self.regrant(*task, *grant, *class, reason);
            }
            Action::SetGate { task, gate, reason } => self.gate(*task, *gate, reason),
            Action::Refuse { task, reason } => self.refuse(*task, reason),
            Action::Overrun { client, reason, .. } => {
                let theirs = self.tasks.iter().filter(|(_, task)| task.client == *client);
                for task in theirs.map(|(id, _)| *id).collect::<Vec<_>>() {
                    self.mark(task, "overrun", "task", vec![note("why", reason)]);
                }
            }
            Action::Reinstated { policy, reason } => self.mark_command(format!("{policy} {reason}")),
            Action::Stranded { task, reason, .. } => {
                self.mark(*task, "stranded", "task", vec![note("why", reason)]);
            }
            Action::Overstay { task, reason, .. } => {
                self.mark(*task, "overstay", "task", vec![note("why", reason)]);
            }
            Action::Watch { task, on } => {
                if !on {
                    self.kernels(*task, false);
                }
            }
        }
    }

    fn wait(&mut self, id: TaskId, reason: &impl std::fmt::Display) {
        let Some(task) = self.tasks.get(&id) else { return };
        let notes = vec![note("requirement", task.requirement), note("why", reason)];
        if let Some(track) = task.waits {
            self.put(
                track,
                What::Mark(Event { name: reason.to_string(), category: "wait", notes, flow: None }),
            );
            return;
        }
        let name = task.name.clone();
        let new_queue = || new_track(&mut self.timeline, "queue".into(), None, Shows::Tracks);
        let queue = *self.queue.get_or_insert_with(new_queue);
        let track = self.track(name, Some(queue), Shows::Slices);
        let wait = Event { name: "waits".into(), category: "wait", notes, flow: Some(FlowId(id.0)) };
        self.put(track, What::Begin(wait));
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.waits = Some(track);
        if let Some(by) = task.held_by {
            self.put(track, held_slice(by));
        }
    }

    fn bind(&mut self, id: TaskId, on: DeviceId, class: Class, grant: Bytes, reason: &Reason) {
        let (Some(task), Some(device)) = (self.tasks.get(&id), self.devices.get(&on)) else { return };
        let (name, requirement, waited) = (task.name.clone(), task.requirement, task.waits);
        let group = device.group;
        self.end_wait(id);
        let track = self.track(name.clone(), Some(group), Shows::Slices);
        let notes = vec![note("requirement", requirement), note("why", reason)];
        // An arrow needs a second end: the wait before, or the promotion to come.
        let flow = (waited.is_some() || class == Class::Eager).then_some(FlowId(id.0));
        self.put(track, What::Begin(Event { name, category: "task", notes, flow }));
        self.put(track, What::Begin(class_slice(class, grant)));
        if let Some(task) = self.tasks.get_mut(&id) {
            task.bound = Some(Bound { device: on, class, grant, track, held: None, kernels: None });
        }
    }

    fn regrant(&mut self, id: TaskId, grant: Bytes, class: Class, reason: &Reason) {
        let Some(bound) = self.tasks.get_mut(&id).and_then(|task| task.bound.as_mut()) else { return };
        bound.grant = grant;
        let (before, track) = (std::mem::replace(&mut bound.class, class), bound.track);
        let notes = vec![note("granted", grant), note("why", reason)];
        if before == class {
            self.put(
                track,
                What::Mark(Event { name: reason.to_string(), category: "task", notes, flow: None }),
            );
            return;
        }
        let held = bound.held.take();
        if held.is_some() {
            self.put(track, What::End);
        }
        self.put(track, What::End);
        self.put(track, What::Begin(class_slice(class, grant)));
        let flow = (class == Class::Promoted).then_some(FlowId(id.0));
        self.put(track, What::Mark(Event { name: class.to_string(), category: "promoted", notes, flow }));
        if let Some(kernel) = held {
            self.hold(id, &kernel);
        }
    }

    fn hold(&mut self, id: TaskId, kernel: &KernelRequest) {
        let Some(bound) = self.tasks.get_mut(&id).and_then(|task| task.bound.as_mut()) else { return };
        let track = bound.track;
        if bound.held.replace(kernel.clone()).is_some() {
            self.put(track, What::End);
        }
        let notes = vec![note("footprint", kernel.footprint), note("static size", kernel.static_size)];
        let name = format!("{} is held at the gate", names::readable(&kernel.name));
        self.put(track, What::Begin(Event { name, category: "gate", notes, flow: None }));
    }

    fn gate(&mut self, id: TaskId, gate: Gate, reason: &Reason) {
        let Some(bound) = self.tasks.get_mut(&id).and_then(|task| task.bound.as_mut()) else { return };
        let track = bound.track;
        let opens = match gate {
            Gate::Ungated | Gate::Go { allowed: None } => true,
            Gate::Go { allowed: Some(allowed) } => {
                bound.held.as_ref().is_some_and(|kernel| kernel.footprint <= allowed)
            }
            Gate::Hold => false,
        };
        if opens && bound.held.take().is_some() {
            self.put(track, What::End);
        }
        let name = match reason {
            Reason::AllHaveLaunched { .. } => "barrier opens".to_owned(),
            _ => format!("gate: {gate}"),
        };
        self.mark(id, &name, "gate", vec![note("why", reason)]);
    }

    fn refuse(&mut self, id: TaskId, reason: &Reason) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if task.bound.is_some() {
            self.mark(id, "more memory refused", "task", vec![note("why", reason)]);
            return;
        }
        // Most refusals answer the request at once, so no wait is open; a wait is opened to make the refusal visible.
        if task.waits.is_none() {
            self.wait(id, reason);
        }
        if let Some(track) = self.tasks.get(&id).and_then(|task| task.waits) {
            let notes = vec![note("why", reason)];
            self.put(
                track,
                What::Mark(Event { name: "refused".into(), category: "wait", notes, flow: None }),
            );
        }
        self.end(id);
    }

    fn kernels(&mut self, id: TaskId, run: bool) {
        let Some(bound) = self.tasks.get(&id).and_then(|task| task.bound.as_ref()) else { return };
        let (parent, now) = (bound.track, bound.kernels);
        match (now, run) {
            (Some((track, false)), true) => self.put(track, What::Begin(kernels_slice())),
            (Some((track, true)), false) => self.put(track, What::End),
            (None, true) => {
                let track = self.track("kernels".into(), Some(parent), Shows::Slices);
                self.put(track, What::Begin(kernels_slice()));
                self.note_kernels(id, Some((track, true)));
                return;
            }
            _ => return,
        }
        self.note_kernels(id, now.map(|(track, _)| (track, run)));
    }

    fn note_kernels(&mut self, id: TaskId, kernels: Option<(TrackId, bool)>) {
        if let Some(bound) = self.tasks.get_mut(&id).and_then(|task| task.bound.as_mut()) {
            bound.kernels = kernels;
        }
    }

    fn end(&mut self, id: TaskId) {
        self.kernels(id, false);
        self.end_wait(id);
        let Some(task) = self.tasks.remove(&id) else { return };
        if let Some(bound) = task.bound {
            // Ends the slices of the kernel at the gate, if any, of the class, and of the task.
            for _ in 0..2 + usize::from(bound.held.is_some()) {
                self.put(bound.track, What::End);
            }
        }
    }

    /// Updates the devices' counters to the state after a line.
    fn count(&mut self) {
        let mut sums: BTreeMap<DeviceId, [u64; 3]> = BTreeMap::new();
        for task in self.tasks.values() {
            let Some(bound) = &task.bound else { continue };
            let sum = sums.entry(bound.device).or_default();
            sum[0] = sum[0].saturating_add(bound.grant.0);
            sum[1] = sum[1].saturating_add(task.requirement.saturating_sub(bound.grant).0);
            sum[2] += 1;
        }
        for (id, device) in &mut self.devices {
            let sum = sums.get(id).copied().unwrap_or_default();
            for (index, track) in [device.granted, device.missing, device.tasks].into_iter().enumerate() {
                if device.shown[index].replace(sum[index]) != Some(sum[index]) {
                    let (at, what) = (self.now, What::Value(sum[index]));
                    self.timeline.entries.push(Entry { at, track, what });
                }
            }
        }
    }

    fn mark(&mut self, id: TaskId, name: &str, category: &'static str, notes: Vec<(&'static str, String)>) {
        if let Some(bound) = self.tasks.get(&id).and_then(|task| task.bound.as_ref()) {
            let mark = Event { name: name.to_owned(), category, notes, flow: None };
            self.put(bound.track, What::Mark(mark));
        }
    }

    fn track(&mut self, name: String, parent: Option<TrackId>, shows: Shows) -> TrackId {
        new_track(&mut self.timeline, name, parent, shows)
    }

    fn put(&mut self, track: TrackId, what: What) {
        self.timeline.entries.push(Entry { at: self.now, track, what });
    }
}

fn new_track(timeline: &mut Timeline, name: String, parent: Option<TrackId>, shows: Shows) -> TrackId {
    timeline.tracks.push(Track { name, parent, shows });
    TrackId(timeline.tracks.len() - 1)
}

fn class_slice(class: Class, grant: Bytes) -> Event {
    let category = match class {
        Class::Normal => "normal",
        Class::Eager => "eager",
        Class::Promoted => "promoted",
    };
    Event { name: category.into(), category, notes: vec![note("granted", grant)], flow: None }
}

fn held_slice(by: u32) -> What {
    let notes = vec![note("by uid", by)];
    What::Begin(Event { name: "held".into(), category: "wait", notes, flow: None })
}

fn kernels_slice() -> Event {
    Event { name: "kernels run".into(), category: "kernels", ..Event::default() }
}
