//! Swarm runs: a seed draws a machine, a policy, programs that announce wrong sizes, and kills; the run must still
//! keep every rule.
//!
//! Trap: a scenario depends on its seed only, so that one line repeats a failure on any machine. Any change of the
//! draws changes the scenario of every seed.

use crate::job::{BufferAccess, Job, JobOp, KernelOp, Part, SizeLabel};
use crate::{Estimates, Kill, Outcome, SimError, SimOptions, SimResult, Submission, replay};
use eager_core::PolicyName;
use eager_core::options::QueueOrder;
use eager_gpu_model::{Card, Pattern, card, card_names};
use eager_units::{AccessClass, Bytes, Nanos};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const MIB: u64 = 1 << 20;

/// Jobs and options drawn from a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub jobs: Vec<Job>,
    pub options: SimOptions,
}

/// Failures of a scenario, each a defect of core or simulator.
#[derive(Debug, thiserror::Error)]
pub enum SwarmError {
    #[error(transparent)]
    Sim(#[from] SimError),
    #[error("job {index} ({name}) ended as killed, but the scenario does not kill it")]
    NotKilled { index: usize, name: String },
    #[error("its journal does not replay: {0}")]
    Replay(String),
}

/// Draws the scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let cards: Vec<Card> = (0..rng.random_range(1..6_u32)).filter_map(|_| any_card(&mut rng)).collect();
    let policy = PolicyName::ALL.choose(&mut rng).copied().unwrap_or(PolicyName::EagerOpt);
    let jobs: Vec<Job> = (0..rng.random_range(1..24_u32)).map(|number| any_job(&mut rng, number)).collect();
    let options = any_options(&mut rng, SimOptions::new(cards, policy), jobs.len());
    Scenario { jobs, options }
}

/// Runs and checks the scenario of a seed.
///
/// # Errors
/// A rule was broken.
pub fn run(seed: u64) -> Result<SimResult, SwarmError> {
    let Scenario { jobs, options } = scenario(seed);
    let result = crate::run(&jobs, &options)?;
    let is_victim = |index: usize| options.kills.iter().any(|kill| kill.job == index);
    if let Some(job) = result.jobs.iter().find(|job| job.outcome == Outcome::Killed && !is_victim(job.index))
    {
        return Err(SwarmError::NotKilled { index: job.index, name: job.name.clone() });
    }
    if let Some(journal) = &result.journal {
        let text = journal.write().map_err(|error| SwarmError::Replay(error.to_string()))?;
        replay::replay(&text).map_err(|error| SwarmError::Replay(error.to_string()))?;
    }
    Ok(result)
}

fn any_card(rng: &mut ChaCha8Rng) -> Option<Card> {
    card(card_names().choose(rng)?)
}

fn any_options(rng: &mut ChaCha8Rng, mut options: SimOptions, jobs: usize) -> SimOptions {
    options.model.mps = rng.random();
    options.scheduler.context_bytes = Bytes(options.model.context_memory());
    options.host_cores = rng.random_range(1..12);
    options.submission = match rng.random_range(0..3_u32) {
        0 => Submission::AllAtOnce,
        1 => Submission::Workers(rng.random_range(1..8)),
        _ => Submission::At((0..jobs).map(|_| moment(rng, 30.0)).collect()),
    };
    if rng.random_bool(0.3) {
        options.device_memory_bytes = vec![rng.random_range(1024..16_384) * MIB];
    }
    if rng.random_bool(0.3) {
        options.host_memory_bytes = Some(rng.random_range(1024..65_536) * MIB);
    }
    let kills = rng.random_range(0..4_u32);
    options.kills =
        (0..kills).map(|_| Kill { at: moment(rng, 40.0), job: rng.random_range(0..jobs) }).collect();
    let scheduler = &mut options.scheduler;
    scheduler.eager_per_device = rng.random_range(1..4);
    scheduler.grant_percent_min = *[0, 0, 25, 60].choose(rng).unwrap_or(&0);
    scheduler.managed_normal_tasks = rng.random();
    scheduler.oversize_percent = rng.random_range(100..180);
    scheduler.os_ratio_percent_cyclic = rng.random_range(60..140);
    scheduler.os_ratio_percent_other = rng.random_range(100..300);
    scheduler.programs_per_device = rng.random_range(1..5);
    scheduler.quantum_ns = moment(rng, 10.0).max(Nanos(1_000_000));
    scheduler.quantum_idle_ns = moment(rng, 2.0).max(Nanos(1_000_000));
    let orders = [
        None,
        None,
        Some(QueueOrder::Fifo),
        Some(QueueOrder::Backfill),
        Some(QueueOrder::LargestFirst),
        Some(QueueOrder::LongestRemaining),
    ];
    scheduler.queue = orders.choose(rng).copied().flatten();
    any_habits(rng, scheduler);
    options.estimates = *[None, Some(Estimates::EXACT), Some(Estimates { spread: 5.0, seed: rng.random() })]
        .choose(rng)
        .unwrap_or(&None);
    let scheduler = &mut options.scheduler;
    if rng.random_bool(0.3) {
        scheduler.hold_ns_max = Some(moment(rng, 5.0).max(Nanos(1_000_000)));
    }
    options.journal = true;
    options.audit = true;
    options
}

/// Leaves half of the policies as they are, and switches habits of the other half on or off one by one.
fn any_habits(rng: &mut ChaCha8Rng, scheduler: &mut eager_core::Options) {
    let as_it_is = rng.random_bool(0.5);
    let mut switch =
        || if as_it_is { None } else { *[None, Some(true), Some(false)].choose(rng).unwrap_or(&None) };
    scheduler.release_dead = switch();
    scheduler.late_reservation = switch();
    scheduler.early_copies = switch();
    scheduler.live_requirement = switch();
    scheduler.fast_copies = switch();
    scheduler.reserve_head = switch();
    scheduler.overtake_ns = switch().map(|long| Nanos::from_secs(if long { 20 } else { 1 }));
    scheduler.eager_promotion_within_ns = Nanos::from_secs(rng.random_range(0..20));
    scheduler.stream_ns = Nanos::from_secs(rng.random_range(0..4));
}

fn moment(rng: &mut ChaCha8Rng, most_s: f64) -> Nanos {
    Nanos((rng.random::<f64>() * most_s * 1e9) as u64)
}

/// Draws a program of one to three tasks, one after the other.
fn any_job(rng: &mut ChaCha8Rng, number: u32) -> Job {
    let mut ops = Vec::new();
    for _ in 0..rng.random_range(1..4_u32) {
        any_task(rng, &mut ops);
        if rng.random() {
            ops.push(JobOp::Host { seconds: rng.random::<f64>() });
        }
    }
    let class_label = if rng.random() { SizeLabel::L } else { SizeLabel::S };
    Job { name: format!("job-{number}"), class_label, informed: true, nice: 0, ops }
}

fn any_task(rng: &mut ChaCha8Rng, ops: &mut Vec<JobOp>) {
    let buffers: Vec<(String, u64)> =
        (0..rng.random_range(1..5_u32)).map(|i| (format!("buffer-{i}"), any_size(rng))).collect();
    let sum: u64 = buffers.iter().map(|(_, bytes)| bytes).sum();
    // Most programs announce the right size; some announce too little, some too much.
    let requirement = match rng.random_range(0..10_u32) {
        0 => sum / 2,
        1 => sum + sum / 3,
        2 => 0,
        _ => sum,
    };
    let blocks = rng.random_range(0..100_000);
    ops.push(JobOp::Host { seconds: rng.random::<f64>() * 3.0 });
    ops.push(JobOp::TaskBegin { requirement, blocks, threads_per_block: 256, lazy: rng.random() });
    for (buffer, bytes) in &buffers {
        ops.push(JobOp::Alloc { buffer: buffer.clone(), bytes: *bytes });
        match rng.random_range(0..3_u32) {
            0 => ops.push(JobOp::Fill { buffer: buffer.clone(), bytes: *bytes }),
            _ => {
                ops.push(JobOp::CopyToDevice { buffer: buffer.clone(), bytes: *bytes, pinned: rng.random() })
            }
        }
    }
    for _ in 0..rng.random_range(1..4_u32) {
        ops.push(JobOp::Kernel(any_kernel(rng, &buffers, sum)));
        if rng.random_bool(0.3) {
            ops.push(JobOp::Host { seconds: rng.random::<f64>() });
        }
    }
    if rng.random_bool(0.8) {
        ops.push(JobOp::AllLaunched);
    }
    for (buffer, bytes) in &buffers {
        if rng.random() {
            let bytes = rng.random_range(0..=*bytes);
            ops.push(JobOp::CopyToHost { buffer: buffer.clone(), bytes, pinned: rng.random() });
        }
    }
    ops.push(JobOp::Host { seconds: rng.random::<f64>() * 4.0 });
    ops.extend(buffers.iter().map(|(buffer, _)| JobOp::Free { buffer: buffer.clone() }));
    ops.push(JobOp::TaskEnd);
}

/// Draws a size from a few bytes to more than most cards have; gigabytes are common.
fn any_size(rng: &mut ChaCha8Rng) -> u64 {
    match rng.random_range(0..10_u32) {
        0 => rng.random_range(1..4096),
        1 => rng.random_range(1..64) * MIB,
        2 => rng.random_range(8_192..20_480) * MIB + 1,
        _ => rng.random_range(256..4_096) * MIB,
    }
}

fn any_kernel(rng: &mut ChaCha8Rng, buffers: &[(String, u64)], sum: u64) -> KernelOp {
    let patterns = [Pattern::Stream, Pattern::Window, Pattern::Diagonal, Pattern::Random];
    let pattern = patterns.choose(rng).copied().unwrap_or(Pattern::Stream);
    let classes = [AccessClass::Unknown, AccessClass::OnePass, AccessClass::Cyclic, AccessClass::Sparse];
    let share = 1.0 - rng.random::<f64>() * 0.9;
    let accesses = buffers.iter().map(|(buffer, _)| BufferAccess {
        buffer: buffer.clone(),
        parts: if rng.random() { vec![Part { from: 0.0, to: share }] } else { Vec::new() },
        pattern,
        density: rng.random(),
        write: rng.random(),
    });
    let accesses = accesses.collect();
    let gap = rng.random_bool(0.3);
    KernelOp {
        name: format!("kernel-{}", rng.random_range(0..4_u32)),
        launches: rng.random_range(1..if gap { 12 } else { 40 }),
        host_gap_s: if gap { 0.001 } else { 0.0 },
        blocks: rng.random_range(1..200_000),
        threads_per_block: rng.random_range(1..1025),
        shared_bytes: rng.random_range(0..49_152),
        registers_per_thread: rng.random_range(0..256),
        dram_bytes: sum,
        flops32: 0,
        flops64: (rng.random::<f64>() * 2e12) as u64,
        accesses,
        access_class: classes.choose(rng).copied().unwrap_or_default(),
        footprint: rng.random_range(0..=sum),
    }
}
