//! A bound for simulation: CASE on devices whose memory never ends (specification S-118). Not for real devices, which
//! it would over-commit.

use super::{MemoryRule, PolicyDef, Traits, placement};

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "always, as if device memory had no end; a bound, for simulation only",
    source: "specification S-118",
    traits: Traits { memory: MemoryRule::Endless, ..Traits::CASE },
    place: placement::whole_or_wait,
};
