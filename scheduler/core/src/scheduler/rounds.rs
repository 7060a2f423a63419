//! Rounds on each device, for policies that give each task slices of the device's time: who may launch kernels now, how
//! many tasks at once, and for how long (specification S-117, S-130 to S-138).
//!
//! Trap: a slice that is over still holds its place until the task's last kernels have ended. If the next slice began
//! before, two tasks would page against each other.

use super::Scheduler;
use super::touched::Touched;
use crate::account::{self, VirtualTime};
use crate::model::{Activity, Bound, Device, Slice, State, Task};
use crate::policy::{Rounds, SliceLength, SliceOrder};
use eager_units::{DeviceId, Nanos, TaskId};

/// A task that waits for a slice, and what decides whether it is next; only the task where there are no shares.
struct Candidate {
    task: TaskId,
    lag: i64,
    virtual_time: u64,
    /// Virtual time at which a slice that begins now would end.
    deadline: u64,
    /// Its share of a round.
    share: Nanos,
}

/// What the tasks of a device are measured by.
struct Measure {
    /// Sum of the weights of those that want it.
    load: u64,
    /// Its virtual time.
    mean: u64,
    /// The longest last slice of one of them.
    longest: Nanos,
}

impl Candidate {
    /// One where there are no shares.
    fn of(task: TaskId) -> Candidate {
        Candidate { task, lag: 0, virtual_time: 0, deadline: 0, share: Nanos(0) }
    }
}

impl Scheduler {
    /// Ends slices that are over and begins the next ones; marks the tasks whose slices began, changed or ended, whose
    /// gates follow.
    pub(super) fn settle_rounds(&mut self, now: &mut Touched) {
        let Some(rounds) = self.traits.rounds() else { return };
        for id in now.devices.iter() {
            if rounds.are_charged() {
                self.note_active(id);
            }
            let Some(device) = self.state.devices.get(&id) else { continue };
            let slices = self.slices_after(device, rounds);
            let ended = device.slices.iter().filter(|slice| !slices.contains(slice));
            let begun = slices.iter().filter(|slice| !device.slices.contains(slice));
            now.tasks.extend(ended.chain(begun).map(|slice| (id, slice.task)));
            let is_left = |slice: &&Slice| slices.iter().all(|left| left.task != slice.task);
            let taken: Vec<Slice> = device.slices.iter().filter(is_left).copied().collect();
            if rounds.are_charged() {
                taken.iter().for_each(|slice| self.note_length(slice));
            }
            if let Some(device) = self.state.devices.get_mut(&id) {
                device.slices = slices;
            }
        }
    }

    fn slices_after(&self, device: &Device, rounds: Rounds) -> Vec<Slice> {
        let mut slices = device.slices.clone();
        for slice in slices.iter_mut().filter(|slice| !slice.is_over) {
            slice.is_over = self.slice_ends(device, slice, rounds).is_some_and(|at| at <= self.now);
            slice.over_since = rounds.grace(&self.options).filter(|_| slice.is_over).map(|_| self.now);
        }
        slices.retain(|slice| {
            let ends =
                slice.is_over && self.state.is_idle(slice.task) && !self.is_awaited(device, slice, rounds);
            self.state.is_on(device.id, slice.task) && !ends
        });
        while self.places(device, &slices, rounds) > 0
            && let Some(next) = self.next_in(device, &slices, rounds)
        {
            slices.push(self.begin_slice(next, rounds));
        }
        slices
    }

    fn begin_slice(&self, next: Candidate, rounds: Rounds) -> Slice {
        Slice {
            task: next.task,
            since: self.now,
            idle_since: (rounds.length == SliceLength::Quantum).then_some(self.now),
            is_over: false,
            length: (rounds.length == SliceLength::Share).then(|| self.length_of(&next, rounds)),
            used: Nanos(0),
            launched: false,
            over_since: None,
        }
    }

    /// Length of a slice that begins now.
    fn length_of(&self, next: &Candidate, rounds: Rounds) -> Nanos {
        let carries = self.options.carry && rounds.order == SliceOrder::LongestHeld;
        let share = next.share;
        // What a task is behind is made good over as many slices as it takes: none is longer than a round.
        let with_lag = share.0.saturating_add_signed(if carries { next.lag } else { 0 });
        let length = Nanos(with_lag).min(self.options.round_ns.max(share));
        if length == Nanos(0) { share.max(Nanos(1)) } else { length }
    }

    /// When the slice ends in the current state; None while no other task wants the device.
    fn slice_ends(&self, device: &Device, slice: &Slice, rounds: Rounds) -> Option<Nanos> {
        let mut waiting = waiting(device, &device.slices);
        // The next one after those for whom there is a place, if there is one, decides that the slice must end.
        waiting.nth(self.places(device, &device.slices, rounds))?;
        let after = |since: Nanos, by: Nanos| Nanos(since.0.saturating_add(by.0));
        if rounds.length == SliceLength::Quantum {
            let quantum = after(slice.since, self.options.quantum_ns);
            let idle = slice.idle_since.map(|since| after(since, self.options.quantum_idle_ns));
            return Some(idle.map_or(quantum, |idle| idle.min(quantum)));
        }
        if let Some(idle) = slice.idle_since {
            // It may come back at once; the time until then is charged to it.
            let back = self.back_by(slice, rounds).unwrap_or(idle);
            let end = self.length_now(device, slice, rounds).unwrap_or_default().saturating_sub(slice.used);
            return Some(back.min(after(self.now, end)).max(idle));
        }
        if !self.state.is_charged(device, slice) {
            return Some(self.now);
        }
        let left = self.length_now(device, slice, rounds)?.saturating_sub(slice.used);
        let end = after(self.now, Nanos(left.0.saturating_mul(self.state.sharers(device))));
        // However short the slice, the kernel for which it began may start: slices without a launch would go round for
        // ever. A program that does not launch it is passed by.
        let launched = slice.launched || rounds.length != SliceLength::Share;
        Some(if launched { end } else { end.max(after(slice.since, self.options.round_grace_ns)) })
    }

    /// When the slice's task, which computes on the host, is no longer waited for; None if it is not waited for at all.
    fn back_by(&self, slice: &Slice, rounds: Rounds) -> Option<Nanos> {
        let longest = self.options.round_idle_ns;
        let account = self.state.tasks.get(&slice.task)?.bound()?.account;
        let is_short = account.pause.is_some_and(|pause| pause <= longest);
        let since =
            account.host_since.filter(|_| is_short && rounds.order == SliceOrder::EarliestDeadline)?;
        Some(Nanos(since.0.saturating_add(longest.0)))
    }

    /// True if the task of a slice that is over will be back in a moment, and would be next if it waited already: the
    /// device is kept for it, or programs that wait for each of their kernels would never get their shares.
    fn is_awaited(&self, device: &Device, slice: &Slice, rounds: Rounds) -> bool {
        if self.back_by(slice, rounds).is_none_or(|at| at <= self.now) {
            return false;
        }
        let own = self.candidate(slice.task, &self.measure(device));
        let next = self.next_in(device, &device.slices, rounds);
        let is_next = |own: Candidate, next: Candidate| next.lag < 0 || own.deadline < next.deadline;
        own.zip(next).is_some_and(|(own, next)| own.lag >= 0 && is_next(own, next))
    }

    /// Length of the slice: with tasks that came since it began, its task's share is a smaller one.
    fn length_now(&self, device: &Device, slice: &Slice, rounds: Rounds) -> Option<Nanos> {
        let length = slice.length?;
        let task = self.state.tasks.get(&slice.task)?;
        if rounds.order != SliceOrder::EarliestDeadline {
            return Some(length);
        }
        let (weight, load) = (self.state.weight_of(task), self.state.load_of(device));
        Some(length.min(account::share_of(self.options.round_ns, weight, load)))
    }

    /// Slices that may begin on the device beside these.
    fn places(&self, device: &Device, slices: &[Slice], rounds: Rounds) -> usize {
        let held = slices.iter().filter(|slice| !self.is_passed_by(slice, rounds));
        if rounds.while_saturated {
            let tasks = held.clone().filter_map(|slice| self.state.tasks.get(&slice.task));
            let capacity = u64::from(device.profile.sms) * u64::from(device.profile.warps_per_sm);
            // A task of unknown geometry may fill the device.
            let warps = tasks.map(|task| if task.warps() == 0 { capacity } else { task.warps() });
            if warps.fold(0, u64::saturating_add) < capacity {
                return usize::MAX;
            }
        }
        (rounds.in_flight as usize).saturating_sub(held.count())
    }

    /// True if the slice is over, and the end of its kernels has been waited for long enough.
    pub(crate) fn is_passed_by(&self, slice: &Slice, rounds: Rounds) -> bool {
        self.passed_by_at(slice, rounds).is_some_and(|at| at <= self.now)
    }

    fn passed_by_at(&self, slice: &Slice, rounds: Rounds) -> Option<Nanos> {
        let grace = rounds.grace(&self.options)?;
        Some(Nanos(slice.over_since?.0.saturating_add(grace.0)))
    }

    /// When the first slice ends, or is passed by, if nothing else happens.
    pub(super) fn slice_deadline(&self) -> Option<Nanos> {
        let rounds = self.traits.rounds()?;
        let slices = self
            .state
            .devices
            .values()
            .flat_map(|device| device.slices.iter().map(move |slice| (device, slice)));
        let ends = slices.filter_map(|(device, slice)| match slice.is_over {
            false => self.slice_ends(device, slice, rounds),
            true => {
                let waits = [self.passed_by_at(slice, rounds), self.back_by(slice, rounds)];
                waits.into_iter().flatten().filter(|at| *at > self.now).min()
            }
        });
        ends.min()
    }

    /// The task that has the next slice, of those that have none and whose kernel is held at its gate.
    fn next_in(&self, device: &Device, slices: &[Slice], rounds: Rounds) -> Option<Candidate> {
        let mut waiting = waiting(device, slices);
        if rounds.length != SliceLength::Share {
            return waiting.next().map(Candidate::of);
        }
        let measure = self.measure(device);
        let mut candidates = waiting.filter_map(|task| self.candidate(task, &measure));
        match rounds.order {
            SliceOrder::LongestHeld if !self.options.carry => candidates.next(),
            SliceOrder::LongestHeld => {
                let all: Vec<Candidate> = candidates.collect();
                let has_time = |next: &Candidate| next.share.0.saturating_add_signed(next.lag) > 0;
                first_or_least(all, has_time, |_| 0)
            }
            SliceOrder::EarliestDeadline => {
                let all: Vec<Candidate> = candidates.collect();
                first_or_least(all, |next| next.lag >= 0, |next| next.deadline)
            }
        }
    }

    /// The longest last slice of a task there: what a slice may take of a task that has had none.
    fn longest_slice(&self, device: &Device) -> Nanos {
        let tasks = device.tasks.iter().filter_map(|id| self.state.tasks.get(id)?.bound());
        tasks.filter_map(|bound| bound.account.last_slice).max().unwrap_or_default()
    }

    fn note_length(&mut self, slice: &Slice) {
        if let Some(bound) = self.state.tasks.get_mut(&slice.task).and_then(Task::bound_mut) {
            bound.account.last_slice = Some(slice.used);
        }
    }

    fn measure(&self, device: &Device) -> Measure {
        Measure {
            load: self.state.load_of(device),
            mean: self.state.virtual_time_of(device),
            longest: self.longest_slice(device),
        }
    }

    fn candidate(&self, id: TaskId, on: &Measure) -> Option<Candidate> {
        let task = self.state.tasks.get(&id)?;
        let (weight, account) = (self.state.weight_of(task), task.bound()?.account);
        let share = account::share_of(self.options.round_ns, weight, on.load.max(weight));
        let virtual_time = account.virtual_time.units;
        // A kernel cannot be cut, so a slice takes as long as its last kernel does, however short the share.
        let takes = share.max(account.last_slice.unwrap_or(on.longest));
        let deadline = virtual_time.saturating_add(account::virtual_length(takes, weight));
        Some(Candidate { task: id, lag: account.lag(weight, on.mean), virtual_time, deadline, share })
    }

    pub(super) fn note_slice_activity(&mut self, id: TaskId, activity: Activity) {
        let (now, is_quantum) = (self.now, !self.traits.shares_time());
        let device = self.state.tasks.get(&id).and_then(Task::bound).map(|bound| bound.device);
        let Some(device) = device.and_then(|device| self.state.devices.get_mut(&device)) else { return };
        let bound = self.state.tasks.get_mut(&id).and_then(Task::bound_mut);
        if let Some(bound) = bound.filter(|_| !is_quantum) {
            let pauses = activity == Activity::Idle && bound.held.is_none();
            bound.account.note_pause(now, pauses);
        }
        if let Some(slice) = device.slices.iter_mut().find(|slice| slice.task == id) {
            slice.launched |= !is_quantum && activity == Activity::Busy;
            let is_idle = activity == Activity::Idle && (is_quantum || slice.launched);
            slice.idle_since = is_idle.then(|| slice.idle_since.unwrap_or(now));
        }
    }

    /// Charges the tasks that have slices for the time since the last step.
    pub(super) fn charge_slices(&mut self, elapsed: Nanos) {
        if elapsed == Nanos(0) || !self.traits.shares_time() {
            return;
        }
        let of_device = |device: &Device| {
            let sharers = self.state.sharers(device);
            let charged = device.slices.iter().filter(|slice| self.state.is_charged(device, slice));
            charged.map(|slice| (device.id, slice.task, sharers)).collect::<Vec<_>>()
        };
        let charged: Vec<(DeviceId, TaskId, u64)> = self.state.devices.values().flat_map(of_device).collect();
        for (device, task, sharers) in charged {
            self.charge(device, task, elapsed, sharers);
        }
    }

    fn charge(&mut self, device: DeviceId, id: TaskId, elapsed: Nanos, sharers: u64) {
        let Some(weight) = self.state.tasks.get(&id).map(|task| self.state.weight_of(task)) else { return };
        if let Some(bound) = self.state.tasks.get_mut(&id).and_then(Task::bound_mut) {
            bound.account.charge(elapsed, weight, sharers);
        }
        let device = self.state.devices.get_mut(&device);
        let slice = device.and_then(|device| device.slices.iter_mut().find(|slice| slice.task == id));
        if let Some(slice) = slice {
            slice.used = Nanos(slice.used.0.saturating_add(elapsed.0 / sharers.max(1)));
        }
    }

    /// Notes which tasks want the device. One that begins to want it has no claim to the time before, but keeps what it
    /// had too much.
    fn note_active(&mut self, id: DeviceId) {
        let Some(device) = self.state.devices.get(&id) else { return };
        let wants: Vec<(TaskId, bool, bool)> = device
            .tasks
            .iter()
            .filter_map(|id| {
                let bound = self.state.tasks.get(id)?.bound()?;
                Some((*id, bound.account.active, self.state.wants(device, *id, bound)))
            })
            .collect();
        if wants.iter().all(|(_, before, after)| before == after) {
            return;
        }
        for &(task, _, _) in wants.iter().filter(|(_, before, after)| *before && !after) {
            self.set_active(task, None);
        }
        let device = self.state.devices.get(&id);
        let mean = device.map_or(0, |device| self.state.virtual_time_of(device));
        for &(task, _, _) in wants.iter().filter(|(_, before, after)| !before && *after) {
            self.set_active(task, Some(mean));
        }
        let mean = self.state.devices.get(&id).map(|device| self.state.virtual_time_of(device));
        if let (Some(device), Some(mean)) = (self.state.devices.get_mut(&id), mean) {
            device.virtual_time = device.virtual_time.max(mean);
        }
    }

    /// `since`: the device's virtual time from which on the task is due a share; None: it is due none any more.
    fn set_active(&mut self, id: TaskId, since: Option<u64>) {
        if let Some(bound) = self.state.tasks.get_mut(&id).and_then(Task::bound_mut) {
            bound.account.active = since.is_some();
            let had = bound.account.virtual_time;
            bound.account.virtual_time = had.max(since.map_or(had, VirtualTime::at));
        }
    }
}

/// Tasks that wait for a slice of the device beside these: a kernel of theirs is at its gate. The longest held first.
fn waiting<'a>(device: &'a Device, slices: &'a [Slice]) -> impl Iterator<Item = TaskId> + 'a {
    let held = device.held.iter().map(|&(_, task)| task);
    held.filter(|task| slices.iter().all(|slice| slice.task != *task))
}

/// The first of the candidates that qualify, by a key; if none does, the one that is least ahead of its share.
fn first_or_least(
    all: Vec<Candidate>,
    qualifies: impl Fn(&Candidate) -> bool,
    key: impl Fn(&Candidate) -> u64,
) -> Option<Candidate> {
    let any = all.iter().any(&qualifies);
    let of_them = all.into_iter().filter(|next| !any || qualifies(next));
    of_them.min_by_key(|next| if any { key(next) } else { next.virtual_time })
}

impl State {
    fn is_on(&self, device: DeviceId, task: TaskId) -> bool {
        self.tasks.get(&task).and_then(Task::bound).is_some_and(|bound| bound.device == device)
    }

    fn is_frozen(&self, task: &Task) -> bool {
        self.clients.get(&task.client).is_some_and(|client| client.frozen)
    }

    /// True if the task has no kernel on its device, so far as is known.
    fn is_idle(&self, id: TaskId) -> bool {
        let Some(task) = self.tasks.get(&id) else { return true };
        self.is_frozen(task) || task.bound().is_some_and(|bound| bound.activity == Activity::Idle)
    }

    /// True if the slice's task is charged for its device: it has kernels there, has not yet launched the one for which
    /// it got the slice, or keeps the device from others.
    fn is_charged(&self, device: &Device, slice: &Slice) -> bool {
        let is_wanted = || waiting(device, &device.slices).next().is_some();
        let runs = self.tasks.get(&slice.task).is_some_and(|task| !self.is_frozen(task));
        runs && (slice.idle_since.is_none() || is_wanted())
    }

    /// Tasks that are charged for the device now.
    fn sharers(&self, device: &Device) -> u64 {
        device.slices.iter().filter(|slice| self.is_charged(device, slice)).count() as u64
    }

    fn wants(&self, device: &Device, id: TaskId, bound: &Bound) -> bool {
        bound.held.is_some() || device.slice_of(id).is_some_and(|slice| self.is_charged(device, slice))
    }

    /// Weight of a task: that of its client's nice value.
    pub(crate) fn weight_of(&self, task: &Task) -> u64 {
        account::weight(self.clients.get(&task.client).map_or(0, |client| client.nice))
    }

    /// Weights and virtual times of the tasks that want the device.
    fn active_on<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = (u64, u64)> + Clone + 'a {
        let tasks = device.tasks.iter().filter_map(|id| self.tasks.get(id));
        tasks.filter_map(|task| {
            let account = task.bound()?.account;
            account.active.then(|| (self.weight_of(task), account.virtual_time.units))
        })
    }

    /// Sum of the weights of the tasks that want the device.
    pub(crate) fn load_of(&self, device: &Device) -> u64 {
        self.active_on(device).map(|(weight, _)| weight).fold(0, u64::saturating_add)
    }

    /// The virtual time of a device: the mean of those of the tasks that want it, or the last one while none does.
    pub(crate) fn virtual_time_of(&self, device: &Device) -> u64 {
        account::mean(self.active_on(device)).unwrap_or(device.virtual_time)
    }
}
