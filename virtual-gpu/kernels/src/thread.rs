//! A thread function under construction: its inputs, its parameters, and the ways in which it may suspend.
//!
//! Trap: every body has the parameters of [`Thread`] first; the parameters after them depend on the [`Form`].

use crate::llvm::{Context, Machine, Module, Value};
use crate::runtime::Runtime;
use crate::{KernelMode, Options};

/// Ways in which a thread's code may suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Never.
    Plain,
    /// At plain block barriers only: cut into regions there.
    Fission,
    /// At plain block barriers only: all threads of the block are resumed in rounds.
    Rounds,
    /// At operations of the warp, too: cut into regions at all of them, each of which runs for a whole warp.
    Warp,
    /// Wherever its wait record says: the executor decides which threads continue.
    Scheduled,
}

impl Form {
    pub fn mode(self) -> KernelMode {
        match self {
            Form::Plain => KernelMode::Loop,
            Form::Fission => KernelMode::Fission,
            Form::Warp => KernelMode::Warp,
            Form::Rounds | Form::Scheduled => KernelMode::Coroutine,
        }
    }

    pub fn is_coroutine(self) -> bool {
        matches!(self, Form::Rounds | Form::Scheduled)
    }

    /// True if the thread function runs one region.
    pub fn is_cut(self) -> bool {
        matches!(self, Form::Fission | Form::Warp)
    }

    /// True if threads write wait records for the executor.
    pub fn waits(self) -> bool {
        matches!(self, Form::Scheduled | Form::Warp)
    }
}

/// Index of the thread function's parameter for what is known of guards, or, in the form `Warp`, whether the lanes of a
/// warp are together. Coroutines do not have it.
pub(crate) const PART: u32 = 6;

/// The parameters that every body has before the kernel's own.
#[derive(Clone, Copy)]
pub(crate) struct Thread<'m> {
    pub block_context: Value<'m>,
    pub index: [Value<'m>; 3],
    /// Memory where the block sums up counters, and where a coroutine stores its frame size.
    pub out: Value<'m>,
    /// True if accesses mark the touch map.
    pub marks: Value<'m>,
}

/// Inputs for making a body.
#[derive(Clone, Copy)]
pub(crate) struct Lowering<'a> {
    pub context: Context<'a>,
    pub module: &'a Module<'a>,
    pub machine: &'a Machine,
    pub runtime: &'a Runtime,
    pub options: &'a Options,
    /// `__constant__` variables.
    pub constants: &'a [Value<'a>],
}
