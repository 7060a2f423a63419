//! `EL` (specification S-204): start on what is free when the whole requirement is free nowhere. Nothing
//! protects the Normal tasks on the device, so two large tasks can slow each other down many times.

use super::{PolicyDef, Traits, placement};

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "as under case, else over-subscribed on the device with the most free memory; can thrash",
    source: "specification S-204",
    traits: Traits::EAGER,
    place: placement::whole_or_eager,
};
