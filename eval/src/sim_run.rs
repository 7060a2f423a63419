//! Runs a workload at full size in the simulator, policy by policy, on one machine.
//!
//! Trap: the records of one machine must differ in the policy only: same cards, same host, same model options.

use crate::experiment::{Machine, System};
use crate::record::{
    Backend, Clock, DeviceRecord, HostWork, JobRecord, Outcome, Record, SCHEMA_VERSION, WorkloadStamp,
};
use crate::workload::Choice;
use anyhow::{Context, Result};
use eager_core::PolicyName;
use eager_gpu_model::{Card, DeviceTotals};
use eager_measure::Stamp;
use eager_sim::job::Job;
use eager_sim::{JobResult, SimOptions, SimResult, Span, Submission};
use eager_units::{Class, Nanos};
use std::collections::BTreeMap;

/// A modelled machine, and measurements of each configuration alone on it.
pub struct Host {
    cards: String,
    parsed: Vec<Card>,
    machine: Machine,
    /// Simulator's job of each configuration, by the configuration's id.
    descriptors: BTreeMap<String, Job>,
    /// Measurements by configuration id, without configurations that the machine cannot run.
    alone: BTreeMap<String, Alone>,
}

/// Policies under which a job alone may be faster than under `case`, because its memory is filled in pieces or copied
/// faster.
const QUICKEST: [PolicyName; 2] = [PolicyName::EagerOpt, PolicyName::EagerLive];

/// Measurements of one job alone on the machine.
#[derive(Debug, Clone, Copy)]
struct Alone {
    /// Device-side time under `case`; see [`JobResult::device_side`].
    device_side: Nanos,
    /// From submission to end. This and the following fields each take the least of `case` and the policies
    /// [`QUICKEST`].
    turnaround: Nanos,
    /// Time with any operation on the device, with a kernel, and with a copy.
    device_busy: Nanos,
    kernel_busy: Nanos,
    copy_busy: Nanos,
    /// Bytes that the ledger granted the job, integrated over time in nanoseconds.
    byte_nanos: u128,
}

impl Host {
    /// Parses the cards and simulates every configuration alone, once.
    pub fn new(cards: &str, machine: &Machine) -> Result<Host> {
        let mut parsed = eager_gpu_model::parse_cards(cards)?;
        parsed.iter_mut().for_each(|card| machine.apply_to_card(card));
        let times = machine.host_times();
        let mut descriptors = BTreeMap::new();
        for program in eager_rodinia::programs() {
            for configuration in &program.configurations {
                let job = program.descriptor(configuration, &times).context("making the simulator's jobs")?;
                descriptors.insert(configuration.id.to_string(), job);
            }
        }
        let alone = BTreeMap::new();
        let mut host =
            Host { cards: cards.to_string(), parsed, machine: machine.clone(), descriptors, alone };
        for program in eager_rodinia::programs() {
            for configuration in &program.configurations {
                let choice = [Choice { program, configuration }];
                if let Some(alone) = host.alone_under(&choice, PolicyName::Case)? {
                    let others = QUICKEST.into_iter().map(|policy| host.alone_under(&choice, policy));
                    let quickest = others.filter_map(Result::transpose).try_fold(alone, |best, other| {
                        let other = other?;
                        anyhow::Ok(Alone {
                            turnaround: best.turnaround.min(other.turnaround),
                            device_busy: best.device_busy.min(other.device_busy),
                            kernel_busy: best.kernel_busy.min(other.kernel_busy),
                            copy_busy: best.copy_busy.min(other.copy_busy),
                            byte_nanos: best.byte_nanos.min(other.byte_nanos),
                            ..best
                        })
                    })?;
                    host.alone.insert(configuration.id.to_string(), quickest);
                }
            }
        }
        Ok(host)
    }

    /// Simulates one job alone under a policy. None if the machine cannot run it.
    fn alone_under(&self, choice: &[Choice], policy: PolicyName) -> Result<Option<Alone>> {
        let with_timeline = |options: &mut SimOptions| options.timeline = true;
        let result =
            self.simulate_with(choice, &System::plain(policy), Submission::AllAtOnce, &with_timeline)?;
        let job = result.jobs.first().filter(|job| job.outcome == eager_sim::Outcome::Done);
        let busy = |of: fn(&DeviceTotals) -> u64| {
            Nanos(result.devices.iter().map(|device| of(&device.totals)).sum())
        };
        Ok(job.map(|job| Alone {
            device_side: job.device_side(),
            turnaround: job.end.saturating_sub(job.submit),
            device_busy: busy(|totals| totals.busy.0),
            kernel_busy: busy(|totals| totals.kernel_busy.0),
            copy_busy: busy(|totals| totals.copy_busy.0),
            byte_nanos: result.devices.iter().map(|device| byte_nanos(&device.granted)).sum(),
        }))
    }

    /// Simulates a list under a system.
    pub fn simulate(&self, choices: &[Choice], system: &System, submission: Submission) -> Result<SimResult> {
        self.simulate_with(choices, system, submission, &|_| {})
    }

    /// Simulates a list; `change` is applied to the options last, after those of the system and the machine.
    pub fn simulate_with(
        &self,
        choices: &[Choice],
        system: &System,
        submission: Submission,
        change: &dyn Fn(&mut SimOptions),
    ) -> Result<SimResult> {
        let jobs = self.jobs(choices)?;
        let scheduler = system.options.clone();
        let mut options =
            SimOptions { submission, scheduler, ..SimOptions::new(self.parsed.clone(), system.policy) };
        self.machine.apply(&mut options)?;
        change(&mut options);
        Ok(eager_sim::run(&jobs, &options)?)
    }

    fn jobs(&self, choices: &[Choice]) -> Result<Vec<Job>> {
        let descriptor = |(index, choice): (usize, &Choice)| -> Result<Job> {
            let found = self.descriptors.get(&choice.id()).cloned();
            let job = found.with_context(|| format!("{} is in no program.toml", choice.id()))?;
            Ok(Job { informed: self.machine.informs(index), ..job })
        };
        choices.iter().enumerate().map(descriptor).collect()
    }

    /// Simulates a list and returns the run as a record, with the spans that a schedule draws.
    pub fn run(
        &self,
        experiment: &str,
        system: &System,
        workload: &WorkloadStamp,
        choices: &[Choice],
        submission: Submission,
        stamp: &Stamp,
    ) -> Result<Record> {
        let result = self
            .simulate_with(choices, system, submission, &|options| options.timeline = true)
            .with_context(|| format!("simulating {} under {}", workload.name, system.name))?;
        Ok(self.record(experiment, workload, stamp, &result))
    }

    /// Seconds of device work: the time in which these jobs alone have any operation on a device, spread evenly over
    /// the devices, or the longest job alone if that is more. A schedule in which copies overlap kernels can be
    /// faster.
    pub fn work_s(&self, jobs: &[JobResult]) -> f64 {
        let alone = || jobs.iter().filter_map(|job| self.alone.get(&job.name));
        let work: f64 = alone().map(|alone| seconds(alone.device_busy)).sum();
        let longest = alone().map(|alone| seconds(alone.turnaround)).fold(0.0, f64::max);
        longest.max(work / self.parsed.len().max(1) as f64)
    }

    /// Lower bound of the makespan in seconds, even if kernels and copies overlap: all kernels or all copies spread
    /// evenly over the devices, or the longest job alone.
    pub fn bound_s(&self, jobs: &[JobResult]) -> f64 {
        let alone = || jobs.iter().filter_map(|job| self.alone.get(&job.name));
        let kernels: f64 = alone().map(|alone| seconds(alone.kernel_busy)).sum();
        let copies: f64 = alone().map(|alone| seconds(alone.copy_busy)).sum();
        let longest = alone().map(|alone| seconds(alone.turnaround)).fold(0.0, f64::max);
        longest.max(kernels.max(copies) / self.parsed.len().max(1) as f64)
    }

    /// Lower bound of the makespan in seconds without over-subscription: the memory that the jobs hold, for as long
    /// as each holds it alone, spread evenly over all device memory. Jobs that share a device hold their memory
    /// longer.
    pub fn memory_bound_s(&self, result: &SimResult) -> f64 {
        let alone = result.jobs.iter().filter_map(|job| self.alone.get(&job.name));
        let held: u128 = alone.map(|alone| alone.byte_nanos).sum();
        let memory: u64 = result.devices.iter().map(|device| device.capacity_bytes).sum();
        held as f64 / memory.max(1) as f64 / 1e9
    }

    /// Device-side time relative to the job alone; 0 for a configuration that does nothing on a device.
    fn slowdown(&self, job: &JobResult) -> f64 {
        match self.alone.get(&job.name) {
            Some(alone) if alone.device_side.0 > 0 => seconds(job.device_side()) / seconds(alone.device_side),
            _ => 0.0,
        }
    }

    fn record(
        &self,
        experiment: &str,
        workload: &WorkloadStamp,
        stamp: &Stamp,
        result: &SimResult,
    ) -> Record {
        let devices = result.devices.iter().zip(0..).map(|(device, index)| DeviceRecord {
            device: index,
            busy_s: device.totals.busy.0 as f64 / 1e9,
            paged_bytes: device.totals.moved.paged_bytes(),
            capacity_bytes: device.capacity_bytes,
            granted: device.granted.iter().map(|(at, bytes)| (seconds(*at), *bytes)).collect(),
        });
        Record {
            schema: SCHEMA_VERSION,
            backend: Backend::Sim,
            experiment: experiment.to_string(),
            workload: workload.clone(),
            policy: result.policy.clone(),
            cards: self.cards.clone(),
            memory_scale: 1,
            clock: Clock::Virtual,
            host_work: HostWork::Stated,
            mps: self.machine.mps.unwrap_or(SimOptions::new(Vec::new(), PolicyName::Case).model.mps),
            repetition: 0,
            stamp: stamp.clone(),
            makespan_s: seconds(result.makespan),
            jobs: result
                .jobs
                .iter()
                .map(|job| job_record(job, self.slowdown(job), result.makespan))
                .collect(),
            devices: devices.collect(),
        }
    }
}

/// Spans and gaps shorter than the whole run divided by this cannot be seen in a figure.
const SEEN: u64 = 2_000;

/// Converts spans to seconds and joins those whose gaps are too short to see.
fn joined(spans: &[Span], makespan: Nanos) -> Vec<(f64, f64)> {
    let gap = Nanos(makespan.0 / SEEN);
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.from.saturating_sub(last.to) <= gap => last.to = last.to.max(span.to),
            _ => joined.push(*span),
        }
    }
    joined.into_iter().map(|span| (seconds(span.from), seconds(span.to))).collect()
}

fn job_record(job: &JobResult, slowdown: f64, makespan: Nanos) -> JobRecord {
    let mut classes: Vec<String> = job.classes.iter().map(|(_, class)| class.to_string()).collect();
    classes.dedup();
    let promoted = job.classes.iter().find(|(_, class)| *class == Class::Promoted);
    JobRecord {
        index: job.index,
        configuration: job.name.clone(),
        size_class: format!("{:?}", job.class_label),
        outcome: outcome(&job.outcome),
        verified: false,
        submitted_s: seconds(job.submit),
        asked_s: job.ask.map(seconds),
        bound_s: job.bind.map(seconds),
        promoted_s: promoted.map(|(at, _)| seconds(*at)),
        ended_s: seconds(job.end),
        device: job.device,
        classes,
        requirement_bytes: job.requirement_bytes,
        grant_bytes: job.grant_bytes,
        wait_s: seconds(job.wait),
        reason: String::new(),
        slowdown,
        prefetched_bytes: job.moved.prefetched_bytes,
        refetched_bytes: job.moved.refetched_bytes,
        faulted_bytes: job.moved.faulted_bytes,
        evicted_bytes: job.moved.evicted_bytes,
        kernels_s: joined(&job.kernel_spans, makespan),
        held_s: joined(&job.held_spans, makespan),
    }
}

fn outcome(outcome: &eager_sim::Outcome) -> Outcome {
    match outcome {
        eager_sim::Outcome::Done => Outcome::Ok,
        eager_sim::Outcome::Refused { why } => Outcome::Refused(why.clone()),
        eager_sim::Outcome::OutOfMemory { why } => Outcome::OutOfMemory(why.clone()),
        eager_sim::Outcome::Killed => Outcome::Failed("killed".to_string()),
    }
}

/// Integrates granted bytes over time, in nanoseconds. The last entry counts nothing, because no time follows it.
fn byte_nanos(granted: &[(Nanos, u64)]) -> u128 {
    let spans = granted.iter().zip(granted.iter().skip(1));
    spans.map(|((from, bytes), (to, _))| u128::from(*bytes) * u128::from(to.saturating_sub(*from).0)).sum()
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(id: &str) -> Choice {
        let (program, configuration) = eager_rodinia::configuration(id).unwrap();
        Choice { program, configuration }
    }

    fn stamps() -> (WorkloadStamp, Stamp) {
        let workload = WorkloadStamp { name: "test".to_string(), seed: 0, jobs: Vec::new() };
        (workload, crate::stamp::stamp())
    }

    #[test]
    fn each_configuration_alone_has_no_slowdown_and_pages_nothing() {
        let (workload, stamp) = stamps();
        let host = Host::new("1xV100-16GB", &Machine::default()).unwrap();
        for configuration in eager_rodinia::programs().iter().flat_map(|program| &program.configurations) {
            let list = [choice(&configuration.id.0)];
            let case = host
                .run(
                    "test",
                    &System::plain(PolicyName::Case),
                    &workload,
                    &list,
                    Submission::AllAtOnce,
                    &stamp,
                )
                .unwrap();
            assert_eq!(case.normal_slowdown_p95(), Some(1.0), "{}", configuration.id);
            let eager = host
                .run(
                    "test",
                    &System::plain(PolicyName::EagerOpt),
                    &workload,
                    &list,
                    Submission::AllAtOnce,
                    &stamp,
                )
                .unwrap();
            assert_eq!(eager.paged_bytes(), 0, "{}", configuration.id);
            assert_eq!(
                eager.jobs[0].prefetched_bytes, 0,
                "{}: the copy engine puts the data there",
                configuration.id
            );
        }
    }

    #[test]
    fn the_asked_clock_starts_with_the_last_request() {
        let (workload, stamp) = stamps();
        let list = [choice("backprop-64M"); 2];
        let host = Host::new("1xV100-16GB", &Machine::default()).unwrap();
        let record = host
            .run(
                "test",
                &System::plain(PolicyName::CaseFifo),
                &workload,
                &list,
                Submission::AllAtOnce,
                &stamp,
            )
            .unwrap();
        let asked = record.jobs.iter().filter_map(|job| job.asked_s).fold(0.0, f64::max);
        assert!(asked > 0.0);
        assert_eq!(record.ask_makespan_s(), Some(record.makespan_s - asked));
        assert!(record.jobs[1].wait_s > 0.0);
    }

    #[test]
    fn no_policy_beats_the_lower_bound() {
        let list = [choice("needle-32768"), choice("lavaMD-120"), choice("srad_v1-20000"), choice("bfs-32M")];
        let host = Host::new("2xV100-16GB", &Machine::default()).unwrap();
        for policy in PolicyName::ALL {
            let result = host.simulate(&list, &System::plain(policy), Submission::AllAtOnce).unwrap();
            let all_ended = result.all_done();
            let bound = host.bound_s(&result.jobs);
            assert!(bound > 0.0 && (!all_ended || seconds(result.makespan) >= bound * 0.999), "{policy}");
        }
    }
}
