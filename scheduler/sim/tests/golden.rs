//! Golden runs: a script with a few jobs as input, every decision with its reason as output.
//!
//! Each file in `tests/golden` is a script, a line of dashes, and the account of the run. After an intended change,
//! write the accounts again with `EAGER_BLESS=1 cargo test -p eager-sim --test golden` and read the difference.

mod common;
use common::*;
use eager_sim::job::Job;
use eager_units::{AccessClass, Nanos};
use std::path::Path;

const RULE: &str = "----\n";

/// Parses `job NAME key=value …`; keys: gib, host, launches, gap, compute, access, tail.
fn parse_job(line: &str) -> Job {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("job"), "{line}");
    let name: &'static str = words.next().unwrap().to_owned().leak();
    let mut shape = Shape { name, tail: 0.0, ..ONE_PASS };
    for word in words {
        let (key, value) = word.split_once('=').unwrap();
        let number = || value.parse::<f64>().unwrap();
        match key {
            "gib" => shape.bytes = (number() * GIB as f64) as u64,
            "host" => shape.host_before = number(),
            "launches" => shape.launches = number() as u32,
            "gap" => shape.gap = number(),
            "compute" => shape.compute = number(),
            "tail" => shape.tail = number(),
            "access" => {
                shape.access = match value {
                    "cyclic" => AccessClass::Cyclic,
                    "one-pass" => AccessClass::OnePass,
                    other => panic!("unknown access {other}"),
                }
            }
            other => panic!("unknown key {other}"),
        }
    }
    job(&shape)
}

/// Runs a script and returns its account. The first line is `POLICY on N`, the others are jobs.
fn account(script: &str) -> String {
    let mut lines = script.lines().filter(|line| !line.starts_with('#'));
    let (policy, devices) = lines.next().unwrap().split_once(" on ").unwrap();
    let jobs: Vec<Job> = lines.map(parse_job).collect();
    let options = options(policy.parse().unwrap(), devices.parse().unwrap());
    let result = eager_sim::run(&jobs, &options).unwrap();
    let mut text = String::new();
    for line in result.trace.iter().filter(|line| !line.ends_with("is busy") && !line.ends_with("is idle")) {
        text += line;
        text.push('\n');
    }
    for job in &result.jobs {
        // To the millisecond, since coarser times could hide a change of the model.
        let times = [job.wait, job.held, job.kernels, job.kernels_alone, job.end];
        let [waited, held, kernels, alone, ended] = times.map(Nanos::moment);
        text += &format!(
            "{}: {:?}, waited {waited}, held {held}, kernels {kernels} (alone {alone}), ended {ended}\n",
            job.name, job.outcome
        );
    }
    text
}

fn scenario(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let (script, wanted) = text.split_once(RULE).unwrap();
    let got = account(script);
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&path, format!("{script}{RULE}{got}")).unwrap();
        return;
    }
    for (number, (got, wanted)) in got.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(got, wanted, "{name}, line {} of the account", number + 1);
    }
    assert_eq!(got.lines().count(), wanted.lines().count(), "{name}: length of the account");
}

#[test]
fn case_makes_what_does_not_fit_wait_and_backfills() {
    scenario("case-backfills.txt");
}

#[test]
fn case_fifo_lets_the_head_block() {
    scenario("case-fifo-head-blocks.txt");
}

#[test]
fn eager_opt_starts_what_does_not_fit_holds_its_kernels_and_promotes_it() {
    scenario("eager-opt-promotes.txt");
}

#[test]
fn eager_opt_counts_live_demand_but_eviction_takes_what_came_in_first() {
    scenario("eager-opt-evicts-the-idle.txt");
}

#[test]
fn naive_eager_thrashes_with_two_cyclic_jobs() {
    scenario("eager-thrashes.txt");
}

#[test]
fn a_job_larger_than_every_device_is_refused_and_the_rest_goes_on() {
    scenario("too-large.txt");
}
