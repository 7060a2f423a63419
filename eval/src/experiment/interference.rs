//! Two jobs that meet on one device: how much slower each one's kernels become, and whether meeting was worth it.
//!
//! Trap: this is one meeting, not a workload; its times are those of two jobs submitted at once.

use super::spec::Interference;
use super::variant::Variant;
use crate::sim_run::Host;
use crate::workload::Choice;
use anyhow::{Context, Result};
use eager_core::PolicyName;
use eager_sim::{JobResult, Submission};
use eager_units::Nanos;

/// A pair under a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Meeting {
    pub pair: (String, String),
    pub policy: PolicyName,
    /// What both want together, over the device's memory.
    pub demand: f64,
    /// Time of each one's kernels over that when it runs alone, paging and waits for the other's kernels included.
    pub kernels: (f64, f64),
    /// Until both have ended, and the two alone one after the other, seconds.
    pub makespan_s: f64,
    pub serial_s: f64,
}

/// Simulates every pair.
pub fn meet(study: &Interference) -> Result<Vec<Meeting>> {
    let host = Host::new(&study.cards, &Variant::default())?;
    let memory: u64 = eager_gpu_model::parse_cards(&study.cards)?.iter().map(|card| card.memory_bytes).sum();
    let mut meetings = Vec::new();
    for (one, other) in &study.pairs {
        let choices = [choice(one)?, choice(other)?];
        let alone = |choice: Choice| -> Result<JobResult> {
            let result = host.simulate(&[choice], PolicyName::Case, Submission::AllAtOnce)?;
            result.jobs.into_iter().next().context("a run of one job has one result")
        };
        let (first, second) = (alone(choices[0])?, alone(choices[1])?);
        for &policy in &study.policies {
            let result = host.simulate(&choices, policy, Submission::AllAtOnce)?;
            let slower =
                |job: usize, alone: &JobResult| seconds(result.jobs[job].kernels) / seconds(alone.kernels);
            meetings.push(Meeting {
                pair: (one.clone(), other.clone()),
                policy,
                demand: (first.requirement_bytes + second.requirement_bytes) as f64 / memory as f64,
                kernels: (slower(0, &first), slower(1, &second)),
                makespan_s: seconds(result.makespan),
                serial_s: seconds(first.end) + seconds(second.end),
            });
        }
    }
    Ok(meetings)
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
        let pair = ("srad_v1-20000".to_owned(), "srad_v1-20000".to_owned());
        let policies = vec![PolicyName::Case, PolicyName::Eager, PolicyName::EagerB];
        let met = meet(&Interference { cards: "1xV100-16GB".to_owned(), pairs: vec![pair], policies })
            .expect("they run");
        let [case, eager, gated] = &met[..] else { panic!("three policies, {} results", met.len()) };
        assert!(case.kernels.0 < 1.01 && case.kernels.1 < 1.01, "{case:?}");
        assert!(eager.kernels.0 > 5.0 && eager.makespan_s > eager.serial_s, "{eager:?}");
        assert!(gated.kernels.0 < 1.1 && gated.makespan_s < gated.serial_s, "{gated:?}");
    }
}
