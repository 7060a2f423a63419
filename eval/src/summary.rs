//! `summary.json`: the main numbers of an experiment, for other programs, and the comparison that they come from.

use crate::record::{Backend, Clock, Outcome, Record};
use crate::typical::Typical;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Part `real`: real processes on virtual GPUs. Part `sim`: the same jobs at full size in the simulator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub real: BTreeMap<String, RealSummary>,
    pub sim: BTreeMap<String, SimSummary>,
    /// Comparison over many lists; empty if it was not requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub typical: Vec<Typical>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RealSummary {
    pub jobs: usize,
    pub jobs_verified: usize,
    /// Jobs that did not end well; a policy that lost any has no ratio.
    #[serde(default)]
    pub jobs_lost: usize,
    pub eager_launches: usize,
    pub promotions: usize,
    pub oom_errors: usize,
    #[serde(default)]
    pub wait_mean_s: f64,
    pub makespan_s: f64,
    /// Same measure as in [`SimSummary`]. Only on a virtual clock, since this machine's time says nothing about a
    /// GPU.
    #[serde(default)]
    pub throughput_vs_case: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SimSummary {
    pub jobs: usize,
    pub jobs_ended: usize,
    /// Jobs that did not end well; a policy that lost any has no ratio.
    #[serde(default)]
    pub jobs_lost: usize,
    pub makespan_s: f64,
    /// Jobs that ended well per second, relative to the baseline. Absent if the baseline was not run or one of the
    /// two lost jobs, because doing less work does not count as being faster.
    pub throughput_vs_case: Option<f64>,
    pub throughput_vs_case_fifo: Option<f64>,
    /// Makespan and throughput on the source document's clock (specification S-803): from "all have asked" to "all
    /// have ended". None for jobs that are submitted one after the other.
    pub ask_makespan_s: Option<f64>,
    pub throughput_vs_case_ask: Option<f64>,
    pub wait_mean_s: f64,
    pub wait_max_s: f64,
    #[serde(default)]
    pub turnaround_mean_s: f64,
    #[serde(default)]
    pub turnaround_max_s: f64,
    /// Share of the makespan in which a device has any operation, averaged over the devices.
    #[serde(default)]
    pub device_busy: f64,
    /// See [`crate::record::JobRecord::slowdown`].
    pub normal_slowdown_p95: Option<f64>,
    /// Bytes demand-faulted, evicted, and fetched again after an eviction, without the first population by prefetch.
    pub bytes_paged: u64,
    pub eager_launches: usize,
    pub promotions: usize,
}

/// Summarises the records of one workload.
pub fn summarize(records: &[Record]) -> Summary {
    let of = |backend| records.iter().filter(move |r| r.backend == backend);
    let baseline = |policy: &str| of(Backend::Sim).find(|r| r.policy == policy);
    let (case, fifo) = (baseline("case"), baseline("case-fifo"));
    let real_case = of(Backend::Virtual).find(|r| r.policy == "case");
    let mut summary = Summary::default();
    for record in of(Backend::Virtual) {
        summary.real.insert(record.policy.clone(), real(record, real_case));
    }
    for record in of(Backend::Sim) {
        summary.sim.insert(record.policy.clone(), sim(record, case, fifo));
    }
    summary
}

/// Reads the comparison over many lists, which no record holds, from an earlier `summary.json`; empty without that
/// file.
pub fn typical_of(path: &Path) -> Result<Vec<Typical>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let summary: Summary =
        serde_json::from_str(&text).with_context(|| format!("{} is not a summary", path.display()))?;
    Ok(summary.typical)
}

fn lost(record: &Record) -> usize {
    record.jobs.iter().filter(|job| job.outcome != Outcome::Ok).count()
}

/// Returns the baseline if a ratio over it means something: neither run lost jobs.
fn comparable<'a>(record: &Record, baseline: Option<&'a Record>) -> Option<&'a Record> {
    baseline.filter(|baseline| lost(record) == 0 && lost(baseline) == 0)
}

fn real(record: &Record, case: Option<&Record>) -> RealSummary {
    let is_modelled = record.clock == Clock::Virtual;
    let case = comparable(record, case);
    RealSummary {
        jobs: record.jobs.len(),
        jobs_verified: record.jobs.iter().filter(|j| j.verified && j.outcome == Outcome::Ok).count(),
        jobs_lost: lost(record),
        eager_launches: record.jobs.iter().filter(|j| j.was_eager()).count(),
        promotions: record.jobs.iter().filter(|j| j.was_promoted()).count(),
        oom_errors: record.jobs.iter().filter(|j| matches!(j.outcome, Outcome::OutOfMemory(_))).count(),
        wait_mean_s: record.waits_s().0,
        makespan_s: record.makespan_s,
        throughput_vs_case: case.filter(|_| is_modelled).map(|baseline| record.throughput_over(baseline)),
    }
}

fn sim(record: &Record, case: Option<&Record>, fifo: Option<&Record>) -> SimSummary {
    let (case, fifo) = (comparable(record, case), comparable(record, fifo));
    let (wait_mean_s, wait_max_s) = record.waits_s();
    let (turnaround_mean_s, turnaround_max_s) = record.turnarounds_s();
    SimSummary {
        jobs: record.jobs.len(),
        jobs_ended: record.jobs_ended(),
        jobs_lost: lost(record),
        makespan_s: record.makespan_s,
        throughput_vs_case: case.map(|baseline| record.throughput_over(baseline)),
        throughput_vs_case_fifo: fifo.map(|baseline| record.throughput_over(baseline)),
        ask_makespan_s: record.ask_makespan_s(),
        throughput_vs_case_ask: case.and_then(|baseline| record.throughput_ask_over(baseline)),
        wait_mean_s,
        wait_max_s,
        turnaround_mean_s,
        turnaround_max_s,
        device_busy: record.device_busy(),
        normal_slowdown_p95: record.normal_slowdown_p95(),
        bytes_paged: record.paged_bytes(),
        eager_launches: record.jobs.iter().filter(|j| j.was_eager()).count(),
        promotions: record.jobs.iter().filter(|j| j.was_promoted()).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    /// Returns records of two jobs under each policy; the second job of `cg` runs out of memory.
    fn records(backend: Backend) -> Vec<Record> {
        let of = |policy: &str, makespan: f64| Record {
            backend,
            clock: Clock::Virtual,
            ..record(policy, makespan, &[(&["normal"], 1.0, 0.0), (&["normal"], 1.0, 0.0)])
        };
        let mut cg = of("cg", 5.0);
        cg.jobs[1].outcome = Outcome::OutOfMemory("cudaMalloc".into());
        vec![of("case", 10.0), of("eager-fair", 5.0), cg]
    }

    #[test]
    fn a_policy_that_lost_jobs_has_no_ratio() {
        let sim = summarize(&records(Backend::Sim)).sim;
        let told = |policy: &str| (sim[policy].jobs_lost, sim[policy].throughput_vs_case);
        assert_eq!([told("eager-fair"), told("cg")], [(0, Some(2.0)), (1, None)]);
        let real = summarize(&records(Backend::Virtual)).real;
        let told = |policy: &str| (real[policy].jobs_lost, real[policy].throughput_vs_case);
        assert_eq!([told("eager-fair"), told("cg")], [(0, Some(2.0)), (1, None)]);
    }

    #[test]
    fn nothing_is_compared_with_a_baseline_that_lost_jobs() {
        let mut records = records(Backend::Sim);
        records[0].jobs[0].outcome = Outcome::Failed("killed".into());
        assert_eq!(summarize(&records).sim["eager-fair"].throughput_vs_case, None);
    }
}
