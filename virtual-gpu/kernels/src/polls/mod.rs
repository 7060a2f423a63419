//! Polling loops: a thread that waits for another by reading memory repeatedly yields.
//!
//! A turn of such a loop that changes nothing (an *idle turn*, [`idle`]) ends in a call that suspends the thread every
//! so often, so that the threads it waits for can run, in its block and in blocks that have not begun. CUDA does not
//! promise progress for every loop: a loop that reads plain memory, without anything that orders memory, may be read
//! once only by any compiler, NVIDIA's too, and is left alone.

mod cycles;
mod exits;
mod idle;

use std::collections::BTreeSet;

use crate::llvm::{Block, Opcode, Split, Type, Value};
use crate::places;
use crate::runtime::Runtime;
use crate::suspend;
use crate::thread::Lowering;
use idle::Idle;

/// Idle turns between suspensions, a power of two: a suspension costs as much as some hundred turns.
const IDLE_TURNS: u64 = 64;
/// The same for a loop whose turns change something ([`exits`]): they are longer, most with a pause of their own.
const BUSY_TURNS: u64 = 16;

/// The end of a turn at which the thread may yield.
struct Poll<'m> {
    /// The branch that decides whether there is another turn.
    end: Value<'m>,
    /// For each successor of the branch, whether the turn continues there.
    onward: Vec<bool>,
    /// `file:line` of the repeated read, if known.
    place: Option<String>,
    /// Pairs of values that must be equal for the turn to count.
    held: Vec<[Value<'m>; 2]>,
    /// Turns between suspensions.
    turns: u64,
}

/// Blocks of polling loops of `kernel`.
pub(crate) fn waiting_blocks<'m>(kernel: Value<'m>, runtime: &Runtime) -> BTreeSet<Block<'m>> {
    if !may_wait(kernel, runtime) {
        return BTreeSet::new();
    }
    let turns = cycles::quiet(kernel, |instruction| idle::is_quiet(instruction, runtime));
    turns.into_iter().filter(|turn| idle::idle_turn(turn, runtime).is_some()).flatten().collect()
}

/// Makes threads of `kernel` yield in idle turns, and returns the places where they poll, each once.
pub(crate) fn insert_yields<'m>(lowering: Lowering<'m>, kernel: Value<'m>) -> Vec<String> {
    if !may_wait(kernel, lowering.runtime) {
        return Vec::new();
    }
    name_sleeps(lowering, kernel);
    let mut polls: Vec<Poll<'m>> = Vec::new();
    // Found before any block is split, which redirects branches.
    let mut add =
        |end: Value<'m>, next: Block<'m>, polled: Value<'m>, held: Vec<[Value<'m>; 2]>, turns: u64| {
            let onward: Vec<bool> = end.successors().into_iter().map(|to| to == next).collect();
            // Nested loops may share the branch; a wait in the inner one does not take the outer one's way.
            if !polls.iter().any(|poll| poll.end == end && poll.onward == onward && poll.held == held) {
                polls.push(Poll { end, onward, place: places::noted(lowering.context, polled), held, turns });
            }
        };
    for turn in cycles::quiet(kernel, |instruction| idle::is_quiet(instruction, lowering.runtime)) {
        let Some(Idle { polled, held, suspends }) = idle::idle_turn(&turn, lowering.runtime) else {
            continue;
        };
        let decides = |&at: &usize| turn[at].terminator().successors().len() > 1;
        let last = turn.len() - 1;
        let last = if held.is_empty() { (0..=last).rev().find(decides) } else { Some(last) };
        let Some(last) = last else { continue };
        let next = turn[(last + 1) % turn.len()];
        add(turn[last].terminator(), next, polled, held, if suspends { 1 } else { IDLE_TURNS });
    }
    for waiting in exits::waiting_loops(kernel, lowering.runtime) {
        for latch in waiting.latches {
            add(latch.terminator(), waiting.head, waiting.polled, Vec::new(), BUSY_TURNS);
        }
    }
    let mut places: Vec<String> = Vec::new();
    let Some(count) = (!polls.is_empty()).then(|| add_count(lowering, kernel)) else { return Vec::new() };
    for poll in polls {
        suspend_before_branch(lowering, &poll, count);
        places.extend(poll.place.filter(|place| !places.contains(place)));
    }
    places
}

/// Gives each sleep its place, so that a message can name where a kernel waits that sleeps in its loop.
fn name_sleeps(lowering: Lowering, kernel: Value) {
    let (context, module) = (lowering.context, lowering.module);
    let ty = Type::function(context.void_type(), &[context.ptr_type(0)]);
    for call in kernel.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMCall)) {
        let sleeps = call.callee().is_some_and(|callee| suspend::yields(&callee.name()));
        let Some(place) = sleeps.then(|| places::noted(context, call)).flatten() else { continue };
        let yields = module.function(suspend::POLL_YIELD);
        let yields = yields.unwrap_or_else(|| module.add_function(suspend::POLL_YIELD, ty));
        context.builder().before(call).call(yields, &[places::constant(context, module, &place)]);
        call.erase();
    }
}

/// True if `kernel` contains an operation with which a thread could wait for writes of other threads.
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

/// Allocates the thread's count of idle turns, which becomes a register.
fn add_count<'m>(lowering: Lowering<'m>, kernel: Value<'m>) -> Value<'m> {
    let first = kernel.blocks()[0].instructions()[0];
    let i32 = lowering.context.int_type(32);
    let builder = lowering.context.builder();
    builder.before(first);
    let count = builder.alloca(i32, 4);
    builder.store(i32.constant(0), count);
    count
}

/// Inserts a check, before the branch, whether the thread must yield now.
fn suspend_before_branch(lowering: Lowering, poll: &Poll, count: Value) {
    let (context, module, end) = (lowering.context, lowering.module, poll.end);
    let (bit, ptr) = (context.int_type(1), context.ptr_type(0));
    let place = poll.place.as_ref().map_or(ptr.null(), |place| places::constant(context, module, place));
    let builder = context.builder();
    let Split { head, tail } = builder.split_before(end, "polled");
    builder.at_end(head);
    let mut idle = match poll.onward[..] {
        [true, false] if end.opcode() == Some(Opcode::LLVMBr) => end.operand(0),
        [false, true] if end.opcode() == Some(Opcode::LLVMBr) => {
            builder.binary(Opcode::LLVMXor, end.operand(0), bit.constant(1))
        }
        _ => bit.constant(1),
    };
    for &[before, after] in &poll.held {
        idle = builder.binary(Opcode::LLVMAnd, idle, builder.equal(before, after));
    }
    let turns = context.int_type(32).constant(poll.turns);
    let function = |name: &str, result: Type, params: &[Type]| {
        module.function(name).unwrap_or_else(|| module.add_function(name, Type::function(result, params)))
    };
    let due = builder.call(function(suspend::POLL_DUE, bit, &[bit, ptr, turns.ty()]), &[idle, count, turns]);
    let yielding = context.append_block(head.function(), "gives.way");
    builder.branch_if(due, yielding, tail);
    builder.at_end(yielding);
    builder.call(function(suspend::POLL_YIELD, context.void_type(), &[ptr]), &[place]);
    builder.branch(tail);
}
