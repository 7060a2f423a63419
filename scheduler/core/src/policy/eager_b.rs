//! `EL_b` (specification S-211): `EL` with a barrier before the first kernel of an eager task, open once every
//! Normal task there has launched its last. A Normal task with long host work keeps the device idle behind it.

use super::{GateRule, PolicyDef, Traits, placement};

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "as under eager; an over-subscribed task's first kernel waits for the neighbours' last",
    source: "specification S-211",
    traits: Traits { gate: GateRule::Barrier, ..Traits::EAGER },
    place: placement::whole_or_eager,
};
