//! The state of the daemon at one moment: what `eager top`, the metrics and the web page are made from.
//!
//! Trap: viewers of another build read it too. Only add fields, each with a default.

use crate::admin::{AfterRow, DaemonRow, DeviceRow, TaskRow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The daemon at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Time since the daemon started on the clock of its decisions; on a virtual clock the modelled time.
    pub now_ms: u64,
    pub daemon: DaemonRow,
    pub devices: Vec<DeviceRow>,
    /// The oldest tasks, at most as many as were asked for.
    pub tasks: Vec<TaskRow>,
    /// Programs that wait for a task of another to end, at most as many as were asked for.
    pub after: Vec<AfterRow>,
    pub counts: Counts,
    /// Tasks of the last minutes, the newest last, at most as many as were asked for.
    pub lives: Vec<Life>,
    /// Use of the watched devices in the last minutes.
    pub minutes: Vec<Minutes>,
}

/// How busy and how full a device was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Minutes {
    pub device: u32,
    /// Length of each moment.
    pub moment_ms: u64,
    /// The newest last; the last one may not be over.
    pub moments: Vec<Moment>,
}

/// Means over a span of time; None if the device was not watched or did not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    pub utilization_percent: Option<u32>,
    pub resident_bytes: Option<u64>,
}

/// Counts of what has happened since the daemon started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Tasks that got a device, by class; restored ones are not counted again.
    pub started: BTreeMap<String, u64>,
    /// Refusals, by name of the reason.
    pub refused: BTreeMap<String, u64>,
    pub promoted: u64,
    /// Tasks that ended by themselves or with their program, waiting ones included.
    pub ended: u64,
    /// Kernels that stood at a closed gate.
    pub held_kernels: u64,
    /// Programs that are gone: `idle`, `holding` (they had tasks), `cut-off` (they broke the protocol).
    pub clients_gone: BTreeMap<String, u64>,
    /// Times that `case` took over from a policy that broke.
    pub policy_fallbacks: u64,
    /// From a task's request to its device, by class.
    pub wait_seconds: BTreeMap<String, Distribution>,
    /// Steps of the core, in real time.
    pub decision_seconds: Distribution,
}

/// Histogram of values: each bucket counts those above the bucket before it and at most `le`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    pub buckets: Vec<Bucket>,
    /// Values above the last bucket.
    pub beyond: u64,
    pub sum: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub le: f64,
    pub count: u64,
}

impl Distribution {
    /// A histogram without values. The bounds must rise.
    pub fn new(bounds: &[f64]) -> Distribution {
        let buckets = bounds.iter().map(|&le| Bucket { le, count: 0 }).collect();
        Distribution { buckets, beyond: 0, sum: 0.0 }
    }

    pub fn observe(&mut self, value: f64) {
        self.sum += value;
        match self.buckets.iter_mut().find(|bucket| value <= bucket.le) {
            Some(bucket) => bucket.count += 1,
            None => self.beyond += 1,
        }
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).sum::<u64>() + self.beyond
    }
}

/// History of a task, from its request on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Life {
    pub task: u64,
    pub label: String,
    pub function: String,
    pub requirement_bytes: u64,
    /// Each lasts until the next one, the last until the end. Never empty.
    pub spans: Vec<Span>,
    pub ended_ms: Option<u64>,
    /// Why it was refused; empty if it was not.
    pub refused: String,
}

/// A part of a task's life.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Span {
    pub from_ms: u64,
    /// `waiting`, or the class.
    pub state: String,
    pub device: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_once_in_the_first_bucket_that_takes_it() {
        let mut spread = Distribution::new(&[0.1, 1.0]);
        [0.05, 0.1, 0.5, 7.0].into_iter().for_each(|value| spread.observe(value));
        let counts: Vec<u64> = spread.buckets.iter().map(|bucket| bucket.count).collect();
        assert_eq!((counts, spread.beyond, spread.count()), (vec![2, 1], 1, 4));
        assert!((spread.sum - 7.65).abs() < 1e-9);
    }

    #[test]
    fn a_snapshot_of_another_build_is_read_as_far_as_it_is_known() {
        let older = r#"{"now_ms":5,"counts":{"promoted":2},"something new":[1]}"#;
        let snapshot: Snapshot = serde_json::from_str(older).expect("a snapshot");
        assert_eq!((snapshot.now_ms, snapshot.counts.promoted, snapshot.devices.len()), (5, 2, 0));
    }
}
