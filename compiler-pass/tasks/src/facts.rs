//! What one function does with the device, as plain data: its control-flow graph and its GPU call sites.
//!
//! Positions count the instructions of a block from 0; a point stands *before* the instruction at its position. Trap: a
//! call may be the last instruction of its block (C++ code that can unwind), so there is not always a point after it in
//! the same block.

use serde::{Deserialize, Serialize};

use crate::expr::Expr;

/// Index into [`Facts::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockId(pub u32);

/// Index into [`Facts::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub u32);

/// Index into [`Facts::leaves`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeafId(pub u32);

impl BlockId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    #[must_use]
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("a function has fewer than 2^32 blocks"))
    }
}

impl BufferId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl LeafId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Before the instruction at `position` of `block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    pub block: BlockId,
    pub position: u32,
}

/// Where in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    pub file: String,
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// How a block without successors ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// `return`, or an exception that leaves the function.
    Return,
    /// A call that does not return (`exit`, `abort`): the process ends, and its memory with it.
    NoReturn,
}

/// One basic block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFacts {
    pub successors: Vec<BlockId>,
    /// Set if and only if there are no successors.
    pub exit: Option<Exit>,
    /// Instructions, the terminator included; at least 1.
    pub len: u32,
}

/// A place that holds a device pointer: what a `cudaMalloc` wrote to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferFacts {
    /// Buffers with the same number may hold each other's pointers.
    pub alias_class: u32,
}

/// A value that a size depends on and that this crate does not look into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    pub source: LeafSource,
    /// For the report: "argument 1", "result of atoi, line 12".
    pub description: String,
}

/// From where on a leaf is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeafSource {
    /// A parameter: everywhere.
    Argument,
    /// The result of the instruction at this point: after it.
    Instruction(Point),
    /// A load, at this point, of memory whose address is known everywhere. It can be repeated at an earlier point if
    /// none of the `clobbers` may run in between.
    Memory { at: Point, clobbers: Vec<Point> },
}

/// Why a device pointer may be used where this function does not see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EscapeKind {
    /// Given to a function that is not known to leave it alone.
    Call {
        callee: String,
    },
    /// Stored where others can read it.
    Stored,
    Returned,
}

/// A pointer that a kernel gets and that this function did not allocate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForeignBuffer {
    Argument,
    Global { name: String },
    CallResult,
    Memory,
}

/// What happens at a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteKind {
    /// `cudaMalloc` into a buffer of this function; `size` in bytes.
    Allocation {
        buffer: BufferId,
        size: Expr,
    },
    /// `cudaMalloc` into memory that outlives the function or that it does not own.
    ForeignAllocation {
        into: ForeignBuffer,
    },
    /// Copies and memsets: which buffers they touch.
    Access {
        call: String,
        buffers: Vec<BufferId>,
    },
    Launch {
        /// Mangled name of the kernel's stub; `None` through a pointer.
        kernel: Option<String>,
        buffers: Vec<BufferId>,
        foreign: Option<ForeignBuffer>,
    },
    /// `exact`: the pointer is the one that the single buffer holds.
    Free {
        buffers: Vec<BufferId>,
        exact: bool,
    },
    Escape {
        buffers: Vec<BufferId>,
        kind: EscapeKind,
    },
}

impl SiteKind {
    /// The buffers of this function that the site concerns.
    #[must_use]
    pub fn buffers(&self) -> &[BufferId] {
        match self {
            Self::Allocation { buffer, .. } => std::slice::from_ref(buffer),
            Self::ForeignAllocation { .. } => &[],
            Self::Access { buffers, .. }
            | Self::Launch { buffers, .. }
            | Self::Free { buffers, .. }
            | Self::Escape { buffers, .. } => buffers,
        }
    }
}

/// One GPU call, or one place where a device pointer leaves the function's sight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    pub at: Point,
    pub place: Option<Place>,
    pub kind: SiteKind,
}

/// Everything the planner needs to know of one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The symbol's name.
    pub function: String,
    /// Entry first.
    pub blocks: Vec<BlockFacts>,
    pub buffers: Vec<BufferFacts>,
    pub leaves: Vec<Leaf>,
    pub sites: Vec<Site>,
}
