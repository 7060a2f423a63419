//! Memory-only admission after SchedGPU (specification S-116): a task starts when its memory fits, and what else runs
//! does not matter. SchedGPU knows one device and wakes every task that fits. With several devices, the first one with
//! room is taken, so the first device fills while the others idle.

use super::{PolicyDef, Traits, placement};
use crate::options::QueueOrder;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "on the first device where all that it asks for is free",
    source: "specification S-116",
    traits: Traits { queue: QueueOrder::Backfill, ..Traits::CASE },
    place: placement::whole_first_fit,
};
