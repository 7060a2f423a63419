//! Why the core did something, or did not: one variant for each decision and each wait, with the numbers behind it.
//!
//! Trap: [`Reason::code`] goes over the wire to shims of other versions, so never re-use or renumber a code.

use eager_units::{Bytes, ClientId, DeviceId, Nanos, TaskId};
use serde::{Deserialize, Serialize};

/// Reason for a decision or a wait. `Display` is the sentence for people; [`Reason::code`] is the number for the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Reason {
    // Placement.
    #[error("fits: {device} has {free} free, {wanted} wanted")]
    Fits { device: DeviceId, wanted: Bytes, free: Bytes },
    #[error("waits: largest free memory is {most} on {device}; {wanted} wanted")]
    NoRoom { wanted: Bytes, most: Bytes, device: DeviceId },
    #[error("waits: with {wanted} more, {device} would have more than {percent} % of its memory granted")]
    OverMemoryLimit { device: DeviceId, wanted: Bytes, percent: u32 },
    #[error("waits: there is no device yet")]
    NoDevice,
    #[error(
        "refused: {wanted} wanted is larger than every device; the largest has {largest}, and {limit} is the limit"
    )]
    TooLarge { wanted: Bytes, largest: Bytes, limit: Bytes },
    #[error("waits: {head} is first in the queue and must start first")]
    Behind { head: TaskId },
    #[error("starts eagerly: {device} has {granted} for it of the {wanted} wanted, the most of all devices")]
    StartsEagerly { device: DeviceId, wanted: Bytes, granted: Bytes },
    #[error(
        "waits: {wanted} fits nowhere (largest free memory is {most}) and no device can take another eager task \
         (at most {eager_per_device} each)"
    )]
    NoEagerPlace { wanted: Bytes, most: Bytes, eager_per_device: u32 },
    #[error(
        "waits: every device has its program already, and this policy gives a device to one program until it ends"
    )]
    DevicesTaken,
    #[error(
        "waits: {wanted} fits nowhere and {device} has {most} free for an eager start; {least} are the least allowed"
    )]
    TooLittleToStart { wanted: Bytes, most: Bytes, device: DeviceId, least: Bytes },
    #[error("waits: no device has the {context} free that its context takes")]
    NoRoomForContext { context: Bytes },
    #[error(
        "waits: contexts of programs that have held no memory yet may take at most {user} of {device} for uid {uid}, \
         and {all} for all users"
    )]
    ContextsIdle { device: DeviceId, uid: u32, user: Bytes, all: Bytes },
    #[error("waits: every device has its {programs_per_device} programs, the most that this policy allows")]
    DevicesFull {
        #[serde(alias = "tasks_per_device")]
        programs_per_device: u32,
    },
    #[error(
        "goes to {device}, which has the fewest programs ({programs}); this policy does not count memory"
    )]
    FewestPrograms { device: DeviceId, programs: u32 },
    #[error("goes to {device}, which its program has until it ends; this policy does not count memory")]
    StaysWithProgram { device: DeviceId },
    #[error("goes to {device}, which has the fewest tasks ({tasks}); this policy does not count memory")]
    Assigned { device: DeviceId, tasks: u32 },
    #[error(
        "waits: {device} has the memory, but its SMs have no slots left for {blocks} blocks of {threads_per_block} threads"
    )]
    NoSlots { device: DeviceId, blocks: u64, threads_per_block: u32 },
    #[error(
        "starts: all programs that hold memory wait, so none of it would be freed; {device} has {granted} free of the \
         {wanted} wanted"
    )]
    BreaksCircle { device: DeviceId, wanted: Bytes, granted: Bytes },
    #[error(
        "refused: all programs that hold memory wait, so none of it would be freed; it needs all {wanted}, and the largest free \
         memory is {most} on {device}"
    )]
    NoWayOut { wanted: Bytes, most: Bytes, device: DeviceId },
    #[error(
        "waits: {head} came first and has waited for {waited}: others start only where they leave it room"
    )]
    NotPast { head: TaskId, waited: Nanos },
    #[error(
        "waits: {wanted} would still be held when {head}, which is first in the queue, is expected to start on {device}"
    )]
    WouldDelay { wanted: Bytes, head: TaskId, device: DeviceId, at: Nanos },
    #[error(
        "waits: {wanted} fits nowhere (most is free on {device}: {most}), and no device is expected to have it within \
         {within}"
    )]
    NoneSoon { wanted: Bytes, most: Bytes, device: DeviceId, within: Nanos },
    #[error(
        "starts eagerly: no waiting task fits on any device; {device} has {granted} free of the {wanted} wanted, and the rest is \
         expected in {rest_in}"
    )]
    StartsEarly { device: DeviceId, wanted: Bytes, granted: Bytes, rest_in: Nanos },
    #[error("goes on: it had {grant} on {device} before the scheduler was restarted")]
    Restored { device: DeviceId, grant: Bytes },
    #[error("{device} is lost: its driver does not have it any more")]
    DeviceLost { device: DeviceId },
    #[error("waits: {device} is drained, and nothing new starts there")]
    Drained { device: DeviceId },
    #[error(
        "goes on with {grant} of the {had} that it had on {device}: the policy that decides now counts memory"
    )]
    Cut { device: DeviceId, had: Bytes, grant: Bytes },
    #[error("waits: uid {by} holds it until it is released")]
    Held { by: u32 },
    #[error("refused: uid {by} cancelled it")]
    Cancelled { by: u32 },
    #[error("waits: the policy proposed what the ledger does not allow (a defect of the policy)")]
    ProposalDropped,

    // Later changes of the grant.
    #[error("gets {added} that became free; {missing} still missing")]
    Grows { added: Bytes, missing: Bytes },
    #[error("promoted: gets the last {added}; its whole {requirement} is reserved")]
    Promoted { added: Bytes, requirement: Bytes },
    #[error("gave back {bytes}")]
    Shrinks { bytes: Bytes },
    #[error("promoted: gave back {bytes} and needs no more than its grant")]
    PromotedByShrinking { bytes: Bytes },
    #[error("{bytes} more fit: {device} had {free} free")]
    Extends { bytes: Bytes, device: DeviceId, free: Bytes },
    #[error("{bytes} more do not fit on {device} ({free} free): runs over-subscribed by {missing}")]
    ExtendsOver { bytes: Bytes, device: DeviceId, free: Bytes, missing: Bytes },
    #[error("refused: {bytes} more would make {wanted}; {device} has {capacity}, and {limit} is the limit")]
    ExtendTooLarge { bytes: Bytes, wanted: Bytes, device: DeviceId, capacity: Bytes, limit: Bytes },
    #[error(
        "refused: {bytes} more do not fit on {device} ({free} free), and this task cannot run over-subscribed"
    )]
    ExtendNotWhole { bytes: Bytes, device: DeviceId, free: Bytes },

    // The gate.
    #[error("goes: no task on {device} has to be protected")]
    NobodyToProtect { device: DeviceId },
    #[error("goes: all {tasks} normal tasks on {device} have launched their last kernel")]
    AllHaveLaunched { device: DeviceId, tasks: u32 },
    #[error("holds: {task} on {device} has not launched its last kernel ({tasks} such tasks)")]
    NotAllLaunched { device: DeviceId, task: TaskId, tasks: u32 },
    #[error("holds: {task} has kernels on {device}")]
    NormalBusy { device: DeviceId, task: TaskId },
    #[error("holds: whether {task} has kernels on {device} is not known yet")]
    NormalUnknown { device: DeviceId, task: TaskId },
    #[error(
        "goes: {device} is idle; {live} live and kernels of at most {allowed} stay within {percent} % of {capacity}"
    )]
    Idle { device: DeviceId, live: Bytes, allowed: Bytes, percent: u32, capacity: Bytes },
    #[error(
        "goes: kernel {kernel} touches {footprint}; with {live} live that is {ratio} % of {capacity}, {percent} % allowed"
    )]
    WithinRatio { kernel: String, footprint: Bytes, live: Bytes, ratio: u64, percent: u32, capacity: Bytes },
    #[error(
        "holds: kernel {kernel} touches {footprint}; with {live} live that is {ratio} % of {capacity}, \
         {percent} % allowed"
    )]
    OverRatio { kernel: String, footprint: Bytes, live: Bytes, ratio: u64, percent: u32, capacity: Bytes },
    #[error("holds: {live} live on {device} leave no room within {percent} % of {capacity}")]
    NoneAllowed { device: DeviceId, live: Bytes, percent: u32, capacity: Bytes },
    #[error(
        "holds: its kernels go through {requirement} by turns, and {taken} are taken on {device}: more than {percent} % of {capacity}"
    )]
    AllOverRatio { device: DeviceId, requirement: Bytes, taken: Bytes, percent: u32, capacity: Bytes },
    #[error("goes: its kernel was held for {held}, the longest allowed")]
    HeldLongEnough { held: Nanos },
    #[error("goes: its whole requirement is reserved")]
    NoLongerEager,
    #[error("goes: this policy has no gate")]
    NoGate,
    #[error("goes: the barrier was opened before")]
    BarrierPassed,
    #[error("goes: it is its turn on {device}")]
    HasTurn { device: DeviceId },
    #[error("goes: it has {length} of the time of {device}, its share of this round")]
    HasSlice { device: DeviceId, length: Nanos },
    #[error("holds: it is the turn of {holder} on {device}")]
    NotItsTurn { device: DeviceId, holder: TaskId },
    #[error("holds: its turn on {device} is over, and its last kernels run")]
    TurnOver { device: DeviceId },
    #[error("holds: no task has its turn on {device} until a kernel asks for it")]
    NobodysTurn { device: DeviceId },

    // Limits.
    #[error("{client} uses {used} on {device} and declared {declared}")]
    Overruns { client: ClientId, device: DeviceId, used: Bytes, declared: Bytes },
    #[error(
        "waits: {client} uses more than it declared, and its further tasks wait for {wait} before they enter the queue"
    )]
    Throttled { client: ClientId, wait: Nanos },
    #[error("refused: {wanted} wanted is more than the {limit} that uid {uid} may have")]
    UserMayNot { uid: u32, wanted: Bytes, limit: Bytes },
    #[error(
        "waits: {limit} tasks of uid {uid} are in the queue already, and it enters when one of them has left"
    )]
    UserQueues { uid: u32, limit: u32 },
    #[error("refused: {limit} tasks of uid {uid} wait already, the most allowed")]
    UserWaits { uid: u32, limit: u32 },
    #[error(
        "waits: the tasks of uid {uid} have {has}, and with {wanted} more they would have more than {limit}"
    )]
    UserFull { uid: u32, has: Bytes, wanted: Bytes, limit: Bytes },
    #[error(
        "refused: the tasks of uid {uid} have {has}, and with {wanted} more they would have more than {limit}"
    )]
    ExtendsBeyondUser { uid: u32, has: Bytes, wanted: Bytes, limit: Bytes },
    #[error("{task} has had {device} for {held}, and {limit} is the longest allowed")]
    Overstays { task: TaskId, device: DeviceId, held: Nanos, limit: Nanos },

    // The policy.
    #[error("decides again: it would have started the last {starts} tasks that case started")]
    Agrees { starts: u32 },
}

impl Reason {
    /// The number on the wire; 0 there means "none".
    pub const fn code(&self) -> u32 {
        match self {
            Reason::Fits { .. } => 1,
            Reason::NoRoom { .. } => 2,
            Reason::NoDevice => 3,
            Reason::TooLarge { .. } => 4,
            Reason::Behind { .. } => 5,
            Reason::StartsEagerly { .. } => 6,
            Reason::NoEagerPlace { .. } => 7,
            Reason::DevicesTaken => 8,
            Reason::ProposalDropped => 9,
            Reason::TooLittleToStart { .. } => 10,
            Reason::NoRoomForContext { .. } => 11,
            Reason::DevicesFull { .. } => 12,
            Reason::Assigned { .. } => 13,
            Reason::NoSlots { .. } => 14,
            Reason::BreaksCircle { .. } => 15,
            Reason::NotPast { .. } => 16,
            Reason::WouldDelay { .. } => 17,
            Reason::NoneSoon { .. } => 18,
            Reason::StartsEarly { .. } => 19,
            Reason::Grows { .. } => 20,
            Reason::Promoted { .. } => 21,
            Reason::Shrinks { .. } => 22,
            Reason::PromotedByShrinking { .. } => 23,
            Reason::Extends { .. } => 24,
            Reason::ExtendsOver { .. } => 25,
            Reason::ExtendTooLarge { .. } => 26,
            Reason::ExtendNotWhole { .. } => 27,
            Reason::NoWayOut { .. } => 28,
            Reason::ContextsIdle { .. } => 30,
            Reason::FewestPrograms { .. } => 31,
            Reason::StaysWithProgram { .. } => 32,
            Reason::NobodyToProtect { .. } => 40,
            Reason::AllHaveLaunched { .. } => 41,
            Reason::NotAllLaunched { .. } => 42,
            Reason::NormalBusy { .. } => 43,
            Reason::Idle { .. } => 44,
            Reason::WithinRatio { .. } => 45,
            Reason::OverRatio { .. } => 46,
            Reason::NoneAllowed { .. } => 47,
            Reason::HeldLongEnough { .. } => 48,
            Reason::NoLongerEager => 49,
            Reason::NoGate => 50,
            Reason::BarrierPassed => 51,
            Reason::NormalUnknown { .. } => 52,
            Reason::HasTurn { .. } => 53,
            Reason::NotItsTurn { .. } => 54,
            Reason::TurnOver { .. } => 55,
            Reason::NobodysTurn { .. } => 56,
            Reason::Restored { .. } => 57,
            Reason::Overruns { .. } => 58,
            Reason::Throttled { .. } => 59,
            Reason::UserMayNot { .. } => 60,
            Reason::UserWaits { .. } => 61,
            Reason::UserFull { .. } => 62,
            Reason::ExtendsBeyondUser { .. } => 63,
            Reason::Drained { .. } => 64,
            Reason::Held { .. } => 65,
            Reason::Cancelled { .. } => 66,
            Reason::Cut { .. } => 67,
            Reason::Overstays { .. } => 70,
            Reason::DeviceLost { .. } => 71,
            Reason::Agrees { .. } => 80,
            Reason::UserQueues { .. } => 90,
            Reason::AllOverRatio { .. } => 91,
            Reason::HasSlice { .. } => 92,
            Reason::OverMemoryLimit { .. } => 93,
        }
    }
}
