//! The plan of a function: for each task either where it begins and ends and how much it needs, or why that is unknown.
//!
//! Points and spots lie in the planned function; a position inside a function that it calls is named by the call.

use serde::{Deserialize, Serialize};

use crate::deaths::BufferPlan;
use crate::expr::Expr;
use crate::facts::Facts;
pub use crate::flow::Spot;
use crate::names::{FunctionId, LeafId, Place, Point};
use crate::program::Geometry;
pub use crate::reasons::LazyReason;

/// One function's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub tasks: Vec<TaskPlan>,
    /// Parts of callers' tasks, which are not tasks of their own.
    pub covered: Vec<CoveredTask>,
    /// Buffers of `covered` whose death only this function can declare.
    pub dead: Vec<BufferPlan>,
}

/// Work that a function does for tasks of its callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoveredTask {
    pub place: Option<Place>,
    /// Names of the callers.
    pub by: Vec<String>,
    /// Unseen code may call the function too; the function then runs lazily.
    pub visible: bool,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlan {
    /// Its sites, as indices into [`Facts::sites`].
    pub sites: Vec<usize>,
    /// The first allocation, else the first site.
    pub place: Option<Place>,
    pub launch_sites: u32,
    /// The device memory that it allocates in sight of the function.
    pub buffers: Vec<BufferPlan>,
    pub placement: Placement,
}

/// When the decisions about a task are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// At compile time.
    Static(StaticTask),
    /// At run time: the shim binds the task at its first launch.
    Lazy { reason: LazyReason, place: Option<Place> },
}

/// Code that the pass inserts for a task. Points and spots lie in the function itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticTask {
    pub begin: Point,
    /// The requirement in bytes is the largest of these sums.
    pub sums: Vec<Vec<Expr>>,
    /// Leaves that must be loaded at the begin.
    pub reloads: Vec<LeafId>,
    /// Geometry of the task's first launch whose geometry is known at the begin.
    pub geometry: Option<Geometry>,
    /// Every path out of the function has had the whole requirement allocated at once; otherwise the requirement is an
    /// upper bound.
    pub exact: bool,
    /// Memory is allocated after other memory was freed, and the requirement relies on that.
    pub reuses: bool,
    /// The largest amount in use at once, from the first use of each buffer until it is dead, is the largest of these
    /// sums. Each is a part of one of `sums`.
    pub live_sums: Vec<Vec<Expr>>,
    /// Memory comes into use after other memory is dead, and `live_sums` rely on that.
    pub live_reuses: bool,
    /// Every use of its memory is visible, and each is a call that is given a pointer to that memory.
    pub named: bool,
    /// Number of its own allocation sites.
    pub allocations: usize,
    /// Tasks of called functions that the requirement includes.
    pub covered: Vec<TaskRef>,
    pub all_launched: Vec<Spot>,
    pub ends: Vec<Spot>,
    /// Calls during which the task is active and through which an exception may leave the function; the task ends
    /// there.
    pub unwinds: Vec<Unwind>,
    /// Some path does not free a buffer, and the task ends at the function's return on that path.
    pub ends_at_return: bool,
}

/// A call through which an exception may leave the function while a task is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unwind {
    pub call: Point,
    /// All-launched has not been announced before the call, so the landing pad must announce it.
    pub all_launched: bool,
}

/// A task of a function, by its position in the function's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskRef {
    pub function: FunctionId,
    pub ordinal: usize,
}

/// One function's facts and plan.
#[derive(Clone, Debug)]
pub struct FunctionPlan {
    pub function: FunctionId,
    pub facts: Facts,
    pub plan: Plan,
}
