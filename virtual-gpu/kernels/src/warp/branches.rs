//! Finds branches that all lanes of a warp probably take alike, and conditions that are known for each lane.
//!
//! A region ends at such a branch if it decides where lanes wait next: then the code on both sides is free of
//! conditions. That lanes go the same way is a guess, checked at run time; a wrong guess only costs time. Trap: lanes
//! then do together what they would do one after the other, so nothing may be cut if the order of atomics could show.

use std::collections::{BTreeMap, BTreeSet};

use super::ops::{self, Answer};
use crate::fission::{Ends, INDEX, REGION};
use crate::flow::Graph;
use crate::llvm::{Block, LLVMIntPredicate, Opcode, Value};
use crate::{pure, suspend};

/// Limit on the regions that begin after branches.
const BRANCHES_MAX: usize = 48;

/// Ends regions at such branches, before both successors; the new regions are numbered after those of the `stops`.
pub(crate) fn cut_at_uniform<'m>(
    ends: &mut Ends<'m>,
    function: Value<'m>,
    stops: usize,
    starts: &mut BTreeMap<u64, Block<'m>>,
) {
    let ordered = |i: &Value| match i.opcode() {
        Some(Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg) => true,
        Some(Opcode::LLVMLoad | Opcode::LLVMStore) => i.is_volatile(),
        Some(Opcode::LLVMCall) => i.callee().is_some_and(|callee| callee.name().contains("atomic")),
        _ => false,
    };
    if function.instructions().iter().any(ordered) {
        return;
    }
    let graph = Graph::new(function);
    let mut common = Common { function, seen: BTreeMap::new(), rows: suspend::table() };
    let mut numbers: BTreeMap<Block, u64> = starts.iter().map(|(&number, &start)| (start, number)).collect();
    let mut next_number = stops as u64 + 1;
    for (block, next) in graph.next.iter().enumerate() {
        let branch = graph.blocks[block].terminator();
        let wanted = next.len() > 1
            && branch.operand(0) != function.params()[5]
            && graph.decides_an_end(block)
            && common.holds(branch.operand(0));
        if !wanted || starts.len() + next.len() > stops + BRANCHES_MAX {
            continue;
        }
        for (index, &to) in (0..).zip(next) {
            let to = graph.blocks[to];
            let number = *numbers.entry(to).or_insert_with(|| {
                next_number += 1;
                next_number - 1
            });
            if starts.insert(number, to).is_none() {
                to.set_name(&format!("{REGION}{number}"));
            }
            branch.set_successor(index, ends.before(number));
        }
    }
}

struct Common<'m> {
    function: Value<'m>,
    /// Results so far; a value under analysis is present with an assumed result.
    seen: BTreeMap<Value<'m>, bool>,
    rows: Vec<suspend::Suspension>,
}

impl<'m> Common<'m> {
    /// True if `value` is probably common to the lanes of a warp.
    fn holds(&mut self, value: Value<'m>) -> bool {
        let params = self.function.params();
        if value == params[1] || value == params[INDEX as usize] {
            return false;
        }
        if !value.is_instruction() {
            return true;
        }
        if let Some(&found) = self.seen.get(&value) {
            return found;
        }
        self.seen.insert(value, true);
        let found = self.compute_holds(value);
        self.seen.insert(value, found);
        found
    }

    fn compute_holds(&mut self, value: Value<'m>) -> bool {
        match value.opcode() {
            Some(Opcode::LLVMCall) if pure::is_uniform_call(value) => true,
            Some(Opcode::LLVMCall) => match pure::index_call(value) {
                Some(index) => index > 0,
                None => self.is_uniform_answer(value) || pure::computes(value) && self.operands(value),
            },
            Some(Opcode::LLVMLoad) if value.operand(0).opcode() == Some(Opcode::LLVMAlloca) => {
                let slot = value.operand(0);
                let stores = slot.users().into_iter().filter(|user| user.opcode() == Some(Opcode::LLVMStore));
                stores.into_iter().all(|store| self.holds(store.operand(0)))
            }
            Some(Opcode::LLVMLoad) => self.holds(value.operand(0)),
            Some(Opcode::LLVMLShr | Opcode::LLVMAShr) if is_index(value.operand(0)) => {
                value.operand(1).constant_integer().is_some_and(|by| by >= 5)
            }
            Some(Opcode::LLVMAnd) if is_index(value.operand(0)) => {
                value.operand(1).constant_integer().is_some_and(|mask| mask & 31 == 0)
            }
            Some(Opcode::LLVMICmp) if is_index(value.operand(0)) => {
                let Some(with) = value.operand(1).constant_integer() else { return false };
                use LLVMIntPredicate::*;
                match value.predicate() {
                    LLVMIntULT | LLVMIntUGE | LLVMIntSLT | LLVMIntSGE => with % 32 == 0,
                    LLVMIntUGT | LLVMIntULE | LLVMIntSGT | LLVMIntSLE => with % 32 == 31,
                    _ => false,
                }
            }
            _ => pure::computes(value) && self.operands(value),
        }
    }

    fn operands(&mut self, value: Value<'m>) -> bool {
        let operands = value.operands().into_iter().filter(|operand| !operand.is_function());
        operands.into_iter().all(|operand| self.holds(operand))
    }

    fn is_uniform_answer(&self, call: Value<'m>) -> bool {
        let Some(name) = call.callee().map(Value::name) else { return false };
        if name == "eager.nvvm.read.ptx.sreg.warpid" {
            return true;
        }
        let row = name.strip_prefix("eager.lane.answer.");
        let row = row.and_then(|name| self.rows.iter().find(|row| row.name == name));
        row.is_some_and(|row| matches!(ops::answer(row), Answer::Common | Answer::AllLanes))
    }
}

/// True for the thread's x, perhaps in another width.
fn is_index(value: Value) -> bool {
    match value.opcode() {
        Some(Opcode::LLVMCall) => pure::index_call(value) == Some(0),
        Some(Opcode::LLVMZExt | Opcode::LLVMSExt | Opcode::LLVMTrunc) => is_index(value.operand(0)),
        _ => false,
    }
}

/// True if a condition is computed from the lane number alone.
pub(crate) fn is_known_of_lanes(condition: Value, function: Value) -> bool {
    let lane = function.params()[INDEX as usize];
    let (mut open, mut seen) = (vec![condition], BTreeSet::new());
    while let Some(value) = open.pop() {
        if value == lane || value.is_constant() || !seen.insert(value) {
            continue;
        }
        if !value.is_instruction() || seen.len() > 16 {
            return false;
        }
        match value.opcode() {
            Some(Opcode::LLVMAnd)
                if is_index(value.operand(0))
                    && value.operand(1).constant_integer().is_some_and(|mask| mask < 32) => {}
            Some(Opcode::LLVMCall | Opcode::LLVMLoad) => return false,
            _ if pure::computes(value) => open.extend(value.operands()),
            _ => return false,
        }
    }
    true
}
