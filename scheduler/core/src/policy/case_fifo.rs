//! CASE with the queue of the published eager prototype (specification S-113): while the first waiting task does not
//! fit, no task behind it starts. A weaker baseline than `case`: state which of the two a comparison is against.

use super::{PolicyDef, Traits, placement};
use crate::options::QueueOrder;

pub(super) const POLICY: PolicyDef = PolicyDef {
    about: "as under case, but strictly in order of arrival",
    source: "specification S-113",
    traits: Traits { queue: QueueOrder::Fifo, ..Traits::CASE },
    place: placement::whole_or_wait,
};
