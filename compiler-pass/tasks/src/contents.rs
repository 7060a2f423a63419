//! Which calls use the *contents* of which buffer, and whose pointer the analysis loses sight of.
//!
//! More than a site's operands counts here: pointers that lie in memory which is passed on, pointers that were copied
//! into device memory, and pointers of which nothing is known, which may be any buffer's. Trap: a buffer of which one use
//! is overlooked would be given back too early, so whatever is not followed keeps a buffer alive for good
//! ([`Contents::kept`]) or counts as a use of every buffer.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::names::{BufferId, ForeignBuffer, FunctionId, Place, Point, PointerId, ReloadBase};

/// Why it cannot be shown that a buffer's contents are not used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AliveReason {
    /// A function or runtime call that is not known gets its pointer, or memory that it lies in.
    GivenTo {
        callee: String,
    },
    /// Its pointer lies where other code may find it.
    Reachable {
        holder: ForeignBuffer,
    },
    Stored,
    Returned,
    /// The host may use managed memory, and other interfaces may use what this call allocates.
    AllocatedBy {
        call: String,
    },
    KeptByKernel {
        kernel: Option<String>,
    },
    /// The function records a graph of calls, which may run at any later time.
    Graph,
    /// Code may run again through a jump that the graph does not have.
    Jump {
        callee: String,
    },
    TooManyPointers,
    /// Several allocations of it may be there at once.
    Repeated,
    /// Its pointer is in no variable of the function that its task belongs to.
    OutOfSight,
    /// It is used until the function is left.
    UsedToTheEnd,
    /// On one way to the same point it may have been freed, on another not.
    FreedOnSomeWay,
}

impl std::fmt::Display for AliveReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::GivenTo { callee } => write!(f, "its pointer is given to {callee}, which may keep it"),
            Self::Reachable { holder } => {
                write!(f, "its pointer lies in {holder}, where other code may find it")
            }
            Self::Stored => f.write_str("its pointer is stored where it cannot be followed"),
            Self::Returned => f.write_str("its pointer is returned"),
            Self::AllocatedBy { call } if call.contains("Managed") => {
                f.write_str("the host may use managed memory at any time")
            }
            Self::AllocatedBy { call } => write!(f, "what {call} allocates is not followed"),
            Self::KeptByKernel { kernel: Some(kernel) } => {
                write!(f, "the kernel {kernel} may keep its pointer")
            }
            Self::KeptByKernel { kernel: None } => {
                f.write_str("a kernel that is not known may keep its pointer")
            }
            Self::Graph => f.write_str("a graph that is recorded may use it later"),
            Self::Jump { callee } => write!(f, "{callee} may return a second time"),
            Self::TooManyPointers => f.write_str("the function has more pointers than are followed"),
            Self::Repeated => f.write_str("several allocations of it may be there at once"),
            Self::OutOfSight => f.write_str("its pointer is in no variable of this function"),
            Self::UsedToTheEnd => f.write_str("it is used until the function is left"),
            Self::FreedOnSomeWay => f.write_str("it may have been freed before on some way"),
        }
    }
}

/// One call that uses the contents of buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentUse {
    pub at: Point,
    pub place: Option<Place>,
    pub buffers: Vec<BufferId>,
}

/// How the function itself gets hold of a pointer that was just allocated. Points are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capture {
    /// An allocation: if it gives success, what `*into` holds then.
    Allocation { at: Point, into: PointerId },
    /// A call in which it is allocated: what the place holds behind it, if it held something else before.
    Place { at: Point, base: ReloadBase, offset: i64 },
    /// A call of `function`, which allocates at `made` into its own `variable` and returns what that holds: the result, if
    /// the variable is set to null before the allocation.
    Returned { at: Point, function: FunctionId, made: Point, variable: PointerId },
}

impl Capture {
    #[must_use]
    pub fn at(self) -> Point {
        match self {
            Self::Allocation { at, .. } | Self::Place { at, .. } | Self::Returned { at, .. } => at,
        }
    }
}

/// Everything about contents that the planner needs to know of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// In the order of their points.
    pub uses: Vec<ContentUse>,
    /// Buffers that no point can be shown to be the last use of.
    pub kept: BTreeMap<BufferId, (AliveReason, Option<Place>)>,
    /// Buffers that some call may use without being given a pointer to them itself: it finds one in memory.
    pub indirect: BTreeSet<BufferId>,
    /// By buffer: one for each allocation; none if one of them is out of sight.
    pub captures: BTreeMap<BufferId, Vec<Capture>>,
}
