//! Limits on the code of a kernel beyond which it gets a simpler form, so that compile time stays in proportion.
//!
//! Trap: nothing here may change a result. Only speed is given up, and a remark reports it.

use crate::Budget;
use crate::llvm::{Opcode, Value};
use crate::thread::Form;

/// Optimisations that a kernel has to do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Economy {
    /// Rows of threads are not cut where a comparison of the index changes its result.
    pub no_guards: bool,
    /// One version serves launches with and without a touch map.
    pub one_version: bool,
    /// Marks are calls instead of inline code.
    pub marks_out_of_line: bool,
    /// Straight code is not vectorised.
    pub no_slp: bool,
    /// Optimised as for `-O1`.
    pub little_optimised: bool,
}

/// Copies of a thread's code in both versions of a kernel that is cut at operations of the warp: each region has code for
/// whole warps, for the rest of a block, and for single lanes. CUB's radix sort of one tile grows from 1,214 instructions
/// to 40,421.
const WARP_COPIES: usize = 33;

impl Economy {
    /// Chooses for a kernel of this many instructions; a coroutine has one version anyway.
    pub fn of(instructions: usize, form: Form, budget: &Budget) -> Economy {
        let is_coroutine = form.is_coroutine();
        let mut economy = Economy {
            marks_out_of_line: is_coroutine && instructions > budget.marks_inline,
            no_slp: instructions > budget.slp,
            ..Economy::default()
        };
        let mut copies = if is_coroutine { 1 } else { 4 };
        if !is_coroutine && instructions * copies > budget.guards {
            economy.no_guards = true;
            copies = 2;
        }
        let mut versions = budget.versions;
        if form == Form::Warp {
            (copies, versions) = (WARP_COPIES, budget.warp_versions);
        }
        if !is_coroutine && instructions * copies > versions {
            economy.one_version = true;
            copies = 1;
        }
        economy.little_optimised = instructions * copies > budget.optimiser;
        economy
    }

    /// Text for a remark; `None` if nothing is left out that a user may notice.
    pub fn describe(&self) -> Option<String> {
        let parts = [
            (self.no_guards, "loops over threads are not split at comparisons of the index"),
            (self.one_version, "one version serves launches with and without a touch map"),
            (self.little_optimised, "its file is optimised as with -O1"),
        ];
        let texts: Vec<&str> = parts.iter().filter(|(holds, _)| *holds).map(|(_, text)| *text).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// Counts accesses to memory other than stack slots.
pub(crate) fn count_accesses(instructions: &[Value]) -> usize {
    let is_slot = |address: Value| address.opcode() == Some(Opcode::LLVMAlloca);
    let counts = |i: &&Value| match i.opcode() {
        Some(Opcode::LLVMLoad) => !is_slot(i.operand(0)),
        Some(Opcode::LLVMStore) => !is_slot(i.operand(1)),
        _ => false,
    };
    instructions.iter().filter(counts).count()
}
