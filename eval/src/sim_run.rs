//! Runs a workload at full size in the simulator, policy by policy, on one machine.
//!
//! Trap: the records of one machine must differ in nothing but the policy: same cards, same host, same model options.

use crate::record::{
    Backend, DeviceRecord, JobRecord, Outcome, Record, SCHEMA_VERSION, Stamp, WorkloadStamp,
};
use crate::workload::Choice;
use anyhow::{Context, Result};
use eager_core::PolicyName;
use eager_core::action::Class;
use eager_core::units::Nanos;
use eager_gpu_model::Card;
use eager_rodinia::HostTimes;
use eager_sim::job::Job;
use eager_sim::{JobResult, SimOptions, SimResult};
use std::collections::BTreeMap;

/// A machine, the jobs that run on it under each policy, and how long each configuration takes there alone.
pub struct Machine {
    cards: String,
    parsed: Vec<Card>,
    jobs: Vec<Job>,
    /// By configuration: device-side time alone under `case`.
    alone: BTreeMap<String, Nanos>,
}

impl Machine {
    /// Simulates each distinct configuration alone, once.
    pub fn new(cards: &str, choices: &[Choice]) -> Result<Machine> {
        let parsed = eager_gpu_model::parse_cards(cards)?;
        let jobs: Vec<Job> = choices
            .iter()
            .map(|choice| choice.program.descriptor(choice.configuration, &HostTimes::default()))
            .collect::<Result<_, _>>()
            .context("making the simulator's jobs")?;
        let mut alone = BTreeMap::new();
        let options = SimOptions::new(parsed.clone(), PolicyName::Case);
        for job in &jobs {
            if alone.contains_key(&job.name) {
                continue;
            }
            let result = eager_sim::run(std::slice::from_ref(job), &options)
                .with_context(|| format!("simulating {} alone", job.name))?;
            let time = result.jobs.first().map_or(Nanos(0), JobResult::device_side);
            alone.insert(job.name.clone(), time);
        }
        Ok(Machine { cards: cards.to_string(), parsed, jobs, alone })
    }

    /// Simulates all jobs submitted at once.
    pub fn run(
        &self,
        experiment: &str,
        policy: PolicyName,
        workload: &WorkloadStamp,
        stamp: &Stamp,
    ) -> Result<Record> {
        let result = eager_sim::run(&self.jobs, &SimOptions::new(self.parsed.clone(), policy))
            .with_context(|| format!("simulating {} under {policy}", workload.name))?;
        Ok(self.record(experiment, workload, stamp, &result))
    }

    /// Device-side time relative to alone; 0 for a configuration that does nothing on a device.
    fn slowdown(&self, job: &JobResult) -> f64 {
        match self.alone.get(&job.name) {
            Some(alone) if alone.0 > 0 => seconds(job.device_side()) / seconds(*alone),
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
        });
        Record {
            schema: SCHEMA_VERSION,
            backend: Backend::Sim,
            experiment: experiment.to_string(),
            workload: workload.clone(),
            policy: result.policy.clone(),
            cards: self.cards.clone(),
            memory_scale: 1,
            repetition: 0,
            stamp: stamp.clone(),
            makespan_s: seconds(result.makespan),
            jobs: result.jobs.iter().map(|job| job_record(job, self.slowdown(job))).collect(),
            devices: devices.collect(),
        }
    }
}

fn job_record(job: &JobResult, slowdown: f64) -> JobRecord {
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
    }
}

fn outcome(outcome: &eager_sim::Outcome) -> Outcome {
    match outcome {
        eager_sim::Outcome::Done => Outcome::Ok,
        eager_sim::Outcome::Refused { why } => Outcome::Refused(why.clone()),
        eager_sim::Outcome::OutOfMemory { why } => Outcome::OutOfMemory(why.clone()),
    }
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
        for configuration in eager_rodinia::programs().iter().flat_map(|program| &program.configurations) {
            let machine = Machine::new("1xV100-16GB", &[choice(&configuration.id.0)]).unwrap();
            let case = machine.run("test", PolicyName::Case, &workload, &stamp).unwrap();
            assert_eq!(case.normal_slowdown_p95(), Some(1.0), "{}", configuration.id);
            let eager = machine.run("test", PolicyName::EagerOpt, &workload, &stamp).unwrap();
            assert_eq!(eager.paged_bytes(), 0, "{}", configuration.id);
            assert!(eager.jobs[0].prefetched_bytes > 0, "{}", configuration.id);
        }
    }

    #[test]
    fn the_asked_clock_starts_with_the_last_request() {
        let (workload, stamp) = stamps();
        let machine = Machine::new("1xV100-16GB", &[choice("backprop-8M"); 2]).unwrap();
        let record = machine.run("test", PolicyName::Sa, &workload, &stamp).unwrap();
        let asked = record.jobs.iter().filter_map(|job| job.asked_s).fold(0.0, f64::max);
        assert!(asked > 0.0);
        assert_eq!(record.ask_makespan_s(), record.makespan_s - asked);
        assert!(record.jobs[1].wait_s > 0.0);
    }
}
