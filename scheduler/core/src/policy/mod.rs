//! The policies: each one says where a task may go; the scheduler keeps queue, ledger, promotion and gates.
//!
//! Trap: a policy only proposes. It cannot touch the ledger, and a proposal that does not fit is dropped and counted.

mod case;
mod case_alg2;
mod case_fifo;
mod cg;
mod eager;
mod eager_b;
mod eager_fair;
mod eager_live;
mod eager_opt;
mod eager_p;
mod eager_pb;
pub mod faulty;
mod habits;
mod infinite;
mod name;
mod placement;
mod quanta;
mod sa;
mod schedgpu;
mod slots;

pub use habits::Habits;
pub use name::{NotForDevices, PolicyName, UnknownPolicy};
pub(crate) use placement::{most_free, no_room};

use crate::action::Class;
use crate::event::TaskRequest;
use crate::model::{Task, View};
use crate::options::{Options, QueueOrder};
use crate::reason::Reason;
use crate::units::{Bytes, DeviceId, Nanos};
use std::fmt::Debug;

/// What a policy says about one waiting task.
#[derive(Debug)]
pub(crate) enum Placement {
    Bind { device: DeviceId, grant: Bytes, reason: Reason },
    Wait(Reason),
}

/// When an eager task's kernels may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateRule {
    /// Always.
    None,
    /// The first one waits until every Normal task there has launched all its kernels (specification S-211).
    Barrier,
    /// Each one is judged (specification S-213 to S-216).
    PerKernel,
    /// The same, but what a Normal task has launched is waited for until it has ended (specification S-323).
    WhileIdle,
    /// Every task's kernels, eager or not, start only in the task's own time quantum on its device.
    Turns,
}

impl GateRule {
    /// Is what runs beside an eager task looked at kernel by kernel?
    pub fn judges_kernels(self) -> bool {
        matches!(self, GateRule::PerKernel | GateRule::WhileIdle)
    }
}

/// What the ledger makes of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRule {
    /// Grants never exceed it.
    Counted,
    /// Grants may exceed it, and what then happens is left to the driver: paging, or failed allocations.
    Ignored,
    /// Devices count as endless; for bounds in simulation only.
    Endless,
}

/// How a policy differs from the others outside of placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    pub queue: QueueOrder,
    /// Tasks of users who hold nothing are tried before all others.
    pub users_in_turn: bool,
    /// Whoever is first in line starts where there is room for all of it. Without it only an empty device has to take it:
    /// tasks or slots count as well.
    pub starts_by_room: bool,
    /// Starts tasks whose requirement does not fit.
    pub eager: bool,
    /// Of them only the first come that can run over-subscribed, and tasks of users who hold nothing.
    pub eager_in_turn: bool,
    /// An over-subscribed task that does not get its whole requirement leaves one of so many parts of the device free.
    pub eager_leaves: Option<u64>,
    /// Normal and promoted tasks launch on high-priority streams, eager ones on low (specification S-210).
    /// Without it all tasks use the same priority.
    pub priorities: bool,
    /// Of those with priorities: whole tasks that are expected to hold memory for longer launch on low-priority streams too.
    pub short_hold_ns: Option<Nanos>,
    pub gate: GateRule,
    /// A kernel that was held for so long goes ([`Options::hold_ns_max`]).
    pub hold_ns_max: Option<Nanos>,
    pub memory: MemoryRule,
    /// All memory is managed, also of tasks that have their whole requirement.
    pub managed: bool,
    /// A task that has waited for so long is passed only by those who leave it room, and by users who hold nothing.
    pub overtake_ns: Option<Nanos>,
    /// Of an eager policy: only when nobody who waits fits anywhere.
    pub last_resort: bool,
    /// Whoever starts must not delay the first of the queue.
    pub reserve_head: bool,
    /// While tasks keep coming ([`Options::stream_ns`]), or more wait than what the longest of them takes, there is neither
    /// last resort nor reservation.
    pub heeds_streams: bool,
    /// What programs do about memory that the device does not need.
    pub habits: Habits,
    /// The same for those that come while a program is connected, or was lately, whose memory does not come by name.
    pub habits_in_company: Option<Habits>,
}

impl Traits {
    /// What CASE does; the other policies say what they do differently.
    pub const CASE: Traits = Traits {
        queue: QueueOrder::LargestFirst,
        users_in_turn: false,
        starts_by_room: true,
        eager: false,
        eager_in_turn: false,
        eager_leaves: None,
        priorities: false,
        short_hold_ns: None,
        gate: GateRule::None,
        hold_ns_max: None,
        memory: MemoryRule::Counted,
        managed: false,
        last_resort: false,
        overtake_ns: None,
        reserve_head: false,
        heeds_streams: false,
        habits: Habits::PLAIN,
        habits_in_company: None,
    };
    /// What eager launch does before anything protects the Normal tasks.
    pub const EAGER: Traits = Traits { queue: QueueOrder::Fifo, eager: true, ..Traits::CASE };

    /// It can start what is larger than every device. A promotion that is to come soon is never predicted for that.
    pub fn starts_larger(&self) -> bool {
        self.eager && !self.last_resort
    }

    /// Who may start also depends on how long others have waited, or are expected to run.
    pub(crate) fn looks_at_the_clock(&self) -> bool {
        self.overtake_ns.is_some() || self.reserve_head || self.last_resort
    }

    /// Decisions depend on what tasks are expected to take.
    pub fn uses_estimates(&self) -> bool {
        self.queue == QueueOrder::LongestRemaining || self.reserve_head || (self.eager && self.last_resort)
    }

    /// The memory of tasks that have all they asked for is managed, so that what the device is done with can be evicted.
    /// Where dead memory is given back, nothing of them has to be.
    pub fn manages_normal_tasks(&self, options: &Options) -> bool {
        self.managed || (self.eager && options.managed_normal_tasks && !self.habits.release_dead)
    }

    /// Does such a task launch on high-priority streams? There are two levels, and long tasks share the low one with eager
    /// ones; so only those that never run eagerly themselves are put there.
    pub fn is_urgent(&self, class: Class, request: &TaskRequest) -> bool {
        let limits = self.short_hold_ns.zip(request.estimate);
        let is_long = limits.is_some_and(|(short, estimate)| estimate.hold > short);
        self.priorities && class != Class::Eager && !(is_long && request.whole)
    }

    /// The policy's traits with what the options set in their place.
    pub fn under(self, options: &Options) -> Traits {
        let never = self.last_resort && options.eager_promotion_within_ns == Nanos(0);
        Traits {
            queue: options.queue.unwrap_or(self.queue),
            eager: self.eager && !never,
            overtake_ns: options.overtake_ns.or(self.overtake_ns),
            reserve_head: options.reserve_head.unwrap_or(self.reserve_head),
            short_hold_ns: options.short_hold_ns.or(self.short_hold_ns),
            hold_ns_max: options.hold_ns_max.or(self.hold_ns_max),
            habits: self.habits.under(options),
            habits_in_company: self.habits_in_company.map(|habits| habits.under(options)),
            ..self
        }
    }
}

pub(crate) trait Policy: Debug + Send {
    fn traits(&self) -> Traits;
    /// Where the task goes, if anywhere. Called with at least one device present.
    fn place(&self, view: View<'_>, task: &Task) -> Placement;
    /// What is wrong with it, in tests that want it so.
    fn fault(&self) -> Option<faulty::Fault> {
        None
    }
}

/// The policy as a journal names it.
pub(crate) fn with_fault(name: PolicyName, fault: Option<faulty::Fault>) -> Box<dyn Policy> {
    fault.map_or_else(|| of(name), |fault| Box::new(faulty::Faulty(fault)))
}

pub(crate) fn of(name: PolicyName) -> Box<dyn Policy> {
    match name {
        PolicyName::Case => Box::new(case::Case),
        PolicyName::CaseAlg2 => Box::new(case_alg2::CaseAlg2),
        PolicyName::CaseFifo => Box::new(case_fifo::CaseFifo),
        PolicyName::Eager => Box::new(eager::Eager),
        PolicyName::EagerP => Box::new(eager_p::EagerP),
        PolicyName::EagerB => Box::new(eager_b::EagerB),
        PolicyName::EagerPb => Box::new(eager_pb::EagerPb),
        PolicyName::EagerOpt => Box::new(eager_opt::EagerOpt),
        PolicyName::EagerLive => Box::new(eager_live::EagerLive),
        PolicyName::EagerFair => Box::new(eager_fair::EagerFair),
        PolicyName::Sa => Box::new(sa::Sa),
        PolicyName::Cg => Box::new(cg::Cg),
        PolicyName::SchedGpu => Box::new(schedgpu::SchedGpu),
        PolicyName::Quanta => Box::new(quanta::Quanta),
        PolicyName::Infinite => Box::new(infinite::Infinite),
    }
}
