//! The device-related behaviour of one function as plain data: a control-flow graph in which called functions are
//! inlined, and the GPU call sites in it.
//!
//! Positions count the instructions of a block from 0; a point lies *before* the instruction at its position. A block
//! of the program is split into several blocks where calls are inlined; each part keeps the original positions. Traps:
//! a call may be the last instruction of its block (C++ code that can unwind), so a block does not always have a point
//! behind a call. And code can be inserted only into the function itself, frame 0, never into a function that it calls.

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
    /// A call that does not return (`exit`, `abort`): the process ends and its memory is freed. Also an exception that
    /// leaves the function without passing its code, where nothing can be inserted.
    NoReturn,
}

/// One basic block, or a part of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFacts {
    pub successors: Vec<BlockId>,
    /// Set if and only if there are no successors.
    pub exit: Option<Exit>,
    /// The block has the positions `first..end`; none if it is the return block of an invoking call.
    pub first: u32,
    pub end: u32,
    pub frame: FrameId,
    /// Block of the frame's function that this block is or is a part of.
    pub origin: BlockId,
}

impl BlockFacts {
    /// Returns an unsplit block of the function itself.
    #[must_use]
    pub fn whole(origin: BlockId, successors: Vec<BlockId>, exit: Option<Exit>, len: u32) -> Self {
        Self { successors, exit, first: 0, end: len, frame: FrameId::ROOT, origin }
    }
}

/// An inlined function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameFacts {
    pub function: FunctionId,
    /// The frame that calls it first; `None` for the root.
    pub caller: Option<FrameId>,
}

/// Kind of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferKind {
    Memory,
    /// A stream or event: takes no bytes, but belongs to one device.
    Handle,
    /// The module's `__device__` and `__constant__` variables once the program has written them: they then belong to
    /// one device.
    Symbols,
}

/// A slot that holds a device pointer: the location that a `cudaMalloc` wrote to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferFacts {
    pub kind: BufferKind,
    /// Set if the pointer lies at some time in memory that outlives the function.
    pub shared: Option<ForeignBuffer>,
    /// The slot may be overwritten at points that are not in the graph.
    pub unsteady: bool,
    /// The slot lies in memory that callers made, or in a global while other slots lie in such memory.
    pub inherited: bool,
    /// Buffers whose slot may be the same location under another name (symmetric): two parameters may point to the same
    /// memory of the caller, and `d[i]` may be `d[0]`.
    pub aliases: Vec<BufferId>,
}

/// A value that a size depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    pub source: LeafSource,
    /// For the report: "argument 1", "result of atoi, line 12".
    pub description: String,
    /// The root function's own leaf that it corresponds to.
    pub own: Option<LeafId>,
    /// How the root function can load it from memory.
    pub reload: Option<Reload>,
}

/// A load that the root function can do at any point after `from` (anywhere if `None`) where the memory is known to
/// exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {
    pub base: ReloadBase,
    pub offset: i64,
    pub bits: u32,
    pub from: Option<Point>,
    /// Points at which the program itself reads or writes that memory. `None`: the memory is a variable, which always
    /// exists.
    pub witnesses: Option<Vec<Point>>,
}

/// Where a leaf is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeafSource {
    /// A parameter of the root function: known everywhere.
    Argument,
    /// The result of the instruction at this point of the root function: known after it.
    Instruction(Point),
    /// The value of a memory location at this point. It can be loaded earlier if none of the `clobbers` may run in
    /// between. `is_loaded`: the root function has the value after the point.
    Memory { at: Point, clobbers: Vec<Point>, is_loaded: bool },
    /// Computed in a called function, so never known in the root.
    Inner,
}

/// Why a device pointer may be used where the analysis does not see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EscapeKind {
    /// Given to a function that may keep or use it.
    Call {
        callee: String,
    },
    /// An unknown function may find it in memory that outside code can reach; matters only while the buffer is
    /// allocated.
    Reachable {
        callee: String,
    },
    /// An allocation writes it to one of several slots.
    Ambiguous,
    /// Stored where outside code can read it.
    Stored,
    Returned,
}

/// Effect of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteKind {
    /// Allocates a buffer of this function (or creates a handle, or writes a symbol). `size` in bytes, `None` if it
    /// cannot be computed.
    Allocation {
        call: String,
        buffer: BufferId,
        size: Option<Expr>,
    },
    /// A `cudaMalloc` into memory that this function does not know.
    ForeignAllocation {
        into: ForeignBuffer,
    },
    /// A copy, memset or similar call on these buffers.
    Access {
        call: String,
        buffers: Vec<BufferId>,
        /// The buffers must lie on one device: one is a stream or event, or one holds pointers to another.
        joins: bool,
    },
    Launch {
        /// Mangled name of the kernel's stub; `None` if launched through a pointer.
        kernel: Option<String>,
        buffers: Vec<BufferId>,
        foreign: Option<ForeignBuffer>,
        geometry: Option<Geometry>,
    },
    /// Slots of these buffers are written by something other than an allocation, or are new variables: the pointer in
    /// them is lost.
    Overwrite {
        buffers: Vec<BufferId>,
    },
    /// `exact`: the freed pointer is the one that the slot of the only buffer holds.
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
    /// Buffers of this function that the site concerns; none for an overwrite, which concerns host memory only.
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

/// Action of the program that a site stems from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SiteOrigin {
    pub function: FunctionId,
    /// Position of the action in that function.
    pub at: Point,
}

/// One GPU call, or one point where a device pointer leaves the function's sight.
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
    /// Symbol name of the function.
    pub function: String,
    /// Blocks of the graph, the entry first.
    pub blocks: Vec<BlockFacts>,
    /// Frames of the graph, the root first.
    pub frames: Vec<FrameFacts>,
    pub buffers: Vec<BufferFacts>,
    /// Pairs: the pointer of the first buffer may have been stored, under another name, into the slot of the second.
    pub mixed: Vec<(BufferId, BufferId)>,
    pub leaves: Vec<Leaf>,
    pub sites: Vec<Site>,
    pub contents: Contents,
    /// Calls of the root through which an exception may leave it without passing any of its code.
    pub throws: Vec<Point>,
    /// Points, in any frame, at which an exception may leave the root without passing any of its code.
    pub leaving: Vec<Point>,
    /// Number of steps that the points-to analysis took.
    pub pointer_steps: usize,
    /// The points-to analysis exceeded its step limit, so these facts are incomplete.
    pub incomplete: bool,
}

impl Facts {
    /// Frame that a point lies in.
    #[must_use]
    pub fn frame(&self, point: Point) -> FrameId {
        self.blocks[point.block.index()].frame
    }

    /// Whether the function runs only once in the life of the process.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.function == "main"
    }

    /// The frame itself and its callers, outwards.
    pub fn callers(&self, frame: FrameId) -> impl Iterator<Item = FrameId> + '_ {
        std::iter::successors(Some(frame), |frame| self.frames[frame.index()].caller)
    }
}

/// Shows an expression with the descriptions of its leaves; casts are left out.
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
