//! A task as the shim keeps it: its reservation at the daemon, its terms, its streams, its kernels in flight.
//!
//! Accounting invariant: while a task is bound, the daemon holds [`Account::reserved`] for it, that is the bytes now
//! allocated plus the bytes that its open sites may still allocate. Every change of that sum is sent once (extend,
//! shrink, end). Trap: a static task *promised* its bytes when it began, so its allocations take from the promise
//! first and only bytes beyond are an extension; counting them again would reserve everything twice.

use crate::account::{Account, Announced, FrameId};
use crate::runtime::{DeviceIndex, Geometry, StreamId};
use eager_client::cell::Told;
use eager_units::AccessClass;
use std::collections::BTreeMap;

pub use eager_client::task::TaskKey;

/// Origin of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Announced with its size by `eager_task_begin`.
    Static,
    /// Everything outside static tasks: bound at its first launch.
    Lazy,
}

/// A task's state at the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Lazy, before its first launch (or a refused site's first allocation): the daemon does not know it.
    Unbound,
    /// Static: requested at its first use of a device ([`Asks`]).
    Deferred,
    /// Static, requested at its first copy: memory is short, and the copies wait for it while the program goes on.
    Queued(Queued),
    /// A thread is requesting the task; other threads wait.
    Asking,
    Bound,
    Refused,
}

/// A request that the daemon has not granted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    pub sequence: u32,
    /// Bytes requested. Bytes that the task turns out not to need are returned when it is bound.
    pub bytes: u64,
}

impl Phase {
    /// True if the task has no device because it has not used one yet.
    pub fn is_deferred(self) -> bool {
        matches!(self, Phase::Deferred | Phase::Queued(_))
    }
}

/// Contents of a deferred task's request besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asks {
    pub site: u64,
    pub geometry: Geometry,
}

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

/// Message due to the daemon after a free or the end of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    Nothing,
    Shrink(u64),
    End,
}

#[derive(Debug)]
pub struct Task {
    pub key: TaskKey,
    pub kind: Kind,
    pub phase: Phase,
    pub account: Account,
    pub terms: Terms,
    /// Allocations are addresses, and get memory with the first call that names one ([`eager_abi::TASK_NAMED`]).
    pub by_name: bool,
    pub asks: Option<Asks>,
    pub stream: Option<OwnStream>,
    /// Streams used before a change of priority: kernels may still run there.
    pub old_streams: Vec<StreamId>,
    /// True if it has managed memory without pages for which its grant has room: its launches look for it.
    pub lacks_pages: bool,
    /// Stream on which promoted data is moved in, beside the kernels.
    pub copy_stream: Option<StreamId>,
    pub in_flight: InFlight,
    /// Busy or idle, as last sent to the daemon while it watched.
    pub sent_busy: Option<bool>,
    pub sent_all_launched: bool,
    /// Class of the kernel for which the gate was last requested.
    pub asked_for: Option<AccessClass>,
}

impl Task {
    /// `announced`: the announcement of a static task's site; `None`: the lazy task.
    pub fn new(key: TaskKey, announced: Option<Announced>) -> Task {
        let mut account = Account::default();
        let (kind, phase) = match announced {
            Some(announced) => {
                account.open(announced);
                (Kind::Static, Phase::Asking)
            }
            None => (Kind::Lazy, Phase::Unbound),
        };
        Task {
            key,
            kind,
            phase,
            account,
            terms: NO_TERMS,
            by_name: false,
            asks: None,
            stream: None,
            old_streams: Vec::new(),
            lacks_pages: false,
            copy_stream: None,
            in_flight: InFlight::default(),
            sent_busy: None,
            sent_all_launched: false,
            asked_for: None,
        }
    }

    /// Counts a free of `bytes` that the site of `frame` had allocated. `pinned`: the program has streams or events
    /// on the task's device, so a lazy task keeps its binding when its last buffer is freed.
    pub fn free(&mut self, frame: Option<FrameId>, bytes: u64, pinned: bool) -> Release {
        let gone = self.account.give(frame, bytes);
        self.release(gone, pinned)
    }

    /// Counts the free of an allocation that never had memory.
    pub fn forgo(&mut self, frame: Option<FrameId>, bytes: u64, pinned: bool) -> Release {
        let gone = self.account.forgo(frame, bytes);
        self.release(gone, pinned)
    }

    /// Counts an allocation whose contents move to the host.
    pub fn send_away(&mut self, bytes: u64, pinned: bool) -> Release {
        let gone = self.account.send_away(bytes);
        self.release(gone, pinned)
    }

    /// Counts the free of an allocation whose contents are on the host.
    pub fn forget_away(&mut self, bytes: u64, pinned: bool) -> Release {
        let gone = self.account.forget_away(bytes);
        self.release(gone, pinned)
    }

    /// Closes a site's frame. Buffers that are still allocated keep the task, at their size, until they are freed.
    pub fn close(&mut self, frame: FrameId, pinned: bool) -> Release {
        let promised = self.account.close(frame);
        self.release(promised, pinned)
    }

    /// True if the daemon must be told now that the task has made its last launch. Called once for each site that
    /// announced its last launch or ended; true at most once.
    pub fn must_send_all_launched(&mut self) -> bool {
        let tell = self.kind == Kind::Static
            && self.phase == Phase::Bound
            && !self.sent_all_launched
            && self.account.is_open()
            && self.account.all_launched();
        self.sent_all_launched |= tell;
        tell
    }

    /// The message due when `gone` bytes are no longer needed.
    pub fn release(&self, gone: u64, pinned: bool) -> Release {
        let kept = self.kind == Kind::Lazy && pinned;
        let over = !self.account.is_open() && self.account.live() == 0 && !kept;
        match self.phase {
            Phase::Unbound | Phase::Asking => Release::Nothing,
            // The daemon never knew the task.
            Phase::Deferred if !over => Release::Nothing,
            _ if over => Release::End,
            Phase::Bound if gone > 0 => Release::Shrink(gone),
            _ => Release::Nothing,
        }
    }

    /// Busy or idle, if the daemon watches and has not been told yet.
    pub fn activity_to_send(&mut self) -> Option<bool> {
        if !self.terms.watched {
            self.sent_busy = None;
            return None;
        }
        let busy = self.in_flight.busy();
        (self.sent_busy.replace(busy) != Some(busy)).then_some(busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_proto::request::Slot;

    fn task(announced: Option<u64>) -> Task {
        let key = TaskKey { slot: Slot::FIRST, generation: 1 };
        let mut task = Task::new(key, announced.map(|bytes| Announced { site: 1, bytes, reuses: false }));
        task.phase = Phase::Bound;
        task
    }

    #[test]
    fn a_closed_task_stays_until_its_last_buffer_is_freed() {
        let mut task = task(Some(100));
        let frame = task.account.frame_of(1);
        task.account.take(frame, 60);
        assert_eq!(task.free(frame, 20, false), Release::Shrink(20));
        assert_eq!(task.close(frame.expect("open"), false), Release::Shrink(40));
        assert_eq!(task.free(frame, 40, false), Release::End);
    }

    #[test]
    fn a_pinned_lazy_task_keeps_its_device() {
        let mut task = task(None);
        task.account.take(None, 10);
        assert_eq!(task.free(None, 10, true), Release::Shrink(10));
        assert_eq!(task.free(None, 0, false), Release::End);
    }

    #[test]
    fn a_lazy_task_lives_while_a_site_in_it_is_open() {
        let mut task = task(None);
        let frame = task.account.open(Announced { site: 1, bytes: 5, reuses: false });
        task.account.take(None, 10);
        assert_eq!(task.free(None, 10, false), Release::Shrink(10));
        assert_eq!(task.close(frame, false), Release::End);
    }

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
