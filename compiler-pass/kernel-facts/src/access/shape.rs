//! Walks a function once, operands before their users, and gives every value a polynomial over atoms.
//!
//! The polynomial of a pointer is its distance in bytes from the start of the buffer. Trap: where control flow or a
//! condition selects one of two values, the one that changes more is used (see [`Shapes::pick`]), so clamped and
//! mirrored indices count as the plain index. Results of this module may only be used for estimates; promises come from
//! `reach`.

use super::atoms::{Atom, Atoms, Recurrence};
use super::code::{Arithmetic, BlockId, Function, Instruction, Kind, Memory, Operand, Param, ValueId};
use super::flow::{Flow, LoopId};
use super::polynomial::{AtomId, Polynomial};
use super::reach::{Origins, Root};

/// The shapes of one function's values.
#[derive(Debug)]
pub struct Shapes {
    pub atoms: Atoms,
    /// By value; `None` in unreachable code.
    values: Vec<Option<Polynomial>>,
    /// By loop: the atom that counts its iterations.
    iteration_atoms: Vec<AtomId>,
}

impl Shapes {
    #[must_use]
    pub fn of(function: &Function, flow: &Flow, origins: &Origins) -> Self {
        let values = vec![None; function.values as usize];
        let mut shapes = Self { atoms: Atoms::default(), values, iteration_atoms: Vec::new() };
        for (index, param) in function.params.iter().enumerate() {
            let value = ValueId(index as u32);
            let shape = match param {
                Param::Pointer | Param::ByValue => Polynomial::default(),
                Param::Scalar => shapes.atom(Atom::Argument(value)),
            };
            shapes.set(value, shape);
        }
        for &block in &flow.order {
            let header = flow.headed_by(block);
            for instruction in &function.blocks[block.index()].instructions {
                let Some(result) = instruction.result else { continue };
                let shape = shapes.shape(result, instruction, header, origins);
                shapes.set(result, shape);
            }
        }
        shapes.close_loops(function, flow);
        shapes.atoms.settle();
        shapes
    }

    /// Polynomial of an operand.
    #[must_use]
    pub fn get(&self, operand: Operand) -> Polynomial {
        match operand {
            Operand::Value(value) => self.values.get(value.index()).cloned().flatten().unwrap_or_default(),
            Operand::Integer(value) => Polynomial::constant(value),
            Operand::Address(_) | Operand::Constant => Polynomial::default(),
        }
    }

    /// Atom that counts the iterations of a loop.
    #[must_use]
    pub fn iteration_atom(&self, around: LoopId) -> Option<AtomId> {
        self.iteration_atoms.get(around.index()).copied()
    }

    fn set(&mut self, value: ValueId, shape: Polynomial) {
        if let Some(slot) = self.values.get_mut(value.index()) {
            *slot = Some(shape);
        }
    }

    fn atom(&mut self, atom: Atom) -> Polynomial {
        Polynomial::atom(self.atoms.intern(atom))
    }

    fn shape(
        &mut self,
        result: ValueId,
        instruction: &Instruction,
        header: Option<LoopId>,
        origins: &Origins,
    ) -> Polynomial {
        let known = match &instruction.kind {
            Kind::Arithmetic { op, left, right } => self.arithmetic(*op, *left, *right),
            Kind::Convert { from } => Some(self.get(*from)),
            Kind::Choose { if_true, if_false, .. } => {
                Some(self.pick(self.get(*if_true), self.get(*if_false)))
            }
            Kind::Merge { incoming } => Some(self.merge(result, incoming, header)),
            Kind::Read(register) => Some(self.atom(Atom::Register(*register))),
            Kind::Offset { base, constant, terms } => self.offset(*base, *constant, terms),
            Kind::Object(_) => Some(Polynomial::default()),
            Kind::Load { from, .. } => {
                let address = self.get(*from);
                let local = |root: &Root| matches!(root, Root::Memory(Memory::Private | Memory::Shared));
                let is_local = origins.of(*from).iter().any(local);
                Some(self.atom(Atom::Loaded { value: result, address, is_local }))
            }
            Kind::Update { .. } => {
                let address = Polynomial::default();
                Some(self.atom(Atom::Loaded { value: result, address, is_local: true }))
            }
            Kind::Call { callee: Some(_), .. } => Some(self.atom(Atom::Lost(result))),
            _ => None,
        };
        known.unwrap_or_else(|| self.opaque(result, &instruction.kind))
    }

    fn opaque(&mut self, result: ValueId, kind: &Kind) -> Polynomial {
        let mut from: Vec<AtomId> =
            kind.operands().into_iter().flat_map(|operand| self.get(operand).atoms()).collect();
        from.sort_unstable();
        from.dedup();
        self.atom(Atom::Opaque { value: result, from })
    }

    fn arithmetic(&mut self, op: Arithmetic, left: Operand, right: Operand) -> Option<Polynomial> {
        let (left, right) = (self.get(left), self.get(right));
        match (op, right.as_constant()) {
            (Arithmetic::Add, _) => self.rejoin(left.plus(&right)?),
            (Arithmetic::Subtract, _) => self.rejoin(left.minus(&right)?),
            (Arithmetic::Multiply, _) => left.times(&right),
            (Arithmetic::ShiftLeft, Some(by @ 0..=62)) => left.times(&Polynomial::constant(1 << by)),
            (Arithmetic::ShiftRight, Some(by @ 0..=62)) => self.quotient(left, Polynomial::constant(1 << by)),
            (Arithmetic::Divide, _) => self.quotient(left, right),
            (Arithmetic::Remainder, _) => self.remainder(left, right),
            (Arithmetic::And, Some(mask)) if mask > 0 && mask.checked_add(1)?.count_ones() == 1 => {
                self.remainder(left, Polynomial::constant(mask + 1))
            }
            // Code uses `tile | lane` to add parts that do not overlap.
            (Arithmetic::Or, Some(bits)) if bits >= 0 => self.rejoin(left.plus(&right)?),
            _ => None,
        }
    }

    fn quotient(&mut self, left: Polynomial, right: Polynomial) -> Option<Polynomial> {
        match right.as_constant() {
            Some(0) => None,
            Some(by) if by > 0 && left.divided(by).is_some() => left.divided(by),
            _ if left.as_constant() == Some(0) => Some(left),
            _ => Some(self.atom(Atom::Quotient(left, right))),
        }
    }

    fn remainder(&mut self, left: Polynomial, right: Polynomial) -> Option<Polynomial> {
        match (left.as_constant(), right.as_constant()) {
            (_, Some(0)) => None,
            (Some(left), Some(right)) => left.checked_rem(right).map(Polynomial::constant),
            _ => Some(self.atom(Atom::Remainder(left, right))),
        }
    }

    /// Replaces `q · (p / q) + p % q` by `p`: two-dimensional indices made from a linear one.
    fn rejoin(&mut self, sum: Polynomial) -> Option<Polynomial> {
        for (monomial, coefficient) in sum.clone().terms() {
            let [single] = monomial[..] else { continue };
            let Atom::Remainder(left, right) = self.atoms.get(single).clone() else { continue };
            let quotient = Polynomial::atom(self.atoms.intern(Atom::Quotient(left.clone(), right.clone())));
            let Some(rest) = quotient.times(&right) else { continue };
            let has_rest = rest.terms().all(|(monomial, c)| {
                sum.coefficient(monomial) == c.saturating_mul(coefficient)
                    && c.checked_mul(coefficient).is_some()
            });
            if has_rest {
                let without = sum.plus_scaled(&rest, coefficient.checked_neg()?)?;
                let without = without.minus(&Polynomial::product(coefficient, vec![single]))?;
                return without.plus_scaled(&left, coefficient);
            }
        }
        Some(sum)
    }

    fn offset(&mut self, base: Operand, constant: i64, terms: &[(i64, Operand)]) -> Option<Polynomial> {
        let mut sum = self.get(base).plus(&Polynomial::constant(constant))?;
        for &(scale, index) in terms {
            sum = sum.plus_scaled(&self.get(index), scale)?;
        }
        self.rejoin(sum)
    }

    fn merge(
        &mut self,
        result: ValueId,
        incoming: &[(BlockId, Operand)],
        header: Option<LoopId>,
    ) -> Polynomial {
        if let Some(around) = header {
            return self.atom(Atom::Carried { value: result, around });
        }
        let is_known = |operand: &Operand| match operand {
            Operand::Value(value) => self.values.get(value.index()).is_some_and(Option::is_some),
            _ => true,
        };
        if !incoming.iter().all(|(_, operand)| is_known(operand)) {
            // A cycle that is not a natural loop, or an unreachable predecessor.
            return self.atom(Atom::Lost(result));
        }
        let shapes: Vec<_> = incoming.iter().map(|&(_, operand)| self.get(operand)).collect();
        shapes.into_iter().reduce(|a, b| self.pick(a, b)).unwrap_or_default()
    }

    /// Of two possible values, returns the one with more moving parts, or among equals the one that grows: most threads
    /// use the plain index, not its mirror image.
    fn pick(&self, left: Polynomial, right: Polynomial) -> Polynomial {
        let moving =
            |shape: &Polynomial| shape.atoms().iter().filter(|&&atom| self.atoms.may_move(atom)).count();
        let falling = |shape: &Polynomial| shape.terms().filter(|&(_, c)| c < 0).count();
        let rank = |shape: &Polynomial| (std::cmp::Reverse(moving(shape)), falling(shape));
        if rank(&right) < rank(&left) { right } else { left }
    }

    /// Finds start and step of each loop-carried value, once the ends of all loops have shapes.
    fn close_loops(&mut self, function: &Function, flow: &Flow) {
        for (index, found) in flow.loops.iter().enumerate() {
            let around = LoopId(index as u32);
            self.iteration_atoms.push(self.atoms.intern(Atom::Iteration(around)));
            for instruction in &function.blocks[found.header.index()].instructions {
                let (Some(value), Kind::Merge { incoming }) = (instruction.result, &instruction.kind) else {
                    continue;
                };
                let atom = self.atoms.intern(Atom::Carried { value, around });
                let (carried_back, entries): (Vec<_>, Vec<_>) =
                    incoming.iter().partition(|(block, _)| found.contains(*block));
                let of = |shapes: &Self, edges: &[&(BlockId, Operand)]| -> Vec<Polynomial> {
                    edges.iter().map(|(_, operand)| shapes.get(*operand)).collect()
                };
                let (entries, carried_back) = (of(self, &entries), of(self, &carried_back));
                let recurrence = self.recurrence(atom, entries, &carried_back);
                self.atoms.recurrences.insert(atom, recurrence);
            }
        }
    }

    fn recurrence(&self, atom: AtomId, entries: Vec<Polynomial>, carried_back: &[Polynomial]) -> Recurrence {
        let mut from: Vec<AtomId> = entries.iter().chain(carried_back).flat_map(Polynomial::atoms).collect();
        from.sort_unstable();
        from.dedup();
        let start = entries.into_iter().reduce(|a, b| self.pick(a, b));
        let carried = Polynomial::atom(atom);
        let mut steps = carried_back.iter().map(|shape| shape.minus(&carried));
        let first = steps.next().flatten();
        let step = first.filter(|step| {
            steps.all(|other| other.as_ref() == Some(step))
                && step.atoms().iter().all(|&a| self.atoms.is_fixed(a))
        });
        Recurrence { start, step, from }
    }
}
