//! Guards: branches that depend on comparisons of the thread index within a row, such as `if (i < n)`.
//!
//! For each guard a function is emitted that tells, for a thread of a row, which way it goes and how many threads after
//! it go the same way; the loops over threads then run each such stretch without the branch. Trap: the function runs
//! before any code of the region, so it may use only the thread's index and values common to all threads.

use std::collections::{BTreeMap, BTreeSet};

use crate::body::{Body, fixed_memory};
use crate::fission;
use crate::flow::Graph;
use crate::llvm::{Builder, LLVMIntPredicate as Predicate, Opcode, Type, TypeKind, Value};
use crate::loops::Part;
use crate::provenance::origin;
use crate::pure;
use crate::runtime::{Runtime, helper};
use crate::stretches::WIDTHS;
use crate::thread::{Lowering, PART};
use crate::warp::{self, WarpGuard};

/// Types of a guard function's parameters, which precede the kernel's own: block context, index, the end of the row,
/// and the address of the values common to all threads.
pub(crate) const PARAMS: &str = "ptr, i32, i32, i32, i32, ptr";

/// Encodes a guard and its outcome for the parameter `part` of the thread function.
pub(crate) fn part_number(guard: Option<usize>, part: Part) -> usize {
    match (guard, part) {
        (Some(guard), Part::Inside) => 2 * guard + 1,
        (Some(guard), Part::Outside) => 2 * guard + 2,
        _ => 0,
    }
}

/// Added to these numbers in the form `Warp`, whose smaller ones say whether lanes are together.
pub(crate) const WARP_PARTS: usize = 2;

pub(crate) fn symbol(kernel: &str, guard: usize) -> String {
    format!("{kernel}.guard.{guard}")
}

/// A thread function that is searched for guards.
struct Guarded<'a> {
    function: Value<'a>,
    kernel: &'a str,
    /// Parameter that points to the values common to all threads, if there is one.
    common: Option<u32>,
    /// Index of the first of the kernel's own parameters.
    own: u32,
    /// Memory that is not written while the kernel runs.
    fixed: Vec<Value<'a>>,
    /// Added to what [`part_number`] returns.
    parts: usize,
}

/// Finds a guard for each loop over the threads of `body`, and emits the guard functions.
pub(crate) fn find(lowering: Lowering, function: Value, body: &mut Body) {
    let graph = Graph::new(function);
    let mut starts = fission::first_blocks(&graph.blocks);
    starts.insert(0, graph.blocks[0].terminator().successors()[0]);
    let cut = body.cut.is_some();
    let is_cut = body.form.is_cut();
    let guarded = Guarded {
        function,
        kernel: &body.kernel,
        common: cut.then_some(fission::UNIFORM),
        own: if is_cut { fission::OWN } else { PART + 1 },
        fixed: fixed_memory(lowering, function, &body.params),
        parts: if body.warp.is_some() { WARP_PARTS } else { 0 },
    };
    if let Some(cut) = &mut body.warp {
        let mut branches: Vec<Branch> = Vec::new();
        for region in cut.regions.iter_mut().filter(|region| !region.is_straight) {
            let start = graph.number[&starts[&region.number]];
            let Some(branch) = best_guard(&guarded, &graph, start) else { continue };
            let guard = add(&mut branches, branch);
            let straight = |inside| is_straight(&guarded, &graph, start, branch, inside);
            region.guard = Some(WarpGuard { guard, is_straight: [true, false].map(straight) });
        }
        make_functions(lowering, &guarded, &branches);
        return;
    }
    let Some(cut) = &mut body.cut else {
        let branch = best_guard(&guarded, &graph, 0);
        make_functions(lowering, &guarded, branch.as_slice());
        body.guard = branch.map(|_| 0);
        return;
    };
    let mut branches: Vec<Branch> = Vec::new();
    for region in cut.regions.iter_mut().filter(|region| !region.once) {
        let start = graph.number[&starts[&region.number]];
        let Some(branch) = best_guard(&guarded, &graph, start) else { continue };
        region.guard = Some(add(&mut branches, branch));
    }
    make_functions(lowering, &guarded, &branches);
}

/// Adds a guard, unless its condition is there; returns its number.
fn add<'m>(branches: &mut Vec<Branch<'m>>, branch: Branch<'m>) -> usize {
    let known = branches.iter().position(|known| known.condition == branch.condition);
    match known {
        Some(known) => branches[known].always &= branch.always,
        None => branches.push(branch),
    }
    known.unwrap_or(branches.len() - 1)
}

/// True if each lane takes a path through the region that is known in advance where the guard's outcome is.
fn is_straight(guarded: &Guarded, graph: &Graph, region: usize, branch: Branch, inside: bool) -> bool {
    let condition = branch.condition;
    let holds = guarded.read(condition, branch.always).expect("best_guard could read it").inside == inside;
    let (mut open, mut found) = (vec![region], BTreeSet::from([region]));
    while let Some(block) = open.pop() {
        let end = graph.blocks[block].terminator();
        let decided = graph.next[block].len() == 2 && end.operand(0) == condition;
        let next = match decided {
            true => &graph.next[block][usize::from(!holds)..][..1],
            false => &graph.next[block][..],
        };
        open.extend(next.iter().filter(|&&to| found.insert(to)));
        let others: Vec<Value> = if decided { Vec::new() } else { vec![end] };
        if !warp::is_straight(&graph.blocks[block].instructions(), &others, guarded.function) {
            return false;
        }
    }
    true
}

/// A branch that is chosen as a guard.
#[derive(Clone, Copy)]
struct Branch<'m> {
    condition: Value<'m>,
    /// Every thread reaches it, so its condition is never poison.
    always: bool,
}

/// Emits the guard functions for these conditions, and makes the thread function use their results.
fn make_functions(lowering: Lowering, guarded: &Guarded, branches: &[Branch]) {
    let guards: Vec<Guard> = branches
        .iter()
        .map(|branch| guarded.read(branch.condition, branch.always).expect("best_guard could read it"))
        .collect();
    for (number, guard) in guards.iter().enumerate() {
        make_function(lowering, guarded, guard, number);
    }
    for (number, (branch, guard)) in branches.iter().zip(&guards).enumerate() {
        apply_guard(lowering, guarded, branch.condition, guard.inside, number);
    }
}

/// Returns the branch that decides on most of the region's accesses.
fn best_guard<'m>(guarded: &Guarded<'m>, graph: &Graph<'m>, region: usize) -> Option<Branch<'m>> {
    let reached = graph.reached(region, None);
    let mut best: Option<(usize, Branch)> = None;
    for &block in &reached {
        let end = graph.blocks[block].terminator();
        let &[then, otherwise] = graph.next[block].as_slice() else { continue };
        if end.opcode() != Some(Opcode::LLVMBr) || guarded.read(end.operand(0), false).is_none() {
            continue;
        }
        let [one, other] = [then, otherwise].map(|to| graph.reached(to, Some(block)));
        let decided = one.symmetric_difference(&other).map(|&at| accesses(graph, at)).sum();
        if decided > 0 && best.is_none_or(|(most, _)| decided > most) {
            let always = graph.always_comes_by(region, block);
            best = Some((decided, Branch { condition: end.operand(0), always }));
        }
    }
    best.map(|(_, branch)| branch)
}

/// Counts operations of a block that profit from a loop without branches.
fn accesses(graph: &Graph, block: usize) -> usize {
    let counts = |i: &Value| match i.opcode() {
        Some(Opcode::LLVMLoad | Opcode::LLVMStore | Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg) => {
            true
        }
        Some(Opcode::LLVMCall) => i.callee().is_none_or(|callee| !Runtime::is_helper(&callee.name())),
        _ => false,
    };
    graph.blocks[block].instructions().iter().filter(|i| counts(i)).count()
}

/// A decomposed condition: it holds (or fails, see `inside`) exactly where all parts hold.
struct Guard<'m> {
    parts: Vec<Comparison<'m>>,
    /// The condition's value where all parts hold.
    inside: bool,
}

/// A part of a condition.
struct Comparison<'m> {
    what: What<'m>,
    /// The opposite of the comparison must hold.
    negated: bool,
    /// Never poison.
    sure: bool,
}

enum What<'m> {
    /// A condition with one value for all threads of a row.
    Row(Value<'m>),
    /// `left` rises by one from thread to thread, `right` is constant within a row.
    Index { predicate: &'static str, left: Value<'m>, right: Value<'m> },
}

impl<'a> Guarded<'a> {
    fn read(&self, condition: Value<'a>, sure: bool) -> Option<Guard<'a>> {
        [true, false].into_iter().find_map(|inside| {
            let mut parts = Vec::new();
            let depends = self.take_apart(condition, !inside, sure, &mut parts)?;
            depends.then_some(Guard { parts, inside })
        })
    }

    /// Adds the parts of `condition`; returns whether a part depends on the index in the row. `None` if the parts are
    /// alternatives.
    fn take_apart(
        &self,
        condition: Value<'a>,
        negated: bool,
        sure: bool,
        parts: &mut Vec<Comparison<'a>>,
    ) -> Option<bool> {
        if !self.is_computable(condition) {
            return None;
        }
        if self.steps(condition) == Some(0) {
            parts.push(Comparison { what: What::Row(condition), negated, sure });
            return Some(false);
        }
        // In a `select` the second part may be poison if the first decides.
        let both = |one: u32, other: u32, sure: bool, parts: &mut Vec<Comparison<'a>>| {
            let first = self.take_apart(condition.operand(one), negated, sure, parts)?;
            Some(first | self.take_apart(condition.operand(other), negated, sure, parts)?)
        };
        let is = |value: Value, number: u64| value.constant_integer() == Some(number);
        match condition.opcode()? {
            Opcode::LLVMAnd if !negated => both(0, 1, sure, parts),
            Opcode::LLVMOr if negated => both(0, 1, sure, parts),
            Opcode::LLVMSelect if !negated && is(condition.operand(2), 0) => both(0, 1, false, parts),
            Opcode::LLVMSelect if negated && is(condition.operand(1), 1) => both(0, 2, false, parts),
            Opcode::LLVMXor if is(condition.operand(1), 1) => {
                self.take_apart(condition.operand(0), !negated, sure, parts)
            }
            Opcode::LLVMICmp => {
                let (what, opposite) = self.comparison(condition)?;
                parts.push(Comparison { what, negated: negated != opposite, sure });
                Some(true)
            }
            _ => None,
        }
    }

    /// Normalises an integer comparison to one of five predicates; true if the original is the opposite.
    fn comparison(&self, comparison: Value<'a>) -> Option<(What<'a>, bool)> {
        use Predicate::*;
        let [one, other] = [comparison.operand(0), comparison.operand(1)];
        let (mut predicate, mut left, mut right) = (comparison.predicate(), one, other);
        if one.ty().kind() != TypeKind::LLVMIntegerTypeKind {
            return None;
        }
        if self.steps(other) == Some(1) {
            (left, right) = (other, one);
            predicate = match predicate {
                LLVMIntUGT => LLVMIntULT,
                LLVMIntUGE => LLVMIntULE,
                LLVMIntULT => LLVMIntUGT,
                LLVMIntULE => LLVMIntUGE,
                LLVMIntSGT => LLVMIntSLT,
                LLVMIntSGE => LLVMIntSLE,
                LLVMIntSLT => LLVMIntSGT,
                LLVMIntSLE => LLVMIntSGE,
                same => same,
            };
        }
        let (predicate, opposite) = match predicate {
            LLVMIntEQ => ("eq", false),
            LLVMIntNE => ("eq", true),
            LLVMIntULT => ("ult", false),
            LLVMIntUGE => ("ult", true),
            LLVMIntULE => ("ule", false),
            LLVMIntUGT => ("ule", true),
            LLVMIntSLT => ("slt", false),
            LLVMIntSGE => ("slt", true),
            LLVMIntSLE => ("sle", false),
            LLVMIntSGT => ("sle", true),
        };
        if predicate == "eq"
            && let Some((index, multiple)) = self.below(left, right)
        {
            return Some((What::Index { predicate: "ult", left: index, right: multiple }, opposite));
        }
        let fits = WIDTHS.iter().any(|width| left.ty().to_text() == format!("i{width}"));
        let found = fits && self.steps(left) == Some(1) && self.steps(right) == Some(0);
        found.then_some((What::Index { predicate, left, right }, opposite))
    }

    /// If `left` is a thread's index shifted to the right, such as the number of its warp, and `right` is 0: the index,
    /// and the number that it is then below.
    fn below(&self, left: Value<'a>, right: Value<'a>) -> Option<(Value<'a>, Value<'a>)> {
        let shifts = left.is_instruction() && left.opcode() == Some(Opcode::LLVMLShr);
        if !shifts || right.constant_integer() != Some(0) {
            return None;
        }
        let (index, by) = (left.operand(0), left.operand(1).constant_integer()?);
        let fits = self.is_index(index) && index.ty().integer_bits().is_some_and(|bits| by + 1 < bits.into());
        fits.then(|| (index, index.ty().constant(1 << by)))
    }

    /// Difference of `value` between neighbouring threads of a row; `None` if unknown.
    fn steps(&self, value: Value<'a>) -> Option<i64> {
        let params = self.function.params();
        if !value.is_instruction() {
            return Some(i64::from(value == params[1]));
        }
        if let Some(index) =
            (value.opcode() == Some(Opcode::LLVMCall)).then(|| pure::index_call(value)).flatten()
        {
            return Some(i64::from(index == 0));
        }
        if value.opcode() == Some(Opcode::LLVMCall) && pure::is_uniform_call(value) {
            return Some(0);
        }
        let steps: Vec<Option<i64>> = value.operands().into_iter().map(|o| self.steps(o)).collect();
        if steps.iter().all(|&s| s == Some(0)) {
            return Some(0);
        }
        match value.opcode()? {
            Opcode::LLVMAdd => Some(steps[0]? + steps[1]?),
            Opcode::LLVMSub => Some(steps[0]? - steps[1]?),
            Opcode::LLVMOr if value.is_disjoint() => Some(steps[0]? + steps[1]?),
            // The index itself is too small to wrap.
            Opcode::LLVMZExt | Opcode::LLVMSExt if self.is_index(value.operand(0)) => Some(1),
            Opcode::LLVMTrunc | Opcode::LLVMFreeze => steps[0],
            _ => None,
        }
    }

    fn is_index(&self, value: Value<'a>) -> bool {
        let call = value.opcode() == Some(Opcode::LLVMCall);
        value == self.function.params()[1] || (call && pure::index_call(value) == Some(0))
    }

    /// True if a guard function can compute the value from its parameters.
    fn is_computable(&self, value: Value<'a>) -> bool {
        let params = self.function.params();
        let hidden: BTreeSet<Value> = params[4..self.own as usize]
            .iter()
            .copied()
            .filter(|&param| self.common.is_none_or(|common| param != params[common as usize]))
            .collect();
        let leaf = |value: Value| self.is_known_load(value);
        pure::is_computable(value, &[], &leaf) && !mentions(value, &hidden, &leaf)
    }

    /// True for a load of a value that was common to all threads when the region began, or of memory that is not
    /// written.
    fn is_known_load(&self, value: Value<'a>) -> bool {
        if value.opcode() != Some(Opcode::LLVMLoad) || value.is_volatile() {
            return false;
        }
        let address = value.operand(0);
        let common = self.common.map(|number| self.function.params()[number as usize]);
        let known = origin(address).is_some_and(|from| Some(from) == common || self.fixed.contains(&from));
        known && pure::is_at_fixed_place(address)
    }
}

/// True if `value` is computed from one of `params`.
fn mentions(value: Value, params: &BTreeSet<Value>, leaf: &dyn Fn(Value) -> bool) -> bool {
    if !value.is_instruction() {
        return params.contains(&value);
    }
    // Calls take the thread's index and the block context as arguments, and depend on nothing else.
    !leaf(value) && value.operands().into_iter().any(|operand| mentions(operand, params, leaf))
}

/// Emits the guard function: it returns `n << 1 | inside` for the thread of index x, where the n threads after it go
/// the same way.
fn make_function(lowering: Lowering, guarded: &Guarded, guard: &Guard, number: usize) {
    let context = lowering.context;
    let (ptr, i32, i64) = (context.ptr_type(0), context.int_type(32), context.int_type(64));
    let old = guarded.function.params();
    let own = &old[guarded.own as usize..];
    let mut types = vec![ptr, i32, i32, i32, i32, ptr];
    types.extend(own.iter().map(|param| param.ty()));
    let function = lowering.module.add_function(&symbol(guarded.kernel, number), Type::function(i64, &types));
    function.add_attribute("alwaysinline");
    let builder = context.builder();
    builder.at_end(context.append_block(function, "entry"));
    let params = function.params();
    let mut known: BTreeMap<Value, Value> =
        old[..4].iter().copied().zip(params[..4].iter().copied()).collect();
    known.extend(own.iter().copied().zip(params[6..].iter().copied()));
    if let Some(common) = guarded.common {
        known.insert(old[common as usize], params[5]);
    }
    // Values computed with LLVM's promises about operands, and values computed without them.
    let mut known = [known.clone(), known];
    let stretches: Vec<Value> = guard
        .parts
        .iter()
        .map(|part| stretch(lowering, &builder, part, &mut known[usize::from(part.sure)]))
        .collect();
    let both = helper(lowering.module, "eager.stretch.both");
    let all = stretches.into_iter().reduce(|one, other| builder.call(both, &[one, other]));
    let all = all.expect("a guard has a part");
    let rest = builder.call(helper(lowering.module, "eager.stretch.rest"), &[all, params[1], params[4]]);
    builder.return_value(rest);
}

fn stretch<'m>(
    lowering: Lowering<'m>,
    builder: &Builder<'m>,
    part: &Comparison<'m>,
    known: &mut BTreeMap<Value<'m>, Value<'m>>,
) -> Value<'m> {
    let mut compute = |value: Value<'m>| match part.sure {
        true => pure::compute_again(builder, value, known),
        false => builder.freeze(pure::compute_anywhere(builder, value, known)),
    };
    let found = match part.what {
        What::Row(condition) => {
            let condition = compute(condition);
            builder.call(helper(lowering.module, "eager.stretch.row"), &[condition])
        }
        What::Index { predicate, left, right } => {
            let name = format!("eager.stretch.{predicate}.{}", left.ty().to_text());
            let [left, right] = [left, right].map(&mut compute);
            builder.call(helper(lowering.module, &name), &[left, right])
        }
    };
    let opposite = lowering.context.int_type(64).constant(u64::from(part.negated));
    builder.binary(Opcode::LLVMXor, found, opposite)
}

/// Replaces the guard's condition by the outcome that the loop passes.
fn apply_guard(lowering: Lowering, guarded: &Guarded, condition: Value, inside: bool, number: usize) {
    let i32 = lowering.context.int_type(32);
    let [holds, fails] = if inside { [Part::Inside, Part::Outside] } else { [Part::Outside, Part::Inside] };
    let number = |part| (part_number(Some(number), part) + guarded.parts) as u64;
    let [holds, fails] = [holds, fails].map(|part| i32.constant(number(part)));
    let part = guarded.function.params()[PART as usize];
    let builder = lowering.context.builder();
    builder.before(condition.next_instruction());
    let known = builder.call(helper(lowering.module, "eager.known"), &[condition, part, holds, fails]);
    condition.replace_uses_with(known);
    known.set_operand(0, condition);
}
