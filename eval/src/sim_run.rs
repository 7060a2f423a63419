//! Runs a workload at full size in the simulator under one policy.
//!
//! Trap: the record's policies must differ in nothing but the policy: same cards, same host, same model options.

use crate::record::{
    Backend, DeviceRecord, JobRecord, Outcome, Record, SCHEMA_VERSION, Stamp, WorkloadStamp,
};
use crate::workload::Choice;
use anyhow::{Context, Result};
use eager_core::PolicyName;
use eager_core::action::Class;
use eager_core::units::Nanos;
use eager_rodinia::HostTimes;
use eager_sim::job::Job;
use eager_sim::{JobResult, SimOptions};

/// Simulates all jobs submitted at once.
pub fn run(
    experiment: &str,
    policy: PolicyName,
    cards: &str,
    workload: &WorkloadStamp,
    choices: &[Choice],
    stamp: &Stamp,
) -> Result<Record> {
    let parsed = eager_gpu_model::parse_cards(cards)?;
    let jobs: Vec<Job> = choices
        .iter()
        .map(|choice| choice.program.descriptor(choice.configuration, &HostTimes::default()))
        .collect::<Result<_, _>>()
        .context("making the simulator's jobs")?;
    let result = eager_sim::run(&jobs, &SimOptions::new(parsed, policy))
        .with_context(|| format!("simulating {} under {policy}", workload.name))?;
    let devices = result.devices.iter().zip(0..).map(|(device, index)| DeviceRecord {
        device: index,
        busy_s: device.totals.busy.0 as f64 / 1e9,
        paged_bytes: device.totals.bytes_in + device.totals.bytes_out,
    });
    Ok(Record {
        schema: SCHEMA_VERSION,
        backend: Backend::Sim,
        experiment: experiment.to_string(),
        workload: workload.clone(),
        policy: policy.to_string(),
        cards: cards.to_string(),
        memory_scale: 1,
        repetition: 0,
        stamp: stamp.clone(),
        makespan_s: seconds(result.makespan),
        jobs: result.jobs.iter().map(job_record).collect(),
        devices: devices.collect(),
    })
}

fn job_record(job: &JobResult) -> JobRecord {
    let mut classes: Vec<String> = Vec::new();
    for (_, class) in &job.classes {
        let name = match class {
            Class::Normal => "normal",
            Class::Eager => "eager",
            Class::Promoted => "promoted",
        };
        if classes.last().is_none_or(|last| last != name) {
            classes.push(name.to_string());
        }
    }
    JobRecord {
        index: job.index,
        configuration: job.name.clone(),
        size_class: format!("{:?}", job.class_label),
        outcome: outcome(&job.outcome),
        verified: false,
        submitted_s: seconds(job.submit),
        asked_s: job.ask.map(seconds),
        bound_s: job.bind.map(seconds),
        ended_s: seconds(job.end),
        device: job.device,
        classes,
        requirement_bytes: job.requirement_bytes,
        grant_bytes: job.grant_bytes,
        wait_s: seconds(job.wait),
        reason: String::new(),
        slowdown: if job.kernels_alone.0 == 0 {
            0.0
        } else {
            seconds(job.kernels) / seconds(job.kernels_alone)
        },
        paged_in_bytes: job.bytes_in,
        paged_out_bytes: job.bytes_out,
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
