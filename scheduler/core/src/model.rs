//! What the core knows: devices, clients, tasks. Anyone may read it; only the ledger changes what is granted.
//!
//! Trap: `Device::granted` is a running sum kept by the ledger; the truth is the grants of the bound tasks, and
//! [`crate::invariants::check`] compares the two. What a journal's image leaves out (`serde(skip)`) is made anew from the rest
//! (`scheduler/image.rs`).

use crate::action::Gate;
use crate::event::{DeviceProfile, KernelRequest, TaskRequest};
use crate::forecast;
use crate::index::{DeviceIndex, Keys};
use crate::options::Options;
use crate::protected::{Protected, Share};
use crate::reason::Reason;
use eager_units::{Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A device and what is reserved on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub id: DeviceId,
    pub profile: DeviceProfile,
    /// What the ledger may give away: the profile's, or without end where the policy does not count memory.
    pub capacity: Bytes,
    /// What one task may have at most: the profile's capacity, or without end under the policy `infinite`.
    pub task_max: Bytes,
    /// Sum of the grants of the tasks bound here.
    pub granted: Bytes,
    /// Nothing new starts here.
    pub drained: bool,
    /// Its driver does not have it.
    pub lost: bool,
    /// Set aside for the contexts of clients that are or were bound here.
    pub contexts: Bytes,
    /// How many of those clients have held no memory so far, anywhere; by user.
    #[serde(skip)]
    pub idle: BTreeMap<u32, u32>,
    /// What processes use here that are no clients.
    pub foreign: Seen,
    /// That, and what clients use beyond what they declared: in use, and granted to nobody.
    pub unaccounted: Bytes,
    /// Warps of the tasks bound here, by their launch geometry.
    #[serde(skip)]
    pub warps: u64,
    #[serde(skip)]
    pub tasks: BTreeSet<TaskId>,
    /// Those of them that run eagerly.
    #[serde(skip)]
    pub eager: BTreeSet<TaskId>,
    /// Those of them whose kernels' coming and going somebody must report.
    #[serde(skip)]
    pub watched: u32,
    /// Those of them that its eager tasks wait for; kept where kernels are judged one by one.
    #[serde(skip)]
    pub(crate) protected: Protected,
    /// Kernels that stand at closed gates, by the time since when.
    #[serde(skip)]
    pub held: BTreeSet<(Nanos, TaskId)>,
    /// Whose kernels may start, under [`crate::policy::GateRule::Turns`].
    pub turn: Option<Turn>,
    /// When that turn ends if nothing else happens.
    #[serde(skip)]
    pub turn_ends: Option<Nanos>,
}

/// Something seen at the last two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seen {
    last: Bytes,
    before: Bytes,
}

impl Seen {
    pub(crate) fn then(self, now: Bytes) -> Seen {
        Seen { last: now, before: self.last }
    }

    pub(crate) fn less(self, bytes: Bytes) -> Seen {
        Seen { last: self.last.saturating_sub(bytes), before: self.before.saturating_sub(bytes) }
    }

    /// What was there both times: a single look may have come between a program's steps.
    pub fn counts(self) -> Bytes {
        self.last.min(self.before)
    }
}

/// What a client uses on a device beyond what it declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overrun {
    pub beyond: Seen,
    /// It was said, and still holds.
    pub said: bool,
}

/// A task's time quantum on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub task: TaskId,
    pub since: Nanos,
    /// Since when it has had no kernel there.
    pub idle_since: Option<Nanos>,
    /// Its gate is closed; the next turn starts when its last kernels have ended.
    pub is_over: bool,
}

impl Device {
    pub fn free(&self) -> Bytes {
        let granted = self.granted.saturating_add(self.contexts);
        self.capacity.saturating_sub(granted).saturating_sub(self.unaccounted)
    }

    /// What over-subscribed tasks leave to others, where they leave one of so many parts.
    pub(crate) fn left_to_others(&self, parts: Option<u64>) -> Bytes {
        parts.and_then(|parts| self.capacity.0.checked_div(parts)).map_or(Bytes::ZERO, Bytes)
    }
}

/// A connected program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    pub id: ClientId,
    pub uid: u32,
    pub label: String,
    /// See [`crate::event::Event::ClientConnected`].
    #[serde(default)]
    pub informed: bool,
    #[serde(skip)]
    pub tasks: BTreeSet<TaskId>,
    /// Devices on which its context is paid for.
    pub contexts: BTreeSet<DeviceId>,
    /// Those of them where [`Device::idle`] counts it: all or, once it has held memory anywhere, none.
    #[serde(skip)]
    pub(crate) idle_on: BTreeSet<DeviceId>,
    #[serde(default)]
    pub(crate) has_held: bool,
    /// How many of its tasks wait for a device, and how many have a kernel at a closed gate.
    #[serde(skip)]
    pub waiting: u32,
    #[serde(skip)]
    pub held: u32,
    /// Its process is stopped, and its kernels have ended.
    #[serde(default)]
    pub frozen: bool,
}

impl Client {
    /// It holds something on a device and does not wait: sooner or later it gives that back.
    pub fn moves(&self) -> bool {
        self.waiting == 0 && !self.contexts.is_empty()
    }

    /// One of its tasks waits for a device, or has a kernel at a closed gate; or its process is stopped.
    pub fn is_stopped(&self) -> bool {
        self.waiting > 0 || self.held > 0 || self.frozen
    }
}

/// Are there kernels of a task on its device?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Nobody watched since it was bound; it counts as busy.
    Unknown,
    Busy,
    Idle,
}

/// A task of a live client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub client: ClientId,
    pub request: TaskRequest,
    /// `M` as it stands now: the request, what it was extended by, less what was given back.
    pub requirement: Bytes,
    pub asked_at: Nanos,
    /// Position in order of arrival.
    pub arrival: u64,
    pub state: TaskState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// `said`: [`Reason::code`] of what was last said of it; None only inside the step that brought the task.
    Waiting {
        said: Option<u32>,
    },
    Bound(Box<Bound>),
}

/// What is known of a task that has a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    pub device: DeviceId,
    pub class: Class,
    /// `G`.
    pub grant: Bytes,
    pub managed: bool,
    /// It was bound with less than it asked for.
    pub started_eager: bool,
    pub bound_at: Nanos,
    /// Why it was bound there, or why its grant is what it is now.
    pub reason: Reason,
    pub gate: Gate,
    /// The kernel that stands at the closed gate, and since when.
    pub held: Option<(KernelRequest, Nanos)>,
    /// The kernel last let through by name; it stays allowed while its own ratio holds, since the gate word cannot say
    /// when it has started.
    pub admitted: Option<KernelRequest>,
    /// Every kernel goes until then: one was held for the longest time allowed.
    pub waived_until: Option<Nanos>,
    /// The barrier of this task was open once.
    pub barrier_passed: bool,
    pub all_launched: bool,
    pub activity: Activity,
    pub watched: bool,
    /// A promoted task has moved its data in and switched to high priority.
    pub promotion_done: bool,
    /// It was started to break a circle, whoever waited before it.
    pub out_of_turn: bool,
    pub stay: Stay,
    /// What its device's [`Device::protected`] counts of it.
    #[serde(skip)]
    pub(crate) share: Option<Share>,
}

/// What was done about the time that a task has its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stay {
    #[default]
    Within,
    /// It overstays, and that was said.
    Over,
    /// Its process was asked to end.
    Asked {
        at: Nanos,
    },
    Killed,
}

impl Bound {
    /// When it is expected to have given its memory back, if anything is known.
    pub fn expected_end(&self, task: &Task) -> Option<Nanos> {
        let hold = task.request.estimate?.hold;
        Some(Nanos(self.bound_at.0.saturating_add(hold.0)))
    }
}

impl Task {
    pub fn bound(&self) -> Option<&Bound> {
        match &self.state {
            TaskState::Bound(bound) => Some(bound),
            TaskState::Waiting { .. } => None,
        }
    }

    /// It came with this step, and nothing was said of it yet.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.state, TaskState::Waiting { said: None })
    }

    pub(crate) fn bound_mut(&mut self) -> Option<&mut Bound> {
        match &mut self.state {
            TaskState::Bound(bound) => Some(bound),
            TaskState::Waiting { .. } => None,
        }
    }

    /// Warps of its largest launch: `blocks × ceil(threads / 32)`; 0 if the geometry is unknown.
    pub fn warps(&self) -> u64 {
        self.request.blocks.saturating_mul(u64::from(self.request.threads_per_block.div_ceil(32)))
    }
}

/// Everything the core knows.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub devices: BTreeMap<DeviceId, Device>,
    pub clients: BTreeMap<ClientId, Client>,
    pub tasks: BTreeMap<TaskId, Task>,
    /// By user, how many tasks are bound; users without any are not in it.
    pub(crate) holding: BTreeMap<u32, u32>,
    pub(crate) overruns: BTreeMap<(ClientId, DeviceId), Overrun>,
    pub(crate) index: DeviceIndex,
    /// Devices on which nothing new starts.
    pub(crate) drained: BTreeSet<DeviceId>,
    /// What the largest device can hold for one task.
    pub(crate) largest_task: Option<Bytes>,
    /// Clients that hold something and do not wait ([`Client::moves`]).
    pub(crate) movers: usize,
    /// Clients whose processes are stopped ([`Client::frozen`]).
    pub(crate) frozen: BTreeSet<ClientId>,
    /// [`Options::eager_per_device`], for the index.
    pub(crate) eager_per_device: u32,
    /// [`Device::protected`] is kept.
    pub(crate) judges_kernels: bool,
}

impl State {
    /// Changes a client, and counts whether it moves, and what its tasks mean for others if it stops or goes on.
    pub(crate) fn change_client(&mut self, id: ClientId, change: impl FnOnce(&mut Client)) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let (moved, before) = (client.moves(), (client.is_stopped(), client.frozen));
        change(client);
        self.movers = self.movers - usize::from(moved) + usize::from(client.moves());
        if client.frozen {
            self.frozen.insert(id);
        } else {
            self.frozen.remove(&id);
        }
        if self.judges_kernels && (client.is_stopped(), client.frozen) != before {
            for id in &client.tasks {
                if let Some(task) = self.tasks.get_mut(id) {
                    recount(task, client, &mut self.devices);
                }
            }
        }
    }

    /// Something changed that decides what a bound task means for the eager ones beside it.
    pub(crate) fn recount(&mut self, id: TaskId) {
        if self.judges_kernels
            && let Some(task) = self.tasks.get_mut(&id)
            && let Some(client) = self.clients.get(&task.client)
        {
            recount(task, client, &mut self.devices);
        }
    }

    /// A task of the client's user was bound, or is not any more.
    pub(crate) fn count_holding(&mut self, client: ClientId, is_bound: bool) {
        let Some(uid) = self.clients.get(&client).map(|client| client.uid) else { return };
        let tasks = self.holding.entry(uid).or_default();
        *tasks = if is_bound { tasks.saturating_add(1) } else { tasks.saturating_sub(1) };
        if *tasks == 0 {
            self.holding.remove(&uid);
        }
    }

    /// Where a device belongs in the index.
    pub(crate) fn keys_of(&self, device: &Device) -> Keys {
        Keys {
            free: (Reverse(device.free()), device.warps, device.id),
            load: (device.warps, device.tasks.len(), device.id),
            tasks: (device.tasks.len(), device.granted, device.id),
            is_open: device.eager.len() < self.eager_per_device as usize,
        }
    }

    /// Puts a device back into the index after a change of what it holds.
    pub(crate) fn reindex(&mut self, id: DeviceId) {
        if let Some(device) = self.devices.get(&id) {
            let keys = self.keys_of(device);
            self.index.put(id, keys);
        }
    }
}

fn recount(task: &mut Task, owner: &Client, devices: &mut BTreeMap<DeviceId, Device>) {
    let id = task.id;
    let Some(bound) = task.bound_mut() else { return };
    let share = Share::of(bound, owner);
    if share != bound.share
        && let Some(device) = devices.get_mut(&bound.device)
    {
        device.protected.replace(id, bound.share, share);
        bound.share = share;
    }
}

/// What the first of the queue is expected to get, and when (EASY backfilling's shadow time and extra nodes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    pub head: TaskId,
    pub device: DeviceId,
    pub at: Nanos,
    /// Free on the device besides what the head wants.
    pub spare: Bytes,
}

/// A waiting task beside which others have to fit from some time on, wherever it could start (specification S-314).
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    pub head: &'a Task,
    /// Who was bound before does not have to leave it room.
    pub since: Nanos,
}

/// What a policy and the gate may look at; they cannot change it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub state: &'a State,
    pub options: &'a Options,
    pub now: Nanos,
    /// Nobody who waits fits anywhere: what only then may be done, may be done.
    pub last_resort: bool,
    /// What nobody but the first of the queue may take.
    pub reservation: Option<Reservation>,
    /// Drained devices count as if they were not: to say what would be without them.
    pub ignores_drains: bool,
    /// Nothing starts on any other device: to say what this one means for a task.
    pub only: Option<DeviceId>,
    /// Whom the task that is asked for has to leave room.
    pub beside: Option<Beside<'a>>,
}

impl<'a> View<'a> {
    /// May anything new start on the device?
    pub fn takes_tasks(&self, device: &Device) -> bool {
        let is_looked_at = self.only.is_none_or(|only| only == device.id);
        is_looked_at && !device.lost && (self.ignores_drains || !device.drained)
    }

    /// May this task start on the device, if there is room?
    pub fn admits(&self, device: &Device, task: &Task) -> bool {
        self.is_open_to(device, task) && self.why_no_context(device, task).is_none()
    }

    /// The same, whatever becomes of its program's context.
    pub(crate) fn is_open_to(&self, device: &Device, task: &Task) -> bool {
        self.takes_tasks(device) && !task.request.barred.has(device.id)
    }

    /// Bytes that a waiting task could be granted on the device, after its program's context is paid for; None if not even
    /// that can be, or it may not start there.
    pub fn free_for(&self, device: &Device, task: &Task) -> Option<Bytes> {
        let free = self.free_beside_context(device, task.client).filter(|_| self.admits(device, task))?;
        match self.beside {
            Some(beside) => self.left_beside(beside, device, task.client).map(|left| left.min(free)),
            None => Some(free),
        }
    }

    /// What the device has for the client's next task if the overdue one is to fit as soon as those have ended who were
    /// bound before it was overdue; None if not even the client's context.
    fn left_beside(&self, beside: Beside<'_>, device: &Device, client: ClientId) -> Option<Bytes> {
        let Beside { head, since } = beside;
        let context = |client| self.state.context_cost(device.id, client, self.options.context_bytes);
        let wanted = head.requirement.saturating_add(context(head.client));
        if !self.admits(device, head) || wanted > device.task_max {
            // It cannot start here anyway.
            return Some(Bytes(u64::MAX));
        }
        let passed = self.tasks_on(device.id).filter(|(_, bound)| bound.bound_at >= since);
        let passed: Bytes = passed.map(|(task, _)| task.requirement).sum();
        let taken =
            [device.contexts, device.unaccounted, passed, wanted, context(client)].into_iter().sum::<Bytes>();
        device.capacity.0.checked_sub(taken.0).map(Bytes)
    }

    /// What the device has free for a task, if that is all it wants and no rule that binds every policy bars it there: what its
    /// own request bars, drains and losses, its program's context, and the reservation of the first in line. Placement and
    /// watchdog ask this one question.
    pub fn room_for(&self, device: &Device, task: &Task) -> Option<Bytes> {
        let wanted = task.requirement;
        let free = self.free_for(device, task).filter(|free| *free >= wanted)?;
        // Where the ledger does not count memory, whether it would fit alone.
        let fits_alone = self.options.context_bytes.saturating_add(wanted) <= device.task_max;
        (fits_alone && !forecast::delays_head(*self, task, device, wanted)).then_some(free)
    }

    /// The same of a client's task that has its device already.
    pub fn free_beside_context(&self, device: &Device, client: ClientId) -> Option<Bytes> {
        let context = self.state.context_cost(device.id, client, self.options.context_bytes);
        device.free().0.checked_sub(context.0).map(Bytes)
    }

    /// The tasks bound to a device, in order of their ids.
    pub fn tasks_on(&self, device: DeviceId) -> impl Iterator<Item = (&'a Task, &'a Bound)> + use<'a> {
        let state = self.state;
        let ids = state.devices.get(&device).map(|device| &device.tasks);
        ids.into_iter()
            .flatten()
            .filter_map(|id| state.tasks.get(id))
            .filter_map(|task| Some((task, task.bound()?)))
    }

    pub fn eager_tasks_on(&self, device: DeviceId) -> u32 {
        self.state.devices.get(&device).map_or(0, |device| device.eager.len() as u32)
    }

    /// What the largest device that the task may have can hold of one; None while there are no devices.
    pub fn largest_for(&self, task: &Task) -> Option<Bytes> {
        let barred = task.request.barred;
        if barred.is_empty() || self.state.devices.is_empty() {
            return self.state.largest_task;
        }
        let open = self.state.devices.values().filter(|device| !device.lost && !barred.has(device.id));
        Some(open.map(|device| device.task_max).max().unwrap_or_default())
    }
}
