//! Event loop: advances core, model and clients to the earliest moment at which any of them has an event.
//!
//! Trap: the order within one moment is fixed (completions, timers, tick, then each client in turn), because the same
//! input must give the same bytes.

use crate::audit::{Auditor, Violation};
use crate::client::{Blocked, Client};
use crate::cores::Cores;
use crate::expected;
use crate::host::HostMemory;
use crate::job::{Job, JobError};
use crate::options::{Kill, SimOptions, Submission};
use crate::result::{DeviceResult, Outcome, SimResult};
use crate::sentences::sentence;
use eager_client::task::Kind;
use eager_core::Scheduler;
use eager_core::action::{Action, Reason};
use eager_core::event::{DeviceProfile, Event};
use eager_core::journal::{JournalHeader, JournalLine};
use eager_core::policy::{MemoryRule, Traits};
use eager_core::scheduler::Stage;
use eager_gpu_model::{Completion, Model, ModelError, OpId};
use eager_journal::Journal;
use eager_units::{Bytes, Class, DeviceId, Nanos, TaskId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Reasons why a run gives no result.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("the simulation needs at least one device and one host core")]
    Empty,
    /// A deadlock, with the state of the first unfinished job.
    #[error("deadlock at {}; jobs not done: {jobs}; the first: {first}", at.moment())]
    Stuck { at: Nanos, jobs: usize, first: String },
    /// A defect of the scheduler core or of the simulator. Report it with the input.
    #[error("at {}, after `{event}`: {violation}", at.moment())]
    Audit { at: Nanos, event: String, violation: String },
    /// A defect of the simulator.
    #[error("the GPU model refused an operation: {0}")]
    Model(#[from] ModelError),
}

/// Device memory under policies with endless memory; far from overflow.
const ENDLESS_BYTES: u64 = 1 << 50;

/// A scheduled event of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The job is submitted.
    Arrives(usize),
    Killed(usize),
}

/// Whole state of a run.
pub(crate) struct World<'a> {
    pub(crate) now: Nanos,
    pub(crate) options: &'a SimOptions,
    pub(crate) model: Model,
    pub(crate) traits: Traits,
    scheduler: Scheduler,
    pub(crate) auditor: Auditor,
    jobs: &'a [Job],
    pub(crate) clients: Vec<Client<'a>>,
    /// Submitted jobs that wait for host memory, in order.
    waiting: VecDeque<usize>,
    pub(crate) host: HostMemory,
    pub(crate) ended: usize,
    pub(crate) timers: BTreeSet<(Nanos, Timer)>,
    pub(crate) cores: Cores,
    /// Clients whose state must be examined again.
    pub(crate) ready: VecDeque<usize>,
    pub(crate) operations: BTreeMap<OpId, usize>,
    pub(crate) tasks: BTreeMap<TaskId, usize>,
    pub(crate) task_next: u64,
    eager_launches: u64,
    promotions: u64,
    trace: Vec<String>,
    journal: Vec<JournalLine>,
    /// By device: moments, and the bytes granted from each moment on; for a timeline only.
    granted: Vec<Vec<(Nanos, u64)>>,
}

/// Runs jobs to their end.
///
/// # Errors
/// A descriptor is invalid, the run deadlocks, or a rule is broken.
pub fn run(jobs: &[Job], options: &SimOptions) -> Result<SimResult, SimError> {
    for job in jobs {
        job.validate()?;
    }
    if options.cards.is_empty() || options.host_cores == 0 {
        return Err(SimError::Empty);
    }
    let estimates = expected::of_jobs(jobs, options)?;
    let mut world = World::new(jobs, options);
    for (client, estimates) in world.clients.iter_mut().zip(estimates) {
        client.estimates = estimates;
    }
    world.add_devices()?;
    world.expect_jobs();
    world.settle()?;
    while world.ended < jobs.len() {
        let Some(at) = world.next_moment() else { return Err(world.stuck()) };
        world.moment(at)?;
    }
    world.finish()
}

impl<'a> World<'a> {
    fn new(jobs: &'a [Job], options: &'a SimOptions) -> World<'a> {
        let traits = options.policy.traits().under(&options.scheduler);
        let mut cards = options.cards.clone();
        if traits.memory == MemoryRule::Endless {
            for card in &mut cards {
                card.memory_bytes = ENDLESS_BYTES;
            }
        }
        World {
            now: Nanos(0),
            options,
            model: Model::new(cards, options.model.clone()),
            traits,
            scheduler: Scheduler::new(options.policy, options.scheduler.clone()),
            auditor: Auditor::new(options.scheduler.context_bytes, traits.memory != MemoryRule::Counted),
            jobs,
            clients: jobs.iter().enumerate().map(|(index, job)| Client::new(index, job)).collect(),
            waiting: VecDeque::new(),
            host: HostMemory::new(options.host_memory_bytes, traits.manages_normal_tasks(&options.scheduler)),
            ended: 0,
            timers: BTreeSet::new(),
            cores: Cores::new(options.core_order, options.host_cores),
            ready: VecDeque::new(),
            operations: BTreeMap::new(),
            tasks: BTreeMap::new(),
            task_next: 1,
            eager_launches: 0,
            promotions: 0,
            trace: Vec::new(),
            journal: Vec::new(),
            granted: vec![Vec::new(); options.cards.len()],
        }
    }

    fn add_devices(&mut self) -> Result<(), SimError> {
        for (index, card) in self.options.cards.iter().enumerate() {
            let profile = DeviceProfile {
                name: card.name.clone(),
                capacity: Bytes(self.options.capacity_bytes(index)),
                sms: card.sms,
                warps_per_sm: card.threads_per_sm / 32,
                blocks_per_sm: card.blocks_per_sm,
                faults_stall: !self.options.model.mps,
            };
            self.step(Event::DeviceAdded { device: DeviceId(index as u32), profile })?;
        }
        Ok(())
    }

    /// Schedules arrivals and kills.
    fn expect_jobs(&mut self) {
        let arrivals = (0..self.jobs.len()).map(|job| match &self.options.submission {
            Submission::AllAtOnce => Some(Nanos(0)),
            Submission::Workers(workers) => (job < (*workers).max(1) as usize).then_some(Nanos(0)),
            Submission::At(times) => Some(times.get(job).copied().unwrap_or_default()),
        });
        let arrivals = arrivals.enumerate().filter_map(|(job, at)| Some((at?, Timer::Arrives(job))));
        self.timers.extend(arrivals);
        let known = |kill: &&Kill| kill.job < self.jobs.len();
        let kills = self.options.kills.iter().filter(known).map(|kill| (kill.at, Timer::Killed(kill.job)));
        self.timers.extend(kills);
    }

    fn arrive(&mut self, job: usize) -> Result<(), SimError> {
        self.clients[job].result.submit = self.now;
        self.waiting.push_back(job);
        self.submit_jobs()
    }

    /// Starts waiting jobs, in order, while the host's memory suffices.
    pub(crate) fn submit_jobs(&mut self) -> Result<(), SimError> {
        while let Some(&job) = self.waiting.front()
            && self.host.admit(&self.jobs[job])
        {
            self.waiting.pop_front();
            self.ready.push_back(job);
            let (client, informed, nice) =
                (self.clients[job].id, self.jobs[job].informed, self.jobs[job].nice);
            let label = self.jobs[job].name.clone();
            self.step(Event::ClientConnected { client, uid: 0, label, informed, same_process: None, nice })?;
            self.clients[job].start(self.scheduler.habits_of_newcomer(informed));
        }
        Ok(())
    }

    /// Updates the host memory that backs managed memory. If it has shrunk, waiting jobs may start.
    fn note_host_memory(&mut self) -> Result<(), SimError> {
        let mut bytes = 0;
        for device in 0..self.model.device_count() {
            bytes += self.model.memory_info(device)?.host_bytes;
        }
        if self.host.note_managed(bytes) { self.submit_jobs() } else { Ok(()) }
    }

    fn next_moment(&self) -> Option<Nanos> {
        let model = self.model.next_event().map(|at| Nanos(at.0));
        let timer = self.timers.first().map(|(at, _)| *at);
        let deadline = self.scheduler.next_deadline();
        let next = [model, timer, self.cores.next_end(), deadline].into_iter().flatten().min()?;
        Some(next.max(self.now))
    }

    fn moment(&mut self, at: Nanos) -> Result<(), SimError> {
        self.now = at;
        let mut done = Vec::new();
        self.model.advance(model_time(at), &mut done);
        for completion in done {
            self.completed(&completion)?;
        }
        while let Some(index) = self.cores.take_ended(at) {
            self.clients[index].host_phase_ended(at);
            self.ready.push_back(index);
        }
        while let Some(&(due, timer)) = self.timers.first().filter(|(due, _)| *due <= at) {
            self.timers.remove(&(due, timer));
            self.timer(timer)?;
        }
        if self.scheduler.next_deadline().is_some_and(|due| due <= at) {
            self.step(Event::Tick)?;
        }
        self.settle()?;
        self.note_host_memory()?;
        self.settle()
    }

    /// Lets every ready client proceed as far as it can.
    fn settle(&mut self) -> Result<(), SimError> {
        while let Some(index) = self.ready.pop_front() {
            self.pump(index)?;
        }
        Ok(())
    }

    fn timer(&mut self, timer: Timer) -> Result<(), SimError> {
        match timer {
            Timer::Arrives(job) => self.arrive(job),
            Timer::Killed(job) if self.clients[job].blocked == Blocked::NotSubmitted => Ok(()),
            Timer::Killed(job) => self.kill(job),
        }
    }

    /// Begins a host phase of the program.
    pub(crate) fn begin_host_phase(&mut self, index: usize, seconds: f64) {
        let client = &mut self.clients[index];
        client.blocked = Blocked::Host { since: self.now };
        let holds = client.has_device() && client.task().is_some_and(|task| task.account.reserved() > 0);
        self.cores.begin(self.now, index, seconds, holds);
    }

    /// Steps the core with one event, applies its actions to the clients, and records both in the books.
    pub(crate) fn step(&mut self, event: Event) -> Result<(), SimError> {
        let sentence = sentence(&event);
        let mut actions = Vec::new();
        self.auditor.event(&event);
        self.scheduler.step(self.now, event.clone(), &mut actions);
        if self.options.trace {
            let now = self.now.moment();
            self.trace.push(format!("{now} {sentence}"));
            self.trace.extend(actions.iter().map(|action| format!("{now}   -> {action}")));
        }
        if self.options.audit {
            self.audit(&sentence, &actions)?;
        }
        for action in &actions {
            self.carry_out(action);
        }
        if self.options.timeline {
            self.note_grants();
        }
        if self.options.journal {
            self.journal.push(JournalLine { now: self.now, event, actions });
        }
        Ok(())
    }

    fn note_grants(&mut self) {
        for (device, changes) in self.scheduler.devices().zip(&mut self.granted) {
            if changes.last().map(|(_, bytes)| *bytes) != Some(device.granted.0) {
                changes.push((self.now, device.granted.0));
            }
        }
    }

    fn audit(&mut self, event: &str, actions: &[Action]) -> Result<(), SimError> {
        for action in actions {
            let judged = self.auditor.action(action);
            self.judge(event, judged)?;
        }
        self.judge(event, self.auditor.balance())?;
        let broken = |violation: String| SimError::Audit { at: self.now, event: event.to_owned(), violation };
        eager_core::invariants::check(&self.scheduler).map_err(|violation| broken(violation.to_string()))
    }

    pub(crate) fn judge(&self, event: &str, judged: Result<(), Violation>) -> Result<(), SimError> {
        let error = |violation: Violation| SimError::Audit {
            at: self.now,
            event: event.to_owned(),
            violation: violation.to_string(),
        };
        judged.map_err(error)
    }

    fn carry_out(&mut self, action: &Action) {
        let Some(task) = action.task() else { return };
        let Some(&index) = self.tasks.get(&task) else { return };
        let now = self.now;
        let client = &mut self.clients[index];
        let Some(open) = client.tasks.tasks_mut().find(|open| open.own.id == Some(task)) else { return };
        let before = open.own.shown;
        // What the daemon would show after this step of the scheduler.
        open.own.shown = self.scheduler.task(task).and_then(|view| view.terms(&self.traits)).or(before);
        match action {
            Action::Bind { device, .. } if open.kind == Kind::Lazy => {
                open.own.bound = Some(now);
                if self.traits.assignment.is_by_program() {
                    client.result.bind.get_or_insert(now);
                    client.result.device = Some(device.0);
                }
            }
            Action::Bind { device, class, grant, .. } => {
                open.own.bound = Some(now);
                self.eager_launches += u64::from(*class == Class::Eager);
                let result = &mut client.result;
                result.bind.get_or_insert(now);
                if let Some(task) = result.tasks.last_mut() {
                    task.bind = Some(now);
                    result.wait.0 += now.0 - task.ask.0;
                }
                result.device = Some(device.0);
                result.classes.push((now, *class));
                result.grant_bytes = result.grant_bytes.max(grant.0);
                result.grant_bytes_max = result.grant_bytes_max.max(grant.0);
            }
            Action::Refuse { reason, .. } => {
                client.result.outcome = Outcome::Refused { why: reason.to_string() };
            }
            Action::Wait { .. }
            | Action::Overrun { .. }
            | Action::Overstay { .. }
            | Action::Stranded { .. }
            | Action::Reinstated { .. } => return,
            Action::Regrant { grant, class, reason, .. } => {
                let result = &mut client.result;
                let is_promoted =
                    open.own.shown.zip(before).is_some_and(|(shown, before)| shown.promoted_since(&before));
                result.grant_bytes_max = result.grant_bytes_max.max(grant.0);
                // A promotion by freeing grants no memory, so it is not a change of class in the result.
                if !matches!(reason, Reason::PromotedByShrinking { .. }) {
                    self.promotions += u64::from(is_promoted);
                    if result.classes.last().map(|last| last.1) != Some(*class) {
                        result.classes.push((now, *class));
                    }
                }
            }
            Action::SetGate { gate, .. } => open.own.allowed = gate.allowed(),
            // A daemon reads the program's launch counters now, so that the core knows its activity.
            Action::Watch { on, .. } => (open.terms.terms.watched, open.told_busy) = (*on, None),
        }
        self.ready.push_back(index);
    }

    fn completed(&mut self, completion: &Completion) -> Result<(), SimError> {
        let Some(index) = self.operations.remove(&completion.op) else { return Ok(()) };
        let client = &mut self.clients[index];
        client.result.moved += completion.stats.moved;
        if client.in_flight.is_some_and(|head| head.op == completion.op) {
            self.stream_completed(index, completion)?;
        } else if matches!(client.blocked, Blocked::Context { op, .. } if op == completion.op) {
            client.host_phase_ended(self.now);
            client.result.start.get_or_insert(self.now);
        } else if client.blocked == Blocked::Operation(completion.op) {
            client.blocked = Blocked::Not;
        }
        self.ready.push_back(index);
        Ok(())
    }

    /// Frees a job's host memory, and starts the next job of its worker.
    pub(crate) fn job_ended(&mut self, job: usize) -> Result<(), SimError> {
        self.host.leave(&self.jobs[job]);
        if let Submission::Workers(_) = self.options.submission
            && let Some(next) = self.clients.iter().position(|client| client.blocked == Blocked::NotSubmitted)
            && !self.waiting.contains(&next)
        {
            return self.arrive(next);
        }
        self.submit_jobs()
    }

    fn stuck(&self) -> SimError {
        let first = self.clients.iter().find(|client| client.blocked != Blocked::Ended);
        let first = first.map_or_else(String::new, |client| {
            let id = client.ids.first().map(|(_, id)| *id);
            let view = id.and_then(|id| self.scheduler.task(id));
            let why = match view.map(|task| task.stage) {
                Some(Stage::Waiting { reason }) => reason.to_string(),
                Some(Stage::Bound { gate_reason, .. }) if matches!(client.blocked, Blocked::Gate { .. }) => {
                    gate_reason.to_string()
                }
                _ => client.blocked.to_string(),
            };
            format!("job {}, {}: {why}", client.result.index, client.job.name)
        });
        SimError::Stuck { at: self.now, jobs: self.jobs.len() - self.ended, first }
    }

    fn finish(mut self) -> Result<SimResult, SimError> {
        if self.options.audit {
            self.auditor.close().map_err(|violation| SimError::Audit {
                at: self.now,
                event: "the last job ended".to_owned(),
                violation: violation.to_string(),
            })?;
        }
        let mut devices = Vec::new();
        for (index, granted) in self.granted.into_iter().enumerate() {
            let name = self.model.card(index).name.clone();
            let capacity_bytes = self.options.capacity_bytes(index);
            let totals = self.model.totals(model_time(self.now), index)?;
            devices.push(DeviceResult { name, capacity_bytes, totals, granted });
        }
        // A header records what the scheduler knew before the first line, which is nothing.
        let header = JournalHeader::of(&Scheduler::new(self.options.policy, self.options.scheduler.clone()));
        let jobs: Vec<_> = self.clients.into_iter().map(|client| client.result).collect();
        let makespan = jobs.iter().map(|job| job.end).max().unwrap_or_default();
        let all_asked = jobs.iter().filter_map(|job| job.ask).max().unwrap_or_default();
        let oom = jobs.iter().filter(|job| matches!(job.outcome, Outcome::OutOfMemory { .. })).count();
        Ok(SimResult {
            policy: self.options.policy.to_string(),
            makespan,
            ask_makespan: makespan.saturating_sub(all_asked),
            eager_launches: self.eager_launches,
            promotions: self.promotions,
            oom_errors: oom as u64,
            host_bytes_max: self.host.bytes_max(),
            jobs,
            devices,
            trace: self.trace,
            journal: self.options.journal.then_some(Journal { header, lines: self.journal }),
        })
    }
}

/// Converts to the model's type for time.
pub(crate) fn model_time(at: Nanos) -> eager_gpu_model::Nanos {
    eager_gpu_model::Nanos(at.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobOp, SizeLabel};
    use eager_core::PolicyName;

    #[test]
    fn a_deadlock_is_told_with_the_schedulers_own_sentence() {
        let begin = JobOp::TaskBegin { requirement: 1 << 30, blocks: 0, threads_per_block: 0, lazy: false };
        let ops = vec![begin, JobOp::TaskEnd];
        let jobs = [Job { name: "small".into(), class_label: SizeLabel::S, informed: true, nice: 0, ops }];
        let cards = vec![eager_gpu_model::card("V100-16GB").unwrap()];
        let options = SimOptions::new(cards, PolicyName::Case);
        let mut world = World::new(&jobs, &options);
        // No device is added, so the task waits for ever.
        world.arrive(0).unwrap();
        world.settle().unwrap();
        assert_eq!(
            world.stuck().to_string(),
            "deadlock at 0.000 s; jobs not done: 1; the first: job 0, small: waits: there is no device yet"
        );
    }
}
