//! `EL_p_b` (specification S-212): priorities and barrier together.

use super::{GateRule, PolicyDef, Traits, placement};

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "as under eager, with eager-p's priorities and eager-b's barrier",
    source: "specification S-212",
    traits: Traits { priorities: true, gate: GateRule::Barrier, ..Traits::EAGER },
    place: placement::whole_or_eager,
};
