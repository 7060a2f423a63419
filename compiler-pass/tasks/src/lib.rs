//! Facts about a function's GPU calls, the tasks among them, and the plan for each task; no LLVM.
//!
//! ```text
//! Facts (what the function does)  →  tasks (kernels that share buffers)  →  Plan (where each begins and ends)
//! ```
//! The compiler pass reads [`Facts`] from IR and writes the [`Plan`] back; everything that is decided is decided here,
//! on any machine. Task, after CASE (Chen et al., PPoPP 2022): a set of kernels of one program that share memory
//! objects, with the allocations, copies and frees around them. Trap: a plan must hold on every path. What cannot be
//! shown is not guessed: such a task is [`Placement::Lazy`], bound by the shim at its first launch.
#![forbid(unsafe_code)]

mod activity;
pub mod dominance;
pub mod expr;
pub mod facts;
pub mod flow;
pub mod grouping;
pub mod plan;
pub mod report;

pub use expr::{BinaryOp, CastOp, Expr};
pub use facts::{
    BlockFacts, BlockId, BufferFacts, BufferId, EscapeKind, Exit, Facts, ForeignBuffer, Leaf, LeafId,
    LeafSource, Place, Point, Site, SiteKind,
};
pub use plan::{LazyReason, Placement, Plan, Spot, StaticTask, TaskPlan, plan};
pub use report::Report;
