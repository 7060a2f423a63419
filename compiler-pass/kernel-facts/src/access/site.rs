//! Lists every memory access of a kernel with the loops around it and the conditions that hold there.
//!
//! Trap: a condition holds only where its branch's edge dominates. The exit condition of a loop does not count, because
//! it decides how often the loop runs, not whether a thread takes part.

use std::collections::BTreeSet;

use super::atoms::{Atom, Motion};
use super::code::{Arithmetic, Axis, Block, BlockId, Function, Kind, Operand, Register, Relation};
use super::flow::{Flow, Loop, LoopId};
use super::polynomial::Polynomial;
use super::reach::{Origins, Root};
use super::shape::Shapes;

/// One access.
#[derive(Clone, Debug)]
pub struct Site {
    /// Possible target buffers.
    pub roots: BTreeSet<Root>,
    /// Distance from the start of the buffer, in bytes.
    pub offset: Polynomial,
    /// Bytes per access; 0: a run of unknown length from the offset on.
    pub bytes: u64,
    pub around: Surroundings,
}

/// Loops and conditions around an access.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Enclosing loops, outermost first.
    pub loops: Vec<LoopId>,
    /// Some condition on the path depends on data.
    pub is_guarded: bool,
    /// Axes along which only one block reaches the access.
    pub single_block_axes: BTreeSet<Axis>,
}

/// Facts about a whole kernel that the classifier uses.
#[derive(Debug)]
pub struct Kernel<'f> {
    pub function: &'f Function,
    pub flow: Flow,
    pub shapes: Shapes,
    pub origins: &'f Origins,
    /// By value: the instruction that computes it.
    makers: Vec<Option<&'f Kind>>,
    /// By loop: its number of iterations, if constant.
    trip_counts: Vec<Option<u64>>,
}

impl<'f> Kernel<'f> {
    #[must_use]
    pub fn new(function: &'f Function, origins: &'f Origins) -> Self {
        let flow = Flow::of(function);
        let shapes = Shapes::of(function, &flow, origins);
        let mut makers = vec![None; function.values as usize];
        for instruction in function.blocks.iter().flat_map(|block| &block.instructions) {
            if let Some(slot) = instruction.result.and_then(|result| makers.get_mut(result.index())) {
                *slot = Some(&instruction.kind);
            }
        }
        let mut kernel = Self { function, flow, shapes, origins, makers, trip_counts: Vec::new() };
        kernel.trip_counts = kernel.flow.loops.iter().map(|found| kernel.compute_trip_count(found)).collect();
        kernel
    }

    /// Grid axes that the kernel reads.
    #[must_use]
    pub fn live_axes(&self) -> BTreeSet<Axis> {
        let reachable = self.flow.order.iter().map(|&block| &self.function.blocks[block.index()]);
        let kinds = reachable.flat_map(|block| &block.instructions).map(|instruction| &instruction.kind);
        kinds
            .filter_map(|kind| match kind {
                Kind::Read(Register::BlockIndex(axis)) => Some(*axis),
                _ => None,
            })
            .collect()
    }

    /// All reachable accesses.
    #[must_use]
    pub fn sites(&self) -> Vec<Site> {
        let mut surroundings: Vec<Option<Surroundings>> = vec![None; self.function.blocks.len()];
        let mut sites = Vec::new();
        for &block in &self.flow.order {
            let above = self.flow.immediate_dominator(block);
            let inherited = above.and_then(|above| surroundings[above.index()].clone()).unwrap_or_default();
            let around = self.surroundings(block, above, inherited);
            for instruction in &self.function.blocks[block.index()].instructions {
                for (address, bytes) in touched(&instruction.kind) {
                    sites.push(Site {
                        roots: self.origins.of(address),
                        offset: self.shapes.get(address),
                        bytes,
                        around: around.clone(),
                    });
                }
            }
            surroundings[block.index()] = Some(around);
        }
        sites
    }

    fn surroundings(&self, block: BlockId, above: Option<BlockId>, inherited: Surroundings) -> Surroundings {
        let mut around = Surroundings { loops: self.flow.around(block), ..inherited };
        let Some(above) = above else { return around };
        let branch = &self.function.blocks[above.index()];
        let Some((condition, is_taken)) = self.condition_for(branch, above, block) else { return around };
        if !self.leaves_a_loop(above) {
            around.is_guarded |= self.shapes.atoms.motion(&self.shapes.get(condition)).is_data;
        }
        self.add_single_block_axes(condition, is_taken, 0, &mut around.single_block_axes);
        around
    }

    /// Condition of `branch` that holds in all of `block`, and whether it is true there.
    fn condition_for(&self, branch: &Block, above: BlockId, block: BlockId) -> Option<(Operand, bool)> {
        let [if_true, if_false] = branch.successors[..] else { return None };
        let condition = branch.condition?;
        let only_from = |block: BlockId| self.flow.predecessors[block.index()] == [above];
        if if_true == if_false || !only_from(block) {
            return None;
        }
        if block == if_true {
            Some((condition, true))
        } else if block == if_false {
            Some((condition, false))
        } else {
            None
        }
    }

    fn leaves_a_loop(&self, block: BlockId) -> bool {
        let successors = &self.function.blocks[block.index()].successors;
        self.flow.around(block).last().is_some_and(|&inner| {
            successors.iter().any(|&successor| !self.flow.loops[inner.index()].contains(successor))
        })
    }

    /// Adds the axes along which a condition selects a single block.
    fn add_single_block_axes(
        &self,
        condition: Operand,
        is_true: bool,
        depth: u32,
        found: &mut BTreeSet<Axis>,
    ) {
        const DEPTH_MAX: u32 = 8;
        let Some(kind) = self.maker(condition).filter(|_| depth < DEPTH_MAX) else { return };
        let mut both = |left: Operand, right: Operand| {
            self.add_single_block_axes(left, is_true, depth + 1, found);
            self.add_single_block_axes(right, is_true, depth + 1, found);
        };
        match kind {
            Kind::Arithmetic { op: Arithmetic::And, left, right } if is_true => both(*left, *right),
            Kind::Arithmetic { op: Arithmetic::Or, left, right } if !is_true => both(*left, *right),
            Kind::Choose { condition, if_true, if_false: Operand::Integer(0) } if is_true => {
                both(*condition, *if_true);
            }
            Kind::Choose { condition, if_true: Operand::Integer(_), if_false } if !is_true => {
                both(*condition, *if_false);
            }
            Kind::Arithmetic { op: Arithmetic::Xor, left, right: Operand::Integer(_) } => {
                self.add_single_block_axes(*left, !is_true, depth + 1, found);
            }
            Kind::Compare { relation, left, right } => {
                let equal = *relation == Relation::Equal && is_true;
                if equal || (*relation == Relation::NotEqual && !is_true) {
                    found.extend(self.axes_of_difference(*left, *right));
                }
            }
            _ => {}
        }
    }

    fn maker(&self, operand: Operand) -> Option<&'f Kind> {
        match operand {
            Operand::Value(value) => self.makers.get(value.index()).copied().flatten(),
            _ => None,
        }
    }

    /// Axes whose block index an equation fixes: all that occur in it, provided its other parts are thread indices or
    /// the same for all threads.
    fn axes_of_difference(&self, left: Operand, right: Operand) -> Vec<Axis> {
        let Some(difference) = self.shapes.get(left).minus(&self.shapes.get(right)) else {
            return Vec::new();
        };
        let mut axes = Vec::new();
        for atom in difference.atoms() {
            match self.shapes.atoms.get(atom) {
                Atom::Register(Register::BlockIndex(axis)) => axes.push(*axis),
                Atom::Register(_) => {}
                _ if self.shapes.atoms.motion_of(atom) == Motion::default() => {}
                _ => return Vec::new(),
            }
        }
        axes
    }

    /// Number of iterations of a loop, if constant: its exit compares a value with constant start and step to a
    /// constant.
    #[must_use]
    pub fn trip_count(&self, around: LoopId) -> Option<u64> {
        self.trip_counts.get(around.index()).copied().flatten()
    }

    fn compute_trip_count(&self, found: &Loop) -> Option<u64> {
        let exits = self.flow.order.iter().filter(|&&block| found.contains(block)).filter_map(|&block| {
            let code = &self.function.blocks[block.index()];
            let leaves = code.successors.iter().any(|&successor| !found.contains(successor));
            leaves.then_some(code.condition).flatten()
        });
        exits.filter_map(|condition| self.trip_count_of_exit(condition)).min()
    }

    fn trip_count_of_exit(&self, condition: Operand) -> Option<u64> {
        let Some(Kind::Compare { left, right, .. }) = self.maker(condition) else { return None };
        let difference = self.shapes.get(*left).minus(&self.shapes.get(*right))?;
        let [carried] = difference.atoms()[..] else { return None };
        let recurrence = self.shapes.atoms.recurrences.get(&carried)?;
        let start = recurrence.start.as_ref()?.as_constant()?;
        let step = recurrence.step.as_ref()?.as_constant()?;
        let factor = difference.coefficient(&vec![carried]);
        let distance = start.checked_mul(factor)?.checked_add(difference.constant_part())?;
        let per_iteration = step.checked_mul(factor)?.unsigned_abs();
        (per_iteration > 0).then(|| distance.unsigned_abs().div_ceil(per_iteration))
    }
}

/// Addresses that an instruction reads or writes, each with its number of bytes.
fn touched(kind: &Kind) -> Vec<(Operand, u64)> {
    match kind {
        Kind::Load { from, bytes } => vec![(*from, *bytes)],
        Kind::Store { to, bytes, .. } => vec![(*to, *bytes)],
        Kind::Update { at, bytes, .. } => vec![(*at, *bytes)],
        Kind::Copy { to, from } => vec![(*to, 0), (*from, 0)],
        Kind::Fill { to } => vec![(*to, 0)],
        _ => Vec::new(),
    }
}
