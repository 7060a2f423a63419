//! Detects idle turns of a loop: turns that leave everything unchanged, so that only memory written by other threads
//! can end the loop.
//!
//! A compare-and-swap loop computes a new value each turn, and a walk along a list a new address: both progress by
//! themselves, and yielding there would only cost time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::llvm::{Block, Opcode, Value};
use crate::pure;
use crate::runtime::{Runtime, is_block_barrier};

/// Computations of more steps count as changing.
const DEPTH_MAX: usize = 64;
/// Addresses of more steps count as different.
const SAME_DEPTH_MAX: usize = 8;

/// True if no other thread can see that `instruction` was executed, or only by an operation that asks: a lock that was
/// not free, a barrier.
pub(super) fn is_quiet(instruction: Value, runtime: &Runtime) -> bool {
    use Opcode::*;
    match instruction.opcode() {
        // Stores that only write back a value that was read are told apart later.
        Some(LLVMLoad | LLVMStore | LLVMFence | LLVMPHI | LLVMBr | LLVMSwitch | LLVMAtomicCmpXchg) => true,
        Some(LLVMAtomicRMW) => instruction.ignores_or_keeps_old(),
        Some(LLVMCall) => is_quiet_call(instruction, runtime),
        _ => pure::computes(instruction),
    }
}

fn is_quiet_call(call: Value, runtime: &Runtime) -> bool {
    let name = name_of(call);
    orders_memory(call, runtime)
        || is_atomic_call(call)
        || name.starts_with("llvm.nvvm.read.ptx.sreg.")
        || name == crate::ptx::SHARED_ADDRESS
        || pure::computes(call)
}

fn name_of(call: Value) -> String {
    call.callee().map_or_else(String::new, Value::name)
}

/// True if memory may have been written during `call`: fences, barriers, operations of a warp.
pub(super) fn orders_memory(call: Value, runtime: &Runtime) -> bool {
    let name = name_of(call);
    let empty_assembly = || call.called_value().assembly().is_some_and(|text| text.trim().is_empty());
    is_block_barrier(call)
        || runtime.suspends(&name)
        || name.starts_with("llvm.nvvm.membar.")
        || empty_assembly()
}

/// True if the thread suspends at `call` anyway.
pub(super) fn suspends(call: Value, runtime: &Runtime) -> bool {
    is_block_barrier(call) || runtime.suspends(&name_of(call))
}

/// True for a scoped compare-and-swap or exchange, for which LLVM has no instruction.
pub(super) fn is_atomic_call(call: Value) -> bool {
    ["llvm.nvvm.atomic.cas.", "llvm.nvvm.atomic.exch."].iter().any(|start| name_of(call).starts_with(start))
}

/// Behaviour of a value from one turn to the next.
#[derive(Debug, Clone, Copy, Default)]
struct Nature {
    /// It depends on memory that other threads write, read in this turn.
    read: bool,
    /// It differs from the previous turn, whatever other threads do.
    changes: bool,
    /// It differs from the previous turn, but only by a constant.
    counts: bool,
}

/// Behaviour of a value that the turn carries back to its first block.
#[derive(Clone, Copy, PartialEq)]
enum Carried {
    Same,
    /// Rises or falls by a constant.
    Counter,
    /// Computed from memory read in this turn.
    Read,
    Other,
}

struct Turn<'a, 'm> {
    blocks: &'a [Block<'m>],
    runtime: &'a Runtime,
    carried: BTreeMap<Value<'m>, Carried>,
    /// Something in it orders memory, so plain loads must be repeated.
    fenced: bool,
    known: RefCell<BTreeMap<Value<'m>, Nature>>,
}

/// A turn that leaves everything unchanged.
pub(super) struct Idle<'m> {
    /// The read value that decides whether there is another turn.
    pub polled: Value<'m>,
    /// Pairs of values before and after the turn that must be equal for the turn to be idle.
    pub held: Vec<[Value<'m>; 2]>,
    /// The thread suspends in each turn anyway, at a barrier or an operation of its warp.
    pub suspends: bool,
}

/// Describes the turn, if only writes of other threads can end the loop; a counter may bound it.
pub(super) fn idle_turn<'m>(blocks: &[Block<'m>], runtime: &Runtime) -> Option<Idle<'m>> {
    let all: Vec<Value> = blocks.iter().flat_map(|block| block.instructions()).collect();
    let orders = |i: &Value| match i.opcode() {
        Some(Opcode::LLVMFence) => true,
        Some(Opcode::LLVMCall) => orders_memory(*i, runtime),
        _ => false,
    };
    // A thread that sleeps or reads with `ld.acquire` yields there.
    if all.iter().any(|i| i.opcode() == Some(Opcode::LLVMCall) && crate::suspend::yields(&name_of(*i))) {
        return None;
    }
    let fenced = all.iter().any(orders);
    let mut calls = all.iter().filter(|i| i.opcode() == Some(Opcode::LLVMCall));
    let suspends = calls.any(|call| self::suspends(*call, runtime));
    let views = [(false, false), (true, false), (false, true), (true, true)];
    let mut views = views.into_iter().filter(|(needs_fence, _)| fenced || !needs_fence);
    let (polled, held) = views.find_map(|(fenced, holds)| judge(blocks, runtime, &all, fenced, holds))?;
    Some(Idle { polled, held, suspends })
}

type Judged<'m> = (Value<'m>, Vec<[Value<'m>; 2]>);

/// With `holds`, values that change only on a condition are assumed unchanged, and are returned as pairs to compare.
fn judge<'m>(
    blocks: &[Block<'m>],
    runtime: &Runtime,
    all: &[Value<'m>],
    fenced: bool,
    holds: bool,
) -> Option<Judged<'m>> {
    let mut held = Vec::new();
    let mut turn = Turn { blocks, runtime, carried: BTreeMap::new(), fenced, known: RefCell::default() };
    let phis = blocks[0].instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMPHI));
    let phis: Vec<Value> = phis.collect();
    for &phi in &phis {
        let carried = turn.first_look(phi);
        turn.carried.insert(phi, carried);
    }
    for &phi in phis.iter().filter(|phi| turn.carried[phi] == Carried::Other).collect::<Vec<_>>() {
        turn.known.borrow_mut().clear();
        let next = turn.brought_back(phi)?;
        if holds && turn.may_hold(phi, next) {
            held.push([phi, next]);
            turn.carried.insert(phi, Carried::Same);
            continue;
        }
        let carried = if turn.counts_by_what_it_reads(phi, next) { Carried::Counter } else { Carried::Read };
        if carried == Carried::Read && turn.accumulates(next) {
            return None;
        }
        turn.carried.insert(phi, carried);
    }
    turn.known.borrow_mut().clear();
    if !turn.can_be_gone() {
        return None;
    }
    let counts = turn.carried.values().any(|&carried| carried == Carried::Counter);
    let swaps_anew = |i: &Value<'m>| turn.is_atomic(*i) && turn.nature(*i, 0).changes;
    if fenced && counts || all.iter().any(swaps_anew) || !turn.stores_hand_on(all) {
        return None;
    }
    let decides = |block: &Block<'m>| {
        let end = block.terminator();
        end.successors().len() > 1 && turn.decides_another_turn(end.operand(0))
    };
    let polled = |i: &&Value<'m>| turn.reads(**i) && turn.decides_another_turn(**i);
    let polled = all.iter().find(polled).copied()?;
    let decided =
        blocks.iter().any(decides) || held.iter().any(|[_, after]| turn.decides_another_turn(*after));
    decided.then_some((polled, held))
}

impl<'m> Turn<'_, 'm> {
    fn is_inside(&self, value: Value<'m>) -> bool {
        value.is_instruction() && self.blocks.contains(&value.parent())
    }

    /// The value that a PHI of a later block has in this turn.
    fn follow(&self, mut value: Value<'m>) -> Value<'m> {
        for _ in 0..self.blocks.len() {
            let phi = value.is_instruction() && value.opcode() == Some(Opcode::LLVMPHI);
            let at = self.blocks.iter().position(|&block| phi && block == value.parent());
            let Some(at) = at.filter(|&at| at > 0) else { return value };
            let Some(from) = incoming_from(value, self.blocks[at - 1]) else { return value };
            value = from;
        }
        value
    }

    /// False if a constant that the turn itself provides makes a branch leave the turn.
    fn can_be_gone(&self) -> bool {
        let next = self.blocks.iter().cycle().skip(1);
        self.blocks.iter().zip(next).all(|(block, next)| {
            let end = block.terminator();
            let ways = end.successors();
            let decided = (ways.len() > 1).then(|| self.follow(end.operand(0)).constant_integer()).flatten();
            let Some(constant) = decided else { return true };
            let way = match end.opcode() {
                Some(Opcode::LLVMBr) => usize::from(constant == 0),
                Some(Opcode::LLVMSwitch) => {
                    let number = |way: usize| end.case_value(way as u32)?.constant_integer();
                    (1..ways.len()).find(|&way| number(way) == Some(constant)).unwrap_or(0)
                }
                _ => return true,
            };
            ways[way] == *next
        })
    }

    /// The value of a PHI of the first block at the end of the turn.
    fn brought_back(&self, phi: Value<'m>) -> Option<Value<'m>> {
        incoming_from(phi, self.blocks[self.blocks.len() - 1]).map(|value| self.follow(value))
    }

    fn first_look(&self, phi: Value<'m>) -> Carried {
        let Some(next) = self.brought_back(phi) else { return Carried::Other };
        if next == phi || !self.is_inside(next) {
            return Carried::Same;
        }
        let adds = matches!(next.opcode(), Some(Opcode::LLVMAdd | Opcode::LLVMSub));
        let by_constant = adds && next.operand(1).constant_integer().is_some();
        if by_constant && self.follow(next.operand(0)) == phi { Carried::Counter } else { Carried::Other }
    }

    /// True if `next` is either `phi` or another value, depending on a condition. It must be known at the end of the
    /// turn.
    fn may_hold(&self, phi: Value<'m>, next: Value<'m>) -> bool {
        let in_time = [self.blocks[0], self.blocks[self.blocks.len() - 1]].contains(&next.parent());
        let bit = |value: Value| {
            let wide = matches!(value.opcode(), Some(Opcode::LLVMSExt | Opcode::LLVMZExt));
            wide && value.operand(0).ty().integer_bits() == Some(1)
        };
        let is_phi = |index: u32| self.follow(next.operand(index)) == phi;
        in_time
            && match next.opcode() {
                Some(Opcode::LLVMSelect) => is_phi(1) || is_phi(2),
                Some(Opcode::LLVMAdd | Opcode::LLVMSub) => is_phi(0) && bit(next.operand(1)),
                _ => false,
            }
    }

    /// True for a sum that depends on values read, such as the counter of a bounded wait that counts idle turns only.
    fn counts_by_what_it_reads(&self, phi: Value<'m>, next: Value<'m>) -> bool {
        let sums = matches!(next.opcode(), Some(Opcode::LLVMAdd | Opcode::LLVMSub));
        sums && self.follow(next.operand(0)) == phi && !self.accumulates(next.operand(1))
    }

    fn accumulates(&self, value: Value<'m>) -> bool {
        let nature = self.nature(value, 0);
        nature.changes || nature.counts
    }

    fn is_atomic(&self, value: Value<'m>) -> bool {
        match value.opcode() {
            Some(Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg) => true,
            Some(Opcode::LLVMCall) => is_atomic_call(value),
            _ => false,
        }
    }

    /// True if `value` itself reads memory that other threads write.
    fn reads(&self, value: Value<'m>) -> bool {
        let load = value.opcode() == Some(Opcode::LLVMLoad);
        load && (self.fenced || value.is_volatile() || value.is_atomic()) || self.is_atomic(value)
    }

    /// True if stores only write back values just read from memory that other threads write, always at one place.
    fn stores_hand_on(&self, all: &[Value<'m>]) -> bool {
        // A value read in an earlier turn may come from plain memory.
        let earlier = |carried| if carried == Carried::Read { Carried::Other } else { carried };
        let carried = self.carried.iter().map(|(&phi, &carried)| (phi, earlier(carried))).collect();
        let plainly = Turn { fenced: false, carried, known: RefCell::default(), ..*self };
        let mut stores = all.iter().filter(|i| i.opcode() == Some(Opcode::LLVMStore));
        stores.all(|store| {
            let at = plainly.nature(store.operand(1), 0);
            let value = plainly.nature(store.operand(0), 0);
            let repeats = value.read && !value.changes && !value.counts && !self.steps_on(*store);
            !at.changes && !at.counts && repeats
        })
    }

    /// True if `store` writes a value computed from what its own place holds, such as a ring's next index: the next
    /// turn then reads and writes another value.
    fn steps_on(&self, store: Value<'m>) -> bool {
        let mut open = vec![self.follow(store.operand(0))];
        let mut seen = BTreeSet::new();
        // Written back as read, the value stays the same.
        if self.loads_from(open[0], store.operand(1)) {
            return false;
        }
        while let Some(value) = open.pop() {
            if !self.is_inside(value) || !seen.insert(value) {
                continue;
            }
            if self.loads_from(value, store.operand(1)) || seen.len() > DEPTH_MAX {
                return true;
            }
            let leaf = matches!(value.opcode(), Some(Opcode::LLVMLoad | Opcode::LLVMPHI));
            let operands = if leaf { Vec::new() } else { value.operands() };
            open.extend(operands.into_iter().map(|operand| self.follow(operand)));
        }
        false
    }

    fn loads_from(&self, value: Value<'m>, place: Value<'m>) -> bool {
        let reads =
            value.is_instruction() && (value.opcode() == Some(Opcode::LLVMLoad) || self.is_atomic(value));
        reads && self.is_same(value.operand(0), place, 0)
    }

    /// True if both are the same value, or are computed alike from the same values.
    fn is_same(&self, one: Value<'m>, other: Value<'m>, depth: usize) -> bool {
        let (one, other) = (self.follow(one), self.follow(other));
        if one == other {
            return true;
        }
        // What an instruction computes must follow from its operands: not so for comparisons.
        let computes = |value: Value| {
            let compares = matches!(value.opcode(), Some(Opcode::LLVMICmp | Opcode::LLVMFCmp));
            value.is_instruction() && pure::computes(value) && !compares
        };
        let element = |value: Value<'m>| {
            (value.opcode() == Some(Opcode::LLVMGetElementPtr)).then(|| value.gep_source())
        };
        let alike = depth <= SAME_DEPTH_MAX && computes(one) && computes(other);
        if !alike || (one.opcode(), one.ty(), element(one)) != (other.opcode(), other.ty(), element(other)) {
            return false;
        }
        let (ones, others) = (one.operands(), other.operands());
        let same = |(&one, &other): (&Value<'m>, &Value<'m>)| self.is_same(one, other, depth + 1);
        ones.len() == others.len() && ones.iter().zip(&others).all(same)
    }

    fn decides_another_turn(&self, value: Value<'m>) -> bool {
        let nature = self.nature(value, 0);
        nature.read && !nature.changes
    }

    fn nature(&self, value: Value<'m>, depth: usize) -> Nature {
        let value = self.follow(value);
        if !self.is_inside(value) {
            return Nature::default();
        }
        if let Some(&known) = self.known.borrow().get(&value) {
            return known;
        }
        let nature = self.compute_nature(value, depth);
        self.known.borrow_mut().insert(value, nature);
        nature
    }

    fn compute_nature(&self, value: Value<'m>, depth: usize) -> Nature {
        match self.carried.get(&value) {
            Some(Carried::Same) => return Nature::default(),
            Some(Carried::Read) => return Nature { read: true, ..Nature::default() },
            Some(Carried::Counter) => return Nature { counts: true, ..Nature::default() },
            Some(Carried::Other) => return Nature { changes: true, ..Nature::default() },
            None => {}
        }
        let call = value.opcode() == Some(Opcode::LLVMCall);
        let clock = call && ["clock", "globaltimer"].iter().any(|part| name_of(value).contains(part));
        if depth > DEPTH_MAX || clock || value.opcode() == Some(Opcode::LLVMPHI) {
            return Nature { changes: true, ..Nature::default() };
        }
        let operands = if call { value.call_arguments() } else { value.operands() };
        let accesses = self.is_atomic(value) || value.opcode() == Some(Opcode::LLVMLoad);
        let mut nature = Nature { read: self.reads(value), ..Nature::default() };
        for operand in operands {
            let of = self.nature(operand, depth + 1);
            nature.read |= of.read;
            nature.changes |= of.changes || accesses && of.counts;
            nature.counts |= of.counts;
        }
        // The result of a warp operation depends on the values of other threads.
        nature.read |= call && self.runtime.suspends(&name_of(value)) && !is_block_barrier(value);
        nature
    }
}

fn incoming_from<'m>(phi: Value<'m>, block: Block<'m>) -> Option<Value<'m>> {
    phi.incoming().into_iter().find(|(_, from)| *from == block).map(|(value, _)| value)
}
