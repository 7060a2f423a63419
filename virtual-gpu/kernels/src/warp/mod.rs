//! Kernels with operations of the warp, run warp by warp: they are cut into regions wherever a thread may have to wait.
//! Each region is a loop over 32 lanes; between two regions an operation works on arrays of 32.
//!
//! While the 32 lanes of a warp are *together*, which is checked at each region's end that may lead to several others,
//! nothing else is needed ([`ops`]). When they diverge, or an operation's mask names only some of them, each lane
//! writes the wait record that a coroutine would write, the executor's scheduler decides which lanes continue, and
//! lanes run one by one, until all 32 are at one place again ([`block`]). Trap: diverged lanes must do what coroutines
//! do, in the same order, and lanes that are together must do what the scheduler would decide.

mod block;
mod branches;
mod diverged;
mod helpers;
mod indexed;
mod known;
mod lanes;
mod ops;
mod own_arrays;
mod unroll;

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::count_accesses;
use crate::fission::{self, COUNTERS, Ends, FRAMES, INDEX, REGION, STATE, UNIFORM, UNIFORM_NEXT};
use crate::flow::Graph;
use crate::llvm::{Block, Opcode, Split, Value};
use crate::runtime::{Runtime, helper, is_barrier_call};
use crate::suspend::{self, BARRIER, Part, Suspension};
use crate::thread::{Lowering, PART, Thread};
use crate::{Mode, recompute};

pub(crate) use block::{LOOPS, block_function};
pub(crate) use diverged::functions;
pub(crate) use helpers::text;
pub(crate) use ops::declarations;
pub(crate) use unroll::unroll;

/// Limit on the stops of a kernel in this form; with more, compiling takes longer than it saves.
const STOPS_MAX: usize = 160;

/// A place where a lane may have to wait; the region after it has its number.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub number: u64,
    pub row: Suspension,
    /// Values of the arguments that are known, in the row's order.
    pub known: Vec<Option<u64>>,
    /// Low five bits of a shuffle's argument for each lane of a warp in one row, if they are known but not common.
    pub by_lane: Option<Vec<u32>>,
    /// Number of the place in the program.
    pub place: u64,
}

impl Stop {
    /// Value of this argument, if it is known.
    pub fn known(&self, part: Part) -> Option<u64> {
        self.known[self.row.params.iter().position(|(_, of)| *of == part)?]
    }

    pub fn has(&self, part: Part) -> bool {
        self.row.params.iter().any(|(_, of)| *of == part)
    }

    /// True for `__syncthreads()`, at which all threads of a block wait for nothing else.
    pub fn is_block_barrier(&self) -> bool {
        self.row.name == suspend::block_barrier()
    }

    /// True for any barrier of the block.
    pub fn is_barrier(&self) -> bool {
        self.row.kind == BARRIER
    }
}

/// Alignment of the values of a warp's lanes: a cache line.
const LINE: u64 = 64;

impl WarpCut {
    /// Bytes for a whole warp of values that live across barriers.
    pub fn frames(&self) -> u64 {
        (self.frame_bytes * 32).next_multiple_of(LINE)
    }

    /// Bytes, stored after these, of values that live across operations of the warp, needed if diverged lanes may wait
    /// in an operation while others wait for other warps.
    pub fn lanes(&self) -> u64 {
        let bytes = if self.waits { self.lane_bytes * 32 } else { 0 };
        bytes.next_multiple_of(LINE)
    }
}

/// Result of cutting a kernel.
#[derive(Debug, Default)]
pub(crate) struct WarpCut {
    pub stops: Vec<Stop>,
    /// Regions; threads begin with number 0.
    pub regions: Vec<Region>,
    /// Bytes per lane of values that live across operations of the warp only.
    pub lane_bytes: u64,
    /// Bytes per lane of values that live across barriers of the block.
    pub frame_bytes: u64,
    /// Lanes may wait for other warps.
    pub waits: bool,
    /// Lanes are never treated as together.
    pub apart: bool,
}

#[derive(Debug)]
pub(crate) struct Region {
    pub number: u64,
    /// Numbers of the regions that may follow; 0 for the end.
    pub next: BTreeSet<u64>,
    /// Accesses to memory other than stack slots.
    pub accesses: usize,
    /// Each lane takes a path through it that is known in advance, without calls.
    pub is_straight: bool,
    /// A lane may run some of its code several times.
    pub has_loop: bool,
    pub guard: Option<WarpGuard>,
    /// Values of lanes that it or a later region needs, as parts of the memory for them.
    pub live: Vec<Piece>,
}

impl Region {
    /// True if each lane's path is known in advance, or is in most warps.
    fn has_straight(&self) -> bool {
        self.is_straight || self.guard.is_some_and(|guard| guard.is_straight.contains(&true))
    }
}

/// A part of a warp's arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub start: u64,
    pub bytes: u64,
}

/// A comparison of the thread's index that all lanes of most warps answer alike (`guards.rs`): such a warp runs a copy
/// of the region without the branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WarpGuard {
    pub guard: usize,
    /// The copy for the outcome "inside", and the one for "outside", have no other branches.
    pub is_straight: [bool; 2],
}

/// True if this form supports all waits of `kernel`, and there are not too many.
pub(crate) fn suits(lowering: Lowering, kernel: Value, mode: Mode, yields: bool) -> bool {
    let wanted = matches!(mode, Mode::Auto | Mode::Fission | Mode::LanesApart);
    if !wanted || yields || lowering.options.strict {
        return false;
    }
    let stops: Vec<Value> =
        kernel.instructions().into_iter().filter(|&i| is_stop(lowering.runtime, i)).collect();
    let is_known = |stop: &Value| is_barrier_call(*stop) || !suspend::is_for_coroutines(&callee_name(*stop));
    stops.len() <= STOPS_MAX && stops.iter().all(is_known)
}

fn is_stop(runtime: &Runtime, instruction: Value) -> bool {
    let call = instruction.opcode() == Some(Opcode::LLVMCall);
    let suspends = |callee: Value| runtime.suspends(&callee.name());
    is_barrier_call(instruction) || call && instruction.callee().is_some_and(suspends)
}

/// Splits blocks at all stops, and inserts the helpers that store a lane's arguments before a stop and read its result
/// after it. Calls of other device functions are replaced later.
pub(crate) fn mark_stops(
    lowering: Lowering,
    function: Value,
    thread: Thread,
    counters: Value,
    fixed: &[Value],
) -> Result<Vec<Stop>, String> {
    counters.set_name(COUNTERS);
    let rows = suspend::table();
    let context = lowering.context;
    let zero = context.int_type(32).constant(0);
    let own = own_arguments(function, thread);
    for end in function.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMRet)) {
        let builder = context.builder();
        builder.before(end);
        builder.call(helper(lowering.module, "eager.lane.exit"), &own[..6]);
        builder.return_value(zero);
        end.erase();
    }
    replace_lane_registers(lowering, function);
    let calls: Vec<(u64, Value)> = (0..)
        .zip(function.instructions())
        .filter(|&(_, instruction)| is_stop(lowering.runtime, instruction))
        .collect();
    let (mut stops, mut starts) = (Vec::new(), Vec::new());
    // In reverse order, as in `fission`: the tail of a split is the original block.
    for (number, (place, call)) in (1..).zip(calls).collect::<Vec<(u64, (u64, Value))>>().into_iter().rev() {
        let barrier = is_barrier_call(call);
        let name = if barrier { suspend::block_barrier().to_owned() } else { callee_name(call) };
        let row = rows.iter().find(|row| row.name == name).ok_or_else(|| format!("{name} has no row"))?;
        let arguments = if barrier { Vec::new() } else { call.call_arguments() };
        let known = arguments.iter().map(|argument| argument.constant_integer()).collect();
        let place_of = |part| row.params.iter().position(|(_, of)| *of == part);
        let argument = place_of(Part::Argument).map(|at| arguments[at]).filter(|a| !a.is_constant());
        let by_lane = argument.and_then(|argument| known::low_bits_by_lane(argument, function));
        let stop = Stop { number, row: row.clone(), known, by_lane, place };
        let builder = context.builder();
        builder.before(call);
        let places = [place, ops::left_as_arrays(&stop)].map(|n| context.int_type(32).constant(n));
        let ask: Vec<Value> = own.iter().copied().chain(arguments).chain(places).collect();
        builder.call(helper(lowering.module, &helpers::ask(&stop.row.name)), &ask);
        let Split { head, tail } = builder.split_before(call, &format!("{REGION}{number}"));
        builder.at_end(head).branch(tail);
        builder.before(call);
        let answer = builder.call(helper(lowering.module, &helpers::answer(&stop.row.name)), &own);
        call.replace_uses_with(answer);
        call.erase();
        starts.push(tail);
        stops.push(stop);
    }
    recompute::recompute_across(context, function, &starts, fixed);
    stops.reverse();
    Ok(stops)
}

fn callee_name(call: Value) -> String {
    let name = call.callee().map(Value::name).unwrap_or_default();
    name.strip_prefix("llvm.").map_or(name.clone(), str::to_owned)
}

/// The arguments of every helper here: the thread, whether lanes are together, the operation's arrays or the lane's wait
/// record, and the lane.
fn own_arguments<'m>(function: Value<'m>, thread: Thread<'m>) -> Vec<Value<'m>> {
    let params = function.params();
    let [x, y, z] = thread.index;
    let [together, arrays, lane] = [PART, UNIFORM_NEXT, INDEX].map(|param| params[param as usize]);
    vec![thread.block_context, x, y, z, together, arrays, lane]
}

/// Replaces reads of the lane number by the parameter that holds it.
fn replace_lane_registers(lowering: Lowering, function: Value) {
    let i32 = lowering.context.int_type(32);
    let lane = function.params()[INDEX as usize];
    for call in function.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMCall)) {
        if callee_name(call) == "eager.nvvm.read.ptx.sreg.laneid"
            || callee_name(call) == "nvvm.read.ptx.sreg.laneid"
        {
            let builder = lowering.context.builder();
            builder.before(call);
            call.replace_uses_with(builder.cast_integer(lane, i32));
            call.erase();
        }
    }
}

/// Turns the function into one that runs a single region. Trap: as in `fission`, `reg2mem` must run between
/// [`mark_stops`] and this.
pub(crate) fn cut(lowering: Lowering, function: Value, stops: Vec<Stop>, apart: bool) -> WarpCut {
    let entry = function.blocks()[0];
    let slots: Vec<Value> =
        entry.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMAlloca)).collect();
    for &slot in &slots {
        fission::forget_lifetime(slot);
    }
    let (simple, others): (BTreeSet<Value>, BTreeSet<Value>) =
        slots.iter().partition(|slot| fission::is_simple(**slot));
    let mut ends = Ends { lowering, function, blocks: BTreeMap::new() };
    let mut starts = ends.at_barriers();
    branches::cut_at_uniform(&mut ends, function, stops.len(), &mut starts);
    let counters = slots.iter().copied().find(|slot| slot.name() == COUNTERS);
    let live = fission::live_at_starts(function, &simple, &starts);
    let others: BTreeSet<Value> = others.into_iter().filter(|slot| Some(*slot) != counters).collect();
    let waits = stops.iter().any(Stop::is_barrier);
    // If all lanes wait for other warps, those overwrite the memory that is kept for one warp.
    let is_behind_barrier =
        |number: &u64| stops.iter().any(|stop| stop.number == *number && stop.is_barrier());
    let mut framed: BTreeSet<Value> = live
        .iter()
        .filter(|(number, _)| is_behind_barrier(number))
        .flat_map(|(_, slots)| slots.clone())
        .collect();
    let mut laned: BTreeSet<Value> = live.values().flatten().copied().collect();
    if waits { &mut framed } else { &mut laned }.extend(others.iter().copied());
    laned.retain(|slot| !framed.contains(slot));
    let first = entry.terminator().successors()[0];
    starts.insert(0, first);
    let mut regions = describe(function, &starts);
    let last_slot = *slots.last().expect("the counters' slot is there");
    let [frame_bytes, lane_bytes] = [(framed, FRAMES), (laned, UNIFORM)].map(|(slots, arrays)| {
        // In order of falling alignment, so that all arrays are aligned.
        let mut slots: Vec<Value> = slots.into_iter().collect();
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.alignment()));
        let bytes: u64 = slots.iter().map(|slot| fission::element_bytes(lowering, *slot)).sum();
        if arrays == UNIFORM {
            for region in &mut regions {
                // A slot whose address is used otherwise may be needed by every region.
                let live = |slot: &Value| {
                    others.contains(slot) || live.get(&region.number).is_some_and(|l| l.contains(slot))
                };
                region.live = pieces(lowering, &slots, live);
            }
        }
        fission::place_in_arrays(lowering, function, arrays, &slots, last_slot);
        bytes
    });
    ends.flush_counters(counters, function.params()[4]);
    entry.terminator().erase();
    let cases: Vec<(u64, Block)> = starts.into_iter().filter(|&(number, _)| number > 0).collect();
    lowering.context.builder().at_end(entry).switch(function.params()[STATE as usize], first, &cases);
    WarpCut { stops, regions, lane_bytes, frame_bytes, waits, apart }
}

/// Where the arrays of the chosen `slots` lie in the memory for all of them.
fn pieces<'m>(lowering: Lowering, slots: &[Value<'m>], chosen: impl Fn(&Value<'m>) -> bool) -> Vec<Piece> {
    let (mut found, mut start) = (Vec::new(), 0);
    for slot in slots {
        let bytes = fission::element_bytes(lowering, *slot) * 32;
        if chosen(slot) {
            found.push(Piece { start, bytes });
        }
        start += bytes;
    }
    found
}

fn describe(function: Value, starts: &BTreeMap<u64, Block>) -> Vec<Region> {
    let graph = Graph::new(function);
    let describe = |(&number, start): (&u64, &Block)| {
        let reached = graph.reached(graph.number[start], None);
        let has_loop = graph.has_loop(&reached);
        let blocks: Vec<Block> = reached.into_iter().map(|block| graph.blocks[block]).collect();
        let ends: Vec<Value> = blocks.iter().map(|block| block.terminator()).collect();
        let returned = ends.iter().filter(|end| end.opcode() == Some(Opcode::LLVMRet));
        let next = returned.filter_map(|end| end.operand(0).constant_integer()).collect();
        let instructions: Vec<Value> = blocks.iter().flat_map(|block| block.instructions()).collect();
        let is_straight = is_straight(&instructions, &ends, function);
        Region {
            number,
            next,
            accesses: count_accesses(&instructions),
            is_straight,
            has_loop,
            guard: None,
            live: Vec::new(),
        }
    };
    starts.iter().map(describe).collect()
}

/// True if each lane's path through `instructions`, with these ends of blocks, is known in advance.
pub(crate) fn is_straight(instructions: &[Value], ends: &[Value], function: Value) -> bool {
    let marks = function.params()[5];
    // Where only the next region is decided, there is nothing to step over.
    let returns = |to: &Block| {
        to.instructions().iter().all(|i| i.opcode() == Some(Opcode::LLVMRet) || is_plain_call(*i))
    };
    let parts = |end: &Value| {
        let next = end.successors();
        next.len() > 1
            && !next.iter().all(returns)
            && end.operand(0) != marks
            && !branches::is_known_of_lanes(end.operand(0), function)
    };
    let calls = |i: &Value| i.opcode() == Some(Opcode::LLVMCall) && !is_plain_call(*i);
    let atomic = |i: &Value| {
        matches!(i.opcode(), Some(Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg | Opcode::LLVMFence))
    };
    !ends.iter().any(parts) && !instructions.iter().any(|i| calls(i) || atomic(i))
}

/// True for a call that vectorises, or that vanishes once it is inlined.
fn is_plain_call(call: Value) -> bool {
    call.opcode() == Some(Opcode::LLVMCall)
        && call.callee().is_some_and(|callee| {
            let name = callee.name();
            let own = [
                "eager.lane.",
                "eager.nvvm.read.",
                "eager.count",
                "eager.flush",
                "eager.mark",
                "eager.shared",
            ];
            own.iter().any(|start| name.starts_with(start)) || name.starts_with("llvm.")
        })
}
