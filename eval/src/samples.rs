//! Samples of an experiment's runs, each on disk as soon as it is there, so that a run that is stopped loses nothing.
//!
//! Trap: lines stand in the order in which runs ended, which differs from time to time; who reads them sorts them.

use crate::record::Stamp;
use anyhow::{Context, Result, anyhow, bail};
use eager_sim::{JobResult, Outcome};
use eager_units::{Class, Nanos};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What every sample says of its run.
pub trait Sampled {
    fn seed(&self) -> u64;
    /// The machine and the commit that made it.
    fn stamp(&self) -> &Stamp;
}

/// The samples of all seeds of which nothing is missing. Seeds are run one after the other, so of a run that was stopped
/// only the last ones are not whole.
#[derive(Debug, PartialEq)]
pub struct Whole<S> {
    pub samples: Vec<S>,
    pub seeds: Range<u64>,
    /// Of the last sample.
    pub stamp: Stamp,
}

/// Reads the lines of a `samples.jsonl`. An error names the line.
pub fn read_whole<S: Sampled + DeserializeOwned>(path: &Path) -> Result<Whole<S>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}: not a sample", path.display(), number + 1))
    };
    let samples: Vec<S> = text.lines().enumerate().map(parse).collect::<Result<_>>()?;
    let Some(stamp) = samples.last().map(|sample| sample.stamp().clone()) else {
        bail!("{} holds no sample", path.display());
    };
    let mut seeds: BTreeMap<u64, usize> = BTreeMap::new();
    for sample in &samples {
        *seeds.entry(sample.seed()).or_default() += 1;
    }
    let whole = seeds.values().max().copied().unwrap_or(0);
    seeds.retain(|_, count| *count == whole);
    let samples = samples.into_iter().filter(|sample| seeds.contains_key(&sample.seed())).collect();
    let first = seeds.keys().next().copied().unwrap_or(0);
    Ok(Whole { samples, seeds: first..first + seeds.len() as u64, stamp })
}

/// Device-side seconds of a job; none if it did not end or was ever eager.
pub fn normal_device_s(job: &JobResult) -> Option<f64> {
    normal_s(job, JobResult::device_side)
}

/// A time of a job that was Normal from start to end, in seconds.
pub fn normal_s(job: &JobResult, time: impl Fn(&JobResult) -> Nanos) -> Option<f64> {
    let was_normal = job.classes.iter().all(|(_, class)| *class == Class::Normal);
    (job.outcome == Outcome::Done && was_normal).then(|| seconds(time(job)))
}

/// The percentile, over the jobs that were Normal from start to end in both runs of a list, of device-side time over that
/// under the baseline.
pub fn normal_slowdown(own: &[Option<f64>], baseline: &[Option<f64>], part: f64) -> Option<f64> {
    let both = own.iter().zip(baseline);
    percentile(both.filter_map(|(own, base)| Some((*own)? / (*base).filter(|base| *base > 0.0)?)), part)
}

/// By nearest rank.
pub fn percentile(values: impl Iterator<Item = f64>, part: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * part).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

/// Modelled time, in seconds.
pub fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// A file of samples, one JSON object a line, that several threads add to.
pub struct Samples<S> {
    path: PathBuf,
    kept: Mutex<(File, Vec<S>)>,
}

impl<S: Serialize> Samples<S> {
    /// # Errors
    /// The file cannot be made; one that was there is emptied.
    pub fn create(path: &Path) -> Result<Samples<S>> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Samples { path: path.to_owned(), kept: Mutex::new((file, Vec::new())) })
    }

    /// # Errors
    /// The file cannot be written, or another thread panicked.
    pub fn keep(&self, sample: S) -> Result<()> {
        let line = serde_json::to_string(&sample).context("a sample as JSON")? + "\n";
        let mut kept = self.kept.lock().map_err(|_| anyhow!("another run panicked"))?;
        kept.0.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))?;
        kept.1.push(sample);
        Ok(())
    }

    /// All that were kept.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn into_all(self) -> Result<Vec<S>> {
        let (_, samples) = self.kept.into_inner().map_err(|_| anyhow!("a run panicked"))?;
        Ok(samples)
    }
}
