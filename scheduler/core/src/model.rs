//! State of the core: devices, clients, tasks. Every module may read it; only the ledger changes grants.
//!
//! Trap: `Device::granted` is a running sum that the ledger maintains. The source of truth is the grants of the bound
//! tasks, and [`crate::invariants::check`] compares the two. Fields that a journal's image leaves out (`serde(skip)`)
//! are recomputed from the others (`scheduler/image.rs`).

use crate::account::Account;
use crate::action::Gate;
use crate::event::{DeviceProfile, KernelRequest, TaskRequest, is_default};
use crate::forecast;
use crate::options::Options;
use crate::reason::Reason;
use eager_units::{Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A device and the memory reserved on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub id: DeviceId,
    pub profile: DeviceProfile,
    /// Bytes that the ledger may grant: the profile's capacity, or without limit where the policy does not count
    /// memory.
    pub capacity: Bytes,
    /// Most that one task may be granted: the profile's capacity, or without limit under the policy `infinite`.
    pub task_max: Bytes,
    /// Sum of the grants of the tasks bound here.
    pub granted: Bytes,
    /// No new task starts here.
    pub drained: bool,
    /// Its driver does not have it any more.
    pub lost: bool,
    /// Bytes set aside for the contexts of clients that are or were bound here.
    pub contexts: Bytes,
    /// Programs of those clients ([`Client::program`]), with the number of their clients here.
    #[serde(skip)]
    pub programs: BTreeMap<ClientId, u32>,
    /// By user, how many of those clients have held no memory on any device so far.
    #[serde(skip)]
    pub idle: BTreeMap<u32, u32>,
    /// Bytes in use here by processes that are not clients.
    pub foreign: Seen,
    /// Bytes in use here but granted to no task: `foreign`, and what clients use beyond what they declared.
    pub unaccounted: Bytes,
    /// Warps of the tasks bound here, by their launch geometry.
    #[serde(skip)]
    pub warps: u64,
    #[serde(skip)]
    pub tasks: BTreeSet<TaskId>,
    /// Tasks bound here that run eagerly.
    #[serde(skip)]
    pub eager: BTreeSet<TaskId>,
    /// Tasks with a kernel held at a closed gate, by the time at which the hold began.
    #[serde(skip)]
    pub held: BTreeSet<(Nanos, TaskId)>,
    /// The slices of tasks whose kernels may start, or have not ended, under [`crate::policy::GateRule::Rounds`]. An image
    /// has one slice as it is, and none as null, as in versions with one slice at a time.
    #[serde(rename = "turn", with = "one_or_many")]
    pub slices: Vec<Slice>,
    /// Virtual time here when a task last began or ceased to want the device ([`crate::account`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub virtual_time: u64,
}

/// A number of bytes as seen at the last two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Seen {
    last: Bytes,
    before: Bytes,
}

impl Seen {
    pub(crate) fn push(self, now: Bytes) -> Seen {
        Seen { last: now, before: self.last }
    }

    pub(crate) fn deduct(self, bytes: Bytes) -> Seen {
        Seen { last: self.last.saturating_sub(bytes), before: self.before.saturating_sub(bytes) }
    }

    /// The smaller of the two looks: a single one may fall between two steps of a program.
    pub fn confirmed(self) -> Bytes {
        self.last.min(self.before)
    }
}

/// Memory that a client uses on a device beyond what it declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overrun {
    pub beyond: Seen,
    /// The overrun was reported, and still holds.
    #[serde(rename = "said")]
    pub reported: bool,
}

/// A slice of its device's time that a task has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub task: TaskId,
    pub since: Nanos,
    /// Since when it has had no kernel there; None while it has one.
    pub idle_since: Option<Nanos>,
    /// The slice is over: the task's gate is closed, and the next slice begins when its last kernels have ended.
    pub is_over: bool,
    /// Device time after which it is over if another task wants the device; None: see [`crate::policy::SliceLength`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Nanos>,
    /// Device time that the task was charged for since the slice began.
    #[serde(default, skip_serializing_if = "is_default")]
    pub used: Nanos,
    /// The task has launched a kernel since the slice began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub launched: bool,
    /// Since when it is over, if the end of its kernels is not waited for without a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_since: Option<Nanos>,
}

/// None as null, one as itself, more as a list.
mod one_or_many {
    use super::Slice;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(Slice),
        Many(Vec<Slice>),
    }

    pub fn serialize<S: Serializer>(slices: &[Slice], serializer: S) -> Result<S::Ok, S::Error> {
        match slices {
            [] => serializer.serialize_none(),
            [slice] => slice.serialize(serializer),
            slices => slices.serialize(serializer),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Slice>, D::Error> {
        Ok(match Option::<OneOrMany>::deserialize(deserializer)? {
            None => Vec::new(),
            Some(OneOrMany::One(slice)) => vec![slice],
            Some(OneOrMany::Many(slices)) => slices,
        })
    }
}

impl Device {
    /// The slice that the task has here, if it has one.
    pub fn slice_of(&self, task: TaskId) -> Option<&Slice> {
        self.slices.iter().find(|slice| slice.task == task)
    }

    pub fn free(&self) -> Bytes {
        let granted = self.granted.saturating_add(self.contexts);
        self.capacity.saturating_sub(granted).saturating_sub(self.unaccounted)
    }

    /// Counts one client of a program less; true if it was the last.
    pub(crate) fn remove_client_of(&mut self, program: ClientId) -> bool {
        let Some(clients) = self.programs.get_mut(&program) else { return false };
        *clients = clients.saturating_sub(1);
        let is_last = *clients == 0;
        if is_last {
            self.programs.remove(&program);
        }
        is_last
    }

    /// Bytes of the device that over-subscribed tasks leave to others: one of `parts` equal parts, or 0 if `parts` is
    /// None.
    pub(crate) fn left_to_others(&self, parts: Option<u64>) -> Bytes {
        part_of(self.capacity, parts)
    }
}

/// One of `parts` equal parts of some bytes, or 0 if `parts` is None.
pub(crate) fn part_of(bytes: Bytes, parts: Option<u64>) -> Bytes {
    parts.and_then(|parts| bytes.0.checked_div(parts)).map_or(Bytes::ZERO, Bytes)
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
    /// The first client of its process, if that is another one.
    #[serde(default)]
    pub(crate) first_of_process: Option<ClientId>,
    #[serde(skip)]
    pub tasks: BTreeSet<TaskId>,
    /// Devices on which the ledger has set memory aside for its context.
    pub contexts: BTreeSet<DeviceId>,
    /// Those of them whose [`Device::idle`] counts this client: all, or none once it has held memory on any device.
    #[serde(skip)]
    pub(crate) idle_on: BTreeSet<DeviceId>,
    #[serde(default)]
    pub(crate) has_held: bool,
    /// Its process is stopped, and its kernels have ended.
    #[serde(default)]
    pub frozen: bool,
    /// The nice value of its process; policies that share a device's time weigh its tasks by it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nice: i8,
}

impl Client {
    /// Names the program: the first client of its process, connected or not.
    pub fn program(&self) -> ClientId {
        self.first_of_process.unwrap_or(self.id)
    }
}

/// Whether kernels of a task are on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// The task is not watched, so this is not known; it counts as busy.
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
    /// `M` now: the request plus extensions, less what was given back for good.
    pub requirement: Bytes,
    pub asked_at: Nanos,
    /// Position in order of arrival.
    pub arrival: u64,
    pub state: TaskState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// `last_reported`: [`Reason::code`] of the reason reported last; None only within the step in which the task begins
    /// to wait.
    Waiting {
        #[serde(rename = "said")]
        last_reported: Option<u32>,
    },
    Bound(Box<Bound>),
}

/// State of a task that has a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    pub device: DeviceId,
    pub class: Class,
    /// `G`.
    pub grant: Bytes,
    pub managed: bool,
    /// The policy bound it with less than it asked for.
    pub started_eager: bool,
    pub bound_at: Nanos,
    /// Why it was bound there, or why its grant is what it is now.
    pub reason: Reason,
    pub gate: Gate,
    /// The kernel held at the closed gate, and since when.
    pub held: Option<(KernelRequest, Nanos)>,
    /// The kernel last let through after a hold. It stays allowed while its own OS-ratio permits, since the gate word
    /// cannot tell that it has started.
    pub admitted: Option<KernelRequest>,
    /// Until then every kernel may start, because one was held for the longest time allowed.
    pub waived_until: Option<Nanos>,
    /// The barrier of this task was open once.
    pub barrier_passed: bool,
    pub all_launched: bool,
    pub activity: Activity,
    pub watched: bool,
    /// A promoted task has moved its data in and switched to high priority.
    pub promotion_done: bool,
    /// It was started to break a circle, or restored: the order of arrival did not apply.
    pub out_of_turn: bool,
    pub stay: Stay,
    /// What it has had of its device's time, where policies share it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub account: Account,
}

/// Measures taken so far against a task for the time that it has its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stay {
    #[default]
    Within,
    /// It overstays, and that was reported.
    Over,
    /// Its process was asked to end.
    Asked {
        at: Nanos,
    },
    Killed,
}

impl Bound {
    /// When it is expected to have given its memory back; None without an estimate.
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

    /// True if the task began to wait in this step, and no reason has been reported for it yet.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.state, TaskState::Waiting { last_reported: None })
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

/// The whole state of the core.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub devices: BTreeMap<DeviceId, Device>,
    pub clients: BTreeMap<ClientId, Client>,
    pub tasks: BTreeMap<TaskId, Task>,
    /// Number of bound tasks by user; users without any have no entry.
    pub(crate) bound_by_user: BTreeMap<u32, u32>,
    pub(crate) overruns: BTreeMap<(ClientId, DeviceId), Overrun>,
    /// The clients of each process that has several, but its first one; by the first one's id ([`Client::program`]).
    pub(crate) later_clients: BTreeMap<ClientId, BTreeSet<ClientId>>,
    /// Clients whose processes are stopped ([`Client::frozen`]).
    pub(crate) frozen: BTreeSet<ClientId>,
}

impl State {
    /// Adds a client without tasks; returns the one that had its id, if any.
    pub(crate) fn insert_client(&mut self, client: Client) -> Option<Client> {
        if let Some(first) = client.first_of_process {
            self.later_clients.entry(first).or_default().insert(client.id);
        }
        self.clients.insert(client.id, client)
    }

    /// The connected clients of a program, by [`Client::program`].
    pub(crate) fn clients_of(&self, program: ClientId) -> impl Iterator<Item = &Client> {
        let later = self.later_clients.get(&program).into_iter().flatten().copied();
        std::iter::once(program).chain(later).filter_map(|id| self.clients.get(&id))
    }

    /// The tasks of a client that wait for a device.
    pub(crate) fn waiting_of(&self, client: &Client) -> impl Iterator<Item = &Task> {
        self.tasks_of(client).filter(|task| task.bound().is_none())
    }

    fn tasks_of(&self, client: &Client) -> impl Iterator<Item = &Task> {
        client.tasks.iter().filter_map(|id| self.tasks.get(id))
    }

    /// True if one of the client's tasks waits for a device or has a kernel at a closed gate, or if its process is
    /// stopped.
    pub(crate) fn is_stopped(&self, client: &Client) -> bool {
        let stands = |task: &Task| task.bound().is_none_or(|bound| bound.held.is_some());
        client.frozen || self.tasks_of(client).any(stands)
    }

    /// Counts a task of the client's user as bound, or as bound no longer.
    pub(crate) fn count_bound(&mut self, client: ClientId, is_bound: bool) {
        let Some(uid) = self.clients.get(&client).map(|client| client.uid) else { return };
        let tasks = self.bound_by_user.entry(uid).or_default();
        *tasks = if is_bound { tasks.saturating_add(1) } else { tasks.saturating_sub(1) };
        if *tasks == 0 {
            self.bound_by_user.remove(&uid);
        }
    }

    /// The most free memory of any device; 0 without devices.
    pub(crate) fn most_free(&self) -> Bytes {
        self.devices.values().map(Device::free).max().unwrap_or_default()
    }
}

/// Memory that the first task of the queue is expected to get, and when (EASY backfilling's shadow time and extra
/// nodes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    pub head: TaskId,
    pub device: DeviceId,
    pub at: Nanos,
    /// Bytes free on the device at that time, beyond what the head wants.
    pub spare: Bytes,
}

/// An overdue task: on every device where it could start, tasks bound from some time on must leave room for it
/// (specification S-314).
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    pub head: &'a Task,
    /// Tasks bound before this time do not have to leave it room.
    pub since: Nanos,
}

/// Read-only input of policies and of the gate.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub state: &'a State,
    pub options: &'a Options,
    pub now: Nanos,
    /// No waiting task fits on any device, so last-resort placement is allowed.
    pub last_resort: bool,
    /// Memory that only the first task of the queue may take.
    pub reservation: Option<Reservation>,
    /// Drained devices count as open: to answer what would happen without the drains, and to restore tasks that run
    /// there.
    pub ignores_drains: bool,
    /// The most programs that a device may have at once ([`crate::policy::Assignment`]); None: devices are given to
    /// tasks.
    pub programs_per_device: Option<u32>,
    /// Only this device may be used: to find out what it means for a task.
    pub only: Option<DeviceId>,
    /// The overdue task that the task in question must leave room for.
    pub beside: Option<Beside<'a>>,
}

impl<'a> View<'a> {
    /// True if new tasks may start on the device.
    pub fn takes_tasks(&self, device: &Device) -> bool {
        let is_looked_at = self.only.is_none_or(|only| only == device.id);
        is_looked_at && !device.lost && (self.ignores_drains || !device.drained)
    }

    /// True if this task may start on the device, provided that there is room.
    pub fn admits(&self, device: &Device, task: &Task) -> bool {
        self.is_open_to(device, task) && self.why_no_context(device, task).is_none()
    }

    /// True if the device takes tasks, or programs, and the task's request does not bar it; contexts are not considered.
    pub(crate) fn is_open_to(&self, device: &Device, task: &Task) -> bool {
        self.openness(task)(device)
    }

    /// [`View::is_open_to`] for many devices: looks at the task's program once.
    pub(crate) fn openness(self, task: &Task) -> impl Fn(&Device) -> bool + use<'a> {
        let barred = task.request.barred;
        let program = self.state.clients.get(&task.client).map(Client::program);
        let has_device = self.programs_per_device.is_some() && self.has_device(task.client);
        move |device| {
            let takes = match self.programs_per_device {
                None => self.takes_tasks(device),
                // A program has one device, or none and any with a place (specification S-114). A drained device keeps
                // the programs that it has.
                Some(_) if program.is_some_and(|program| device.programs.contains_key(&program)) => {
                    View { ignores_drains: true, ..self }.takes_tasks(device)
                }
                Some(most) => {
                    !has_device && device.programs.len() < most as usize && self.takes_tasks(device)
                }
            };
            takes && !barred.has(device.id)
        }
    }

    /// True if the client's program has a context on a device that is not lost.
    pub(crate) fn has_device(&self, client: ClientId) -> bool {
        let Some(client) = self.state.clients.get(&client) else { return false };
        let is_there = |id| self.state.devices.get(id).is_some_and(|device| !device.lost);
        self.state.clients_of(client.program()).any(|client| client.contexts.iter().any(is_there))
    }

    /// Bytes that a waiting task could be granted on the device, after its program's context is paid for. None if the
    /// task may not start there, or not even the context fits.
    pub fn free_for(&self, device: &Device, task: &Task) -> Option<Bytes> {
        let free = self.free_beside_context(device, task.client).filter(|_| self.admits(device, task))?;
        match self.beside {
            Some(beside) => self.left_beside(beside, device, task.client).map(|left| left.min(free)),
            None => Some(free),
        }
    }

    /// Bytes of the device for the client's next task, such that the overdue task still fits once all tasks bound
    /// before it was overdue have ended. None if not even the client's context fits.
    fn left_beside(&self, beside: Beside<'_>, device: &Device, client: ClientId) -> Option<Bytes> {
        let Beside { head, since } = beside;
        let context = |client| self.state.context_cost(device, client, self.options.context_bytes);
        let wanted = head.requirement.saturating_add(context(head.client));
        if !self.admits(device, head) || wanted > device.task_max {
            // The overdue task cannot start here anyway.
            return Some(Bytes(u64::MAX));
        }
        let passed = self.tasks_on(device.id).filter(|(_, bound)| bound.bound_at >= since);
        let passed: Bytes = passed.map(|(task, _)| task.requirement).sum();
        let taken =
            [device.contexts, device.unaccounted, passed, wanted, context(client)].into_iter().sum::<Bytes>();
        device.capacity.0.checked_sub(taken.0).map(Bytes)
    }

    /// Bytes free on the device for a task; None unless they cover its requirement and no rule that binds every policy
    /// keeps it out: the devices that its request bars, drains and losses, its program's context, the reservation of
    /// the first in line. Placement and the watchdog share this check.
    pub fn room_for(&self, device: &Device, task: &Task) -> Option<Bytes> {
        let wanted = task.requirement;
        // Most devices lack room, and this alone tells so without a look at the task's program.
        if device.free() < wanted {
            return None;
        }
        let free = self.free_for(device, task).filter(|free| *free >= wanted)?;
        // Under policies that do not count memory, the task must at least fit alone.
        let fits_alone = self.options.context_bytes.saturating_add(wanted) <= device.task_max;
        (fits_alone && !forecast::delays_head(*self, task, device, wanted)).then_some(free)
    }

    /// Bytes free on the device for a client's task after the client's context is paid for; None if the context does
    /// not fit.
    pub fn free_beside_context(&self, device: &Device, client: ClientId) -> Option<Bytes> {
        let context = self.state.context_cost(device, client, self.options.context_bytes);
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

    /// The most that any device open to the task can grant to one task; None while there are no devices, nor any in
    /// use if the task bars none.
    pub fn largest_for(&self, task: &Task) -> Option<Bytes> {
        let barred = task.request.barred;
        let open = self.state.devices.values().filter(|device| !device.lost && !barred.has(device.id));
        let largest = open.map(|device| device.task_max).max();
        let must_be_open = !barred.is_empty() && !self.state.devices.is_empty();
        largest.or(must_be_open.then_some(Bytes::ZERO))
    }
}
