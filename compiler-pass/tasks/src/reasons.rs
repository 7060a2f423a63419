//! Reasons why a task is left to the shim, and their texts.
//!
//! Trap: tests and users match these texts. A reason names something that the user can change.

use serde::{Deserialize, Serialize};

use crate::facts::EscapeKind;
use crate::names::ForeignBuffer;

/// Reason why a task is left to the shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LazyReason {
    ForeignBuffer { buffer: ForeignBuffer },
    ForeignAllocation { into: ForeignBuffer },
    Escape { kind: EscapeKind },
    Outlives { holder: ForeignBuffer },
    NoLaunchHere,
    NoAllocationHere,
    AllocationInLoop,
    AllocationInRecursion,
    SizeKnownLate { leaf: String },
    SizeUnknown { call: String },
    PartlyConditional,
    TooLarge,
    Unreachable,
}

impl LazyReason {
    /// Whether compiling all sources with `-flto` may remove this reason.
    #[must_use]
    pub fn may_be_seen_whole(&self) -> bool {
        match self {
            Self::ForeignBuffer { buffer: foreign } | Self::ForeignAllocation { into: foreign } => {
                matches!(
                    foreign,
                    ForeignBuffer::Argument | ForeignBuffer::CallResult | ForeignBuffer::Global { .. }
                )
            }
            Self::Escape { kind: EscapeKind::Call { callee } | EscapeKind::Reachable { callee } } => {
                !callee.contains(' ')
            }
            Self::Escape { kind: EscapeKind::Returned } | Self::Outlives { .. } => true,
            _ => false,
        }
    }
}

impl std::fmt::Display for LazyReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ForeignBuffer { buffer } => write!(f, "a kernel gets a buffer that comes from {buffer}"),
            Self::ForeignAllocation { into } => write!(f, "an allocation writes its pointer to {into}"),
            Self::Escape { kind: EscapeKind::Call { callee } } => {
                write!(f, "a device pointer is passed to {callee}, which may launch, allocate or free")
            }
            Self::Escape { kind: EscapeKind::Reachable { callee } } => {
                write!(f, "{callee} runs while other code may reach a device pointer")
            }
            Self::Escape { kind: EscapeKind::Ambiguous } => {
                f.write_str("an allocation writes its pointer to one of several variables")
            }
            Self::Escape { kind: EscapeKind::Stored } => {
                f.write_str("a device pointer is stored outside the function")
            }
            Self::Escape { kind: EscapeKind::Returned } => f.write_str("a device pointer is returned"),
            Self::Outlives { holder } => {
                write!(f, "a device pointer in {holder} is used across calls of the function")
            }
            Self::NoLaunchHere => f.write_str("no kernel in this function uses the buffer"),
            Self::NoAllocationHere => f.write_str("the buffers are not allocated in this function"),
            Self::AllocationInLoop => f.write_str("a buffer is allocated in a loop"),
            Self::AllocationInRecursion => f.write_str("a buffer is allocated in a recursive function"),
            Self::SizeKnownLate { leaf } => {
                write!(f, "a size is not known before the first allocation: it depends on {leaf}")
            }
            Self::SizeUnknown { call } => write!(f, "the size that {call} allocates cannot be computed"),
            Self::PartlyConditional => {
                f.write_str("a copy or free also runs on paths without the allocations")
            }
            Self::TooLarge => {
                f.write_str("the function and the functions that it calls are too large to be planned")
            }
            Self::Unreachable => f.write_str("its code cannot be reached"),
        }
    }
}

impl std::fmt::Display for ForeignBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Argument => f.write_str("an argument of the function"),
            Self::Global { name } => write!(f, "the global {name}"),
            Self::CallResult => f.write_str("the result of a call"),
            Self::Memory => f.write_str("memory that other code may write"),
        }
    }
}
