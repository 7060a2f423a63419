//! Cuts a thread's code at its barriers into regions, each of which is run for all threads of the block before the next.
//!
//! The thread function takes the number of the region to run and returns that of the next (0: the thread has exited); a
//! region is what this function becomes when it is inlined with a constant number, so nothing is cloned here. Values
//! that live across a barrier lie in arrays with one element per thread. Threads may go different ways: a region is run
//! for those that are due there. (Continuation-based synchronisation: J. Meyer et al., "Implementation Techniques for
//! SPMD Kernels on CPUs", IWOCL 2023.) Trap: LLVM's `reg2mem` must have run on the whole module between [`mark_regions`]
//! and [`cut`]: it puts every value that crosses blocks into a stack slot, without which the cut would break them.

use std::collections::{BTreeMap, BTreeSet};

use crate::body::{Maker, helper, is_barrier_call};
use crate::llvm::{Block, Opcode, Value};

/// More barriers than this take longer to compile than they save.
pub(crate) const BARRIERS_MAX: usize = 24;
/// Name of the block that region `n` starts with, `n` behind it.
const REGION: &str = "eager.region.";
/// Name of the block whose stack slots belong to one run of a region.
const COUNTERS: &str = "eager.counters";

/// Parameters of the thread function behind those that every body has.
pub(crate) const FRAMES: u32 = 6;
pub(crate) const INDEX: u32 = 7;
pub(crate) const THREADS: u32 = 8;
pub(crate) const STATE: u32 = 9;

/// Splits blocks at barriers; returns how many there are. The barriers stay for [`cut`].
pub(crate) fn mark_regions(maker: Maker, function: Value, counters: Value) -> usize {
    counters.set_name(COUNTERS);
    let mut barriers = 0;
    for barrier in function.instructions().into_iter().filter(|&i| is_barrier_call(i)) {
        barriers += 1;
        let builder = maker.context.builder();
        let head = barrier.parent();
        let tail = builder.split_before(barrier, &format!("{REGION}{barriers}"));
        builder.at_end(head).branch(tail);
    }
    barriers
}

/// Makes of the whole function one that runs a region. Returns the bytes per thread that its arrays take.
pub(crate) fn cut(maker: Maker, function: Value) -> u64 {
    let blocks = function.blocks();
    let starts: BTreeMap<u64, Block> = blocks
        .iter()
        .filter_map(|&block| Some((block.name().strip_prefix(REGION)?.parse().ok()?, block)))
        .collect();
    let entry = blocks[0];
    let slots: Vec<Value> =
        entry.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMAlloca)).collect();
    for &slot in &slots {
        forget_lifetime(slot);
    }
    let counters = slots.iter().copied().find(|slot| slot.name() == COUNTERS);
    let kept = slots_across_barriers(function, &slots, &starts.values().copied().collect::<Vec<_>>());
    let mut own: Vec<Value> = kept.into_iter().filter(|slot| Some(*slot) != counters).collect();
    // From large to small alignment: so all arrays are aligned, whatever the number of threads.
    own.sort_by_key(|slot| std::cmp::Reverse(slot.alignment()));
    let bytes = own.iter().map(|slot| element_bytes(maker, *slot)).sum();
    place_in_arrays(maker, function, &own, *slots.last().expect("the counters' slot is there"));
    let i32 = maker.context.int_type(32);
    let flush = helper(maker.module, "eager.flush");
    let out = function.params()[4];
    let finish = |end: Value, next: u64| {
        let block = end.parent();
        end.erase();
        let builder = maker.context.builder();
        builder.at_end(block);
        if let Some(counters) = counters {
            builder.call(flush, &[counters, out]);
        }
        builder.return_value(i32.constant(next));
    };
    for end in function.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMRet)) {
        finish(end, 0);
    }
    for (&number, &start) in &starts {
        for before in function.blocks() {
            let end = before.terminator();
            if end.successors() == [start] {
                finish(end, number);
            }
        }
        start.instructions().into_iter().filter(|&i| is_barrier_call(i)).for_each(Value::erase);
    }
    let end = entry.terminator();
    let first = end.successors()[0];
    end.erase();
    let cases: Vec<(u64, Block)> = starts.into_iter().collect();
    maker.context.builder().at_end(entry).switch(function.params()[STATE as usize], first, &cases);
    bytes
}

/// Takes away the markers of where a slot begins and ends to be used: they are for stack slots only, and an element of an
/// array stays.
fn forget_lifetime(slot: Value) {
    for user in slot.users() {
        let call = user.opcode() == Some(Opcode::LLVMCall);
        if call && user.callee().is_some_and(|callee| callee.name().starts_with("llvm.lifetime.")) {
            user.erase();
        }
    }
}

/// Bytes of a slot in its array.
fn element_bytes(maker: Maker, slot: Value) -> u64 {
    maker.machine.size_of(slot.allocated_type()).next_multiple_of(u64::from(slot.alignment()).max(1))
}

/// The slots whose contents some region needs from one before it: those whose address goes somewhere else than into
/// loads and stores, and those that are live where a region starts.
fn slots_across_barriers(function: Value, slots: &[Value], starts: &[Block]) -> BTreeSet<Value> {
    let simple = |slot: &Value| {
        slot.users().into_iter().all(|user| match user.opcode() {
            Some(Opcode::LLVMLoad) => true,
            Some(Opcode::LLVMStore) => user.operand(1) == *slot && user.operand(0) != *slot,
            _ => false,
        })
    };
    let (tracked, mut kept): (BTreeSet<Value>, BTreeSet<Value>) = slots.iter().partition(|slot| simple(slot));
    let blocks = function.blocks();
    // What a block reads before it writes, and what it writes.
    let effects: Vec<(BTreeSet<Value>, BTreeSet<Value>)> =
        blocks.iter().map(|block| effects_of(*block, &tracked)).collect();
    let number: BTreeMap<Block, usize> = blocks.iter().enumerate().map(|(n, &block)| (block, n)).collect();
    let next: Vec<Vec<usize>> = blocks
        .iter()
        .map(|block| block.terminator().successors().into_iter().map(|to| number[&to]).collect())
        .collect();
    let mut live: Vec<BTreeSet<Value>> = vec![BTreeSet::new(); blocks.len()];
    loop {
        let mut changed = false;
        for block in (0..blocks.len()).rev() {
            let (reads, writes) = &effects[block];
            let mut here = reads.clone();
            for &to in &next[block] {
                here.extend(live[to].difference(writes));
            }
            changed |= here.len() != live[block].len();
            live[block] = here;
        }
        if !changed {
            break;
        }
    }
    kept.extend(starts.iter().flat_map(|start| live[number[start]].iter().copied()));
    kept
}

fn effects_of(block: Block, tracked: &BTreeSet<Value>) -> (BTreeSet<Value>, BTreeSet<Value>) {
    let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
    for instruction in block.instructions() {
        match instruction.opcode() {
            Some(Opcode::LLVMLoad) => {
                let from = instruction.operand(0);
                if tracked.contains(&from) && !writes.contains(&from) {
                    reads.insert(from);
                }
            }
            Some(Opcode::LLVMStore) if tracked.contains(&instruction.operand(1)) => {
                writes.insert(instruction.operand(1));
            }
            _ => {}
        }
    }
    (reads, writes)
}

/// Replaces stack slots by elements of arrays, one array after the other, one element per thread of the block.
fn place_in_arrays(maker: Maker, function: Value, slots: &[Value], last_slot: Value) {
    let i64 = maker.context.int_type(64);
    let [frames, index, threads] = [FRAMES, INDEX, THREADS].map(|param| function.params()[param as usize]);
    let builder = maker.context.builder();
    let mut before = 0;
    for &slot in slots {
        let bytes = element_bytes(maker, slot);
        builder.before(last_slot.next_instruction());
        let array = builder.binary(Opcode::LLVMMul, threads, i64.constant(before));
        let element = builder.binary(Opcode::LLVMMul, index, i64.constant(bytes));
        let array = builder.offset(frames, array);
        slot.replace_uses_with(builder.offset(array, element));
        before += bytes;
    }
    for &slot in slots.iter().filter(|slot| **slot != last_slot) {
        slot.erase();
    }
}
