//! Classes of tasks and of kernel accesses, and the devices that a task may not have.

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

/// How a kernel accesses a set of buffers; decides what over-subscription costs (specification S-321).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessClass {
    #[default]
    Unknown,
    /// Each byte once.
    OnePass,
    /// The same bytes again in later launches: over-subscribed, each launch misses all of them.
    Cyclic,
    /// Few bytes of a large buffer.
    Sparse,
}

impl AccessClass {
    /// True if paging can keep up with the access, so that a device may hold less than the kernel uses.
    pub fn streams(self) -> bool {
        matches!(self, AccessClass::OnePass | AccessClass::Sparse)
    }
}

/// Devices that a task may not have, one bit for each number; a device without a bit is never barred.
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
