//! Settings of a policy, with their defaults and the source of each default.
//!
//! Trap: all ratios are whole percents, not floats: a journal must replay to the same decision on any machine.

use crate::limits::Limits;
use eager_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Order in which waiting tasks are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// In order of arrival; while the first cannot start, no task behind it does.
    Fifo,
    /// In order of arrival; any task that can start does.
    Backfill,
    /// Largest requirement first (then arrival); any task that can start does.
    LargestFirst,
    /// Longest remaining run time first (then arrival); any task that can start does. Tasks without an estimate are
    /// placed at the median of the others; if no task has one, this is `LargestFirst`. After LPT list scheduling
    /// (Graham, 1969; specification S-312).
    LongestRemaining,
}

/// Settings of a scheduler; every field has a default, so a file contains only those that differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Queue order in place of the policy's own.
    pub queue: Option<QueueOrder>,
    /// Eager tasks that one device may hold at once. 1, as in the published prototype (specification S-205).
    pub eager_per_device: u32,
    /// A task starts eagerly only if at least this share of its requirement is free, in percent. 0: the source document
    /// sets no minimum (specification S-206).
    pub grant_percent_min: u32,
    /// Under eager policies, tasks that have their whole requirement allocate managed memory too, so that buffers which
    /// the device no longer uses can be evicted (specification S-203). `false`: they keep plain memory, and their dead
    /// memory counts in the gate. Policies without eager launch always use plain memory.
    pub managed_normal_tasks: bool,
    /// Largest requirement that eager policies accept, in percent of the largest device. 100: a task that could never
    /// be promoted is refused, as under CASE, because it would run over-subscribed to its end (specification S-105).
    pub oversize_percent: u32,
    /// OS-ratio (over-subscription ratio) allowed to a kernel that reads the same bytes again, or whose access is
    /// unknown, in percent. Above 100, a cyclic kernel misses on every page (specification S-214).
    pub os_ratio_percent_cyclic: u32,
    /// OS-ratio allowed to one-pass and sparse kernels, in percent. 150: the prototype's `1.5 × capacity`. A one-pass
    /// kernel moves each byte once whatever the ratio (specification S-214).
    pub os_ratio_percent_other: u32,
    /// OS-ratio allowed to sparse kernels in place of `os_ratio_percent_other`, in percent. They touch less than their
    /// static size, but in no order that paging could follow: 64 KiB are moved for a few bytes (specification S-214).
    pub os_ratio_percent_sparse: Option<u32>,
    /// Memory that the ledger sets aside for a client's context on each device that the client is bound to, until the
    /// client is gone. 0: the capacity configured for a device already leaves room for contexts.
    pub context_bytes: Bytes,
    /// Policy `cg`: programs that one device may have. 3: a quarter of the jobs then ran out of memory in a model
    /// (specification S-115).
    #[serde(alias = "tasks_per_device")]
    pub programs_per_device: u32,
    /// Policy `quanta`: how long a turn lasts when other tasks wait. 30 s, as in nvshare (specification S-117).
    pub quantum_ns: Nanos,
    /// Policy `quanta`: a turn ends early when its task had no kernel for this long and other tasks wait. 5 s, as in
    /// nvshare (specification S-117).
    pub quantum_idle_ns: Nanos,
    /// Policies `gcfs` and `fair`: time in which each task that wants a device has one slice, divided by weight. 12 ms, as
    /// in gCFS (specification S-131).
    pub round_ns: Nanos,
    /// Policies that share a device's time: slices that a device may have at once. Not set: the policy decides.
    pub in_flight: Option<u32>,
    /// Policy `gcfs`: what a task had too much or too little goes over into its next slice. Without it a task whose
    /// kernels are longer than its slice gets more than its share (specification S-132).
    pub carry: bool,
    /// Policies that share a device's time: how long the last kernels of a slice that is over are waited for before the
    /// next slice begins beside them (specification S-134).
    pub round_grace_ns: Nanos,
    /// Policy `fair`: for how long a task without a kernel is waited for, if its last pause was no longer than this
    /// (specification S-138).
    pub round_idle_ns: Nanos,
    /// Policy `contention`: the most of a device's memory that may be granted, in percent (specification S-137).
    pub memory_percent_max: u32,
    /// Policy `scatter`: chooses the sequence of devices.
    pub scatter_seed: u64,
    /// When all programs that hold memory wait for more, and none of them has sent an event for this long, one of them
    /// is started over-subscribed. A program with several threads is not silent while one of its threads works
    /// (specification S-107).
    pub circle_ns: Nanos,
    /// A held kernel starts after this long, whatever else runs. Not set: the policy decides (30 s under `eager-fair`,
    /// S-325; never under the others, as in the source document; specification S-218).
    pub hold_ns_max: Option<Nanos>,
    /// Once the task that came first has waited for this long, a later task starts only where it leaves that task room
    /// (specification S-314). Not set: the policy decides (60 s under `eager-live` and `eager-fair`, never under the
    /// others). A shorter time costs more throughput in streams.
    pub overtake_ns: Option<Nanos>,
    /// A task that starts must not delay the first task of the queue beyond its predicted start (EASY backfilling;
    /// Lifka, 1995; specification S-315). Not set: the policy decides.
    pub reserve_head: Option<bool>,
    /// Policy `eager-live`: tasks are a stream while they arrive less than this apart, or while so many wait that the
    /// longest of them will not be the last to end. During a stream, memory is neither reserved for the first task of
    /// the queue nor filled by eager starts. 0: never a stream (specification S-316).
    pub stream_ns: Nanos,
    /// Under policies with stream priorities: a task that cannot run over-subscribed and is expected to hold memory for
    /// longer than this launches on low-priority streams, like eager tasks, so that short tasks do not wait behind its
    /// kernels. Not set: the policy decides.
    pub short_hold_ns: Option<Nanos>,
    /// Policy `eager-live`: a task starts eagerly only if the rest of its memory is predicted to be free within this
    /// time. 0: never. 5 s (specification S-317: without a bound, streams lose what batches win).
    pub eager_promotion_within_ns: Nanos,
    /// Programs give a buffer's memory back as soon as the device will not use it again, not at `cudaFree`. This
    /// setting and the next four take the place of the policy's own, one by one; see [`eager_units::Habits`].
    pub release_dead: Option<bool>,
    /// Programs ask for memory at its first use on the device, not when they allocate it.
    pub late_reservation: Option<bool>,
    /// Data that a program copies to the device before it has memory there waits in host memory.
    pub early_copies: Option<bool>,
    /// A task asks for the most that its buffers hold at once, not for the sum of their sizes.
    pub live_requirement: Option<bool>,
    /// Copies from and to pageable memory go through a pinned ring, at the rate of the link.
    pub fast_copies: Option<bool>,
    /// Limits of what one user may take. Journals of earlier versions have none.
    #[serde(skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            queue: None,
            eager_per_device: 1,
            grant_percent_min: 0,
            managed_normal_tasks: true,
            oversize_percent: 100,
            os_ratio_percent_cyclic: 100,
            os_ratio_percent_other: 150,
            os_ratio_percent_sparse: None,
            context_bytes: Bytes::ZERO,
            programs_per_device: 3,
            quantum_ns: Nanos::from_secs(30),
            quantum_idle_ns: Nanos::from_secs(5),
            round_ns: Nanos(12_000_000),
            in_flight: None,
            carry: true,
            round_grace_ns: Nanos(100_000_000),
            round_idle_ns: Nanos(1_000_000),
            memory_percent_max: 95,
            scatter_seed: 1,
            circle_ns: Nanos::from_secs(10),
            hold_ns_max: None,
            overtake_ns: None,
            reserve_head: None,
            stream_ns: Nanos::from_secs(3),
            short_hold_ns: None,
            eager_promotion_within_ns: Nanos::from_secs(5),
            release_dead: None,
            late_reservation: None,
            early_copies: None,
            live_requirement: None,
            fast_copies: None,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// The smallest OS-ratio that is allowed to kernels of any access class, in percent.
    pub fn os_ratio_percent_min(&self) -> u32 {
        self.os_ratio_percent_cyclic.min(self.os_ratio_percent_other).min(self.os_ratio_percent_of_sparse())
    }

    /// OS-ratio allowed to sparse kernels, in percent.
    pub fn os_ratio_percent_of_sparse(&self) -> u32 {
        self.os_ratio_percent_sparse.unwrap_or(self.os_ratio_percent_other)
    }

    /// Largest requirement accepted, in percent of the largest device: above 100 only under the few policies that can
    /// start a task larger than its device.
    pub fn oversize_percent_under(&self, starts_larger: bool) -> u32 {
        if starts_larger { self.oversize_percent } else { 100 }
    }
}
