//! Runs threads of a warp in step, for code that relies on it: before Volta a warp's threads ran each instruction
//! together, and old reductions, scans and transposes exchange values through shared memory without `__syncwarp()`.
//!
//! Such code is wrong by CUDA's rules (CUDA C++ programming guide, "Independent Thread Scheduling"), but works on many
//! GPUs. Here every access that takes part in such an exchange becomes a *step*: a thread of the warp waits there until
//! the threads behind it have come as far ([`order`] defines which are behind). A step names no threads and is answered
//! last of all, so no thread can wait forever. Trap: threads then no longer run in rising order, which sums of atomics
//! on floating-point numbers show.

mod hazards;
mod lanes;
pub(crate) mod order;

use std::collections::{BTreeMap, BTreeSet};

use crate::llvm::{Opcode, Type, Value};
use crate::thread::Lowering;
use crate::{LockStep, places, polls, suspend};
use hazards::{Access, Verdict};
use order::Order;

/// Limit on the basic blocks of a kernel that is analysed.
const BLOCKS_MAX: usize = 2048;
/// Number of places named in a note.
const PLACES_MAX: usize = 4;

/// Inserts steps where `kernel` relies on them, and returns those places outside of libraries: each `file:line` once.
pub(crate) fn insert_steps(lowering: Lowering, kernel: Value) -> Vec<String> {
    let way = lowering.options.lock_step;
    let blocks = kernel.blocks().len();
    if way == LockStep::Off || blocks > BLOCKS_MAX || !concerns(kernel) && way != LockStep::All {
        return Vec::new();
    }
    let order = Order::of(kernel);
    let accesses = hazards::accesses(&order, lowering.machine, lowering.constants);
    let mut relying = exchanging_accesses(lowering, &accesses, &order);
    if way == LockStep::All {
        relying.extend(volatile_global(&order, &accesses));
    }
    if relying.is_empty() {
        return Vec::new();
    }
    // Blocks with polling loops get no step: its thread might wait there for a thread that waits at the step.
    let waiting = polls::waiting_blocks(kernel, lowering.runtime);
    relying.retain(|access, _| !waiting.contains(&access.parent()));
    let mut said: Vec<String> = Vec::new();
    for place in relying.keys().filter_map(|access| places::noted(lowering.context, *access)) {
        if !said.contains(&place) {
            said.push(place);
        }
    }
    let are_known = !said.is_empty();
    // Libraries keep CUDA's rules by means that are not seen here, and their users cannot change them.
    said.retain(|place| !places::is_in_library(place));
    said.sort_by_key(|place| line_of(place));
    said.truncate(PLACES_MAX);
    let steps = steps_of_cycles(&order, &relying, |block| waiting.contains(&order.blocks[block]));
    insert_step_calls(lowering, &order, &relying, &steps);
    if !are_known && !relying.is_empty() { vec!["an unknown line".to_owned()] } else { said }
}

/// Line number of a place, for sorting: `f.cu:9` comes before `f.cu:10`.
fn line_of(place: &str) -> u64 {
    let digits = place.split(':').nth(1).map_or("", |rest| rest.trim_start_matches(' '));
    digits.bytes().take_while(u8::is_ascii_digit).fold(0, |line, digit| line * 10 + u64::from(digit - b'0'))
}

/// True if threads of `kernel` may exchange values through shared memory.
pub(crate) fn concerns(kernel: Value) -> bool {
    hazards::stores_shared(kernel)
}

/// Returns the accesses that take part in exchanges, with the block of each.
fn exchanging_accesses<'m>(
    lowering: Lowering<'m>,
    accesses: &[Access<'m>],
    order: &Order<'m>,
) -> BTreeMap<Value<'m>, usize> {
    let wanted = match lowering.options.lock_step {
        LockStep::Off | LockStep::Auto => Verdict::Relies,
        LockStep::Suspected | LockStep::All => Verdict::MayRely,
    };
    let mut relying = BTreeMap::new();
    hazards::exchanges(accesses, order, lowering.machine, lowering.runtime, |one, other, verdict| {
        if verdict >= wanted {
            for access in [one, other].map(|number| &accesses[number]) {
                relying.insert(access.instruction, access.block);
            }
        }
    });
    relying
}

/// Returns volatile accesses to memory other than shared memory.
fn volatile_global<'m>(order: &Order<'m>, shared: &[Access<'m>]) -> Vec<(Value<'m>, usize)> {
    let shared: BTreeSet<Value> = shared.iter().map(|access| access.instruction).collect();
    let mut found = Vec::new();
    for (number, block) in order.blocks.iter().enumerate() {
        let volatile = |i: &Value| {
            let accesses = matches!(i.opcode(), Some(Opcode::LLVMLoad | Opcode::LLVMStore));
            accesses && i.is_volatile() && !shared.contains(i)
        };
        found.extend(block.instructions().into_iter().filter(volatile).map(|access| (access, number)));
    }
    found
}

/// Returns ends of blocks at which threads wait for those still in the same turn of a loop, with the number of the last
/// block of the loop: for each loop that some path passes without another step.
fn steps_of_cycles(
    order: &Order,
    relying: &BTreeMap<Value, usize>,
    waits: impl Fn(usize) -> bool,
) -> BTreeMap<usize, usize> {
    let through: BTreeSet<usize> = relying.values().copied().collect();
    let mut steps = BTreeMap::new();
    for cycle in &order.cycles {
        let concerned = through.iter().any(|block| cycle.members.contains(block));
        if concerned
            && !order.always_passes(cycle, &through)
            && !cycle.latches.iter().any(|&block| waits(block))
        {
            steps.extend(cycle.latches.iter().map(|&latch| (latch, cycle.last)));
        }
    }
    steps
}

/// Inserts the calls, with numbers that rise with the order of control.
fn insert_step_calls(
    lowering: Lowering,
    order: &Order,
    relying: &BTreeMap<Value, usize>,
    of_cycles: &BTreeMap<usize, usize>,
) {
    let (context, module) = (lowering.context, lowering.module);
    let i32 = context.int_type(32);
    let step = |before: Value, number: u64| {
        let ty = Type::function(context.void_type(), &[i32]);
        let function =
            module.function(suspend::STEP).unwrap_or_else(|| module.add_function(suspend::STEP, ty));
        context.builder().before(before).call(function, &[i32.constant(number)]);
    };
    let length = order.blocks.iter().map(|block| block.instructions().len() as u64).max().unwrap_or(0) + 2;
    for (number, block) in order.blocks.iter().enumerate() {
        // True if all threads of the warp have come this far since this thread last stored.
        let mut settled = false;
        for (position, instruction) in (1..).zip(block.instructions()) {
            let stores = instruction.opcode() == Some(Opcode::LLVMStore);
            if relying.contains_key(&instruction) && (stores || !settled) {
                step(instruction, number as u64 * length + position);
                settled = true;
            }
            settled &= !stores;
        }
        if let Some(last) = of_cycles.get(&number) {
            step(block.terminator(), (*last as u64 + 1) * length - 1);
        }
    }
}
