//! What can be set about a policy, with the defaults and where each comes from.
//!
//! Trap: all ratios are whole percents, not floats: a journal must replay to the same decision on any machine.

use crate::limits::Limits;
use eager_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// In what order waiting tasks are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// In order of arrival; while the first cannot start, nobody behind it does.
    Fifo,
    /// In order of arrival; whoever can start does.
    Backfill,
    /// Largest requirement first (then arrival); whoever can start does.
    LargestFirst,
    /// Longest remaining run time first (then arrival); whoever can start does. Tasks without an estimate stand where the
    /// median of the others is; where nobody has one, this is `LargestFirst`. After LPT list scheduling (Graham, 1969;
    /// specification S-312).
    LongestRemaining,
}

/// Settings of a scheduler; every field has a default, so a file names only what differs.
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
    /// Under eager policies Normal tasks too allocate managed memory, so that what the device is done with can be
    /// evicted (specification S-203). Off: they keep plain memory, and their dead memory counts in the gate.
    /// Policies without eager launch always use plain memory.
    pub managed_normal_tasks: bool,
    /// Largest requirement accepted by eager policies, in percent of the largest device. 100: what can never be promoted
    /// is refused, like under CASE, because it would run over-subscribed to its end (specification S-105).
    pub oversize_percent: u32,
    /// OS-ratio allowed to a kernel that reads the same bytes again, or whose access is unknown, in percent: above 100 a
    /// cyclic kernel misses on every page (specification S-214).
    pub os_ratio_percent_cyclic: u32,
    /// OS-ratio allowed to one-pass and sparse kernels, in percent. 150: the prototype's `1.5 × capacity`. A one-pass
    /// kernel moves each byte once whatever the ratio (specification S-214).
    pub os_ratio_percent_other: u32,
    /// OS-ratio allowed to sparse kernels in place of the former, in percent. They touch less than their static size, but
    /// in no order that paging could follow: 64 KiB are moved for a few bytes (specification S-214).
    pub os_ratio_percent_sparse: Option<u32>,
    /// Memory the ledger sets aside for each client's context on a device it is bound to, until the client is gone. 0:
    /// the capacity given for a device already leaves room for contexts.
    pub context_bytes: Bytes,
    /// Policy `cg`: tasks that one device may hold. 3: a quarter of the jobs then ran out of memory in a model
    /// (specification S-115).
    pub tasks_per_device: u32,
    /// Policy `quanta`: how long a turn lasts when others wait. 30 s, as in nvshare (specification S-117).
    pub quantum_ns: Nanos,
    /// Policy `quanta`: a turn ends early when its task had no kernel for this long and others wait. 5 s, as in nvshare
    /// (specification S-117).
    pub quantum_idle_ns: Nanos,
    /// When all who hold memory wait for more and have been silent for this long, one of them is started over-subscribed.
    /// Programs with several threads are not silent while one of them works (specification S-107).
    pub circle_ns: Nanos,
    /// A held kernel goes after this long whatever else runs. None: as the policy has it (30 s under `eager-fair`, S-325; never
    /// under the others, like in the source document; specification S-218).
    pub hold_ns_max: Option<Nanos>,
    /// Once the first come has waited for so long, who came later starts only where it leaves that task room (specification
    /// S-314). None: as the policy has it (60 s under `eager-live` and `eager-fair`, never under the others). The shorter, the
    /// more throughput it costs in streams.
    pub overtake_ns: Option<Nanos>,
    /// Whoever starts must not delay the first of the queue beyond its predicted start (EASY backfilling; Lifka, 1995;
    /// specification S-315). None: as the policy has it.
    pub reserve_head: Option<bool>,
    /// Policy `eager-live`: as long as tasks come less than this apart, or so many wait that the longest of them will not
    /// be the last, they are a stream, and memory is neither reserved for the first of the queue nor filled by eager
    /// starts. 0: never a stream (specification S-316).
    pub stream_ns: Nanos,
    /// Under policies with stream priorities, tasks that cannot run over-subscribed and are expected to hold memory for
    /// longer than this launch on low ones, like eager tasks: those that are soon done do not wait behind their kernels.
    /// None: as the policy has it.
    pub short_hold_ns: Option<Nanos>,
    /// Policy `eager-live`: a task starts eagerly only if the rest of its memory is predicted to be free within this; 0:
    /// never. 5 s (specification S-317: without a bound, streams lose what batches win).
    pub eager_promotion_within_ns: Nanos,
    /// What programs do about memory that the device does not need, one by one in place of the policy's own; see
    /// [`eager_units::Habits`].
    pub release_dead: Option<bool>,
    pub late_reservation: Option<bool>,
    pub early_copies: Option<bool>,
    pub live_requirement: Option<bool>,
    pub fast_copies: Option<bool>,
    /// What one user may take. Journals written before there were limits have none.
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
            tasks_per_device: 3,
            quantum_ns: Nanos::from_secs(30),
            quantum_idle_ns: Nanos::from_secs(5),
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
    /// The OS-ratio allowed to a kernel whatever its class, in percent.
    pub fn os_ratio_percent_min(&self) -> u32 {
        self.os_ratio_percent_cyclic.min(self.os_ratio_percent_other).min(self.os_ratio_percent_of_sparse())
    }

    /// The OS-ratio allowed to sparse kernels, in percent.
    pub fn os_ratio_percent_of_sparse(&self) -> u32 {
        self.os_ratio_percent_sparse.unwrap_or(self.os_ratio_percent_other)
    }

    /// The limit that holds: few policies can start what is larger than its device.
    pub fn oversize_percent_under(&self, starts_larger: bool) -> u32 {
        if starts_larger { self.oversize_percent } else { 100 }
    }
}
