//! Pairs of accesses by which threads of a warp exchange values without a barrier in between, which is right only if
//! they run in step.
//!
//! A pair wrongly taken for one costs a kernel speed, never its result. A missed pair gives wrong results, on this
//! machine and, since Volta, on a GPU; `--eager-lockstep` then helps, and strict mode reports the race as it happens.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::lanes::{ALL, Lanes, Mask, Number, THREADS, turns};
use super::order::Order;
use crate::import::SHARED;
use crate::llvm::{Machine, Opcode, Value};
use crate::provenance::{KnownAddresses, may_be_shared, origin};
use crate::runtime::{Runtime, is_block_barrier};

/// Limit on a kernel's accesses to shared memory; kernels with more are not analysed, because each is compared with
/// each.
const ACCESSES_MAX: usize = 512;
const WARP: usize = 32;
/// Limits on the number of loops whose turns are told apart for one pair, and on the effort for all pairs.
const COUNTERS_MAX: usize = 2;
const CASE_BLOCKS_MAX: usize = 100_000;

/// Certainty that an exchange relies on threads in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Each thread only accesses its own data.
    Apart,
    /// It is unknown whether threads access each other's data.
    MayRely,
    Relies,
}

/// A load or store of shared memory.
pub(super) struct Access<'m> {
    pub instruction: Value<'m>,
    pointer: Value<'m>,
    pub block: usize,
    position: usize,
    writes: bool,
    volatile: bool,
    bytes: i64,
    address: Option<Number<'m>>,
    object: Option<Value<'m>>,
    by: Mask,
}

/// All accesses of a kernel, in the order of control.
pub(super) fn accesses<'m>(
    order: &Order<'m>,
    machine: &'m Machine,
    constants: &[Value<'m>],
) -> Vec<Access<'m>> {
    let known = KnownAddresses { private: &[], constant: constants };
    let lanes = Lanes::new(machine, BTreeMap::new());
    let by = threads_of_blocks(order, &lanes, None);
    let mut found = Vec::new();
    for (number, block) in order.blocks.iter().enumerate() {
        for (position, instruction) in block.instructions().into_iter().enumerate() {
            let Some((address, ty)) = accessed(instruction) else { continue };
            if instruction.is_atomic() || !may_be_shared(address, known) {
                continue;
            }
            let object = origin(address).filter(|object| object.is_global_variable());
            found.push(Access {
                instruction,
                pointer: address,
                block: number,
                position,
                writes: instruction.opcode() == Some(Opcode::LLVMStore),
                volatile: instruction.is_volatile(),
                bytes: machine.size_of(ty) as i64,
                address: object.and_then(|_| lanes.number(address)),
                object,
                by: by[number],
            });
            if found.len() > ACCESSES_MAX {
                return Vec::new();
            }
        }
    }
    found
}

fn accessed(instruction: Value) -> Option<(Value, crate::llvm::Type)> {
    match instruction.opcode()? {
        Opcode::LLVMLoad => Some((instruction.operand(0), instruction.ty())),
        Opcode::LLVMStore => Some((instruction.operand(1), instruction.operand(0).ty())),
        _ => None,
    }
}

/// True if `kernel` may store to shared memory.
pub(super) fn stores_shared(kernel: Value) -> bool {
    let shared = |address: Value| {
        origin(address).is_none_or(|object| {
            object.ty().pointer_address_space() == SHARED
                || !object.is_global_variable() && !object.is_constant()
        })
    };
    kernel.instructions().into_iter().any(|i| i.opcode() == Some(Opcode::LLVMStore) && shared(i.operand(1)))
}

/// The threads that may reach each block. If `plain` is given, `lanes` describe one turn of some loops; leaving a loop
/// is decided by `plain`, because threads leave in other turns too.
fn threads_of_blocks<'m>(order: &Order<'m>, lanes: &Lanes<'m>, plain: Option<&Lanes<'m>>) -> Vec<Mask> {
    let mut by: Vec<Mask> = vec![0; order.blocks.len()];
    if let Some(first) = by.first_mut() {
        *first = ALL;
    }
    let ways: Vec<Vec<(usize, Mask)>> = (0..order.blocks.len())
        .map(|block| {
            let end = order.blocks[block].terminator();
            let masks = match (end.opcode(), order.next[block].len()) {
                (Some(Opcode::LLVMBr), 2) => {
                    let leaves = order.next[block].iter().any(|&to| order.leaves_cycle(block, to));
                    let lanes = plain.filter(|_| leaves).unwrap_or(lanes);
                    let (holds, fails) = lanes.condition(end.operand(0));
                    vec![holds, fails]
                }
                (_, ways) => vec![ALL; ways],
            };
            order.next[block].iter().copied().zip(masks).collect()
        })
        .collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (block, ways) in ways.iter().enumerate() {
            for &(to, mask) in ways {
                let more = by[to] | by[block] & mask;
                changed |= more != by[to];
                by[to] = more;
            }
        }
    }
    by
}

/// Judges every pair of accesses, at least one of them a store, that may follow each other without a barrier in
/// between.
pub(super) fn exchanges(
    accesses: &[Access],
    order: &Order,
    machine: &Machine,
    runtime: &Runtime,
    mut found: impl FnMut(usize, usize, Verdict),
) {
    let judge = Judge { order, machine, cases: RefCell::default() };
    let stretches = Stretches::of(order, runtime);
    let mut of_block: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, access) in accesses.iter().enumerate() {
        of_block.entry(access.block).or_default().push(number);
    }
    for (one, first) in accesses.iter().enumerate() {
        for other in stretches.reached(first, accesses, &of_block) {
            let second = &accesses[other];
            if one != other && (first.writes || second.writes) {
                found(one, other, judge.meet(first, second));
            }
        }
    }
}

/// Paths of control without a barrier or operation of the warp.
struct Stretches<'a> {
    order: &'a Order<'a>,
    /// Positions of barriers in each block.
    barriers: Vec<Vec<usize>>,
}

impl<'a> Stretches<'a> {
    fn of(order: &'a Order<'a>, runtime: &Runtime) -> Stretches<'a> {
        let waits = |i: &Value| {
            let suspends = || i.callee().is_some_and(|callee| runtime.suspends(&callee.name()));
            i.opcode() == Some(Opcode::LLVMCall) && (is_block_barrier(*i) || suspends())
        };
        let positions = |block: &crate::llvm::Block| {
            let all = block.instructions();
            (0..).zip(&all).filter(|(_, i)| waits(i)).map(|(position, _)| position).collect()
        };
        Stretches { order, barriers: order.blocks.iter().map(positions).collect() }
    }

    /// The accesses that may follow `from` on such a path.
    fn reached(
        &self,
        from: &Access<'a>,
        accesses: &[Access<'a>],
        of_block: &BTreeMap<usize, Vec<usize>>,
    ) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut take = |block: usize, after: usize, before: usize| {
            let here = of_block.get(&block).into_iter().flatten();
            found.extend(here.filter(|&&n| (after..before).contains(&accesses[n].position)));
        };
        let next_barrier = |block: usize, position: usize| {
            self.barriers[block].iter().copied().find(|&barrier| barrier > position)
        };
        let own = next_barrier(from.block, from.position);
        take(from.block, from.position + 1, own.unwrap_or(usize::MAX));
        let mut open = if own.is_none() { self.order.next[from.block].clone() } else { Vec::new() };
        let mut seen = BTreeSet::new();
        while let Some(block) = open.pop() {
            if !seen.insert(block) {
                continue;
            }
            let barrier = self.barriers[block].first().copied();
            take(block, 0, barrier.unwrap_or(usize::MAX));
            if barrier.is_none() {
                open.extend(&self.order.next[block]);
            }
        }
        found
    }
}

/// Values of threads in given turns of loops, and the threads that reach each block then.
struct Case<'a> {
    lanes: Lanes<'a>,
    by: Vec<Mask>,
}

/// `None` if the turns are unknown.
type Cases<'a> = Option<Rc<Vec<Case<'a>>>>;

struct Judge<'a> {
    order: &'a Order<'a>,
    machine: &'a Machine,
    /// Cases by the counters of their loops.
    cases: RefCell<BTreeMap<Vec<Value<'a>>, Cases<'a>>>,
}

impl<'a> Judge<'a> {
    /// Judges if, by these accesses, a thread may access data of another thread of its warp.
    fn meet(&self, one: &Access<'a>, other: &Access<'a>) -> Verdict {
        if let (Some(object), Some(another)) = (one.object, other.object)
            && object != another
            && [object, another].iter().any(|object| object.initializer().is_some())
        {
            return Verdict::Apart;
        }
        let unclear = if one.volatile && other.volatile { Verdict::Relies } else { Verdict::MayRely };
        let Some(meet) = self.overlap(one, other) else { return unclear };
        if !meet {
            return Verdict::Apart;
        }
        // Without `volatile`, compilers may reorder two stores; and a single place that all threads write is a flag.
        let is_flag = |access: &Access| {
            let number = access.address.as_ref();
            access.writes && number.is_none_or(|number| number.own.iter().all(|own| *own == number.own[0]))
        };
        if one.writes && other.writes || is_flag(one) || is_flag(other) { unclear } else { Verdict::Relies }
    }

    /// True if different threads of a warp access the same bytes; `None` if unknown.
    fn overlap(&self, one: &Access<'a>, other: &Access<'a>) -> Option<bool> {
        let (at, there) = (one.address.as_ref()?, other.address.as_ref()?);
        if at.common == there.common {
            return Some(overlap((one, at, one.by), (other, there, other.by)));
        }
        let counters: Vec<Value> = at.clone().plus(there, -1).common.into_keys().collect();
        let cases = self.cases(counters)?;
        let mut meet = false;
        for case in cases.iter() {
            let [at, there] = [one, other].map(|access| case.lanes.number(access.pointer));
            let (at, there) = (at?, there?);
            if at.common != there.common {
                return None;
            }
            meet |= overlap((one, &at, case.by[one.block]), (other, &there, case.by[other.block]));
        }
        Some(meet)
    }

    /// Turns of the loops counted by `counters`: the first and last turns of each, in all combinations.
    fn cases(&self, counters: Vec<Value<'a>>) -> Cases<'a> {
        if let Some(known) = self.cases.borrow().get(&counters) {
            return known.clone();
        }
        let found = self.make_cases(&counters).map(Rc::new);
        self.cases.borrow_mut().insert(counters, found.clone());
        found
    }

    fn make_cases(&self, counters: &[Value<'a>]) -> Option<Vec<Case<'a>>> {
        let known: usize = self.cases.borrow().values().flatten().map(|cases| cases.len()).sum();
        if counters.len() > COUNTERS_MAX || known * self.order.blocks.len() > CASE_BLOCKS_MAX {
            return None;
        }
        let mut given = vec![BTreeMap::new()];
        for &counter in counters {
            let turns = turns(counter)?;
            let with = |numbers: &BTreeMap<Value<'a>, i64>, turn: i64| {
                let mut numbers = numbers.clone();
                numbers.insert(counter, turn);
                numbers
            };
            given = given.iter().flat_map(|numbers| turns.iter().map(|&turn| with(numbers, turn))).collect();
        }
        let plain = Lanes::new(self.machine, BTreeMap::new());
        let case = |numbers| {
            let lanes = Lanes::new(self.machine, numbers);
            let by = threads_of_blocks(self.order, &lanes, Some(&plain));
            Case { lanes, by }
        };
        Some(given.into_iter().map(case).collect())
    }
}

/// True if two accesses of different threads of a warp share a byte, given that their addresses differ only in the
/// threads' own parts.
fn overlap(
    (one, at, by): (&Access, &Number, Mask),
    (other, there, by_other): (&Access, &Number, Mask),
) -> bool {
    let threads = |mask: Mask, warp: usize| (warp..warp + WARP).filter(move |thread| mask >> thread & 1 == 1);
    (0..THREADS).step_by(WARP).any(|warp| {
        threads(by, warp).any(|first| {
            threads(by_other, warp).any(|second| {
                let apart = there.own[second].wrapping_sub(at.own[first]);
                first != second && apart < one.bytes && -apart < other.bytes
            })
        })
    })
}
