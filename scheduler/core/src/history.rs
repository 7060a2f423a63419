//! Durations of earlier runs of each program, learnt from the same events and actions that a journal holds, and the
//! estimate for the next run: the median of the last few.
//!
//! Runs that wait, page or share a device take longer than a run alone. Waits are subtracted here, over-subscribed
//! tasks are not learnt from, and the median ignores single outliers; the remaining noise only costs time.

use crate::action::Action;
use crate::event::{Estimate, Event, TaskRequest};
use eager_units::{Bytes, Class, ClientId, Nanos, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Runs kept of each task (specification S-313); odd, so that one of them is the median.
const RUNS: usize = 7;
/// Tasks kept; beyond that, the one not seen for longest is forgotten.
const TASKS: usize = 4096;
/// Tasks of one run that are learnt from; a program may begin them without end.
const TASKS_OF_A_RUN: usize = 64;
/// Version of the file's layout.
const VERSION: u32 = 1;

/// Key of a task: which task of which program. The requirement stands for the input: the same program takes longer with
/// more of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskKey {
    /// User of the program: runs of one user's programs are not used for another's.
    pub uid: u32,
    /// The client's label.
    pub program: String,
    pub function: String,
    pub requirement: Bytes,
}

/// History of runs. The same events give the same estimates.
#[derive(Debug, Default)]
pub struct History {
    tasks: BTreeMap<TaskKey, Runs>,
    /// Number of runs learnt so far; its value at a task's last run orders the tasks by age.
    learnt: u64,
    open: BTreeMap<ClientId, OpenClient>,
    /// Client of each task in `open`.
    owners: BTreeMap<TaskId, ClientId>,
}

#[derive(Debug, Default)]
struct Runs {
    last: VecDeque<Estimate>,
    learnt: u64,
}

/// A connected program.
#[derive(Debug)]
struct OpenClient {
    uid: u32,
    program: String,
    tasks: BTreeMap<TaskId, OpenTask>,
}

#[derive(Debug)]
struct OpenTask {
    which: TaskKey,
    asked: Nanos,
    bound: Option<Nanos>,
    /// When it had given all its memory back.
    released: Option<Nanos>,
    ended: bool,
    was_eager: bool,
}

/// Contents of the history file, the oldest task first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryFile {
    pub version: u32,
    pub tasks: Vec<TaskInFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskInFile {
    pub which: TaskKey,
    /// Oldest first.
    pub runs: Vec<Estimate>,
}

/// Why a history file is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    #[error("version {found} of the history of runs is not known (this is version {VERSION})")]
    Version { found: u32 },
}

impl History {
    /// Makes a history of the contents of a file.
    ///
    /// # Errors
    /// The file has an unknown version; then begin with [`History::default`].
    pub fn from_file(file: HistoryFile) -> Result<History, HistoryError> {
        if file.version != VERSION {
            return Err(HistoryError::Version { found: file.version });
        }
        let mut history = History::default();
        for TaskInFile { which, runs } in file.tasks {
            for run in runs {
                history.learn(which.clone(), run);
            }
        }
        Ok(history)
    }

    pub fn to_file(&self) -> HistoryFile {
        let mut tasks: Vec<(&TaskKey, &Runs)> = self.tasks.iter().collect();
        tasks.sort_by_key(|(_, runs)| runs.learnt);
        let entry = |(which, runs): (&TaskKey, &Runs)| TaskInFile {
            which: which.clone(),
            runs: runs.last.iter().copied().collect(),
        };
        HistoryFile { version: VERSION, tasks: tasks.into_iter().map(entry).collect() }
    }

    /// Number of runs learnt so far: when this has changed, the file is out of date.
    pub fn learnt(&self) -> u64 {
        self.learnt
    }

    /// Medians of the last runs of this task; None if there are none, or the client is not connected.
    pub fn estimate(&self, client: ClientId, request: &TaskRequest) -> Option<Estimate> {
        let which = self.key_of(client, request)?;
        let runs = &self.tasks.get(&which)?.last;
        median(runs)
    }

    /// Learns from one step of the scheduler: its event and the actions that followed.
    pub fn note(&mut self, now: Nanos, event: &Event, actions: &[Action]) {
        match event {
            Event::ClientConnected { client, uid, label, .. } => {
                // A scheduler that replaces another gets its clients again.
                self.close(*client);
                let open = OpenClient { uid: *uid, program: label.clone(), tasks: BTreeMap::new() };
                self.open.insert(*client, open);
            }
            Event::TaskBegin { task, client, request } => self.begins(now, *task, *client, request),
            Event::TaskEnd { task } => {
                if let Some(open) = self.task(*task) {
                    open.released.get_or_insert(now);
                    open.ended = true;
                }
            }
            Event::ClientGone { client } => self.gone(now, *client),
            _ => {}
        }
        for action in actions {
            self.note_action(now, action);
        }
    }

    fn note_action(&mut self, now: Nanos, action: &Action) {
        match action {
            Action::Bind { task, class, .. } => {
                if let Some(open) = self.task(*task) {
                    open.bound = Some(now);
                    open.was_eager |= *class == Class::Eager;
                }
            }
            Action::Regrant { task, grant, class, .. } => {
                if let Some(open) = self.task(*task) {
                    open.was_eager |= *class == Class::Eager;
                    // None again when the task extends.
                    open.released = (*grant == Bytes::ZERO).then_some(now);
                }
            }
            _ => {}
        }
    }

    fn begins(&mut self, now: Nanos, task: TaskId, client: ClientId, request: &TaskRequest) {
        let Some(which) = self.key_of(client, request) else { return };
        let open =
            OpenTask { which, asked: now, bound: None, released: None, ended: false, was_eager: false };
        if let Some(of) = self.open.get_mut(&client)
            && of.tasks.len() < TASKS_OF_A_RUN
        {
            of.tasks.entry(task).or_insert(open);
            self.owners.entry(task).or_insert(client);
        }
    }

    fn close(&mut self, client: ClientId) -> Option<OpenClient> {
        let closed = self.open.remove(&client)?;
        for task in closed.tasks.keys() {
            self.owners.remove(task);
        }
        Some(closed)
    }

    /// Learns from a program that has ended, since only now its run time is known. All runs of the same task within it
    /// count as one, their median, or the last iterations of a loop would displace all earlier runs.
    fn gone(&mut self, now: Nanos, client: ClientId) {
        let Some(client) = self.close(client) else { return };
        let wait = |task: &OpenTask| task.bound.unwrap_or(now).saturating_sub(task.asked).0;
        let mut learnt: BTreeMap<TaskKey, Vec<Estimate>> = BTreeMap::new();
        // Task ids rise in the order in which the tasks asked.
        let mut waited = 0_u64;
        for task in client.tasks.into_values().rev() {
            waited = waited.saturating_add(wait(&task));
            let (Some(bound), Some(released)) = (task.bound, task.released) else { continue };
            if !task.ended || task.was_eager {
                continue;
            }
            let remaining = Nanos(now.saturating_sub(task.asked).0.saturating_sub(waited));
            let run = Estimate { remaining, hold: released.saturating_sub(bound) };
            learnt.entry(task.which).or_default().push(run);
        }
        for (which, turns) in learnt {
            if let Some(run) = median(&turns) {
                self.learn(which, run);
            }
        }
    }

    fn learn(&mut self, which: TaskKey, run: Estimate) {
        self.learnt += 1;
        let runs = self.tasks.entry(which).or_default();
        runs.learnt = self.learnt;
        runs.last.push_back(run);
        if runs.last.len() > RUNS {
            runs.last.pop_front();
        }
        if self.tasks.len() > TASKS {
            let oldest =
                self.tasks.iter().min_by_key(|(_, runs)| runs.learnt).map(|(which, _)| which.clone());
            oldest.and_then(|which| self.tasks.remove(&which));
        }
    }

    fn key_of(&self, client: ClientId, request: &TaskRequest) -> Option<TaskKey> {
        let OpenClient { uid, program, .. } = self.open.get(&client)?;
        Some(TaskKey {
            uid: *uid,
            program: program.clone(),
            function: request.function.clone(),
            requirement: request.requirement,
        })
    }

    fn task(&mut self, id: TaskId) -> Option<&mut OpenTask> {
        self.open.get_mut(self.owners.get(&id)?)?.tasks.get_mut(&id)
    }
}

/// The median of each number by itself; None without runs.
fn median<'a>(runs: impl IntoIterator<Item = &'a Estimate> + Copy) -> Option<Estimate> {
    let of = |number: fn(&Estimate) -> Nanos| {
        let mut values: Vec<Nanos> = runs.into_iter().map(number).collect();
        values.sort();
        values.get(values.len().saturating_sub(1) / 2).copied()
    };
    Some(Estimate { remaining: of(|run| run.remaining)?, hold: of(|run| run.hold)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::DeviceProfile;
    use crate::{Options, PolicyName, Scheduler};
    use eager_units::DeviceId;

    const GIB: u64 = 1 << 30;

    /// A scheduler of one device with 16 GiB, and the history that learns from it.
    struct Bench {
        scheduler: Scheduler,
        history: History,
        clients: u64,
    }

    impl Bench {
        fn new() -> Bench {
            let (scheduler, history) =
                (Scheduler::new(PolicyName::EagerLive, Options::default()), History::default());
            let mut bench = Bench { scheduler, history, clients: 0 };
            let profile = DeviceProfile {
                name: "test".into(),
                capacity: Bytes(16 * GIB),
                sms: 1,
                warps_per_sm: 64,
                blocks_per_sm: 32,
                faults_stall: false,
            };
            bench.step(0, Event::DeviceAdded { device: DeviceId(0), profile });
            bench
        }

        fn step(&mut self, second: u64, event: Event) {
            let (now, mut actions) = (Nanos::from_secs(second), Vec::new());
            self.scheduler.step(now, event.clone(), &mut actions);
            self.history.note(now, &event, &actions);
        }

        /// A program connects and begins a task; both have the returned number.
        fn begins(&mut self, second: u64, program: &str, gib: u64) -> u64 {
            self.clients += 1;
            let (client, task) = (ClientId(self.clients), TaskId(self.clients));
            self.step(
                second,
                Event::ClientConnected {
                    client,
                    uid: 0,
                    label: program.into(),
                    informed: true,
                    same_process: None,
                    nice: 0,
                },
            );
            self.step(second, Event::TaskBegin { task, client, request: request(gib) });
            self.clients
        }

        fn ends(&mut self, id: u64, released: u64, gone: u64) {
            self.step(released, Event::TaskEnd { task: TaskId(id) });
            self.step(gone, Event::ClientGone { client: ClientId(id) });
        }

        /// The estimate for the program's next run in seconds: remaining and hold. None without one.
        fn expected(&mut self, program: &str, gib: u64) -> Option<(u64, u64)> {
            self.expected_by(0, program, gib)
        }

        fn expected_by(&mut self, uid: u32, program: &str, gib: u64) -> Option<(u64, u64)> {
            let client = ClientId(1 << 32);
            let event = Event::ClientConnected {
                client,
                uid,
                label: program.into(),
                informed: true,
                same_process: None,
                nice: 0,
            };
            self.history.note(Nanos(0), &event, &[]);
            let Estimate { remaining, hold } = self.history.estimate(client, &request(gib))?;
            Some((remaining.0 / 1_000_000_000, hold.0 / 1_000_000_000))
        }
    }

    fn request(gib: u64) -> TaskRequest {
        TaskRequest {
            requirement: Bytes(gib * GIB),
            blocks: 1,
            threads_per_block: 1,
            function: "main".into(),
            ..TaskRequest::default()
        }
    }

    #[test]
    fn what_is_expected_is_the_median_of_the_last_runs_of_the_same_program_and_size() {
        let mut bench = Bench::new();
        assert_eq!(bench.expected("a", 1), None);
        for (run, length) in [90, 4, 5, 3, 4, 70, 4, 6].into_iter().enumerate() {
            let at = run as u64 * 100;
            let id = bench.begins(at, "a", 1);
            bench.ends(id, at + length, at + length + 2);
        }
        // The first is forgotten; of 3 4 4 4 5 6 70 the fourth is the median.
        assert_eq!(bench.expected("a", 1), Some((6, 4)));
        assert_eq!((bench.expected("a", 2), bench.expected("b", 1)), (None, None));
        assert_eq!(bench.expected_by(7, "a", 1), None, "another user's");
    }

    #[test]
    fn a_loop_of_tasks_teaches_one_line_and_takes_bounded_memory() {
        let mut bench = Bench::new();
        let client = ClientId(bench.begins(0, "loop", 1));
        bench.step(1, Event::TaskEnd { task: TaskId(client.0) });
        let turns = 2 * TASKS_OF_A_RUN as u64;
        for turn in 1..turns {
            let task = TaskId(100 + turn);
            bench.step(turn, Event::TaskBegin { task, client, request: request(1) });
            bench.step(turn + 1, Event::TaskEnd { task });
        }
        assert_eq!(bench.history.owners.len(), TASKS_OF_A_RUN);
        bench.step(turns, Event::ClientGone { client });
        assert_eq!((bench.history.learnt(), bench.history.owners.len()), (1, 0));
        // Each turn takes a second; the middle one of those learnt from begins at 32.
        assert_eq!(bench.expected("loop", 1), Some((turns - 32, 1)));
    }

    #[test]
    fn memory_counts_until_it_is_back_and_waits_do_not_count() {
        let mut bench = Bench::new();
        let first = bench.begins(0, "first", 12);
        let second = bench.begins(1, "second", 8);
        let shrink = Event::TaskShrink { task: TaskId(first), bytes: Bytes(12 * GIB) };
        bench.step(10, shrink);
        bench.ends(first, 25, 30);
        bench.ends(second, 14, 15);
        assert_eq!(bench.expected("first", 12), Some((30, 10)));
        assert_eq!(bench.expected("second", 8), Some((5, 4)), "it waited from 1 to 10");
    }

    #[test]
    fn killed_and_over_subscribed_tasks_teach_nothing() {
        let mut bench = Bench::new();
        let killed = bench.begins(0, "killed", 12);
        bench.step(5, Event::ClientGone { client: ClientId(killed) });
        let eager = bench.begins(6, "eager", 12);
        let more = Event::TaskExtend { task: TaskId(eager), bytes: Bytes(2 * GIB) };
        let other = bench.begins(6, "other", 4);
        bench.step(7, more);
        bench.ends(other, 8, 8);
        bench.ends(eager, 9, 9);
        assert_eq!((bench.expected("killed", 12), bench.expected("eager", 12)), (None, None));
        assert_eq!(bench.expected("other", 4), Some((2, 2)));
    }

    #[test]
    fn a_file_gives_the_same_estimates_and_forgets_the_oldest() {
        let mut history = History::default();
        let which = |n: u64| TaskKey {
            uid: 0,
            program: format!("p{n}"),
            function: "f".into(),
            requirement: Bytes(n),
        };
        let run = |n: u64| Estimate { remaining: Nanos(n), hold: Nanos(n / 2) };
        for n in 0..TASKS as u64 + 5 {
            history.learn(which(n), run(n));
        }
        let file = history.to_file();
        assert_eq!((file.tasks.len(), &file.tasks[0].which), (TASKS, &which(5)));
        let text = serde_json::to_string(&file).expect("JSON");
        let read = History::from_file(serde_json::from_str(&text).expect("the same")).expect("known version");
        assert_eq!(read.to_file(), file);
    }

    #[test]
    fn what_is_no_history_is_refused() {
        let error = History::from_file(HistoryFile { version: 9, tasks: Vec::new() }).expect_err("version 9");
        assert_eq!(error.to_string(), "version 9 of the history of runs is not known (this is version 1)");
        for text in ["", "[]", r#"{"version":1,"tasks":[{"which":{}}]}"#, r#"{"version":1,"tasks":[],"x":0}"#]
        {
            assert!(serde_json::from_str::<HistoryFile>(text).is_err(), "{text}");
        }
    }
}
