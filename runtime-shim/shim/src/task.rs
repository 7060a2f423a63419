//! What the shim keeps with a task beside [`eager_client::task::Task`]: its streams, and its kernels in flight.

use crate::runtime::{DeviceIndex, StreamId};
use eager_client::cell::Told;
use std::collections::BTreeMap;

pub use eager_client::task::{Kind, Phase, TaskKey};

pub type Task = eager_client::task::Task<DeviceIndex, Work>;

/// The daemon's latest decision about a bound task, with the program's number for the device.
pub type Terms = Told<DeviceIndex>;

/// Terms of a task that is not bound yet.
pub const NO_TERMS: Terms =
    Told { sequence: 0, reason: 0, extend_refused: false, terms: eager_units::Terms::none(DeviceIndex(0)) };

/// A stream for counting kernels in flight: `cudaStreamPerThread` is another stream in each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    pub stream: StreamId,
    /// [`crate::state::Thread::number`], if only that thread can query the stream.
    of_thread: Option<u64>,
}

impl Lane {
    pub fn of(stream: StreamId, thread: u64) -> Lane {
        Lane { stream, of_thread: (stream == StreamId::PER_THREAD).then_some(thread) }
    }

    /// True if the stream's handle denotes this stream in the thread with that number.
    pub fn is_seen_by(&self, thread: u64) -> bool {
        self.of_thread.is_none_or(|own| own == thread)
    }
}

/// Kernels launched and not known to have ended, per stream.
///
/// Kernels of a stream end in order, so two ordinals describe a stream. A synchronising call retires the kernels
/// launched before it began, never those that another thread launched meanwhile.
#[derive(Debug, Default)]
pub struct InFlight {
    streams: BTreeMap<Lane, LaunchCounts>,
}

#[derive(Debug, Default, Clone, Copy)]
struct LaunchCounts {
    launched: u64,
    retired: u64,
}

impl InFlight {
    pub fn launch(&mut self, lane: Lane) {
        self.streams.entry(lane).or_default().launched += 1;
    }

    /// Uncounts a launch that failed.
    pub fn cancel(&mut self, lane: Lane) {
        if let Some(counts) = self.streams.get_mut(&lane) {
            counts.launched = counts.launched.saturating_sub(1).max(counts.retired);
        }
    }

    pub fn busy(&self) -> bool {
        self.count() > 0
    }

    pub fn count(&self) -> u64 {
        self.streams.values().map(|counts| counts.launched - counts.retired).sum()
    }

    /// Streams with kernels in flight, each with its last launch.
    pub fn marks(&self) -> Vec<(Lane, u64)> {
        let in_flight = self.streams.iter().filter(|(_, counts)| counts.launched > counts.retired);
        in_flight.map(|(&lane, counts)| (lane, counts.launched)).collect()
    }

    /// Records that everything on `lane` up to launch `mark` has ended; returns how many of these launches were not
    /// retired before.
    pub fn retire(&mut self, lane: Lane, mark: u64) -> u64 {
        let Some(counts) = self.streams.get_mut(&lane) else { return 0 };
        let retired = mark.min(counts.launched).max(counts.retired);
        std::mem::replace(&mut counts.retired, retired).abs_diff(retired)
    }
}

/// A stream that the shim made for default-stream launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnStream {
    pub id: StreamId,
    pub high_priority: bool,
}

/// What the shim keeps with a task.
#[derive(Debug, Default)]
pub struct Work {
    pub stream: Option<OwnStream>,
    /// Streams used before a change of priority: kernels may still run there.
    pub old_streams: Vec<StreamId>,
    /// Stream on which promoted data is moved in, beside the kernels.
    pub copy_stream: Option<StreamId>,
    pub in_flight: InFlight,
}

impl Work {
    /// All streams that the shim made for the task.
    pub fn into_streams(self) -> impl Iterator<Item = StreamId> {
        let own = self.stream.map(|stream| stream.id);
        own.into_iter().chain(self.copy_stream).chain(self.old_streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synchronisation_retires_only_what_was_launched_before_it() {
        let mut in_flight = InFlight::default();
        let stream = Lane::of(StreamId(7), 1);
        in_flight.launch(stream);
        let marks = in_flight.marks();
        in_flight.launch(stream);
        assert_eq!(in_flight.retire(marks[0].0, marks[0].1), 1);
        assert_eq!(in_flight.retire(marks[0].0, marks[0].1), 0, "known already");
        assert!(in_flight.busy());
        in_flight.cancel(stream);
        assert!(!in_flight.busy());
    }
}
