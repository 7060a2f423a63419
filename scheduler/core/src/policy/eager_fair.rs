//! Places each task by what is known of it (specification S-322). Tasks that fit start, the longest first, those of
//! users who hold nothing before all others. Only the first task in order of arrival that can run over-subscribed
//! starts so, and tasks of users who hold nothing. Where all programs are informed, their memory comes by name, as
//! under `eager-live`; otherwise they only give dead memory back early.
//!
//! Trap: a task that must have its memory whole gets none while others take all that is free over-subscribed. So memory
//! comes by name only while no uninformed program is connected or was lately.

use super::{GateRule, Placement, PolicyDef, Traits, placement};
use crate::model::{Task, View};
use crate::options::QueueOrder;
use eager_units::{Habits, Nanos};

/// An over-subscribed task leaves one of this many parts of its device to others (specification S-327).
const LEAVES_ONE_OF: u64 = 8;

/// Rules by which users and programs of different kinds share devices; no other policy has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// Tasks of users who hold nothing are tried before all others.
    pub users_in_turn: bool,
    /// Under an eager policy: only the first task in order of arrival that can run over-subscribed starts so, and tasks
    /// of users who hold nothing.
    pub eager_in_turn: bool,
    /// An over-subscribed task that does not get its whole requirement leaves one of this many parts of its device
    /// free.
    pub eager_leaves: Option<u64>,
    /// Habits of programs that connect while there is, or lately was, a program whose memory does not come by name.
    pub habits_in_company: Option<Habits>,
}

impl Sharing {
    /// None of these rules.
    pub const NONE: Sharing =
        Sharing { users_in_turn: false, eager_in_turn: false, eager_leaves: None, habits_in_company: None };
}

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "as under case; else over-subscribed if it came first, or its user holds nothing",
    source: "specification S-322 to S-324",
    traits: Traits {
        queue: QueueOrder::LongestRemaining,
        eager: true,
        sharing: Sharing {
            // specification S-324
            users_in_turn: true,
            eager_in_turn: true,
            eager_leaves: Some(LEAVES_ONE_OF),
            // specification S-326
            habits_in_company: Some(Habits { release_dead: true, fast_copies: true, ..Habits::PLAIN }),
        },
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
        ..Traits::CASE
    },
    place,
};

fn place(view: View<'_>, task: &Task) -> Placement {
    placement::whole_or_eager_leaving(view, task, Some(LEAVES_ONE_OF))
}
