//! The product's place of `faulty.rs`, which only tests have: no policy has a defect on purpose.
//!
//! Trap: an image of a scheduler has room for a defect in every build. A journal in which there is one is of a test, and
//! the product refuses to read it.

use super::Placement;
use crate::model::{Task, View};
use serde::{Deserialize, Serialize};

/// None.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {}

pub(super) fn place(fault: Fault, _view: View<'_>, _task: &Task) -> Placement {
    match fault {}
}
