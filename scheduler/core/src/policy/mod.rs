//! The policies: each decides where a task may go; the scheduler keeps queue, ledger, promotion and gates. A policy is
//! one file here with its [`PolicyDef`], and one row of the table in `table.rs`.
//!
//! A policy only proposes. It cannot touch the ledger, and a proposal that does not fit is dropped and counted.

mod case;
mod case_alg2;
mod case_fifo;
mod cg;
mod contention;
mod eager;
mod eager_b;
mod eager_fair;
mod eager_live;
mod eager_opt;
mod eager_p;
mod eager_pb;
mod fair;
#[cfg(feature = "test-tools")]
pub mod faulty;
#[cfg(not(feature = "test-tools"))]
#[path = "faultless.rs"]
pub(crate) mod faulty;
mod gcfs;
mod infinite;
mod placement;
mod quanta;
mod rounds;
mod sa;
mod scatter;
mod schedgpu;
mod slots;
mod spread;
pub(crate) mod table;

pub use eager_fair::Sharing;
pub(crate) use placement::{most_free, no_room};
pub use rounds::{Rounds, SliceLength, SliceOrder};
pub use table::{PolicyName, UnknownPolicy};

use crate::event::TaskRequest;
use crate::model::{Task, View};
use crate::options::{Options, QueueOrder};
use crate::reason::Reason;
use eager_units::{Bytes, Class, DeviceId, Habits, Nanos};
use std::fmt::{Debug, Write as _};

/// A policy's proposal for one waiting task.
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
    /// Each one is judged, and what Normal tasks have launched is waited for until it has ended (specification S-323).
    WhileIdle,
    /// Every task's kernels, eager or not, start only in the task's own slices of its device's time.
    Rounds(Rounds),
}

impl GateRule {
    /// True if kernels of eager tasks are judged one by one.
    pub fn judges_kernels(self) -> bool {
        matches!(self, GateRule::PerKernel | GateRule::WhileIdle)
    }
}

/// How the ledger treats a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRule {
    /// Grants never exceed it.
    Counted,
    /// Grants may exceed it, and allocations that find no memory fail.
    Ignored,
    /// Grants may exceed it: all memory is managed, even that of tasks that have their whole requirement, and the
    /// driver pages.
    Paged,
    /// Devices count as if their memory had no limit; for bounds in simulation only.
    Endless,
}

/// What a device is given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// Each task by itself, until the task ends.
    Tasks,
    /// One program, from its first request until it ends; all its tasks run there.
    OneProgram,
    /// As [`Assignment::OneProgram`], but to [`Options::programs_per_device`] programs.
    SomePrograms,
}

impl Assignment {
    pub fn is_by_program(self) -> bool {
        self != Assignment::Tasks
    }

    /// The most programs that a device may have at once; None if devices are given to tasks.
    pub fn programs_per_device(self, options: &Options) -> Option<u32> {
        match self {
            Assignment::Tasks => None,
            Assignment::OneProgram => Some(1),
            Assignment::SomePrograms => Some(options.programs_per_device),
        }
    }
}

/// How a policy differs from the others outside of placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    pub queue: QueueOrder,
    /// The first task in line starts where there is room for all of it. If false, only an empty device must take it,
    /// since programs or slots count as well.
    pub starts_by_room: bool,
    pub assignment: Assignment,
    /// Starts tasks whose requirement does not fit.
    pub eager: bool,
    /// How users and programs of different kinds share devices.
    pub sharing: Sharing,
    /// Normal and promoted tasks launch on high-priority streams, eager ones on low (specification S-210).
    /// Without it all tasks use the same priority.
    pub priorities: bool,
    /// With priorities: tasks that must run whole and are expected to hold memory for longer than this launch on
    /// low-priority streams too.
    pub short_hold_ns: Option<Nanos>,
    pub gate: GateRule,
    /// A kernel that was held for this long is let through ([`Options::hold_ns_max`]).
    pub hold_ns_max: Option<Nanos>,
    pub memory: MemoryRule,
    /// A task that has waited for this long is passed only by tasks that leave it room, and by users who hold nothing.
    pub overtake_ns: Option<Nanos>,
    /// Under an eager policy: over-subscribed starts only when no waiting task fits on any device. While tasks keep
    /// arriving ([`Options::stream_ns`]), or so many wait that together they take longer than the longest of them,
    /// there is neither last resort nor reservation.
    pub last_resort: bool,
    /// A task that starts must not delay the first of the queue.
    pub reserve_head: bool,
    /// Habits of programs with memory that the device does not need.
    pub habits: Habits,
}

impl Traits {
    /// Traits of CASE; the other policies state their differences.
    pub const CASE: Traits = Traits {
        queue: QueueOrder::LargestFirst,
        starts_by_room: true,
        assignment: Assignment::Tasks,
        eager: false,
        sharing: Sharing::NONE,
        priorities: false,
        short_hold_ns: None,
        gate: GateRule::None,
        hold_ns_max: None,
        memory: MemoryRule::Counted,
        last_resort: false,
        overtake_ns: None,
        reserve_head: false,
        habits: Habits::PLAIN,
    };
    /// Traits of eager launch before anything protects the Normal tasks.
    pub const EAGER: Traits = Traits { queue: QueueOrder::Fifo, eager: true, ..Traits::CASE };

    /// True if the policy can start tasks larger than every device. Last-resort policies cannot: for such a task, the
    /// promotion that they require is never predicted.
    pub fn starts_larger(&self) -> bool {
        self.eager && !self.last_resort
    }

    /// True if starts also depend on how long tasks have waited, or are expected to run.
    pub(crate) fn looks_at_the_clock(&self) -> bool {
        self.overtake_ns.is_some() || self.reserve_head || self.last_resort
    }

    /// The rounds that the policy's tasks take, if they do.
    pub fn rounds(&self) -> Option<Rounds> {
        match self.gate {
            GateRule::Rounds(rounds) => Some(rounds),
            _ => None,
        }
    }

    /// True if tasks are charged for their devices' time, and have shares of it.
    pub fn shares_time(&self) -> bool {
        self.rounds().is_some_and(Rounds::are_charged)
    }

    /// True if decisions depend on the estimates of tasks.
    pub fn uses_estimates(&self) -> bool {
        self.queue == QueueOrder::LongestRemaining || self.reserve_head || (self.eager && self.last_resort)
    }

    /// True if tasks that have all they asked for use managed memory, so that buffers which the device no longer uses
    /// can be evicted. Where dead memory is given back, none of theirs has to be.
    pub fn manages_normal_tasks(&self, options: &Options) -> bool {
        self.memory == MemoryRule::Paged
            || (self.eager && options.managed_normal_tasks && !self.habits.release_dead)
    }

    /// True if such a task launches on high-priority streams. There are two levels, and long tasks share the low one
    /// with eager ones; so only tasks that never run eagerly themselves are put there.
    pub fn is_urgent(&self, class: Class, request: &TaskRequest) -> bool {
        let limits = self.short_hold_ns.zip(request.estimate);
        let is_long = limits.is_some_and(|(short, estimate)| estimate.hold > short);
        self.priorities && class != Class::Eager && !(is_long && request.whole)
    }

    /// The policy's traits, with those that the options override.
    pub fn under(self, options: &Options) -> Traits {
        let never = self.last_resort && options.eager_promotion_within_ns == Nanos(0);
        Traits {
            queue: options.queue.unwrap_or(self.queue),
            eager: self.eager && !never,
            overtake_ns: options.overtake_ns.or(self.overtake_ns),
            reserve_head: options.reserve_head.unwrap_or(self.reserve_head),
            short_hold_ns: options.short_hold_ns.or(self.short_hold_ns),
            hold_ns_max: options.hold_ns_max.or(self.hold_ns_max),
            gate: match self.gate {
                GateRule::Rounds(rounds) => GateRule::Rounds(rounds.under(options)),
                gate => gate,
            },
            habits: habits_under(self.habits, options),
            sharing: Sharing {
                habits_in_company: self.sharing.habits_in_company.map(|habits| habits_under(habits, options)),
                ..self.sharing
            },
            ..self
        }
    }
}

/// The habits, with those that the options override.
fn habits_under(habits: Habits, options: &Options) -> Habits {
    Habits {
        release_dead: options.release_dead.unwrap_or(habits.release_dead),
        late_reservation: options.late_reservation.unwrap_or(habits.late_reservation),
        early_copies: options.early_copies.unwrap_or(habits.early_copies),
        live_requirement: options.live_requirement.unwrap_or(habits.live_requirement),
        fast_copies: options.fast_copies.unwrap_or(habits.fast_copies),
    }
}

/// A policy: its description and its rules.
#[derive(Debug)]
pub struct PolicyDef {
    /// Where and when it starts a task: the end of the sentence "a task starts …".
    pub about: &'static str,
    /// Source of its rules.
    pub source: &'static str,
    pub traits: Traits,
    /// Decides where the task goes, if anywhere. Called with at least one device present.
    pub(crate) place: fn(View<'_>, &Task) -> Placement,
}

table::definitions!();

/// The policy is for simulation only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{policy} is for simulation only: it grants more memory than devices have")]
pub struct NotForDevices {
    pub policy: PolicyName,
}

impl PolicyName {
    /// Description and rules of the policy.
    pub const fn def(self) -> &'static PolicyDef {
        definition(self)
    }

    /// Traits of the policy; shim and simulator need those about priorities and gates.
    pub fn traits(self) -> Traits {
        self.def().traits
    }

    /// Returns the policy itself, if it may be used outside of simulation.
    ///
    /// # Errors
    /// The policy is a bound for simulation.
    pub fn for_devices(self) -> Result<PolicyName, NotForDevices> {
        let is_bound = self.def().traits.memory == MemoryRule::Endless;
        if is_bound { Err(NotForDevices { policy: self }) } else { Ok(self) }
    }

    /// The policies that may be used outside of simulation.
    pub fn all_for_devices() -> Vec<PolicyName> {
        Self::ALL.into_iter().filter(|policy| policy.for_devices().is_ok()).collect()
    }

    /// Help text of a program: one line for each policy, with where it starts a task.
    pub fn help(policies: &[PolicyName]) -> String {
        policies.iter().fold(String::new(), |mut help, policy| {
            let _ = write!(help, "\n- {policy}: {}", policy.def().about);
            help
        })
    }
}

/// The policy that decides: one of the table, or a faulty one in its place for a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    def: &'static PolicyDef,
    pub fault: Option<faulty::Fault>,
}

impl Policy {
    pub fn of(name: PolicyName) -> Policy {
        Policy::with_fault(name, None)
    }

    /// The policy of this name, or a faulty one in its place.
    pub fn with_fault(name: PolicyName, fault: Option<faulty::Fault>) -> Policy {
        Policy { def: name.def(), fault }
    }

    /// Traits of the policy; a faulty one has those of `case`.
    pub fn traits(self) -> Traits {
        if self.fault.is_some() { Traits::CASE } else { self.def.traits }
    }

    pub fn place(self, view: View<'_>, task: &Task) -> Placement {
        match self.fault {
            Some(fault) => faulty::place(fault, view, task),
            None => (self.def.place)(view, task),
        }
    }
}
