//! `EL_opt` (specification S-216): `EL_p_b` with both remedies. An eager kernel starts when every Normal task on its
//! device has launched its last, or when none of their kernels runs and the OS-ratio with the kernel's footprint stays
//! within the limit. How the document joins the two remedies is reconstructed; the rule is in `gate.rs`.

use super::{GateRule, PolicyDef, Traits, placement};

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "as under eager-p; each kernel of an over-subscribed task is judged by what it touches",
    source: "specification S-216",
    traits: Traits { priorities: true, gate: GateRule::PerKernel, ..Traits::EAGER },
    place: placement::whole_or_eager,
};
