//! CASE (specification S-110) as its authors run it: a task waits until its whole requirement fits; at each release
//! every waiting task is tried again, largest first. It backfills, so a large task can be overtaken without bound.

use super::{PolicyDef, Traits, placement};

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "where all that it asks for is free, on the device with the fewest warps in use",
    source: "specification S-110, S-111",
    traits: Traits::CASE,
    place: placement::whole_or_wait,
};
