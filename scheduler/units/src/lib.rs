//! Terms that several parts share: ids, bytes, times, classes of tasks and of access, habits; and how each is shown to
//! people.
//!
//! Trap: journals, state files, profiles and JSON hold these; a serialized name that changes makes them unreadable.
#![forbid(unsafe_code)]

mod class;
mod habits;
pub mod shown;
mod size;
mod terms;
mod units;

pub use class::{AccessClass, Barred, Class};
pub use habits::Habits;
pub use size::{BadSize, Size};
pub use terms::Terms;
pub use units::{Bytes, ClientId, DeviceId, Nanos, TaskId};
