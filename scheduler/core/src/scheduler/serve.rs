//! Decides which waiting tasks start, and why the others wait.
//!
//! Trap: between two steps no task may wait that could start (`invariants::Violation::Stranded`). Whatever makes a
//! start possible, a clock included, must lead to a retry here.

use super::{Anomaly, Retry, Scheduler};
use crate::action::Action;
use crate::event::TaskRequest;
use crate::forecast;
use crate::ledger::Binding;
use crate::model::{Device, Task, TaskState, View, part_of};
use crate::options::QueueOrder;
use crate::policy::{Placement, no_room};
use crate::reason::Reason;
use eager_units::{Bytes, ClientId, DeviceId, Nanos, TaskId};
use std::collections::BTreeSet;

impl Scheduler {
    /// Retries the waiting tasks where more than this step's event may have made a start possible.
    pub(super) fn retry_by_clock(&mut self) {
        let is_due = self.promotion_expected.is_some_and(|at| at <= self.now);
        // Predictions follow from all tasks that are bound or wait, so any event may change what the head's reservation
        // allows. It may also change which tasks wait for nothing but a stopped process.
        let may_change = self.traits.reserve_head
            || (self.traits.queue == QueueOrder::Fifo && !self.state.frozen.is_empty());
        if is_due || (may_change && !self.queue.is_empty()) {
            self.retry = match self.retry {
                Retry::None => Retry::Fitting,
                Retry::Newcomer(id) => Retry::NewcomerAndFitting(id),
                wider => wider,
            };
        }
    }

    /// Computes when a predicted end will be near enough for an eager start, if a task waits.
    pub(super) fn expect_promotions(&mut self) {
        self.promotion_expected = None;
        if !self.traits.last_resort || !self.traits.eager || self.queue.is_empty() {
            return;
        }
        let within = self.options.eager_promotion_within_ns;
        let quiet = self.stream_ends().unwrap_or_default();
        let near = |task: &Task| Some(task.bound()?.expected_end(task)?.saturating_sub(within).max(quiet));
        let moments = self.state.tasks.values().filter_map(near).filter(|&at| at > self.now);
        self.promotion_expected = moments.min();
    }

    pub(super) fn try_newcomer(&mut self, id: TaskId, out: &mut Vec<Action>) {
        if !self.try_next(id, out) && self.has_last_resort() {
            self.try_one(id, true, out);
        }
    }

    /// Tries the tasks that freed memory can help. Tasks that want more than any device has free are not asked again.
    pub(super) fn try_fitting(&mut self, out: &mut Vec<Action>) {
        loop {
            let waiting = self.queue.len();
            self.try_each_once(out);
            // Where only the first task may start short, the next one may after it; where the head has a reservation, a
            // start may move the reservation to where it blocks no other task.
            let moves_on = self.traits.reserve_head || self.traits.sharing.eager_in_turn;
            if !moves_on || self.queue.len() == waiting {
                return;
            }
        }
    }

    fn try_each_once(&mut self, out: &mut Vec<Action>) {
        self.try_overdue(out);
        match self.traits.queue {
            QueueOrder::Fifo => {
                self.try_assigned(out);
                while self.first_come().map(|head| head.id).is_some_and(|head| self.try_one(head, false, out))
                {
                    // The program that got a device may have other tasks that wait for it.
                    self.try_assigned(out);
                }
            }
            QueueOrder::LargestFirst if self.lines.has_priorities() => {
                // As in the next arm: users have no turns.
                self.try_in_order(self.order_of_all(), out);
            }
            QueueOrder::LargestFirst => {
                let (mut largest, mut last) = (self.largest_startable(), None);
                while let Some(next) = self.queue.next_within(largest, last) {
                    if self.try_one(next.2, false, out) {
                        largest = self.largest_startable();
                    }
                    last = Some(next);
                }
            }
            QueueOrder::Backfill | QueueOrder::LongestRemaining => self.try_in_order(self.order(), out),
        }
        self.try_last_resort(out);
    }

    /// Tries the tasks of programs that have a device of their own: no other program waits for the same memory. Only the
    /// programs of the devices that this step touched are looked at: what happens elsewhere frees nothing for them.
    fn try_assigned(&mut self, out: &mut Vec<Action>) {
        if !self.traits.assignment.is_by_program() {
            return;
        }
        let devices = self.touched.devices.iter().filter_map(|id| self.state.devices.get(&id));
        let programs = devices.flat_map(|device| device.programs.keys());
        let clients = programs.flat_map(|&program| self.state.clients_of(program));
        let waiting = clients.flat_map(|client| self.state.waiting_of(client));
        let queued = waiting.filter(|task| self.is_queued(task) && self.stays_with_program(task));
        let by_arrival: BTreeSet<_> = queued.map(|task| (task.arrival, task.id)).collect();
        for (_, id) in by_arrival {
            self.try_one(id, false, out);
        }
    }

    /// True if the task can only run on the device that its program was given: it passes programs that wait for a
    /// device, which could wait for this one's end, and it does not hold them up.
    pub(super) fn stays_with_program(&self, task: &Task) -> bool {
        self.traits.assignment.is_by_program() && self.read().has_device(task.client)
    }

    fn try_in_order(&mut self, order: Vec<TaskId>, out: &mut Vec<Action>) {
        let (whole_only, mut most_free) = (self.starts_whole_only(), self.state.most_free());
        for id in order {
            let Some(task) = self.state.tasks.get(&id) else { continue };
            let may_start = task.requirement <= most_free || (!whole_only && self.may_start_short(task));
            if may_start && self.try_one(id, false, out) {
                most_free = self.state.most_free();
            }
        }
    }

    /// The waiting tasks in the order in which they are tried.
    pub(super) fn order(&self) -> Vec<TaskId> {
        let order = self.order_of_all();
        if !self.traits.sharing.users_in_turn {
            return order;
        }
        let is_first = |id: &TaskId| self.state.tasks.get(id).is_some_and(|task| self.holds_nothing(task));
        let (first, others): (Vec<TaskId>, Vec<TaskId>) = order.into_iter().partition(is_first);
        [first, others].concat()
    }

    fn order_of_all(&self) -> Vec<TaskId> {
        self.by_priority(match self.traits.queue {
            QueueOrder::LargestFirst => self.queue.largest_first().collect(),
            QueueOrder::LongestRemaining => self.queue.longest_first(),
            QueueOrder::Fifo | QueueOrder::Backfill => self.queue.in_order_of_arrival().collect(),
        })
    }

    fn try_overdue(&mut self, out: &mut Vec<Action>) {
        while let Some(head) = self.overdue().map(|head| head.id)
            && (self.try_one(head, false, out) || (self.has_last_resort() && self.try_one(head, true, out)))
        {
        }
    }

    pub(super) fn has_last_resort(&self) -> bool {
        self.traits.last_resort && self.traits.eager && !self.is_stream()
    }

    /// When no task will have arrived for long enough to end a stream; None if the policy does not regard streams.
    fn stream_ends(&self) -> Option<Nanos> {
        let heeded = self.traits.last_resort && self.options.stream_ns > Nanos(0);
        let last = self.asked_last.filter(|_| heeded)?;
        Some(Nanos(last.0.saturating_add(self.options.stream_ns.0)))
    }

    /// True while tasks keep arriving, or while so much waits that the longest task would have ended before the rest is
    /// through. Then no single task is the one that all others wait for, and memory is worth more to tasks that can use
    /// it at once (specification S-316).
    fn is_stream(&self) -> bool {
        self.stream_ends().is_some_and(|end| self.now < end || self.is_deep())
    }

    fn is_deep(&self) -> bool {
        let devices = self.state.devices.values().filter(|device| !device.drained && !device.lost);
        let memory: Bytes = devices.map(|device| device.capacity).sum();
        self.queue.longest().is_some_and(|longest| self.queue.drains_in(memory) > longest)
    }

    /// Tries the waiting tasks again as a last resort, now that none of them fits on any device.
    fn try_last_resort(&mut self, out: &mut Vec<Action>) {
        if !self.has_last_resort() {
            return;
        }
        for id in self.order() {
            self.try_one(id, true, out);
        }
    }

    /// Largest requirement with which a task can start now.
    fn largest_startable(&self) -> Bytes {
        if self.starts_whole_only() { self.state.most_free() } else { Bytes(u64::MAX) }
    }

    /// True if no task starts short but as a last resort.
    fn starts_whole_only(&self) -> bool {
        !self.traits.eager || self.traits.last_resort
    }

    pub(super) fn try_all(&mut self, out: &mut Vec<Action>) {
        for id in self.order() {
            self.try_next(id, out);
        }
        // A refused task may have stood before an overdue one, or been the head.
        if self.has_last_resort()
            || self.traits.overtake_ns.is_some()
            || self.traits.reserve_head
            || self.traits.sharing.eager_in_turn
        {
            self.try_fitting(out);
        }
    }

    /// Tries a task for which no reason was reported yet. False if it still waits in the queue.
    fn try_next(&mut self, id: TaskId, out: &mut Vec<Action>) -> bool {
        let refused = self.state.tasks.get(&id).and_then(|task| self.why_refused(task, 1));
        if let Some(reason) = refused {
            self.forget(id);
            out.push(Action::Refuse { task: id, reason });
            return true;
        }
        if self.put_aside(id, out) {
            return true;
        }
        self.try_one(id, false, out)
    }

    /// Tries to start a task; true if it was bound.
    fn try_one(&mut self, id: TaskId, last_resort: bool, out: &mut Vec<Action>) -> bool {
        let Some(task) = self.state.tasks.get(&id).filter(|task| task.bound().is_none()) else {
            return false;
        };
        let (device, grant, reason) = match self.decide_placement(task, last_resort) {
            Placement::Wait(reason) => {
                // If there is a last resort, its attempt decides which reason is reported.
                if last_resort || !self.has_last_resort() {
                    self.wait(id, reason, out);
                }
                return false;
            }
            Placement::Bind { device, grant, reason } => (device, grant, reason),
        };
        let (managed, eagerly) = (self.is_managed(task, grant), self.traits.eager);
        let (out_of_turn, agrees) = (false, self.replaced_agrees(task));
        if self.start(Binding { task: id, device, grant, managed, eagerly, out_of_turn, reason }, out) {
            self.note_agreement(agrees);
            return true;
        }
        self.count(Anomaly::DroppedProposal);
        self.wait(id, Reason::ProposalDropped, out);
        false
    }

    /// Where the task may go in the current state, or why it waits.
    fn decide_placement(&self, task: &Task, last_resort: bool) -> Placement {
        if let Some(reason) = self.why_held_up(task) {
            return Placement::Wait(reason);
        }
        let view = View { last_resort, ..self.read() };
        self.checked_placement(view, task)
    }

    /// The proposal for a task that nothing holds up, with respect to drains, contexts and overdue tasks.
    fn checked_placement(&self, view: View<'_>, task: &Task) -> Placement {
        match self.policy_placement(view, task) {
            Placement::Wait(reason) => {
                let bars = || self.why_drained(view, task).or_else(|| view.why_no_context_anywhere(task));
                Placement::Wait(bars().unwrap_or(reason))
            }
            bind => self.beside_overdue(view, task).unwrap_or(bind),
        }
    }

    /// Why a program that has no context anywhere and wants no memory yet cannot have one now. Its task waits beside
    /// the queue meanwhile: in the queue, it would block the tasks whose contexts it waits for.
    pub(super) fn why_no_first_context(&self, task: &Task) -> Option<Reason> {
        let view = View { last_resort: self.has_last_resort(), ..self.read() };
        let bars = self
            .why_no_device()
            .or_else(|| view.why_no_context_anywhere(task))
            .or_else(|| self.why_behind_first(task));
        bars.or_else(|| match self.checked_placement(view, task) {
            Placement::Wait(reason) => Some(reason),
            Placement::Bind { .. } => None,
        })
    }

    /// Why a waiting task may not start under any policy, wherever there is room.
    fn why_held_up(&self, task: &Task) -> Option<Reason> {
        let aside = || self.why_aside(task).or_else(|| self.why_behind(task.id));
        self.why_no_device().or_else(aside).or_else(|| self.why_behind_first(task))
    }

    fn why_no_device(&self) -> Option<Reason> {
        if self.state.devices.is_empty() { Some(Reason::NoDevice) } else { self.why_all_lost() }
    }

    /// The task that goes first and blocks this one. A task beside the queue is not blocked by tasks that arrived after
    /// it.
    fn why_behind_first(&self, task: &Task) -> Option<Reason> {
        if self.stays_with_program(task) {
            return None;
        }
        let is_before = |head: &Task| head.arrival < task.arrival;
        let is_fifo = self.traits.queue == QueueOrder::Fifo;
        let first = is_fifo.then(|| self.first_come()).flatten();
        if let Some(head) = first.filter(|head| is_before(head)) {
            return Some(Reason::Behind { head: head.id });
        }
        let kept = self.must_leave_room_for(task).filter(|head| is_before(head) && !self.passes_beside())?;
        Some(self.why_not_past(kept))
    }

    /// Waiting tasks that the policy owes a start, each with a device that has room for all of it: no rule that binds
    /// every policy keeps them from it. Between steps there are none; one that exists shows a defect of the policy,
    /// whatever programs asked for.
    pub fn owed(&self) -> impl Iterator<Item = (TaskId, DeviceId)> + '_ {
        let view = self.reserved(self.read());
        let waiting = self.state.tasks.values().filter(|task| task.bound().is_none());
        waiting.filter_map(move |task| {
            let takes = |device: &&Device| self.traits.starts_by_room || device.tasks.is_empty();
            let view = self.leaving_room(view, task);
            let mut open = self.state.devices.values().filter(takes);
            let device = open.find(|device| view.room_for(device, task).is_some())?;
            self.why_held_up(task).is_none().then_some((task.id, device.id))
        })
    }

    /// Adds to a view what only the first task in line may take.
    fn reserved<'a>(&self, view: View<'a>) -> View<'a> {
        let reservation = self.first_in_line().and_then(|head| forecast::reserve(view, head));
        View { reservation, ..view }
    }

    /// The policy's proposal, within what the task allows.
    pub(super) fn policy_placement(&self, view: View<'_>, task: &Task) -> Placement {
        let view = self.reserved(view);
        match self.policy.place(view, task) {
            Placement::Bind { grant, .. } if grant < task.requirement && self.must_be_whole(view, task) => {
                no_room(view, task)
            }
            placement => placement,
        }
    }

    /// True if the task must not start short: it cannot run so, it is not its turn, or it would start beside an overdue
    /// task, where its grant would grow into the memory that is kept free.
    fn must_be_whole(&self, view: View<'_>, task: &Task) -> bool {
        task.request.whole || view.beside.is_some() || !self.may_start_short(task)
    }

    /// The task that no other may delay, if there is one.
    fn first_in_line(&self) -> Option<&Task> {
        if !self.traits.reserve_head || self.is_stream() {
            return None;
        }
        // An overdue task goes before the order's first: otherwise each of the two would wait for the other.
        self.overdue().or_else(|| self.state.tasks.get(self.order().first()?))
    }

    pub(super) fn is_managed(&self, task: &Task, grant: Bytes) -> bool {
        let wants_it = task.request.managed || self.traits.manages_normal_tasks(&self.options);
        wants_it || grant < task.requirement
    }

    /// Binds a waiting task; false, with nothing changed, if the ledger does not allow it.
    pub(super) fn start(&mut self, binding: Binding, out: &mut Vec<Action>) -> bool {
        let Binding { task: id, device, grant, managed, .. } = binding;
        let reason = binding.reason.clone();
        let Some(class) = self.state.bind(binding, self.options.context_bytes, self.now) else {
            return false;
        };
        if let Some(task) = self.state.tasks.get(&id).cloned() {
            self.leave_queue(&task);
        }
        self.touch_task(id);
        out.push(Action::Bind { task: id, device, class, grant, managed, reason });
        true
    }

    /// True if this waiting task could start in the current state; for the invariants, since between steps none can.
    pub(crate) fn could_start(&self, task: &Task) -> bool {
        let comes_back = self.aside.contains(&task.id) && self.why_aside(task).is_none();
        comes_back
            || self.may_come_in(task.id)
            || matches!(self.decide_placement(task, self.has_last_resort()), Placement::Bind { .. })
    }

    /// Why no device can ever hold the task; such a task is refused at once, wherever it stands in the queue.
    fn why_too_large(&self, task: &Task) -> Option<Reason> {
        let wanted = task.requirement;
        let device = self.read().largest_for(task)?;
        let largest = device.saturating_sub(self.options.context_bytes);
        let may_be_larger = self.traits.starts_larger() && !task.request.whole;
        let limit = largest.percent(self.options.oversize_percent_under(may_be_larger));
        // A larger task starts short, and only with its least share (specification S-206) of what such a task may take.
        let left = part_of(device, self.traits.sharing.eager_leaves);
        let share = u64::from(self.options.grant_percent_min).max(1);
        let startable = Bytes(largest.saturating_sub(left).0.saturating_mul(100) / share);
        let limit = limit.min(startable.max(largest));
        (wanted > limit).then_some(Reason::TooLarge { wanted, largest, limit })
    }

    /// Why a task may not even wait. `itself`: how often the task is counted among the waiting ones.
    pub(super) fn why_refused(&self, task: &Task, itself: usize) -> Option<Reason> {
        self.why_too_large(task).or_else(|| self.why_over_quota(task, itself))
    }

    /// Why a step would refuse a client's request to begin, if it would. Changes nothing, so that many such requests
    /// need no step.
    pub fn refuses(&self, client: ClientId, request: &TaskRequest) -> Option<Reason> {
        let state = TaskState::Waiting { last_reported: None };
        let (id, requirement, request) = (TaskId(u64::MAX), request.requirement, request.clone());
        let task = Task { id, client, requirement, request, asked_at: self.now, arrival: 0, state };
        self.state.clients.get(&client).and_then(|_| self.why_refused(&task, 0))
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        self.touch_task(id);
        if let Some(task) = self.state.remove_task(id) {
            self.leave_queue(&task);
        }
    }

    /// Reports a wait only if the kind of its reason is new: in a long queue the numbers change at every release.
    pub(super) fn wait(&mut self, id: TaskId, reason: Reason, out: &mut Vec<Action>) {
        let Some(Task { state: TaskState::Waiting { last_reported }, .. }) = self.state.tasks.get_mut(&id)
        else {
            return;
        };
        if last_reported.replace(reason.code()) != Some(reason.code()) {
            out.push(Action::Wait { task: id, reason });
        }
    }

    /// Why a waiting task waits, in the current state.
    pub(super) fn why_waiting(&self, task: &Task) -> Reason {
        match self.decide_placement(task, self.has_last_resort()) {
            Placement::Wait(reason) => reason,
            Placement::Bind { .. } => Reason::ProposalDropped,
        }
    }
}
