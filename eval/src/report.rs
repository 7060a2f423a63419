//! `report.html`: one self-contained page (no network, no script) with the tables and figures of an experiment.
//!
//! Trap: each part of the page must start with the kind of its numbers: modelled time, or time of a CPU that computed
//! kernels. Without that a reader takes one for the other.

use crate::record::{Backend, Clock, HostWork, JobRecord, Outcome, Record};
use crate::summary::{RealSummary, SimSummary, Summary};
use crate::{gantt, html, plot, table, typical};
use anyhow::{Context, Result};
use eager_core::PolicyName;
use std::fmt::Write as _;
use std::path::Path;

/// Writes the page.
pub fn write(path: &Path, records: &[Record], summary: &Summary) -> Result<()> {
    let mut body = in_short(summary) + &stamp(records);
    let sim: Vec<&Record> = records.iter().filter(|r| r.backend == Backend::Sim).collect();
    let real: Vec<&Record> = records.iter().filter(|r| r.backend == Backend::Virtual).collect();
    if !real.is_empty() {
        body += &real_part(&real, summary);
    }
    if !sim.is_empty() {
        body += &sim_part(&sim, summary)?;
    }
    let page = html::page("Eager against CASE", &body);
    std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// Summary in a few sentences: the best of this project's policies, policies that lost jobs, and verified outputs.
fn in_short(summary: &Summary) -> String {
    let ratios = summary.sim.iter().filter(|(policy, _)| policy.starts_with("eager"));
    let ratios = ratios.filter_map(|(policy, sim)| Some((policy, sim.throughput_vs_case?)));
    let best = ratios.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(policy, ratio)| {
        let ratio = table::ratio(Some(ratio));
        format!(
            "In the simulation of this list <b>{}</b> has {ratio} the throughput of case.",
            html::escape(policy)
        )
    });
    let lost = |(policy, sim): (&String, &SimSummary)| {
        let (jobs, count) = (sim.jobs, sim.jobs_lost);
        (count > 0).then(|| {
            format!("<b>{}</b> lost {count} of {jobs} jobs and is not compared.", html::escape(policy))
        })
    };
    let simulated = summary.sim.iter().filter_map(lost);
    let real: usize = summary.real.values().map(|real| real.jobs).sum();
    let verified: usize = summary.real.values().map(|real| real.jobs_verified).sum();
    let outputs = (real > 0)
        .then(|| format!("Of {real} jobs that ran as real processes, {verified} gave the right output."));
    let sentences: Vec<String> = best.into_iter().chain(simulated).chain(outputs).collect();
    if sentences.is_empty() { String::new() } else { format!("<p>{}</p>", sentences.join(" ")) }
}

fn stamp(records: &[Record]) -> String {
    let Some(first) = records.first() else { return "<p>No record.</p>".to_string() };
    let stamp = &first.stamp;
    format!(
        "<p>Workload <b>{}</b> (seed {}) on {}. Eager {} at commit {}, {} ({} cores, {}), Linux {}.</p>",
        html::escape(&first.workload.name),
        first.workload.seed,
        html::escape(&first.cards),
        html::escape(&stamp.version),
        html::escape(&stamp.commit),
        html::escape(&stamp.cpu),
        stamp.cores,
        table::size(stamp.memory_bytes),
        html::escape(&stamp.kernel),
    )
}

/// Describes the times in a record of real processes.
pub fn of_time(record: &Record) -> String {
    let scale = record.memory_scale;
    match record.clock {
        Clock::Virtual => format!(
            "memory at 1/{scale}, kernels computed on the CPU, seconds on a virtual clock (modelled, not measured)"
        ),
        Clock::Real => {
            format!(
                "memory at 1/{scale}, kernels computed on the CPU in its own time: correctness, not speed"
            )
        }
    }
}

/// Describes how a record counts the work of kernels and hosts.
fn of_work(record: &Record) -> &'static str {
    match (record.clock, record.host_work) {
        (Clock::Virtual, HostWork::Stated) => {
            "The model counts what its kernels did and moved; its host work takes the times stated for full size."
        }
        (Clock::Virtual, HostWork::Measured) => {
            "The model counts what its kernels did and moved; its host work takes what that of the scaled program was \
             measured to take."
        }
        (Clock::Real, _) => {
            "This part shows that everything works and what was decided, not how fast a GPU would be."
        }
    }
}

fn real_part(records: &[&Record], summary: &Summary) -> String {
    let mut part = format!(
        "<h2>Real processes on virtual GPUs</h2><p class=\"note\">Every job is a real process compiled by eagercc, run under \
         eagerd, and its output was verified; {}. {}</p>",
        of_time(records[0]),
        of_work(records[0]),
    );
    part += &html::table(&REAL_HEADER, &real_rows(summary));
    for record in records {
        let _ = write!(part, "<h3>{}: each job</h3>{}", html::escape(&record.policy), jobs_table(record));
    }
    part
}

/// Columns of the table of real processes, for report and terminal.
pub const REAL_HEADER: [&str; 10] = [
    "policy",
    "jobs",
    "verified",
    "jobs lost",
    "eager",
    "promoted",
    "out of memory",
    "mean wait",
    "makespan",
    "throughput vs case",
];

/// Rows for [`REAL_HEADER`].
pub fn real_rows(summary: &Summary) -> Vec<Vec<String>> {
    let row = |(policy, real): (&String, &RealSummary)| {
        let counts = [
            real.jobs,
            real.jobs_verified,
            real.jobs_lost,
            real.eager_launches,
            real.promotions,
            real.oom_errors,
        ];
        let times = [real.wait_mean_s, real.makespan_s].map(table::seconds);
        let ratio = table::ratio(real.throughput_vs_case);
        [policy.clone()]
            .into_iter()
            .chain(counts.map(|c| c.to_string()))
            .chain(times)
            .chain([ratio])
            .collect()
    };
    summary.real.iter().map(row).collect()
}

fn sim_part(records: &[&Record], summary: &Summary) -> Result<String> {
    let mut part = String::from(
        "<h2>The same jobs at full size, simulated</h2><p class=\"note\">Modelled, not measured: the daemon's own \
         decision core over the GPU model, in virtual time. Throughput is the baseline's makespan over the policy's, \
         on two clocks: from the first submission to the last end, and (<b>asked clock</b>, the source document's: specification S-803) from \
         the last job's request to the last end, which leaves out the host work before it. \
         <b>case</b> retries every waiter at each release (the strong baseline); <b>case-fifo</b> lets the head of the \
         queue block (the weak one). <b>Normal slowdown</b>: a task's device-side time, from its binding to its end \
         without its host phases and without what its kernels stood at a gate, over that of the same configuration alone \
         on the same devices under case; 95th percentile of the tasks that were Normal from the start. <b>Paged</b>: \
         bytes that were demand-faulted, evicted, or fetched again after an eviction; the first population of managed \
         memory by prefetch is wanted and not counted. A policy that <b>lost jobs</b> did less work, so it has no ratio.</p>",
    );
    let bars = |of: fn(&SimSummary) -> Option<f64>| -> Vec<(String, f64)> {
        records.iter().filter_map(|r| Some((r.policy.clone(), of(summary.sim.get(&r.policy)?)?))).collect()
    };
    part += plot::bars_legend();
    part +=
        &plot::bars("Throughput relative to case (backfilling)", "ratio", &bars(|s| s.throughput_vs_case))?;
    part += &plot::bars("Throughput relative to case-fifo", "ratio", &bars(|s| s.throughput_vs_case_fifo))?;
    let policies: Vec<&str> = records.iter().map(|r| r.policy.as_str()).collect();
    part += &html::table(&SIM_HEADER, &sim_rows(&policies, summary));
    part += &typical_part(summary);
    part += &policies_part(&policies);
    let _ = write!(part, "<h3>Schedules</h3><p>{}</p>{}", gantt::READING, gantt::legend());
    part += &gantt::draw_all(records).concat();
    Ok(part)
}

/// Describes each policy in one line.
fn policies_part(policies: &[&str]) -> String {
    let known = policies.iter().filter_map(|name| name.parse::<PolicyName>().ok());
    let line = |policy: PolicyName| {
        let (name, about) = (policy.as_str(), policy.def().about);
        format!("<li><b>{}</b>: a task starts {}</li>", html::escape(name), html::escape(about))
    };
    format!("<h3>The policies</h3><ul>{}</ul>", known.map(line).collect::<String>())
}

/// Part on many seeded lists, so that the reader does not generalise from the list above.
fn typical_part(summary: &Summary) -> String {
    if summary.typical.is_empty() {
        return String::new();
    }
    let note = "<h3>How typical is this list?</h3><p>Median of the throughput over seeded lists, with its 95 % confidence \
                interval. With few jobs \
                the makespan mostly is the longest job's host work, and then no policy can gain: <b>infinite</b> is what \
                endless device memory would give under CASE's order.</p>";
    note.to_string() + &html::table(&typical::HEADER, &typical::rows(&summary.typical))
}

/// Columns of the simulator's table, for report and terminal.
pub const SIM_HEADER: [&str; 14] = [
    "policy",
    "jobs lost",
    "vs case",
    "vs case-fifo",
    "vs case (asked clock)",
    "makespan",
    "mean wait",
    "longest wait",
    "mean turnaround",
    "worst turnaround",
    "devices busy",
    "Normal slowdown p95",
    "paged",
    "eager/promoted",
];

/// Rows for [`SIM_HEADER`], in the order given.
pub fn sim_rows(policies: &[&str], summary: &Summary) -> Vec<Vec<String>> {
    let row = |policy: &&str| {
        let sim = summary.sim.get(*policy)?;
        Some(vec![
            policy.to_string(),
            sim.jobs_lost.to_string(),
            table::ratio(sim.throughput_vs_case),
            table::ratio(sim.throughput_vs_case_fifo),
            table::ratio(sim.throughput_vs_case_ask),
            table::seconds(sim.makespan_s),
            table::seconds(sim.wait_mean_s),
            table::seconds(sim.wait_max_s),
            table::seconds(sim.turnaround_mean_s),
            table::seconds(sim.turnaround_max_s),
            format!("{:.0} %", sim.device_busy * 100.0),
            table::ratio(sim.normal_slowdown_p95),
            table::size(sim.bytes_paged),
            format!("{}/{}", sim.eager_launches, sim.promotions),
        ])
    };
    policies.iter().filter_map(row).collect()
}

/// Table of jobs: for each, the scheduler's decision and whether the output was right.
fn jobs_table(record: &Record) -> String {
    let mut html = String::from(
        "<table><tr><th>job</th><th>size</th><th>GPU</th><th>class</th><th>requirement</th><th>grant</th>\
         <th>wait</th><th>ended</th><th>output</th><th class=\"text\">why</th></tr>",
    );
    for job in &record.jobs {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>{}<td class=\"text\">{}\
             </td></tr>",
            html::escape(&job.configuration),
            job.size_class,
            job.device.map_or("-".to_string(), |d| d.to_string()),
            job.classes.join(" → "),
            table::size(job.requirement_bytes),
            table::size(job.grant_bytes),
            table::seconds(job.wait_s),
            table::seconds(job.ended_s),
            outcome_cell(job),
            html::escape(&job.reason),
        );
    }
    html + "</table>"
}

fn outcome_cell(job: &JobRecord) -> String {
    let class = if job.outcome == Outcome::Ok { "" } else { "bad" };
    format!("<td class=\"{class}\">{}</td>", html::escape(&job.outcome_text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    #[test]
    fn one_sentence_says_who_is_best_and_who_lost_jobs() {
        let jobs: [(&[&str], f64, f64); 2] = [(&["normal"], 1.0, 0.0), (&["normal"], 1.0, 0.0)];
        let mut cg = record("cg", 5.0, &jobs);
        cg.jobs[0].outcome = Outcome::OutOfMemory("cudaMalloc".into());
        let records = [
            record("case", 12.0, &jobs),
            record("eager-fair", 10.0, &jobs),
            record("eager", 11.0, &jobs),
            cg,
        ];
        let summary = crate::summary::summarize(&records);
        let said = in_short(&summary);
        assert!(said.contains("<b>eager-fair</b> has 1.20x the throughput of case."), "{said}");
        assert!(said.contains("<b>cg</b> lost 1 of 2 jobs and is not compared."), "{said}");
        let rows = sim_rows(&["cg"], &summary);
        assert_eq!(rows[0][..4], ["cg", "1", "-", "-"]);
        assert_eq!(in_short(&Summary::default()), "");
    }

    #[test]
    fn a_report_says_whose_host_work_took_time() {
        let page = |host_work| {
            let record = Record { backend: Backend::Virtual, host_work, ..record("case", 1.0, &[]) };
            let summary = crate::summary::summarize(std::slice::from_ref(&record));
            real_part(&[&record], &summary)
        };
        let (stated, measured) = (page(HostWork::Stated), page(HostWork::Measured));
        assert!(stated.contains("its host work takes the times stated for full size"), "{stated}");
        assert!(measured.contains("its host work takes what that of the scaled program was"), "{measured}");
        assert!(!measured.contains("stated"), "{measured}");
    }
}
