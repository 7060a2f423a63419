//! Loops in which a thread waits for another by reading memory again and again: such a thread gives way.
//!
//! A turn of such a loop that changes nothing (an *idle turn*, [`idle`]) ends in a call that every so often suspends the thread,
//! so that those it waits for run, in its block and in blocks that have not begun. Trap: this is no promise of CUDA's for
//! every loop. A loop that reads plain memory, with nothing in it that orders memory, may be read once and never again by any
//! compiler, NVIDIA's too, and is left alone.

mod cycles;
mod idle;

use std::collections::BTreeSet;

use crate::llvm::{Block, Opcode, Split, Type, Value};
use crate::places;
use crate::runtime::Runtime;
use crate::suspend;
use crate::thread::Maker;
use idle::Idle;

/// Idle turns from one suspension to the next, a power of two: a suspension costs some hundred of them.
const IDLE_TURNS: u64 = 64;

/// One end of idle turns, and what is asked in them.
struct Poll {
    /// Where the turn goes on from the branch there.
    onward: Block,
    /// `file:line` of what is read again, where that is known.
    place: Option<String>,
    idle: Idle,
}

/// Blocks in which threads of `kernel` wait by asking again.
pub(crate) fn waiting_blocks(kernel: Value, runtime: &Runtime) -> BTreeSet<Block> {
    if !may_wait(kernel, runtime) {
        return BTreeSet::new();
    }
    let turns = cycles::quiet(kernel, |instruction| idle::is_quiet(instruction, runtime));
    turns.into_iter().filter(|turn| idle::asks_again(turn, runtime).is_some()).flatten().collect()
}

/// Makes threads of `kernel` give way in idle turns, and returns where they wait, each place once.
pub(crate) fn give_way(maker: Maker, kernel: Value) -> Vec<String> {
    if !may_wait(kernel, maker.runtime) {
        return Vec::new();
    }
    let mut polls: Vec<(Block, Poll)> = Vec::new();
    for turn in cycles::quiet(kernel, |instruction| idle::is_quiet(instruction, maker.runtime)) {
        let Some(idle) = idle::asks_again(&turn, maker.runtime) else { continue };
        let decides = |&at: &usize| turn[at].terminator().successors().len() > 1;
        let last = turn.len() - 1;
        let last = if idle.held.is_empty() { (0..=last).rev().find(decides) } else { Some(last) };
        let Some(last) = last else { continue };
        if polls.iter().any(|(block, _)| *block == turn[last]) {
            continue;
        }
        let onward = turn[(last + 1) % turn.len()];
        let place = places::noted(maker.context, idle.asked);
        polls.push((turn[last], Poll { onward, place, idle }));
    }
    let mut places: Vec<String> = Vec::new();
    let Some(count) = (!polls.is_empty()).then(|| add_count(maker, kernel)) else { return Vec::new() };
    for (block, poll) in polls {
        suspend_at_end(maker, block, &poll, count);
        places.extend(poll.place.filter(|place| !places.contains(place)));
    }
    places
}

/// Whether there is anything in `kernel` with which a thread could wait for what others write.
pub(crate) fn may_wait(kernel: Value, runtime: &Runtime) -> bool {
    kernel.instructions().into_iter().any(|instruction| match instruction.opcode() {
        Some(Opcode::LLVMLoad) => instruction.is_volatile() || instruction.is_atomic(),
        Some(Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg | Opcode::LLVMFence) => true,
        Some(Opcode::LLVMCall) => {
            idle::orders_memory(instruction, runtime) || idle::is_atomic_call(instruction)
        }
        _ => false,
    })
}

/// The thread's count of idle turns, which becomes a register.
fn add_count(maker: Maker, kernel: Value) -> Value {
    let first = kernel.blocks()[0].instructions()[0];
    let i32 = maker.context.int_type(32);
    let builder = maker.context.builder();
    builder.before(first);
    let count = builder.alloca(i32, 4);
    builder.store(i32.constant(0), count);
    count
}

/// Puts the question whether it is time to suspend before the branch at the end of `block`.
fn suspend_at_end(maker: Maker, block: Block, poll: &Poll, count: Value) {
    let (context, module) = (maker.context, maker.module);
    let (bit, ptr) = (context.int_type(1), context.ptr_type(0));
    let place = poll.place.as_ref().map_or(ptr.null(), |place| places::constant(context, module, place));
    let end = block.terminator();
    // Before the split, which gives what leads to `block` another name.
    let onward: Vec<bool> = end.successors().into_iter().map(|to| to == poll.onward).collect();
    let builder = context.builder();
    let Split { head, tail } = builder.split_before(end, "polled");
    builder.at_end(head);
    let mut idle = match onward[..] {
        [true, false] if end.opcode() == Some(Opcode::LLVMBr) => end.operand(0),
        [false, true] if end.opcode() == Some(Opcode::LLVMBr) => {
            builder.binary(Opcode::LLVMXor, end.operand(0), bit.constant(1))
        }
        _ => bit.constant(1),
    };
    for &[before, after] in &poll.idle.held {
        idle = builder.binary(Opcode::LLVMAnd, idle, builder.equal(before, after));
    }
    let turns = context.int_type(32).constant(if poll.idle.suspends { 1 } else { IDLE_TURNS });
    let function = |name: &str, result: Type, params: &[Type]| {
        module.function(name).unwrap_or_else(|| module.add_function(name, Type::function(result, params)))
    };
    let due = builder.call(function(suspend::POLL_DUE, bit, &[bit, ptr, turns.ty()]), &[idle, count, turns]);
    let yielding = context.append_block(block.function(), "gives.way");
    builder.branch_if(due, yielding, tail);
    builder.at_end(yielding);
    builder.call(function(suspend::POLL_YIELD, context.void_type(), &[ptr]), &[place]);
    builder.branch(tail);
}
