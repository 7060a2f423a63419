//! Runs two jobs that meet on one device, and measures how much slower the kernels of each become and whether running
//! both at once pays off.
//!
//! The times are those of two jobs submitted at once, not of a workload.

use super::machine::Machine;
use super::spec::{Experiment, Interference, System};
use super::tables::Table;
use crate::sim_run::Host;
use crate::workload::Choice;
use anyhow::{Context, Result};
use eager_core::PolicyName;
use eager_sim::{JobResult, Submission};
use eager_units::Nanos;

/// One pair of jobs under one system.
#[derive(Debug, Clone, PartialEq)]
pub struct Meeting {
    pub pair: (String, String),
    pub system: String,
    /// Memory that both jobs require together, over the device's memory.
    pub demand: f64,
    /// Kernel time of each job over its kernel time when it runs alone; paging and waits for the other job's kernels
    /// included.
    pub kernels: (f64, f64),
    /// Seconds until both jobs have ended; and (`serial_s`) seconds for the two alone, one after the other.
    pub makespan_s: f64,
    pub serial_s: f64,
}

/// Simulates every pair.
pub fn measure_pairs(experiment: &Experiment, study: &Interference) -> Result<Vec<Meeting>> {
    let host = Host::new(&study.cards, &Machine::default())?;
    let memory: u64 = eager_gpu_model::parse_cards(&study.cards)?.iter().map(|card| card.memory_bytes).sum();
    let case = System::plain(PolicyName::Case);
    let mut meetings = Vec::new();
    for (one, other) in &study.pairs {
        let choices = [choice(one)?, choice(other)?];
        let alone = |choice: Choice| -> Result<JobResult> {
            let result = host.simulate(&[choice], &case, Submission::AllAtOnce)?;
            result.jobs.into_iter().next().context("a run of one job has one result")
        };
        let (first, second) = (alone(choices[0])?, alone(choices[1])?);
        for system in &study.systems {
            let result = host.simulate(&choices, experiment.system(system)?, Submission::AllAtOnce)?;
            let slower =
                |job: usize, alone: &JobResult| seconds(result.jobs[job].kernels) / seconds(alone.kernels);
            meetings.push(Meeting {
                pair: (one.clone(), other.clone()),
                system: system.clone(),
                demand: (first.requirement_bytes + second.requirement_bytes) as f64 / memory as f64,
                kernels: (slower(0, &first), slower(1, &second)),
                makespan_s: seconds(result.makespan),
                serial_s: seconds(first.end) + seconds(second.end),
            });
        }
    }
    Ok(meetings)
}

/// Table of the pairs.
pub fn table(meetings: &[Meeting]) -> Table {
    let header = [
        "pair",
        "system",
        "wanted",
        "kernels of the first",
        "of the second",
        "both ended",
        "one after the other",
    ];
    let row = |met: &Meeting| {
        vec![
            format!("{} + {}", met.pair.0, met.pair.1),
            met.system.clone(),
            format!("{:.0} %", met.demand * 100.0),
            format!("{:.1}x", met.kernels.0),
            format!("{:.1}x", met.kernels.1),
            format!("{:.1} s", met.makespan_s),
            format!("{:.1} s", met.serial_s),
        ]
    };
    Table {
        key: "interference".to_owned(),
        title: "Two jobs on one device: how much slower each one's kernels become".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: meetings.iter().map(row).collect(),
    }
}

fn choice(id: &str) -> Result<Choice> {
    let (program, configuration) =
        eager_rodinia::configuration(id).with_context(|| format!("{id} is in no program.toml"))?;
    Ok(Choice { program, configuration })
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_do_not_fit_slow_each_other_down_without_a_gate_and_not_with_one() {
        let text = r#"
            title = "t"
            cards = "1xV100-16GB"
            seeds = 1
            lists = [{ name = "W1", mix = "W1" }]
            systems = [{ policy = "case" }, { policy = "eager" }, { policy = "eager-b" }]
            [interference]
            cards = "1xV100-16GB"
            pairs = [["srad_v1-20000", "srad_v1-20000"]]
            systems = ["case", "eager", "eager-b"]
        "#;
        let experiment = Experiment::parse("t.toml", text).expect("an experiment");
        let study = experiment.interference.as_ref().expect("a study");
        let meetings = measure_pairs(&experiment, study).expect("they run");
        let [case, eager, gated] = &meetings[..] else { panic!("three systems, {} results", meetings.len()) };
        assert!(case.kernels.0 < 1.01 && case.kernels.1 < 1.01, "{case:?}");
        assert!(eager.kernels.0 > 5.0 && eager.makespan_s > eager.serial_s, "{eager:?}");
        assert!(gated.kernels.0 < 1.1 && gated.makespan_s < gated.serial_s, "{gated:?}");
    }
}
