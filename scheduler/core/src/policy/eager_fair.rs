//! Each task by what is known of it (specification S-322). What fits starts, the longest first, users who hold
//! nothing before all others; over-subscribed starts only the first come that can, or whose user holds nothing. Where all
//! programs are informed, their memory comes by name, as under `eager-live`; in mixed company they only give dead memory
//! back early.
//!
//! Trap: a task that must have its memory whole gets none while others take all that is free over-subscribed. So memory comes
//! by name only while no uninformed program is about.

use super::{GateRule, Habits, Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use crate::units::Nanos;

/// Of the parts of a device that an over-subscribed task may take, this many leave one to others (specification S-327).
const LEAVES_ONE_OF: u64 = 8;

#[derive(Debug)]
pub(super) struct EagerFair;

impl Policy for EagerFair {
    fn traits(&self) -> Traits {
        Traits {
            queue: QueueOrder::LongestRemaining,
            // specification S-324
            users_in_turn: true,
            eager: true,
            eager_in_turn: true,
            eager_leaves: Some(LEAVES_ONE_OF),
            // specification S-319
            short_hold_ns: Some(Nanos::from_secs(3)),
            priorities: true,
            // specification S-323
            gate: GateRule::WhileIdle,
            // specification S-325
            hold_ns_max: Some(Nanos::from_secs(30)),
            // specification S-314
            overtake_ns: Some(Nanos::from_secs(60)),
            habits: Habits::LIVE,
            // specification S-326
            habits_in_company: Some(Habits { release_dead: true, fast_copies: true, ..Habits::PLAIN }),
            ..Traits::CASE
        }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager_leaving(view, task, Some(LEAVES_ONE_OF))
    }
}
