//! `EL_p` (specification S-210): `EL` with Normal tasks on high-priority streams. Across processes the priority works
//! only under MPS (S-511); it orders the use of SMs and has no effect on paging.

use super::{PolicyDef, Traits, placement};

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "as under eager; kernels of normal tasks on streams of high priority",
    source: "specification S-210",
    traits: Traits { priorities: true, ..Traits::EAGER },
    place: placement::whole_or_eager,
};
