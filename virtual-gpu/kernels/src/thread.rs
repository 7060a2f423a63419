//! A thread's function while it is made: what makes it, what its parameters are, and how it may stop on the way.
//!
//! Trap: every body has the parameters of [`Thread`] first; those behind them depend on the [`Form`].

use crate::llvm::{Context, Machine, Module, Value};
use crate::runtime::Runtime;
use crate::{KernelMode, Options};

/// How a thread's code may stop on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Not at all.
    Plain,
    /// At plain block barriers only: cut into regions there.
    Fission,
    /// At plain block barriers only: all threads of the block are resumed in rounds.
    Rounds,
    /// At operations of the warp, too: cut into regions at all of them, each of which runs for a warp.
    Warp,
    /// Wherever its wait record says: the executor decides who goes on.
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

    /// Whether the thread function runs one region.
    pub fn is_cut(self) -> bool {
        matches!(self, Form::Fission | Form::Warp)
    }

    /// Whether threads leave wait records for the executor.
    pub fn waits(self) -> bool {
        matches!(self, Form::Scheduled | Form::Warp)
    }
}

/// Parameter of a thread function that says what is known of guards, or of the form `Warp` whether the lanes of a warp are
/// together; coroutines have none.
pub(crate) const PART: u32 = 6;

/// The parameters that every body has before the kernel's own.
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    pub block_context: Value,
    pub index: [Value; 3],
    /// Where the block sums up counters, and where a coroutine leaves its frame size.
    pub out: Value,
    /// Whether the touch map is marked.
    pub marks: Value,
}

/// What making a body needs.
#[derive(Clone, Copy)]
pub(crate) struct Maker<'a> {
    pub context: &'a Context,
    pub module: &'a Module,
    pub machine: &'a Machine,
    pub runtime: &'a Runtime,
    pub options: &'a Options,
    /// `__constant__` variables.
    pub constants: &'a [Value],
}
