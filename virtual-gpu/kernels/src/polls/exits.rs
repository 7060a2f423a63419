//! Loops that a thread leaves only because of what other threads write, although its turns change something: a backoff
//! that doubles, a count of the tries in memory, the next of several flags, a loop over flags in each turn.
//!
//! Trap: a loop that ends by itself must not be taken for a wait, because its kernel would run slower. So a loop with a
//! way out that the thread's own counting opens is none, nor is one that goes where a value read leads it (a list), or
//! that swaps another value or another place in each turn (a hash table).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::idle;
use crate::llvm::{Block, Opcode, Value};
use crate::lockstep::order::{Cycle, Order};
use crate::pure;
use crate::runtime::Runtime;

/// Limit on the blocks of a kernel that is searched.
const BLOCKS_MAX: usize = 2048;
/// Computations of more steps count as the thread's own.
const DEPTH_MAX: usize = 64;

/// A loop that waits.
pub(super) struct Waiting<'m> {
    /// The read that may decide whether there is another turn.
    pub polled: Value<'m>,
    pub head: Block<'m>,
    /// Blocks that branch back to the head.
    pub latches: Vec<Block<'m>>,
}

/// What makes a value differ from the previous turn's.
#[derive(Debug, Clone, Copy, Default)]
struct Causes {
    /// Memory that other threads write.
    others: bool,
    /// The thread itself: a counter, a clock, an addition to memory.
    own: bool,
    /// It was read where an earlier read led, or exchanged for a value or at a place of the thread's own.
    leads_on: bool,
}

impl Causes {
    const OWN: Causes = Causes { others: false, own: true, leads_on: false };

    fn join(self, other: Causes) -> Causes {
        Causes {
            others: self.others || other.others,
            own: self.own || other.own,
            leads_on: self.leads_on || other.leads_on,
        }
    }
}

/// Finds the loops of `kernel` that wait, inner ones first.
pub(super) fn waiting_loops<'m>(kernel: Value<'m>, runtime: &Runtime) -> Vec<Waiting<'m>> {
    if kernel.blocks().len() > BLOCKS_MAX || !kernel.instructions().into_iter().any(reads_anew) {
        return Vec::new();
    }
    let order = Order::of(kernel);
    let waiting = |cycle: &Cycle| {
        let blocks: Vec<Block> = cycle.members.iter().map(|&member| order.blocks[member]).collect();
        let head = order.blocks[cycle.head];
        let inside = Inside { head, blocks: blocks.iter().copied().collect(), known: RefCell::default() };
        let all: Vec<Value> = blocks.iter().flat_map(|block| block.instructions()).collect();
        let polled = all.iter().copied().find(|&i| reads_anew(i))?;
        let waits = all.iter().all(|&i| is_harmless(i, runtime)) && inside.only_others_end_it(&blocks);
        let latches = cycle.latches.iter().map(|&latch| order.blocks[latch]).collect();
        waits.then_some(Waiting { polled, head, latches })
    };
    order.cycles.iter().filter_map(waiting).collect()
}

/// True for a read that is repeated in each turn whatever else the loop does.
fn reads_anew(instruction: Value) -> bool {
    match instruction.opcode() {
        Some(Opcode::LLVMLoad) => instruction.is_volatile() || instruction.is_atomic(),
        Some(Opcode::LLVMAtomicCmpXchg) => true,
        Some(Opcode::LLVMAtomicRMW) => instruction.ignores_or_keeps_old(),
        Some(Opcode::LLVMCall) => idle::is_atomic_call(instruction),
        _ => false,
    }
}

/// True for what a loop that waits may contain. A loop with a sleep or a barrier lets others run as it is.
fn is_harmless(instruction: Value, runtime: &Runtime) -> bool {
    match instruction.opcode() {
        Some(Opcode::LLVMAtomicRMW) => true,
        Some(Opcode::LLVMCall) if idle::suspends(instruction, runtime) => false,
        _ => idle::is_quiet(instruction, runtime),
    }
}

struct Inside<'m> {
    head: Block<'m>,
    blocks: BTreeSet<Block<'m>>,
    /// PHIs of the head that are being computed count as the thread's own.
    known: RefCell<BTreeMap<Value<'m>, Causes>>,
}

impl<'m> Inside<'m> {
    /// True if other threads can open some way out of the loop, and the thread itself none.
    fn only_others_end_it(&self, blocks: &[Block<'m>]) -> bool {
        let leaves =
            |block: &&Block| block.terminator().successors().iter().any(|to| !self.blocks.contains(to));
        let ways_out = blocks.iter().filter(leaves).map(|block| block.terminator());
        let mut opened_by_others = false;
        for end in ways_out {
            if end.successors().len() < 2 {
                return false;
            }
            let causes = self.causes(end.operand(0), 0);
            if causes.own && !causes.others {
                return false;
            }
            opened_by_others |= causes.others && !causes.leads_on;
        }
        opened_by_others
    }

    fn causes(&self, value: Value<'m>, depth: usize) -> Causes {
        if !value.is_instruction() || !self.blocks.contains(&value.parent()) {
            return Causes::default();
        }
        if let Some(&known) = self.known.borrow().get(&value) {
            return known;
        }
        if depth > DEPTH_MAX {
            return Causes::OWN;
        }
        if value.opcode() == Some(Opcode::LLVMPHI) {
            let started = if value.parent() == self.head { Causes::OWN } else { Causes::default() };
            self.known.borrow_mut().insert(value, started);
        }
        let causes = self.compute(value, depth + 1);
        self.known.borrow_mut().insert(value, causes);
        causes
    }

    fn of_all(&self, values: impl IntoIterator<Item = Value<'m>>, depth: usize) -> Causes {
        values.into_iter().fold(Causes::default(), |all, value| all.join(self.causes(value, depth)))
    }

    fn compute(&self, value: Value<'m>, depth: usize) -> Causes {
        match value.opcode() {
            Some(Opcode::LLVMPHI) => self.of_phi(value, depth),
            Some(Opcode::LLVMLoad) => {
                let at = self.causes(value.operand(0), depth);
                let anew = reads_anew(value);
                Causes {
                    others: at.others || anew,
                    own: at.own,
                    leads_on: at.leads_on || at.others && at.own,
                }
            }
            Some(Opcode::LLVMAtomicRMW) if !value.ignores_or_keeps_old() => Causes::OWN,
            Some(Opcode::LLVMAtomicRMW) => {
                let (at, with) = (self.causes(value.operand(0), depth), self.causes(value.operand(1), depth));
                let leads_on = at.others && at.own || with.own;
                Causes { others: true, leads_on, ..Causes::default() }.join(at).join(with)
            }
            _ if reads_anew(value) => {
                let with = self.of_all(value.operands(), depth);
                Causes { others: true, own: with.own, leads_on: with.leads_on || with.own }
            }
            Some(Opcode::LLVMCall) if reads_clock(value) => Causes::OWN,
            Some(Opcode::LLVMCall) => self.of_all(value.call_arguments(), depth),
            _ if pure::computes(value) => self.of_all(value.operands(), depth),
            _ => Causes::OWN,
        }
    }

    /// A PHI of the head depends on what the turn brings back, another also on the branches before it.
    fn of_phi(&self, phi: Value<'m>, depth: usize) -> Causes {
        let of_values = self.of_all(phi.incoming().into_iter().map(|(value, _)| value), depth);
        if phi.parent() == self.head {
            return of_values;
        }
        let branches = phi.incoming().into_iter().filter_map(|(_, from)| {
            let end = from.terminator();
            (self.blocks.contains(&from) && end.successors().len() > 1).then(|| end.operand(0))
        });
        of_values.join(self.of_all(branches, depth))
    }
}

fn reads_clock(call: Value) -> bool {
    let name = call.callee().map_or_else(String::new, Value::name);
    ["clock", "globaltimer"].iter().any(|part| name.contains(part))
}
