//! Device time by nice value, simulated: completion times against the fluid ideal, in which every program has at every
//! moment exactly its share (specification S-131 to S-133).
//!
//! Each program does the same work and leaves, so that the last one ends alone (gCFS's source measures so too).

mod common;

use common::{GIB, ONE_PASS, Shape, job, options};
use eager_core::PolicyName;
use eager_core::account::weight;
use eager_sim::job::{Job, JobOp};
use eager_sim::{SimOptions, run};
use eager_units::Nanos;

const NICE: [i8; 4] = [-3, 0, 5, 10];
const RUNS: u32 = 100;
/// Layers of a network, each a kernel of 0.12 ms.
const LAYERS: u32 = 201;

/// An inference program: each run launches its layers back to back and waits for the last one.
fn network(nice: i8) -> Job {
    let shape = Shape {
        name: "network",
        bytes: GIB / 4,
        host_before: 0.0,
        launches: 1,
        compute: 0.12e-3,
        ..ONE_PASS
    };
    let mut program = job(&shape);
    program.nice = nice;
    for op in &mut program.ops {
        if let JobOp::Kernel(kernel) = op {
            kernel.dram_bytes = 0;
            let layers = |gap| JobOp::Kernel(eager_sim::job::KernelOp { host_gap_s: gap, ..kernel.clone() });
            let mut ops = vec![JobOp::Repeat { times: LAYERS - 1, ops: vec![layers(0.0)] }];
            ops.push(layers(20e-6));
            *op = JobOp::Repeat { times: RUNS, ops };
            break;
        }
    }
    program
}

/// Completion times of programs of these weights with equal work on one device, each over the last one's.
fn fluid(weights: &[u64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&one| std::cmp::Reverse(weights[one]));
    let (mut ends, mut time, mut done) = (vec![0.0; weights.len()], 0.0, 0.0);
    for (at, &one) in order.iter().enumerate() {
        let load: u64 = order[at..].iter().map(|&left| weights[left]).sum();
        // Virtual work per weight at which this program ends.
        let end = 1.0 / weights[one] as f64;
        time += (end - done) * load as f64;
        (ends[one], done) = (time, end);
    }
    ends.iter().map(|end| end / time).collect()
}

/// The largest deviation from the fluid ideal.
fn deviation(policy: PolicyName, edit: impl FnOnce(&mut SimOptions)) -> (f64, Vec<f64>) {
    let jobs: Vec<Job> = NICE.map(network).to_vec();
    let mut options = options(policy, 1);
    edit(&mut options);
    let result = run(&jobs, &options).expect("a run");
    let ends: Vec<f64> = result.jobs.iter().map(|job| job.end.0 as f64).collect();
    let last = ends.iter().copied().fold(0.0, f64::max);
    let ends: Vec<f64> = ends.iter().map(|end| end / last).collect();
    let ideal = fluid(&NICE.map(weight));
    let off = ends.iter().zip(&ideal).map(|(end, ideal)| (end / ideal - 1.0).abs()).fold(0.0, f64::max);
    (off, ends)
}

#[test]
fn the_ideal_is_the_one_that_was_worked_out_by_hand() {
    let ideal = fluid(&NICE.map(weight));
    let rounded = ideal.iter().map(|end| (end * 1000.0).round() / 1000.0);
    assert_eq!(rounded.collect::<Vec<_>>(), [0.434, 0.609, 0.832, 1.0]);
}

#[test]
fn completion_times_under_fair_follow_nice_values() {
    let (off, ends) = deviation(PolicyName::Fair, |_| ());
    assert!(off < 0.08, "{off}: {ends:?}");
    // Without the moment that a slice waits for the next run of a network, the others' runs come between.
    let (off, ends) = deviation(PolicyName::Fair, |options| options.scheduler.round_idle_ns = Nanos(0));
    assert!(off > 0.15, "{off}: {ends:?}");
}

/// A row of the table in `docs/fair.md`.
fn row(name: &str, ends: &[f64]) -> String {
    let cell = |end: &f64| if *end == 1.0 { "1".to_owned() } else { format!("{end:.3}") };
    format!("| {name} | {} |", ends.iter().map(cell).collect::<Vec<_>>().join(" | "))
}

#[test]
fn the_page_says_what_the_simulator_gives() {
    let one = |options: &mut SimOptions| options.scheduler.in_flight = Some(1);
    let rows = [
        row("the fluid ideal", &fluid(&NICE.map(weight))),
        row("`fair`", &deviation(PolicyName::Fair, |_| ()).1),
        row("`gcfs` with one slice at once", &deviation(PolicyName::Gcfs, one).1),
        row("`gcfs`", &deviation(PolicyName::Gcfs, |_| ()).1),
        row("`spread` (no rounds)", &deviation(PolicyName::Spread, |_| ()).1),
    ];
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fair.md");
    let page = std::fs::read_to_string(page).expect("docs/fair.md");
    assert!(page.contains(&rows.join("\n")), "docs/fair.md has other numbers than\n{}", rows.join("\n"));
}

#[test]
fn completion_times_under_spread_do_not_depend_on_nice_values() {
    let (_, ends) = deviation(PolicyName::Spread, |_| ());
    assert!(ends.iter().all(|end| *end > 0.99), "{ends:?}");
}
