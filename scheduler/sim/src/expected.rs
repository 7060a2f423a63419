//! Estimates of tasks: each job's run alone on the machine's first device, times a random error factor.
//!
//! A run alone contains only the job's own work. Waits for other jobs are not in it, as no earlier run would know
//! them either.

use crate::engine::{self, SimError};
use crate::job::Job;
use crate::options::{SimOptions, Submission};
use eager_core::event::Estimate;
use eager_units::Nanos;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Estimates of one job's tasks, in order.
type OfTasks = Vec<Option<Estimate>>;

/// Returns the estimates by job; none where the policy does not use them or the job does not run alone.
pub(crate) fn of_jobs(jobs: &[Job], options: &SimOptions) -> Result<Vec<OfTasks>, SimError> {
    let traits = options.policy.traits().under(&options.scheduler);
    let Some(quality) = options.estimates.filter(|_| traits.uses_estimates()) else {
        return Ok(vec![Vec::new(); jobs.len()]);
    };
    let mut rng = ChaCha8Rng::seed_from_u64(quality.seed);
    let mut factor = || quality.spread.powf(rng.random_range(-1.0..=1.0));
    let mut known: BTreeMap<&str, Vec<(&Job, OfTasks)>> = BTreeMap::new();
    let mut all = Vec::new();
    for job in jobs {
        let same_name = known.entry(&job.name).or_default();
        let truth = match same_name.iter().find(|(other, _)| *other == job) {
            Some((_, truth)) => truth.clone(),
            None => {
                let truth = alone(job, options)?;
                same_name.push((job, truth.clone()));
                truth
            }
        };
        let mut blurred = |truth: Estimate| {
            let mut blur = |time: Nanos| Nanos((time.0 as f64 * factor()) as u64);
            Estimate { remaining: blur(truth.remaining), hold: blur(truth.hold) }
        };
        all.push(truth.into_iter().map(|task| task.map(&mut blurred)).collect());
    }
    Ok(all)
}

fn alone(job: &Job, options: &SimOptions) -> Result<OfTasks, SimError> {
    let alone = SimOptions {
        cards: options.cards.iter().take(1).cloned().collect(),
        submission: Submission::AllAtOnce,
        kills: Vec::new(),
        trace: false,
        journal: false,
        audit: false,
        timeline: false,
        estimates: None,
        ..options.clone()
    };
    let result = engine::run(std::slice::from_ref(job), &alone)?;
    let Some(job) = result.jobs.first() else { return Ok(Vec::new()) };
    let estimate = |task: &crate::result::TaskTimes| {
        let hold = task.released?.saturating_sub(task.bind?);
        Some(Estimate { remaining: job.end.saturating_sub(task.ask), hold })
    };
    Ok(job.tasks.iter().map(estimate).collect())
}
