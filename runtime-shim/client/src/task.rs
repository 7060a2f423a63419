//! The name of a task. Trap: a slot is used again by later tasks, so a slot alone does not name one.

pub use eager_proto::request::Slot;

/// A task of this process; never reused, unlike its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskKey {
    pub slot: Slot,
    pub generation: u64,
}
