//! What one function does with the device, as plain data: its control-flow graph with those of the functions that it
//! calls put in, and the GPU call sites in it.
//!
//! Positions count the instructions of a block from 0; a point stands *before* the instruction at its position. A block
//! of the program is several blocks here where calls are put in; each keeps the positions that it had. Traps: a call may
//! be the last instruction of its block (C++ code that can unwind), so there is not always a point after it in the same
//! block; and code can be put into the function itself only, frame 0, never into one that it calls.

use serde::{Deserialize, Serialize};

use crate::contents::Contents;
use crate::expr::Expr;
use crate::names::{BlockId, BufferId, ForeignBuffer, FrameId, FunctionId, LeafId, Place, Point, ReloadBase};
use crate::program::Geometry;

/// How a block without successors ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// `return`, or an exception that leaves the function.
    Return,
    /// A call that does not return (`exit`, `abort`): the process ends, and its memory with it. Also an exception that
    /// passes through the function unseen: there is no place for code on that way.
    NoReturn,
}

/// One basic block, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFacts {
    pub successors: Vec<BlockId>,
    /// Set if and only if there are no successors.
    pub exit: Option<Exit>,
    /// Positions `first..end` are here; empty where an invoking call comes back.
    pub first: u32,
    pub end: u32,
    pub frame: FrameId,
    /// The block of the frame's function.
    pub origin: BlockId,
}

impl BlockFacts {
    /// A whole block of the function itself.
    #[must_use]
    pub fn whole(origin: BlockId, successors: Vec<BlockId>, exit: Option<Exit>, len: u32) -> Self {
        Self { successors, exit, first: 0, end: len, frame: FrameId::ROOT, origin }
    }
}

/// A function put in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameFacts {
    pub function: FunctionId,
    /// The frame that calls it first; `None` for the root.
    pub caller: Option<FrameId>,
}

/// What a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferKind {
    Memory,
    /// A stream or event: no bytes, but of one device.
    Handle,
    /// The module's `__device__` and `__constant__` variables as somebody wrote them: on one device.
    Symbols,
}

/// A place that holds a device pointer: what a `cudaMalloc` wrote to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferFacts {
    pub kind: BufferKind,
    /// Its pointer lies, at some time, in memory that outlives the function.
    pub shared: Option<ForeignBuffer>,
    /// The place may be overwritten at points that the graph does not have.
    pub unsteady: bool,
    /// The place lies in memory that callers made, or is a global beside such memory.
    pub inherited: bool,
    /// Buffers whose place may be the same under another name, both ways: behind two parameters may lie the same memory
    /// of the caller, and `d[i]` may be `d[0]`.
    pub aliases: Vec<BufferId>,
}

/// A value that a size depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    pub source: LeafSource,
    /// For the report: "argument 1", "result of atoi, line 12".
    pub description: String,
    /// Which of the root function's own leaves it is.
    pub own: Option<LeafId>,
    /// How to load it in the root function.
    pub reload: Option<Reload>,
}

/// A load that the root function can do anywhere after `from` (at once if `None`) where the memory is known to be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {
    pub base: ReloadBase,
    pub offset: i64,
    pub bits: u32,
    pub from: Option<Point>,
    /// Points at which the program itself reads or writes that memory. `None`: it is a variable, which is always there.
    pub witnesses: Option<Vec<Point>>,
}

/// From where on a leaf is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeafSource {
    /// A parameter of the root function: everywhere.
    Argument,
    /// The result of the instruction at this point, in the root function: after it.
    Instruction(Point),
    /// What memory holds at this point. It can be loaded at an earlier point if none of the `clobbers` may run in
    /// between. `is_loaded`: the root function has it as a value behind the point.
    Memory { at: Point, clobbers: Vec<Point>, is_loaded: bool },
    /// Computed in a function that it calls.
    Inner,
}

/// Why a device pointer may be used where this function does not see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EscapeKind {
    /// Given to a function that is not known to leave it alone.
    Call {
        callee: String,
    },
    /// A function that is not known may find it in memory that others can reach; it matters while the buffer lives.
    Reachable {
        callee: String,
    },
    /// An allocation writes it to one of several places.
    Ambiguous,
    /// Stored where others can read it.
    Stored,
    Returned,
}

/// What happens at a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteKind {
    /// A buffer of this function is allocated (a handle created, a symbol written); `size` in bytes, `None` if it cannot
    /// be computed.
    Allocation {
        call: String,
        buffer: BufferId,
        size: Option<Expr>,
    },
    /// `cudaMalloc` into memory that this function does not know.
    ForeignAllocation {
        into: ForeignBuffer,
    },
    /// Copies, memsets and the like: which buffers they touch.
    Access {
        call: String,
        buffers: Vec<BufferId>,
        /// They must lie on one device: a stream or event is among them, or one holds pointers to others.
        joins: bool,
    },
    Launch {
        /// Mangled name of the kernel's stub; `None` through a pointer.
        kernel: Option<String>,
        buffers: Vec<BufferId>,
        foreign: Option<ForeignBuffer>,
        geometry: Option<Geometry>,
    },
    /// The places of these buffers are written by hand, or are new variables: a pointer in them is lost.
    Overwrite {
        buffers: Vec<BufferId>,
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
    /// The buffers of this function that the site concerns; an overwrite concerns memory of the host only.
    #[must_use]
    pub fn buffers(&self) -> &[BufferId] {
        match self {
            Self::Allocation { buffer, .. } => std::slice::from_ref(buffer),
            Self::ForeignAllocation { .. } | Self::Overwrite { .. } => &[],
            Self::Access { buffers, .. }
            | Self::Launch { buffers, .. }
            | Self::Free { buffers, .. }
            | Self::Escape { buffers, .. } => buffers,
        }
    }
}

/// Which action of the program a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SiteOrigin {
    pub function: FunctionId,
    /// In that function.
    pub at: Point,
}

/// One GPU call, or one place where a device pointer leaves the function's sight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    pub at: Point,
    pub place: Option<Place>,
    pub origin: SiteOrigin,
    pub kind: SiteKind,
}

/// Everything the planner needs to know of one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The symbol's name.
    pub function: String,
    /// Entry first.
    pub blocks: Vec<BlockFacts>,
    /// The root first.
    pub frames: Vec<FrameFacts>,
    pub buffers: Vec<BufferFacts>,
    /// The pointer of the first may have been stored, under another name, into the place of the second.
    pub mixed: Vec<(BufferId, BufferId)>,
    pub leaves: Vec<Leaf>,
    pub sites: Vec<Site>,
    pub contents: Contents,
    /// Calls of the root through which an exception may leave it without passing any of its code.
    pub throws: Vec<Point>,
    /// Points, in any frame, at which an exception comes up that leaves the root in this way.
    pub leaving: Vec<Point>,
    /// Steps that following the pointers took.
    pub pointer_steps: usize,
    /// They took more than was allowed, so that all this is too little.
    pub given_up: bool,
}

impl Facts {
    /// The frame that a point lies in.
    #[must_use]
    pub fn frame(&self, point: Point) -> FrameId {
        self.blocks[point.block.index()].frame
    }

    /// Whether it runs once in the life of the process.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.function == "main"
    }

    /// The frames from one outwards, itself included.
    pub fn callers(&self, frame: FrameId) -> impl Iterator<Item = FrameId> + '_ {
        std::iter::successors(Some(frame), |frame| self.frames[frame.index()].caller)
    }
}

/// An expression in the terms of the leaves' descriptions; casts are left out.
pub(crate) fn describe(expr: &Expr, leaves: &[Leaf]) -> String {
    match expr {
        Expr::Const { value, .. } => value.to_string(),
        Expr::Leaf(leaf) => {
            leaves.get(leaf.index()).map_or_else(|| "?".to_owned(), |leaf| format!("[{}]", leaf.description))
        }
        Expr::Cast { arg, .. } => describe(arg, leaves),
        Expr::Binary { op, args } => {
            format!("({} {} {})", describe(&args.0, leaves), op.symbol(), describe(&args.1, leaves))
        }
    }
}
