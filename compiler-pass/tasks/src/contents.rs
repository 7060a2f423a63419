//! Which calls use the *contents* of which buffer, and which buffers' pointers the analysis loses track of.
//!
//! Beyond the operands of a site, three kinds of pointers count: those in memory that is passed on, those that were
//! copied into device memory, and unknown ones, which may be any buffer's. Trap: a buffer with one overlooked use would
//! be given back too early. So whatever cannot be followed either keeps a buffer alive for good ([`Contents::kept`]) or
//! counts as a use of every buffer.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::names::{BufferId, ForeignBuffer, FunctionId, Place, Point, PointerId, ReloadBase};

/// Reason why the analysis cannot prove that a buffer's contents are not used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AliveReason {
    /// An unknown function or runtime call gets its pointer, or memory that holds its pointer.
    GivenTo {
        callee: String,
    },
    /// Its pointer lies where code outside the function may find it.
    Reachable {
        holder: ForeignBuffer,
    },
    Stored,
    Returned,
    /// The host may use managed memory, and other interfaces may use the memory that this call allocates.
    AllocatedBy {
        call: String,
    },
    KeptByKernel {
        kernel: Option<String>,
    },
    /// The function records a graph of calls, which may run at any later time.
    Graph,
    /// Code may run again through a jump that is not in the graph.
    Jump {
        callee: String,
    },
    TooManyPointers,
    /// Several of its allocations may be live at once.
    Repeated,
    /// Its pointer is in no variable of the function that its task belongs to.
    OutOfSight,
    /// It is used until the function is left.
    UsedToTheEnd,
    /// It may or may not have been freed, depending on the path to the point.
    FreedOnSomeWay,
}

impl std::fmt::Display for AliveReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::GivenTo { callee } => write!(f, "its pointer is passed to {callee}, which may keep it"),
            Self::Reachable { holder } => {
                write!(f, "its pointer is in {holder}, which other code may reach")
            }
            Self::Stored => f.write_str("its pointer is stored where it cannot be followed"),
            Self::Returned => f.write_str("its pointer is returned"),
            Self::AllocatedBy { call } if call.contains("Managed") => {
                f.write_str("the host may use managed memory at any time")
            }
            Self::AllocatedBy { call } => write!(f, "allocations by {call} are not tracked"),
            Self::KeptByKernel { kernel: Some(kernel) } => {
                write!(f, "the kernel {kernel} may keep its pointer")
            }
            Self::KeptByKernel { kernel: None } => f.write_str("an unknown kernel may keep its pointer"),
            Self::Graph => f.write_str("a graph that is being captured may use it later"),
            Self::Jump { callee } => write!(f, "{callee} may return a second time"),
            Self::TooManyPointers => f.write_str("the function has too many pointers to track"),
            Self::Repeated => f.write_str("several of its allocations may be live at once"),
            Self::OutOfSight => f.write_str("no variable of this function holds its pointer"),
            Self::UsedToTheEnd => f.write_str("it is used until the function ends"),
            Self::FreedOnSomeWay => f.write_str("it may already be freed on some path"),
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

/// How the function itself obtains a pointer that was just allocated. Points are points of that function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capture {
    /// An allocation in the function itself: the pointer is `*into`, if the call succeeds.
    Allocation { at: Point, into: PointerId },
    /// A call whose callee allocates the buffer: the pointer is what the location holds after the call, if it held
    /// something else before.
    Place { at: Point, base: ReloadBase, offset: i64 },
    /// A call of `function`, which allocates at `made` into its own `variable` and returns the value of that variable.
    /// The pointer is the call's result, provided the pass sets the variable to null before the allocation.
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

/// Everything that the planner needs to know about contents in one function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// In the order of their points.
    pub uses: Vec<ContentUse>,
    /// Buffers for which no point can be proven to be the last use.
    pub kept: BTreeMap<BufferId, (AliveReason, Option<Place>)>,
    /// Buffers that some call may use without an operand that points to them: the call finds a pointer in memory.
    pub indirect: BTreeSet<BufferId>,
    /// By buffer: one capture for each allocation; no entry if one of the allocations is out of sight.
    pub captures: BTreeMap<BufferId, Vec<Capture>>,
}
