//! Programs that have ended, for `eager history`: what each had, how long it waited and whether it was refused, from
//! the steps of the core. Pure.
//!
//! Trap: untrusted programs add rows here, so when the list is full the oldest row of the user with the most rows goes;
//! dropping the oldest of all would let one user push out every other's. The daemon sees that a process ends, but not
//! its exit status, which only the parent gets.

use eager_core::Scheduler;
use eager_core::action::{Action, Reason};
use eager_core::event::{Event, TaskRequest};
use eager_core::limits::Measure;
use eager_core::model::{Client, TaskState};
use eager_proto::admin::ProgramRow;
use eager_units::{Bytes, ClientId, Nanos, TaskId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Rows of all users (specification S-721).
pub const PROGRAMS_MAX: usize = 2000;
/// Longest kept reason; no sentence of the core is longer.
const REASON_CHARS_MAX: usize = 300;

/// Programs that have ended, and those that are connected.
#[derive(Debug, Default)]
pub struct Ended {
    rows: VecDeque<ProgramRow>,
    by_user: BTreeMap<u32, usize>,
    /// Programs that have ever ended: when this changes, the file is out of date.
    count: u64,
    open: BTreeMap<ClientId, Open>,
    owners: BTreeMap<TaskId, ClientId>,
}

/// A program that is connected.
#[derive(Debug)]
struct Open {
    row: ProgramRow,
    tasks: BTreeSet<TaskId>,
    /// Tasks with a smaller id are counted already: waiting tasks begin again when a policy is replaced.
    next_task: TaskId,
    /// Time up to which the sums below are complete; the flags tell which of them are running.
    until: Nanos,
    has_device: bool,
    waits: bool,
    is_held: bool,
    /// A task of it asked for memory as the program allocated it: a lazy one, or one that was extended.
    grows: bool,
    ran: Nanos,
    waited: Nanos,
    held: Nanos,
}

impl Open {
    fn add_elapsed(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.until);
        for (goes_on, sum) in
            [(self.has_device, &mut self.ran), (self.waits, &mut self.waited), (self.is_held, &mut self.held)]
        {
            if goes_on {
                *sum = Nanos(sum.0.saturating_add(passed.0));
            }
        }
        self.until = now;
    }

    fn begin_task(&mut self, task: TaskId, request: &TaskRequest) {
        self.tasks.insert(task);
        self.grows |= request.lazy;
        if task < self.next_task {
            return;
        }
        self.next_task = TaskId(task.0.saturating_add(1));
        if self.row.tasks == 0 {
            self.row.function.clone_from(&request.function);
        }
        self.row.tasks += 1;
        // The task may be refused in this step; the sum over all tasks of the program is taken after the step.
        self.row.requirement_bytes = self.row.requirement_bytes.max(request.requirement.0);
    }

    /// Takes in the state of the program after a step.
    fn update(&mut self, client: &Client, scheduler: &Scheduler) {
        let tasks = client.tasks.iter().filter_map(|id| scheduler.state().tasks.get(id));
        let (mut wanted, mut granted) = (Bytes::ZERO, Bytes::ZERO);
        (self.waits, self.has_device, self.is_held) = (false, false, false);
        for task in tasks {
            wanted = wanted.saturating_add(task.requirement);
            let TaskState::Bound(bound) = &task.state else {
                self.waits = true;
                continue;
            };
            self.has_device = true;
            self.is_held |= bound.held.is_some();
            granted = granted.saturating_add(bound.grant);
            let class = bound.class.to_string();
            if !self.row.classes.contains(&class) {
                self.row.classes.push(class);
            }
            if !self.row.devices.contains(&bound.device.0) {
                self.row.devices.push(bound.device.0);
            }
        }
        self.row.requirement_bytes = self.row.requirement_bytes.max(wanted.0);
        self.row.grant_bytes = self.row.grant_bytes.max(granted.0);
        if self.grows {
            self.row.grown_bytes = self.row.grown_bytes.max(wanted.0);
        }
    }

    fn set_end(&mut self, end: &str, reason: &str) {
        self.row.end = end.into();
        self.row.reason = reason.chars().take(REASON_CHARS_MAX).collect();
    }
}

impl Ended {
    /// The newest `most` rows, of one user or all, oldest first.
    pub fn newest(&self, uid: Option<u32>, most: usize) -> Vec<ProgramRow> {
        let theirs = self.rows.iter().rev().filter(|row| uid.is_none_or(|uid| row.uid == uid));
        let mut newest: Vec<ProgramRow> = theirs.take(most).cloned().collect();
        newest.reverse();
        newest
    }

    pub fn rows(&self) -> &VecDeque<ProgramRow> {
        &self.rows
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a program that has connected.
    pub fn enter(&mut self, client: ClientId, pid: i32, uid: u32, label: &str, now: Nanos, wall_ms: u64) {
        let row = ProgramRow {
            client: client.0,
            pid,
            uid,
            label: label.to_owned(),
            started_ms: wall_ms,
            end: "ended".into(),
            ..ProgramRow::default()
        };
        let open = Open {
            row,
            tasks: BTreeSet::new(),
            next_task: TaskId(0),
            until: now,
            has_device: false,
            waits: false,
            is_held: false,
            grows: false,
            ran: Nanos(0),
            waited: Nanos(0),
            held: Nanos(0),
        };
        self.open.insert(client, open);
    }

    /// Ends the row of a program whose process has ended or that is not served any more. A program without any task
    /// gets no row.
    pub fn leave(&mut self, client: ClientId, now: Nanos, wall_ms: u64) {
        let Some(mut open) = self.open.remove(&client) else { return };
        for task in &open.tasks {
            self.owners.remove(task);
        }
        open.add_elapsed(now);
        let ms = |time: Nanos| time.0 / 1_000_000;
        let (ran_ms, waited_ms, held_ms) = (ms(open.ran), ms(open.waited), ms(open.held));
        if open.row.tasks > 0 {
            self.keep(ProgramRow { ended_ms: wall_ms, ran_ms, waited_ms, held_ms, ..open.row });
        }
    }

    /// Adds a row, of this daemon or an earlier one.
    pub fn keep(&mut self, row: ProgramRow) {
        self.count += 1;
        *self.by_user.entry(row.uid).or_default() += 1;
        self.rows.push_back(row);
        if self.rows.len() <= PROGRAMS_MAX {
            return;
        }
        let most = self.by_user.iter().max_by_key(|(_, count)| **count).map(|(uid, _)| *uid);
        let oldest = self.rows.iter().position(|row| Some(row.uid) == most);
        if let Some(row) = oldest.and_then(|at| self.rows.remove(at))
            && let Some(count) = self.by_user.get_mut(&row.uid)
        {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&row.uid);
            }
        }
    }

    /// Notes what was done to a program by anything but the core.
    pub fn set_end(&mut self, client: ClientId, end: &str, reason: &str) {
        if let Some(open) = self.open.get_mut(&client) {
            open.set_end(end, reason);
        }
    }

    /// Notes the program's memory seen on the devices; the maximum is kept.
    pub fn seen(&mut self, client: ClientId, resident: Bytes) {
        if let Some(open) = self.open.get_mut(&client) {
            open.row.resident_bytes = open.row.resident_bytes.max(Some(resident.0));
        }
    }

    /// Takes in one step, and the scheduler after it.
    pub fn note(&mut self, now: Nanos, scheduler: &Scheduler, event: &Event, actions: &[Action]) {
        match event {
            Event::TaskBegin { task, client, request } => self.begin_task(*task, *client, request),
            Event::Restored { tasks, .. } => {
                tasks.iter().for_each(|task| self.begin_task(task.task, task.client, &task.request));
            }
            Event::TaskExtend { task, .. } => self.extend(*task, actions),
            _ => {}
        }
        let of = |action: &Action| match action {
            Action::Wait { .. } | Action::Watch { .. } => None,
            _ => action.task(),
        };
        let touched = actions.iter().filter_map(of).chain(task_of(event));
        let mut clients: BTreeSet<ClientId> =
            touched.filter_map(|task| self.owners.get(&task).copied()).collect();
        if let Event::Restored { tasks, .. } = event {
            clients.extend(tasks.iter().map(|task| task.client));
        }
        actions.iter().for_each(|action| self.set_end_from(event, action));
        for client in clients {
            if let Some(open) = self.open.get_mut(&client)
                && let Some(known) = scheduler.state().clients.get(&client)
            {
                open.add_elapsed(now);
                open.update(known, scheduler);
                let gone: Vec<TaskId> = open.tasks.difference(&known.tasks).copied().collect();
                for task in gone {
                    open.tasks.remove(&task);
                    self.owners.remove(&task);
                }
            }
        }
    }

    fn begin_task(&mut self, task: TaskId, client: ClientId, request: &TaskRequest) {
        if let Some(open) = self.open.get_mut(&client) {
            open.begin_task(task, request);
            self.owners.insert(task, client);
        }
    }

    fn extend(&mut self, task: TaskId, actions: &[Action]) {
        let is_refusal = |action: &Action| matches!(action, Action::Refuse { task: of, .. } if *of == task);
        let owner = self.owners.get(&task).filter(|_| !actions.iter().any(is_refusal));
        if let Some(open) = owner.and_then(|owner| self.open.get_mut(owner)) {
            open.grows = true;
        }
    }

    fn set_end_from(&mut self, event: &Event, action: &Action) {
        let owner = action.task().and_then(|task| self.owners.get(&task)).copied();
        let (client, end, reason): (Option<ClientId>, &str, Option<&Reason>) = match action {
            // A program that was refused memory and then got some does not count as refused.
            Action::Bind { .. } | Action::Regrant { .. } => (owner, "refused", None),
            Action::Refuse { reason, .. } if matches!(event, Event::Cancelled { .. }) => {
                (owner, "cancelled", Some(reason))
            }
            Action::Refuse { reason, .. } => (owner, "refused", Some(reason)),
            Action::Stranded { client, reason, .. } => (Some(*client), "lost", Some(reason)),
            Action::Overrun { client, measure: Measure::Kill, reason }
            | Action::Overstay { client, ending: Some(_), reason, .. } => {
                (Some(*client), "limit", Some(reason))
            }
            _ => return,
        };
        let Some(open) = client.and_then(|client| self.open.get_mut(&client)) else { return };
        match reason {
            Some(reason) => open.set_end(end, &reason.to_string()),
            None if open.row.end == end => open.set_end("ended", ""),
            None => {}
        }
    }
}

/// The task that an event is about, if the event changes what its program has or waits for.
fn task_of(event: &Event) -> Option<TaskId> {
    match event {
        Event::TaskBegin { task, .. }
        | Event::TaskExtend { task, .. }
        | Event::TaskShrink { task, .. }
        | Event::TaskEnd { task }
        | Event::KernelHeld { task, .. }
        | Event::Cancelled { task, .. } => Some(*task),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::recent::tests::TestRun;
    use eager_core::PolicyName;
    use eager_core::event::KernelRequest;
    use eager_units::AccessClass;

    fn lines(run: &TestRun) -> Vec<String> {
        let line = |row: &ProgramRow| {
            let gib = |bytes: u64| bytes >> 30;
            format!(
                "{} tasks {} ran {} waited {} held {} {} {}/{} GiB: {} {}",
                row.label,
                row.tasks,
                row.ran_ms / 1000,
                row.waited_ms / 1000,
                row.held_ms / 1000,
                row.classes.join("+"),
                gib(row.grant_bytes),
                gib(row.requirement_bytes),
                row.end,
                row.reason
            )
        };
        run.ended.newest(None, 100).iter().map(|row| line(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn times_classes_and_memory_of_a_program_are_summed_up() {
        let mut run = TestRun::new(PolicyName::EagerB);
        run.begin(1, 8); // at 5 s, at once
        run.begin(2, 6); // at 6 s, eager
        let kernel = KernelRequest {
            name: "sum".into(),
            footprint: Bytes(6 << 30),
            static_size: Bytes(6 << 30),
            access: AccessClass::Cyclic,
        };
        run.step(Event::KernelHeld { task: TaskId(2), kernel }); // 7 s
        run.begin(3, 5); // 8 s, waits
        run.gone(1); // 9 s: the second is promoted, the third starts
        run.step(Event::TaskEnd { task: TaskId(2) }); // 10 s
        run.gone(2); // 11 s
        run.begin(6, 1); // 12 s: a task of the third program, beside its first
        run.gone(3); // 13 s
        assert_eq!(
            lines(&run),
            [
                "program 1 tasks 1 ran 4 waited 0 held 0 normal 8/8 GiB: ended",
                "program 2 tasks 1 ran 4 waited 0 held 2 eager+promoted 6/6 GiB: ended",
                "program 3 tasks 2 ran 4 waited 1 held 0 eager+promoted+normal 6/6 GiB: ended",
            ]
        );
        assert!(run.ended.owners.is_empty() && run.ended.open.is_empty(), "{:?}", run.ended);
    }

    #[test]
    fn how_it_ended_is_the_last_that_was_done_to_it() {
        let mut run = TestRun::new(PolicyName::Case);
        run.begin(1, 64);
        run.begin(2, 64);
        run.begin(5, 8); // of the second program too, which made do with less
        run.begin(3, 8); // waits
        run.step(Event::Cancelled { task: TaskId(3), by: 7 });
        for client in 1..=3 {
            run.gone(client);
        }
        let lines = lines(&run);
        assert!(lines[0].contains("0/64 GiB: refused refused: 64 GiB wanted"), "{lines:?}");
        assert!(lines[1].ends_with("8/64 GiB: ended"), "{lines:?}");
        assert!(lines[2].contains(": cancelled "), "{lines:?}");
    }

    #[test]
    fn what_a_program_needs_is_known_where_it_asked_as_it_allocated() {
        let mut run = TestRun::new(PolicyName::Case);
        let begin = |run: &mut TestRun, id: u64, gib: u64, lazy: bool| {
            let request = TaskRequest { requirement: Bytes(gib << 30), lazy, ..TaskRequest::default() };
            run.step(Event::TaskBegin { task: TaskId(id), client: ClientId(id), request });
        };
        let extend = |run: &mut TestRun, id: u64, gib: u64| {
            run.step(Event::TaskExtend { task: TaskId(id), bytes: Bytes(gib << 30) });
        };
        begin(&mut run, 1, 2, true);
        extend(&mut run, 1, 1);
        extend(&mut run, 1, 64); // refused
        run.step(Event::TaskShrink { task: TaskId(1), bytes: Bytes(1 << 30) });
        begin(&mut run, 2, 3, false);
        begin(&mut run, 3, 4, false);
        extend(&mut run, 3, 64); // refused
        (1..=3).for_each(|client| run.gone(client));
        begin(&mut run, 4, 1, false);
        let grown = |row: &ProgramRow| row.grown_bytes >> 30;
        assert_eq!(run.ended.newest(None, 9).iter().map(grown).collect::<Vec<_>>(), [3, 0, 0]);
    }

    #[test]
    fn a_program_that_asked_beforehand_for_too_little_grows() {
        let mut run = TestRun::new(PolicyName::Case);
        run.begin(1, 2);
        run.step(Event::TaskExtend { task: TaskId(1), bytes: Bytes(3 << 30) });
        run.gone(1);
        assert_eq!(run.ended.newest(None, 1)[0].grown_bytes, 5 << 30);
    }

    #[test]
    fn one_user_pushes_out_his_own_programs_only() {
        let mut ended = Ended::default();
        let row = |uid, client| ProgramRow { uid, client, ..ProgramRow::default() };
        (0..10).for_each(|client| ended.keep(row(7, client)));
        (0..3 * PROGRAMS_MAX as u64).for_each(|client| ended.keep(row(8, client)));
        assert_eq!((ended.rows().len(), ended.newest(Some(7), PROGRAMS_MAX).len()), (PROGRAMS_MAX, 10));
        let newest = ended.newest(Some(8), 2);
        let last = 3 * PROGRAMS_MAX as u64 - 1;
        assert_eq!(newest.iter().map(|row| row.client).collect::<Vec<_>>(), [last - 1, last]);
        assert_eq!(ended.by_user.values().sum::<usize>(), PROGRAMS_MAX);
    }
}
