//! Each task by what is known of it (specification S-322). What fits starts, the longest first, users who hold
//! nothing before all others; over-subscribed starts only who came first, or whose user holds nothing. Programs of which
//! the compiler proved what is dead give it back early.
//!
//! Trap: memory does not come by name here, although programs that the compiler sees through could do that: a task that must
//! have its memory whole gets none while others take all that is free over-subscribed.

use super::{GateRule, Habits, Placement, Policy, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use crate::units::Nanos;

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
            priorities: true,
            // specification S-323
            gate: GateRule::WhileIdle,
            // specification S-314
            overtake_ns: Some(Nanos::from_secs(60)),
            habits: Habits { release_dead: true, fast_copies: true, ..Habits::PLAIN },
            ..Traits::CASE
        }
    }

    fn place(&self, view: View<'_>, task: &Task) -> Placement {
        placement::whole_or_eager(view, task)
    }
}
