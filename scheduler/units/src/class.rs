//! What is said of a task and of a kernel: how it runs, how it goes through memory, which devices it may not have.

use crate::DeviceId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a bound task runs: `G` is its grant, `M` its requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// `G = M`.
    Normal,
    /// `G < M`.
    Eager,
    /// Was eager; now `G = M`.
    Promoted,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Class::Normal => "normal",
            Class::Eager => "eager",
            Class::Promoted => "promoted",
        })
    }
}

/// How a buffer set is used; decides what over-subscription costs (specification S-321).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessClass {
    #[default]
    Unknown,
    /// Each byte once.
    OnePass,
    /// The same bytes again by later launches: over-subscribed, it misses everything each time.
    Cyclic,
    /// Few bytes of a large buffer.
    Sparse,
}

impl AccessClass {
    /// Whether paging can keep up with it, so that a device is allowed more of it than it holds.
    pub fn streams(self) -> bool {
        matches!(self, AccessClass::OnePass | AccessClass::Sparse)
    }
}

/// Devices that a task may not have, by bits of their numbers; a device without a bit is never barred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Barred(pub u64);

impl Barred {
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    pub fn has(self, DeviceId(device): DeviceId) -> bool {
        self.0.checked_shr(device).is_some_and(|bits| bits & 1 == 1)
    }
}
