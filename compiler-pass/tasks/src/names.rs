//! Names for the parts of programs and facts: indices, points, and places in the source.
//!
//! A [`BlockId`] or [`LeafId`] is an index either into a function of the program or into the facts derived from it;
//! each use states which.

use serde::{Deserialize, Serialize};

/// Index into [`Program::functions`](crate::program::Program::functions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FunctionId(pub u32);

/// Index into [`Program::globals`](crate::program::Program::globals).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GlobalId(pub u32);

/// Index into [`Function::pointers`](crate::program::Function::pointers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PointerId(pub u32);

impl FunctionId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    #[must_use]
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("a program has fewer than 2^32 functions"))
    }
}

impl GlobalId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PointerId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index into [`Facts::blocks`](crate::facts::Facts::blocks), or into the blocks of a function of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockId(pub u32);

/// Index into [`Facts::buffers`](crate::facts::Facts::buffers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub u32);

/// Index into [`Facts::leaves`](crate::facts::Facts::leaves), or into the leaves of a function of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeafId(pub u32);

/// Index into [`Facts::frames`](crate::facts::Facts::frames).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FrameId(pub u32);

impl FrameId {
    /// The function that the graph was built for.
    pub const ROOT: Self = Self(0);

    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

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

/// The point before the instruction at `position` of `block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    pub block: BlockId,
    pub position: u32,
}

impl Point {
    /// The point behind the instruction.
    #[must_use]
    pub fn after(self) -> Self {
        Self { position: self.position + 1, ..self }
    }
}

/// A position in the source.
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

/// Base address of a load that re-reads a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReloadBase {
    Global(GlobalId),
    /// A pointer of the root function.
    Pointer(PointerId),
}

/// A pointer that a kernel gets and whose buffer this function did not allocate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForeignBuffer {
    Argument,
    Global { name: String },
    CallResult,
    Memory,
}
