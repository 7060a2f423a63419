//! Symbolic values in a kernel for the threads of two warps: a part common to all threads, and a number of each
//! thread's own.
//!
//! The analysis only decides where threads run in step, which is always right. So it may be wrong about blocks whose
//! rows are not a multiple of 32 threads, and may assume without proof that values are common.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::llvm::{LLVMIntPredicate as Predicate, Machine, Opcode, TypeKind, Value};

/// Two warps, so that behaviour of a single warp can be told from behaviour of every warp.
pub(super) const THREADS: usize = 64;
const WARP: i64 = 32;
/// Limit on the depth of computations that are followed.
const DEPTH_MAX: usize = 48;
/// Limits on the turns of a loop that are counted, and on those that are analysed.
const TURNS_MAX: usize = 4096;
const TURNS_TRIED: usize = 6;
const REGISTER: &str = "llvm.nvvm.read.ptx.sreg.";

/// Set of threads, one bit each.
pub(super) type Mask = u64;
pub(super) const ALL: Mask = u64::MAX;

/// A sum: values common to all threads, each with a factor, plus a number of each thread's own.
#[derive(Clone, PartialEq)]
pub(super) struct Number<'m> {
    pub common: BTreeMap<Value<'m>, i64>,
    pub own: [i64; THREADS],
}

impl<'m> Number<'m> {
    fn constant(number: i64) -> Number<'m> {
        Number { common: BTreeMap::new(), own: [number; THREADS] }
    }

    fn of_thread(number: impl Fn(i64) -> i64) -> Number<'m> {
        Number { common: BTreeMap::new(), own: std::array::from_fn(|thread| number(thread as i64)) }
    }

    pub fn common(value: Value<'m>) -> Number<'m> {
        Number { common: BTreeMap::from([(value, 1)]), own: [0; THREADS] }
    }

    pub fn plus(mut self, other: &Number<'m>, times: i64) -> Number<'m> {
        for (&value, &count) in &other.common {
            let sum = self.common.get(&value).map_or(0, |own| *own).wrapping_add(count.wrapping_mul(times));
            if sum == 0 {
                self.common.remove(&value);
            } else {
                self.common.insert(value, sum);
            }
        }
        for (own, other) in self.own.iter_mut().zip(other.own) {
            *own = own.wrapping_add(other.wrapping_mul(times));
        }
        self
    }

    fn times(&self, factor: i64) -> Number<'m> {
        Number::constant(0).plus(self, factor)
    }

    /// The number, if it is a constant that is equal for all threads.
    fn as_constant(&self) -> Option<i64> {
        let same = self.own.iter().all(|own| *own == self.own[0]);
        (self.common.is_empty() && same).then_some(self.own[0])
    }

    fn is_uniform(&self) -> bool {
        self.own.iter().all(|own| *own == self.own[0])
    }
}

pub(super) struct Lanes<'a> {
    machine: &'a Machine,
    /// Values that are assumed to be these numbers.
    given: BTreeMap<Value<'a>, i64>,
    numbers: RefCell<BTreeMap<Value<'a>, Option<Number<'a>>>>,
    uniform: RefCell<BTreeMap<Value<'a>, bool>>,
}

impl<'a> Lanes<'a> {
    pub fn new(machine: &'a Machine, given: BTreeMap<Value<'a>, i64>) -> Lanes<'a> {
        Lanes { machine, given, numbers: RefCell::default(), uniform: RefCell::default() }
    }

    /// Value of `value` in each thread; `None` if unknown.
    pub fn number(&self, value: Value<'a>) -> Option<Number<'a>> {
        self.number_at(value, 0)
    }

    fn number_at(&self, value: Value<'a>, depth: usize) -> Option<Number<'a>> {
        if let Some(number) = value.constant_integer() {
            let bits = value.ty().integer_bits().unwrap_or(64).clamp(1, 64);
            return Some(Number::constant((number << (64 - bits)).cast_signed() >> (64 - bits)));
        }
        if let Some(&given) = self.given.get(&value) {
            return Some(Number::constant(given));
        }
        if let Some(known) = self.numbers.borrow().get(&value) {
            return known.clone();
        }
        if depth > DEPTH_MAX {
            return None;
        }
        let found = self.computed(value, depth + 1);
        let found = found.or_else(|| self.is_uniform(value).then(|| Number::common(value)));
        self.numbers.borrow_mut().insert(value, found.clone());
        found
    }

    fn computed(&self, value: Value<'a>, depth: usize) -> Option<Number<'a>> {
        use Opcode::*;
        if !value.is_instruction() && !value.is_constant_expression() {
            return None;
        }
        let operand = |index: u32| self.number_at(value.operand(index), depth);
        match value.opcode()? {
            LLVMZExt | LLVMSExt | LLVMTrunc | LLVMFreeze | LLVMAddrSpaceCast | LLVMPtrToInt
            | LLVMIntToPtr | LLVMBitCast => operand(0),
            LLVMAdd => Some(operand(0)?.plus(&operand(1)?, 1)),
            LLVMOr if value.is_disjoint() => Some(operand(0)?.plus(&operand(1)?, 1)),
            LLVMSub => Some(operand(0)?.plus(&operand(1)?, -1)),
            LLVMMul => product(&operand(0)?, &operand(1)?),
            LLVMShl => {
                let by = operand(1)?.as_constant().filter(|by| (0..63).contains(by))?;
                Some(operand(0)?.times(1 << by))
            }
            LLVMAnd | LLVMOr | LLVMXor | LLVMLShr | LLVMAShr | LLVMUDiv | LLVMSDiv | LLVMURem | LLVMSRem => {
                thread_by_thread(value.opcode()?, &operand(0)?, &operand(1)?)
            }
            LLVMSelect => self.chosen(value, depth),
            LLVMPHI => self.carried(value, depth),
            LLVMCall => register(value),
            LLVMGetElementPtr => self.address(value, depth),
            _ => None,
        }
    }

    fn chosen(&self, select: Value<'a>, depth: usize) -> Option<Number<'a>> {
        let [holds, fails] = [1, 2].map(|index| self.number_at(select.operand(index), depth));
        let (holds, mut fails) = (holds?, fails?);
        let (may_hold, may_fail) = self.condition_at(select.operand(0), depth);
        if may_hold & may_fail != 0 || holds.common != fails.common {
            return None;
        }
        for thread in 0..THREADS {
            if may_hold >> thread & 1 == 1 {
                fails.own[thread] = holds.own[thread];
            }
        }
        Some(fails)
    }

    /// A number that all threads change by the same amount in each turn of a loop: threads in step have made equally
    /// many turns.
    fn carried(&self, phi: Value<'a>, depth: usize) -> Option<Number<'a>> {
        let incoming = phi.incoming();
        let steps = |next: Value<'a>| {
            let operands = [next.operand(0), next.operand(1)];
            let adds = matches!(next.opcode(), Some(Opcode::LLVMAdd | Opcode::LLVMSub));
            let [one, other] = operands;
            adds && (one == phi && self.is_uniform(other) || other == phi && self.is_uniform(one))
        };
        let is_next =
            |value: &Value<'a>| value.is_instruction() && value.operands().len() == 2 && steps(*value);
        let (next, first): (Vec<Value>, Vec<Value>) =
            incoming.into_iter().map(|(value, _)| value).partition(is_next);
        let [first] = first[..] else { return None };
        if next.is_empty() {
            return None;
        }
        let first = self.number_at(first, depth)?;
        let turns = Number::common(phi);
        // The common part of its initial value becomes part of the PHI's common value.
        Some(Number { common: turns.common, own: first.own })
    }

    /// The address that `step` computes.
    fn address(&self, step: Value<'a>, depth: usize) -> Option<Number<'a>> {
        let mut sum = self.number_at(step.operand(0), depth)?;
        let mut ty = step.gep_source();
        for (place, index) in step.operands().into_iter().skip(1).enumerate() {
            if place > 0 {
                match ty.kind() {
                    TypeKind::LLVMStructTypeKind => {
                        let field = index.constant_integer()?;
                        sum = sum.plus(&Number::constant(self.machine.offset_of(ty, field as u32) as i64), 1);
                        ty = *ty.struct_types().get(field as usize)?;
                        continue;
                    }
                    TypeKind::LLVMArrayTypeKind | TypeKind::LLVMVectorTypeKind => ty = ty.element(),
                    _ => return None,
                }
            }
            sum = sum.plus(&self.number_at(index, depth)?, self.machine.size_of(ty) as i64);
        }
        Some(sum)
    }

    /// The threads for which `condition` may hold, and those for which it may fail.
    pub fn condition(&self, condition: Value<'a>) -> (Mask, Mask) {
        self.condition_at(condition, 0)
    }

    fn condition_at(&self, condition: Value<'a>, depth: usize) -> (Mask, Mask) {
        if let Some(truth) = condition.constant_integer() {
            return if truth & 1 == 1 { (ALL, 0) } else { (0, ALL) };
        }
        if depth > DEPTH_MAX || !condition.is_instruction() {
            return (ALL, ALL);
        }
        let operand = |index: u32| self.condition_at(condition.operand(index), depth + 1);
        let both = |(a, b): (Mask, Mask), (c, d): (Mask, Mask)| (a & c, b | d);
        let one_of = |(a, b): (Mask, Mask), (c, d): (Mask, Mask)| (a | c, b & d);
        match condition.opcode() {
            Some(Opcode::LLVMAnd) => both(operand(0), operand(1)),
            Some(Opcode::LLVMOr) => one_of(operand(0), operand(1)),
            Some(Opcode::LLVMXor) => match condition.operand(1).constant_integer() {
                Some(1) => {
                    let (holds, fails) = operand(0);
                    (fails, holds)
                }
                _ => (ALL, ALL),
            },
            // LLVM's form of `a && b` and `a || b`.
            Some(Opcode::LLVMSelect) => {
                let (a, not_a) = operand(0);
                let ((b, not_b), (c, not_c)) = (operand(1), operand(2));
                ((a & b) | (not_a & c), (a & not_b) | (not_a & not_c))
            }
            Some(Opcode::LLVMFreeze) => operand(0),
            Some(Opcode::LLVMICmp) => self.compared(condition, depth + 1),
            _ => (ALL, ALL),
        }
    }

    fn compared(&self, comparison: Value<'a>, depth: usize) -> (Mask, Mask) {
        let sides = [0, 1].map(|index| self.number_at(comparison.operand(index), depth));
        let [Some(left), Some(right)] = sides else { return (ALL, ALL) };
        let apart = left.clone().plus(&right, -1);
        // The difference counts rows of the block, so it is 0 in the first row, which shows how a warp behaves.
        if !apart.common.is_empty()
            && (apart.is_uniform() || !apart.common.keys().all(|value| counts_rows(*value)))
        {
            return (ALL, ALL);
        }
        let holds = (0..THREADS).fold(0, |mask, thread| {
            let holds = compare(comparison.predicate(), left.own[thread], right.own[thread]);
            mask | Mask::from(holds) << thread
        });
        (holds, !holds)
    }

    /// True if `value` seems to be common to all threads that reach it.
    fn is_uniform(&self, value: Value<'a>) -> bool {
        self.is_uniform_among(value, &mut BTreeSet::new())
    }

    fn is_uniform_among(&self, value: Value<'a>, open: &mut BTreeSet<Value<'a>>) -> bool {
        if !value.is_instruction() {
            return true;
        }
        if let Some(&known) = self.uniform.borrow().get(&value) {
            return known;
        }
        if !open.insert(value) || open.len() > 4 * DEPTH_MAX {
            // Found again around a loop: the other operands decide.
            return open.len() <= 4 * DEPTH_MAX;
        }
        let mut all = |values: Vec<Value<'a>>| values.into_iter().all(|v| self.is_uniform_among(v, open));
        let uniform = match value.opcode() {
            Some(Opcode::LLVMCall) => match is_uniform_call_result(value) {
                Some(uniform) => uniform,
                None => crate::pure::computes(value) && all(value.call_arguments()),
            },
            Some(Opcode::LLVMLoad) => !value.is_volatile() && all(value.operands()),
            // At other places a PHI depends on the path that a thread took.
            Some(Opcode::LLVMPHI) => is_head(value) && all(value.operands()),
            _ => crate::pure::computes(value) && all(value.operands()),
        };
        let uniform = uniform
            || self.numbers.borrow().get(&value).is_some_and(|n| n.as_ref().is_some_and(Number::is_uniform));
        open.remove(&value);
        if open.is_empty() {
            self.uniform.borrow_mut().insert(value, uniform);
        }
        uniform
    }
}

/// Values of a loop's counter in its first and last few turns; `None` if unknown.
pub(super) fn turns(phi: Value) -> Option<Vec<i64>> {
    let constant = |value: Value| {
        let bits = value.ty().integer_bits()?.clamp(1, 64);
        Some((value.constant_integer()? << (64 - bits)).cast_signed() >> (64 - bits))
    };
    if !phi.is_instruction() || phi.opcode() != Some(Opcode::LLVMPHI) {
        return None;
    }
    let [(a, _), (b, _)] = phi.incoming()[..] else { return None };
    let (first, next) = if b.is_instruction() { (a, b) } else { (b, a) };
    if !next.is_instruction() || next.operands().first() != Some(&phi) {
        return None;
    }
    let by = constant(*next.operands().get(1)?)?;
    let step = |i: i64| match next.opcode()? {
        Opcode::LLVMAdd => i.checked_add(by),
        Opcode::LLVMSub => i.checked_sub(by),
        Opcode::LLVMMul => i.checked_mul(by),
        Opcode::LLVMShl if (0..32).contains(&by) => i.checked_mul(1 << by),
        Opcode::LLVMLShr | Opcode::LLVMAShr if (0..64).contains(&by) && i >= 0 => Some(i >> by),
        Opcode::LLVMUDiv | Opcode::LLVMSDiv if by > 0 && i >= 0 => Some(i / by),
        _ => None,
    };
    let tests = |counter: Value| {
        let is_test = |user: &Value| user.opcode() == Some(Opcode::LLVMICmp) && user.operand(0) == counter;
        let test =
            counter.users().into_iter().find(|user| is_test(user) && constant(user.operand(1)).is_some())?;
        Some((test.predicate(), constant(test.operand(1))?))
    };
    // The test compares the counter itself, or its next value.
    let (of_next, (predicate, bound)) = match (tests(next), tests(phi)) {
        (Some(test), _) => (true, test),
        (None, test) => (false, test?),
    };
    let (mut all, mut i) = (Vec::new(), constant(first)?);
    let mut stays = None;
    while all.len() < TURNS_MAX {
        let after = step(i)?;
        let holds = compare(predicate, if of_next { after } else { i }, bound);
        let goes_on = *stays.get_or_insert(holds) == holds;
        if !of_next && !goes_on {
            return Some(some_of(&all));
        }
        all.push(i);
        if !goes_on {
            return Some(some_of(&all));
        }
        i = after;
    }
    None
}

fn some_of(turns: &[i64]) -> Vec<i64> {
    let few = TURNS_TRIED / 2;
    match turns.len() {
        ..=TURNS_TRIED => turns.to_vec(),
        n => turns[..few].iter().chain(&turns[n - few..]).copied().collect(),
    }
}

fn compare(predicate: Predicate, a: i64, b: i64) -> bool {
    let (x, y) = (a.cast_unsigned(), b.cast_unsigned());
    match predicate {
        Predicate::LLVMIntEQ => a == b,
        Predicate::LLVMIntNE => a != b,
        Predicate::LLVMIntSLT => a < b,
        Predicate::LLVMIntSLE => a <= b,
        Predicate::LLVMIntSGT => a > b,
        Predicate::LLVMIntSGE => a >= b,
        Predicate::LLVMIntULT => x < y,
        Predicate::LLVMIntULE => x <= y,
        Predicate::LLVMIntUGT => x > y,
        Predicate::LLVMIntUGE => x >= y,
    }
}

/// True if the PHI's block is part of a loop.
fn is_head(phi: Value) -> bool {
    let start = phi.parent();
    let (mut seen, mut open) = (BTreeSet::new(), start.terminator().successors());
    while let Some(block) = open.pop() {
        if block == start {
            return true;
        }
        if seen.insert(block) {
            open.extend(block.terminator().successors());
        }
    }
    false
}

fn product<'m>(one: &Number<'m>, other: &Number<'m>) -> Option<Number<'m>> {
    match (one.as_constant(), other.as_constant()) {
        (Some(factor), _) => Some(other.times(factor)),
        (_, Some(factor)) => Some(one.times(factor)),
        _ => thread_by_thread(Opcode::LLVMMul, one, other),
    }
}

/// Applies an operation thread by thread, to numbers without a common part.
fn thread_by_thread<'m>(operation: Opcode, one: &Number<'m>, other: &Number<'m>) -> Option<Number<'m>> {
    if !one.common.is_empty() || !other.common.is_empty() {
        return None;
    }
    let mut own = [0; THREADS];
    for (thread, own) in own.iter_mut().enumerate() {
        let (a, b) = (one.own[thread], other.own[thread]);
        let unsigned = a >= 0 && b >= 0;
        *own = match operation {
            Opcode::LLVMMul => a.checked_mul(b)?,
            Opcode::LLVMAnd => a & b,
            Opcode::LLVMOr => a | b,
            Opcode::LLVMXor => a ^ b,
            Opcode::LLVMLShr if unsigned && b < 64 => a >> b,
            Opcode::LLVMAShr if (0..64).contains(&b) => a >> b,
            Opcode::LLVMUDiv if unsigned => a.checked_div(b)?,
            Opcode::LLVMURem if unsigned => a.checked_rem(b)?,
            Opcode::LLVMSDiv => a.checked_div(b)?,
            Opcode::LLVMSRem => a.checked_rem(b)?,
            _ => return None,
        };
    }
    Some(Number { common: BTreeMap::new(), own })
}

/// The index of a thread, in its block or in its warp.
fn register(call: Value) -> Option<Number> {
    let callee = call.callee()?.name();
    match callee.strip_prefix(REGISTER)? {
        "tid.x" => Some(Number::of_thread(|thread| thread)),
        "laneid" => Some(Number::of_thread(|thread| thread % WARP)),
        "warpid" => Some(Number::of_thread(|thread| thread / WARP)),
        "warpsize" => Some(Number::constant(WARP)),
        _ => None,
    }
}

/// True if `value` is 0 in the first row of a block of any size, because it is computed from y and z.
fn counts_rows(value: Value) -> bool {
    let is_zero = |value: Value| value.is_instruction() && counts_rows(value);
    match value.opcode() {
        Some(Opcode::LLVMMul | Opcode::LLVMAnd) => value.operands().into_iter().any(is_zero),
        Some(Opcode::LLVMAdd | Opcode::LLVMOr) => value.operands().into_iter().all(is_zero),
        Some(Opcode::LLVMShl | Opcode::LLVMZExt | Opcode::LLVMSExt | Opcode::LLVMTrunc) => {
            is_zero(value.operand(0))
        }
        Some(Opcode::LLVMCall) => value
            .callee()
            .is_some_and(|callee| matches!(callee.name().strip_prefix(REGISTER), Some("tid.y" | "tid.z"))),
        _ => false,
    }
}

/// For a call that depends on more than its arguments, true if the result is common; `None` for other calls. Rows of a
/// block are assumed to be a multiple of a warp, so that a warp's threads have y and z in common.
fn is_uniform_call_result(call: Value) -> Option<bool> {
    const OWN: &[&str] = &["tid.x", "laneid", "warpid", "lanemask", "clock"];
    let name = call.callee()?.name();
    match name.strip_prefix(REGISTER) {
        Some(register) => Some(!OWN.iter().any(|own| register.starts_with(own))),
        None => ["llvm.nvvm.vote.", "llvm.nvvm.redux."]
            .iter()
            .any(|start| name.starts_with(start))
            .then_some(true),
    }
}
