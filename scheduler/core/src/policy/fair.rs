//! Memory as under `eager-live`, and a device's time by weight (specification S-133): one task at a time launches kernels,
//! for its share of a round; next is the one whose slice would end first in virtual time, of those that are not ahead of
//! their share (earliest eligible virtual deadline first; Stoica and Abdel-Wahab, 1995). An over-subscribed task is
//! charged for the time in which it pages.

use super::{GateRule, PolicyDef, Rounds, SliceLength, SliceOrder, Traits, eager_live};
use eager_units::Nanos;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "as under eager-live; there, time by nice value, with a bound on how far a task falls behind its share",
    source: "specification S-133",
    traits: Traits {
        gate: GateRule::Rounds(Rounds {
            in_flight: 1,
            while_saturated: false,
            length: SliceLength::Share,
            order: SliceOrder::EarliestDeadline,
        }),
        // One task at a time launches, so there is nothing for priorities to decide.
        priorities: false,
        short_hold_ns: None,
        hold_ns_max: Some(Nanos::from_secs(30)),
        ..eager_live::POLICY.traits
    },
    place: eager_live::POLICY.place,
};
