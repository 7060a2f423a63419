//! Recomputes cheap values, such as indices and addresses, in later regions instead of saving them for each thread
//! across a barrier.
//!
//! Trap: it must run before values are put into stack slots, and after barriers have become the starts of blocks.

use std::collections::{BTreeMap, BTreeSet};

use crate::llvm::{Block, Context, Opcode, Value};
use crate::pure;

/// Gives every use of a cheap value across a barrier a computation of its own. `starts` are the blocks that begin with
/// a barrier, `fixed` is memory that is never written.
pub(crate) fn recompute_across(context: Context, function: Value, starts: &[Block], fixed: &[Value]) {
    let mut behind: BTreeMap<Block, BTreeSet<Block>> = BTreeMap::new();
    // Recomputed values by block, and whether they are at its end.
    let mut again: BTreeMap<(Block, bool), BTreeMap<Value, Value>> = BTreeMap::new();
    let builder = context.builder();
    for user in function.instructions() {
        for (index, value) in (0..).zip(user.operands()) {
            if !value.is_instruction() || !pure::is_computable(value, fixed, &|_| false) {
                continue;
            }
            let from = value.parent();
            let at_end = user.opcode() == Some(Opcode::LLVMPHI);
            let block = if at_end { user.incoming()[index as usize].1 } else { user.parent() };
            let place = if at_end { block.terminator() } else { user };
            let behind = behind.entry(from).or_insert_with(|| behind_barriers(from, starts));
            if block == from || !behind.contains(&block) {
                continue;
            }
            builder.before(place);
            let computed = pure::compute_again(&builder, value, again.entry((block, at_end)).or_default());
            user.set_operand(index, computed);
        }
    }
}

/// The blocks reachable from a barrier without passing `from`.
fn behind_barriers<'m>(from: Block<'m>, starts: &[Block<'m>]) -> BTreeSet<Block<'m>> {
    let mut found: BTreeSet<Block> = starts.iter().copied().filter(|&start| start != from).collect();
    let mut open: Vec<Block> = found.iter().copied().collect();
    while let Some(block) = open.pop() {
        let next = block.terminator().successors();
        open.extend(next.into_iter().filter(|&to| to != from && found.insert(to)));
    }
    found
}
