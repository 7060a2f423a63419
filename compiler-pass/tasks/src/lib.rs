//! Finds a program's tasks and plans where each begins and ends; does not depend on LLVM.
//!
//! ```text
//! Program (each function alone)  →  Facts (one function with those it calls)  →  tasks (kernels that share buffers)
//!                                                                             →  Plan (where each begins and ends)
//! ```
//! The compiler pass reads a [`Program`] from IR and writes the plans back; all decisions are made here, on any
//! machine. A task, after CASE (Chen et al., PPoPP 2022), is a set of kernels of one program that share memory objects,
//! with the allocations, copies and frees around them. Trap: a plan must hold on every path. Where that cannot be
//! proven the task becomes [`Placement::Lazy`], and the shim binds it at its first launch.
#![forbid(unsafe_code)]

mod activity;
mod claims;
mod content_reader;
pub mod contents;
pub mod deaths;
pub mod dominance;
mod expand;
pub mod expr;
pub mod facts;
pub mod flow;
pub mod grouping;
pub mod liveness;
pub mod names;
mod placement;
mod places;
pub mod plan;
mod planner;
mod pointers;
pub mod program;
mod reasons;
pub mod report;
mod resolve;
mod simplify;
mod sizes;
mod spots;

pub use expr::{BinaryOp, CastOp, Expr};
pub use facts::{
    BlockFacts, BufferFacts, BufferKind, EscapeKind, Exit, Facts, FrameFacts, Leaf, LeafSource, Reload, Site,
    SiteKind, SiteOrigin,
};
pub use names::{BlockId, BufferId, ForeignBuffer, FrameId, LeafId, Place, Point, ReloadBase};
pub use plan::{FunctionPlan, LazyReason, Placement, Plan, Spot, StaticTask, TaskPlan, TaskRef, Unwind};
pub use planner::{plan, plan_program};
pub use program::Program;
pub use report::Report;
