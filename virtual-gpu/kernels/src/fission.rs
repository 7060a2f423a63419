//! Cuts a thread's code at its barriers into regions, each of which is run for all threads of the block before the
//! next.
//!
//! The thread function takes the number of the region to run and returns that of the next (0: the thread has exited);
//! inlined with a constant number, it becomes that region, so nothing is cloned here. If all threads go the same way at
//! every branch that decides on the next region (`flow`), the function is cut at these branches too, so that they are
//! taken once for the block; values common to all threads are then kept once across a cut, other values in arrays with
//! one element per thread. Otherwise threads may diverge, and a region is run for those that are due there.
//! (Continuation-based synchronisation: J. Meyer et al., "Implementation Techniques for SPMD Kernels on CPUs", IWOCL
//! 2023.) Trap: LLVM's `reg2mem` must run on the whole module between [`mark_regions`] and [`cut`]: it puts every value
//! that crosses blocks into a stack slot, without which the cut would break them.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::count_accesses;
use crate::flow::{Divergence, Graph};
use crate::llvm::{Block, Opcode, Split, Value};
use crate::runtime::{helper, is_barrier_call, is_syncthreads};
use crate::thread::{Lowering, PART};
use crate::{places, pure, recompute};

/// Kernels with more barriers than this are not cut: compiling them takes longer than they save.
pub(crate) const BARRIERS_MAX: usize = 24;
/// A thread's code is not cut into more regions than this.
const REGIONS_MAX: usize = 48;
/// Name of the block that region `n` starts with, followed by `n`.
pub(crate) const REGION: &str = "eager.region.";
/// Name of the stack slot of the counters, which belongs to one run of a region.
pub(crate) const COUNTERS: &str = "eager.counters";

/// Parameters of the thread function after those that every body has: arrays of values, the thread's index in them,
/// their length, the region to run, and the addresses of the values common to all threads, before the region and after
/// it.
pub(crate) const FRAMES: u32 = PART + 1;
pub(crate) const INDEX: u32 = PART + 2;
const THREADS: u32 = PART + 3;
pub(crate) const STATE: u32 = PART + 4;
pub(crate) const UNIFORM: u32 = PART + 5;
pub(crate) const UNIFORM_NEXT: u32 = PART + 6;
/// First of the kernel's own parameters.
pub(crate) const OWN: u32 = PART + 7;

/// How a thread's code was cut.
#[derive(Debug)]
pub(crate) struct Cut {
    /// In no particular order, but threads begin with the first.
    pub regions: Vec<Region>,
    /// All threads always continue with the same region.
    pub uniform: bool,
    /// Bytes per thread of the arrays.
    pub bytes_per_thread: u64,
    /// Bytes of the values common to all threads.
    pub uniform_bytes: u64,
    /// `file:line` of the barriers before regions, by the region's number, where known.
    pub places: BTreeMap<u64, String>,
}

#[derive(Debug)]
pub(crate) struct Region {
    /// 0 for the region where threads begin; as a next region, 0 means none.
    pub number: u64,
    /// Numbers of the regions that may follow.
    pub next: BTreeSet<u64>,
    /// Does nothing that differs between threads, so one thread may run it for all.
    pub once: bool,
    /// Number of its guard.
    pub guard: Option<usize>,
    /// Accesses to memory other than stack slots.
    pub accesses: usize,
}

/// Splits blocks at barriers, and recomputes cheap values in each region. The barriers stay for [`cut`].
pub(crate) fn mark_regions(lowering: Lowering, function: Value, counters: Value, fixed: &[Value]) {
    counters.set_name(COUNTERS);
    // The function returns the next region: 0 keeps it valid until [`cut`] sets the number.
    let zero = lowering.context.int_type(32).constant(0);
    for end in function.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMRet)) {
        lowering.context.builder().before(end).return_value(zero);
        end.erase();
    }
    let mut starts = Vec::new();
    let barriers = function.instructions().into_iter().filter(|&i| is_barrier_call(i));
    // In reverse order: the tail of a split is the original block, so a split at a later barrier would move a recorded
    // start.
    for (number, barrier) in (1..).zip(barriers).collect::<Vec<(u64, Value)>>().into_iter().rev() {
        let builder = lowering.context.builder();
        let Split { head, tail } = builder.split_before(barrier, &format!("{REGION}{number}"));
        builder.at_end(head).branch(tail);
        starts.push(tail);
    }
    recompute::recompute_across(lowering.context, function, &starts, fixed);
}

/// Turns the function into one that runs a single region. `fixed` is memory that is not written while the kernel runs.
pub(crate) fn cut(lowering: Lowering, function: Value, fixed: &[Value]) -> Cut {
    let entry = function.blocks()[0];
    let slots: Vec<Value> =
        entry.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMAlloca)).collect();
    for &slot in &slots {
        forget_lifetime(slot);
    }
    let (simple, others): (BTreeSet<Value>, BTreeSet<Value>) =
        slots.iter().partition(|slot| is_simple(**slot));
    let mut ends = Ends { lowering, function, blocks: BTreeMap::new() };
    let places = barrier_places(lowering, &function.blocks());
    let mut starts = ends.at_barriers();
    let graph = Graph::new(function);
    let params = function.params();
    let divergence = Divergence::find(&graph, &params[1..4], &simple, fixed);
    let uniform = divergence.ends_uniformly(&graph);
    if uniform {
        ends.at_uniform_branches(&graph, &divergence, &mut starts);
    }
    let counters = slots.iter().copied().find(|slot| slot.name() == COUNTERS);
    let mut kept: BTreeSet<Value> =
        live_at_starts(function, &simple, &starts).into_values().flatten().collect();
    kept.extend(others.into_iter().filter(|slot| Some(*slot) != counters));
    // In order of falling alignment, so that all arrays are aligned for any number of threads.
    let mut kept: Vec<Value> = kept.into_iter().collect();
    kept.sort_by_key(|slot| std::cmp::Reverse(slot.alignment()));
    let is_uniform = |slot: &Value| uniform && simple.contains(slot) && !divergence.slots.contains(slot);
    let (uniform_slots, own): (Vec<Value>, Vec<Value>) = kept.into_iter().partition(is_uniform);
    let first = entry.terminator().successors()[0];
    starts.insert(0, first);
    let regions = describe(function, &starts, uniform, &own.iter().copied().collect(), fixed);
    let last_slot = *slots.last().expect("the counters' slot is there");
    let bytes_per_thread = own.iter().map(|slot| element_bytes(lowering, *slot)).sum();
    let uniform_bytes = carry_uniform(lowering, function, &uniform_slots, last_slot, &ends.returns());
    place_in_arrays(lowering, function, FRAMES, &own, last_slot);
    ends.flush_counters(counters, params[4]);
    entry.terminator().erase();
    let cases: Vec<(u64, Block)> = starts.into_iter().filter(|&(number, _)| number > 0).collect();
    lowering.context.builder().at_end(entry).switch(params[STATE as usize], first, &cases);
    Cut { regions, uniform, bytes_per_thread, uniform_bytes, places }
}

/// `file:line` of each `__syncthreads()` that these blocks' regions begin with.
fn barrier_places(lowering: Lowering, blocks: &[Block]) -> BTreeMap<u64, String> {
    let place = |block: Block| {
        let barrier = block.instructions().into_iter().find(|&i| is_barrier_call(i))?;
        places::noted(lowering.context, barrier).filter(|_| is_syncthreads(barrier))
    };
    first_blocks(blocks).into_iter().filter_map(|(number, block)| Some((number, place(block)?))).collect()
}

/// Blocks at which a thread's run of a region ends.
pub(crate) struct Ends<'a> {
    pub lowering: Lowering<'a>,
    pub function: Value<'a>,
    /// The block that returns a next region, by that region's number.
    pub blocks: BTreeMap<u64, Block<'a>>,
}

impl<'a> Ends<'a> {
    /// Returns the block that ends a region and continues with `next`.
    pub fn before(&mut self, next: u64) -> Block<'a> {
        let context = self.lowering.context;
        *self.blocks.entry(next).or_insert_with(|| {
            let block = context.append_block(self.function, "end");
            context.builder().at_end(block).return_value(context.int_type(32).constant(next));
            block
        })
    }

    /// Returns the return instructions.
    fn returns(&self) -> Vec<Value<'a>> {
        self.blocks.values().map(|block| block.terminator()).collect()
    }

    /// Ends regions at the function's returns and before barriers. Returns the first blocks of the regions after the
    /// barriers.
    pub fn at_barriers(&mut self) -> BTreeMap<u64, Block<'a>> {
        let blocks = self.function.blocks();
        let starts = first_blocks(&blocks);
        let numbers: BTreeMap<Block, u64> = starts.iter().map(|(&number, &start)| (start, number)).collect();
        for block in blocks {
            let end = block.terminator();
            let next = match end.successors().as_slice() {
                [] if end.opcode() == Some(Opcode::LLVMRet) => 0,
                [to] if numbers.contains_key(to) => numbers[to],
                _ => continue,
            };
            end.erase();
            let to = self.before(next);
            self.lowering.context.builder().at_end(block).branch(to);
        }
        for start in starts.values() {
            start.instructions().into_iter().filter(|&i| is_barrier_call(i)).for_each(Value::erase);
        }
        starts
    }

    /// Ends regions at branches that all threads take alike, if the branch decides which region comes next.
    fn at_uniform_branches(
        &mut self,
        graph: &Graph<'a>,
        divergence: &Divergence<'a>,
        starts: &mut BTreeMap<u64, Block<'a>>,
    ) {
        let mut numbers: BTreeMap<Block, u64> =
            starts.iter().map(|(&number, &start)| (start, number)).collect();
        for (block, next) in graph.next.iter().enumerate() {
            let decides =
                next.len() > 1 && divergence.branches_uniformly(block) && graph.decides_an_end(block);
            if !decides || starts.len() + next.len() > REGIONS_MAX {
                continue;
            }
            let branch = graph.blocks[block].terminator();
            for (index, &to) in (0..).zip(next) {
                let to = graph.blocks[to];
                let new = numbers.len() as u64 + 1;
                let number = *numbers.entry(to).or_insert(new);
                if starts.insert(number, to).is_none() {
                    to.set_name(&format!("{REGION}{number}"));
                }
                branch.set_successor(index, self.before(number));
            }
        }
    }

    pub fn flush_counters(&self, counters: Option<Value<'a>>, out: Value<'a>) {
        let Some(counters) = counters else { return };
        let flush = helper(self.lowering.module, "eager.flush");
        for end in self.returns() {
            self.lowering.context.builder().before(end).call(flush, &[counters, out]);
        }
    }
}

/// Returns the first blocks of regions by number, without the one that threads begin with.
pub(crate) fn first_blocks<'m>(blocks: &[Block<'m>]) -> BTreeMap<u64, Block<'m>> {
    let number = |block: Block| block.name().strip_prefix(REGION)?.parse().ok();
    blocks.iter().filter_map(|&block| Some((number(block)?, block))).collect()
}

/// Describes the regions with these first blocks. `own` are the slots that each thread has for itself.
fn describe(
    function: Value,
    starts: &BTreeMap<u64, Block>,
    uniform: bool,
    own: &BTreeSet<Value>,
    fixed: &[Value],
) -> Vec<Region> {
    let graph = Graph::new(function);
    let describe = |(&number, start): (&u64, &Block)| {
        let blocks: Vec<Block> =
            graph.reached(graph.number[start], None).into_iter().map(|block| graph.blocks[block]).collect();
        let ends = blocks.iter().map(|block| block.terminator());
        let returned = ends.filter(|end| end.opcode() == Some(Opcode::LLVMRet));
        let next = returned.filter_map(|end| end.operand(0).constant_integer()).collect();
        let differs = |i: Value| does_something(i, own, fixed);
        let once = uniform && !blocks.iter().any(|block| block.instructions().into_iter().any(differs));
        let instructions: Vec<Value> = blocks.iter().flat_map(|block| block.instructions()).collect();
        Region { number, next, once, guard: None, accesses: count_accesses(&instructions) }
    };
    starts.iter().map(describe).collect()
}

/// True if it matters how many threads run `instruction`.
fn does_something(instruction: Value, own: &BTreeSet<Value>, fixed: &[Value]) -> bool {
    let is_slot = |at: Value| at.opcode() == Some(Opcode::LLVMAlloca) && !own.contains(&at);
    match instruction.opcode() {
        Some(Opcode::LLVMStore) => !is_slot(instruction.operand(1)),
        Some(Opcode::LLVMLoad) => !is_slot(instruction.operand(0)) && !pure::reads_fixed(instruction, fixed),
        Some(Opcode::LLVMCall) if pure::is_uniform_call(instruction) => false,
        Some(Opcode::LLVMBr | Opcode::LLVMSwitch | Opcode::LLVMRet) => false,
        _ => !pure::computes(instruction),
    }
}

/// Removes the lifetime markers of a slot: they are for stack slots only, and an element of an array stays alive.
pub(crate) fn forget_lifetime(slot: Value) {
    for user in slot.users() {
        let call = user.opcode() == Some(Opcode::LLVMCall);
        if call && user.callee().is_some_and(|callee| callee.name().starts_with("llvm.lifetime.")) {
            user.erase();
        }
    }
}

/// Bytes of a slot in its array.
pub(crate) fn element_bytes(lowering: Lowering, slot: Value) -> u64 {
    lowering.machine.size_of(slot.allocated_type()).next_multiple_of(u64::from(slot.alignment()).max(1))
}

/// True if a slot's address is used by loads and stores only.
pub(crate) fn is_simple(slot: Value) -> bool {
    slot.users().into_iter().all(|user| match user.opcode() {
        Some(Opcode::LLVMLoad) => true,
        Some(Opcode::LLVMStore) => user.operand(1) == slot && user.operand(0) != slot,
        _ => false,
    })
}

/// For each region, the slots of `tracked` (slots that are only loaded and stored) whose contents it or a later region
/// needs from an earlier one.
///
/// Trap: regions end with the number of the next one, without a branch to it. A slot that only the next but one region
/// reads must also be live at the start of the next.
pub(crate) fn live_at_starts<'m>(
    function: Value<'m>,
    tracked: &BTreeSet<Value<'m>>,
    starts: &BTreeMap<u64, Block<'m>>,
) -> BTreeMap<u64, BTreeSet<Value<'m>>> {
    let graph = Graph::new(function);
    let next_region = |block: &Block| {
        let end = Some(block.terminator()).filter(|end| end.opcode() == Some(Opcode::LLVMRet))?;
        let start = starts.get(&end.operand(0).constant_integer()?)?;
        Some(graph.number[start])
    };
    let next: Vec<Vec<usize>> = graph
        .blocks
        .iter()
        .zip(&graph.next)
        .map(|(block, next)| match next.as_slice() {
            [] => next_region(block).into_iter().collect(),
            next => next.to_vec(),
        })
        .collect();
    // For each block, slots that it reads before writing them, and slots that it writes.
    let effects: Vec<(BTreeSet<Value>, BTreeSet<Value>)> =
        graph.blocks.iter().map(|block| effects_of(*block, tracked)).collect();
    let mut live: Vec<BTreeSet<Value>> = vec![BTreeSet::new(); graph.blocks.len()];
    loop {
        let mut changed = false;
        for block in (0..graph.blocks.len()).rev() {
            let (reads, writes) = &effects[block];
            let mut here = reads.clone();
            for &to in &next[block] {
                here.extend(live[to].difference(writes));
            }
            changed |= here.len() != live[block].len();
            live[block] = here;
        }
        if !changed {
            let of = |start: &Block| live[graph.number[start]].clone();
            return starts.iter().map(|(&number, start)| (number, of(start))).collect();
        }
    }
}

fn effects_of<'m>(
    block: Block<'m>,
    tracked: &BTreeSet<Value<'m>>,
) -> (BTreeSet<Value<'m>>, BTreeSet<Value<'m>>) {
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

/// Replaces stack slots by elements of arrays, one array after the other, one element per thread of the block, starting
/// at the address in the parameter `arrays`.
pub(crate) fn place_in_arrays(
    lowering: Lowering,
    function: Value,
    arrays: u32,
    slots: &[Value],
    last_slot: Value,
) {
    let i64 = lowering.context.int_type(64);
    let [frames, index, threads] = [arrays, INDEX, THREADS].map(|param| function.params()[param as usize]);
    let builder = lowering.context.builder();
    let mut before = 0;
    for &slot in slots {
        let bytes = element_bytes(lowering, slot);
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

/// Loads the values of `slots`, common to all threads, when a region begins, and stores them where it ends. Returns the
/// bytes that they take.
fn carry_uniform(
    lowering: Lowering,
    function: Value,
    slots: &[Value],
    last_slot: Value,
    ends: &[Value],
) -> u64 {
    let i64 = lowering.context.int_type(64);
    let [common, next] = [UNIFORM, UNIFORM_NEXT].map(|param| function.params()[param as usize]);
    let builder = lowering.context.builder();
    let mut before = 0;
    for &slot in slots {
        let at = |start| builder.offset(start, i64.constant(before));
        builder.before(last_slot.next_instruction());
        let value = builder.load(slot.allocated_type(), at(common));
        builder.store(value, slot);
        for &end in ends {
            builder.before(end);
            let value = builder.load(slot.allocated_type(), slot);
            builder.store(value, at(next));
        }
        before += element_bytes(lowering, slot);
    }
    before
}
