//! The parts that addresses are made of, and what makes each part change: threads, blocks, loops, or data.
//!
//! Whether a loop-carried value is affine is known only at the end of the loop, after other values were built on it. So
//! a value keeps the loop's atom, and the meaning of the atom is looked up at the end ([`Atoms::settle`]).

use std::collections::BTreeMap;

use super::code::{Axis, Register, ValueId};
use super::flow::LoopId;
use super::polynomial::{AtomId, Polynomial};

/// Set of the causes that make a number change: three thread axes, three block axes, and loops. `is_data`: it depends
/// on data that the kernel reads at an address which itself changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Motion {
    bits: u64,
    pub is_data: bool,
}

const FIRST_BLOCK_BIT: u32 = 3;
const FIRST_LOOP_BIT: u32 = 6;

impl Motion {
    fn bit(index: u32) -> Self {
        Self { bits: 1 << index.min(63), is_data: false }
    }

    #[must_use]
    pub fn of_register(register: Register) -> Self {
        match register {
            Register::ThreadIndex(axis) => Self::bit(axis_index(axis)),
            Register::BlockIndex(axis) => Self::bit(FIRST_BLOCK_BIT + axis_index(axis)),
            Register::BlockSize(_) | Register::GridSize(_) => Self::default(),
        }
    }

    /// Loops for which no bit is left share the last one, which only makes more values seem to change.
    #[must_use]
    pub fn of_loop(id: LoopId) -> Self {
        Self::bit(FIRST_LOOP_BIT.saturating_add(id.0))
    }

    /// Changed by every cause.
    #[must_use]
    pub fn anything() -> Self {
        Self { bits: u64::MAX, is_data: false }
    }

    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits, is_data: self.is_data | other.is_data }
    }

    #[must_use]
    pub fn is_uniform(self) -> bool {
        self.bits == 0 && !self.is_data
    }

    #[must_use]
    pub fn includes(self, other: Self) -> bool {
        self.bits & other.bits == other.bits
    }
}

fn axis_index(axis: Axis) -> u32 {
    match axis {
        Axis::X => 0,
        Axis::Y => 1,
        Axis::Z => 2,
    }
}

/// A number that is not a sum or product of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    Register(Register),
    /// A scalar argument, which is the same for all threads.
    Argument(ValueId),
    /// A value that a loop carries from one iteration to the next.
    Carried {
        value: ValueId,
        around: LoopId,
    },
    /// The number of completed iterations of a loop.
    Iteration(LoopId),
    Quotient(Polynomial, Polynomial),
    Remainder(Polynomial, Polynomial),
    /// Read from memory; `is_local`: the memory differs from block to block.
    Loaded {
        value: ValueId,
        address: Polynomial,
        is_local: bool,
    },
    /// Computed from these values in a way that is not followed.
    Opaque {
        value: ValueId,
        from: Vec<AtomId>,
    },
    /// Unknown.
    Lost(ValueId),
}

/// How a loop-carried value evolves.
#[derive(Clone, Debug, Default)]
pub struct Recurrence {
    pub start: Option<Polynomial>,
    /// Amount added in each iteration; `None` if the value does not grow by a fixed amount.
    pub step: Option<Polynomial>,
    /// All atoms of the start value and of the values at the loop's back edges.
    pub from: Vec<AtomId>,
}

/// The atoms of one function.
#[derive(Debug, Default)]
pub struct Atoms {
    table: Vec<Atom>,
    known: BTreeMap<Atom, AtomId>,
    pub recurrences: BTreeMap<AtomId, Recurrence>,
    motions: Vec<Motion>,
    /// By atom: whether it may differ between threads or iterations, as far as known when it was made.
    may_move: Vec<bool>,
    /// By atom: whether it is the same in every iteration of every loop.
    is_fixed: Vec<bool>,
}

/// Limit on the rounds of [`Atoms::settle`]; each level of nested recurrences needs a round.
const ROUNDS_MAX: usize = 16;

impl Atoms {
    pub fn intern(&mut self, atom: Atom) -> AtomId {
        if let Some(&id) = self.known.get(&atom) {
            return id;
        }
        let id = AtomId(u32::try_from(self.table.len()).unwrap_or(u32::MAX));
        let (may_move, is_fixed) = self.first_look(&atom);
        self.may_move.push(may_move);
        self.is_fixed.push(is_fixed);
        self.table.push(atom.clone());
        self.known.insert(atom, id);
        id
    }

    #[must_use]
    pub fn get(&self, id: AtomId) -> &Atom {
        &self.table[id.0 as usize]
    }

    /// Whether an atom may differ between threads or iterations. Until loops are closed, every loop-carried value may.
    #[must_use]
    pub fn may_move(&self, atom: AtomId) -> bool {
        self.may_move[atom.0 as usize]
    }

    /// Whether an atom is the same in every iteration of every loop.
    #[must_use]
    pub fn is_fixed(&self, atom: AtomId) -> bool {
        self.is_fixed[atom.0 as usize]
    }

    /// Returns `may_move` and `is_fixed` of a new atom. Its parts already exist.
    fn first_look(&self, atom: &Atom) -> (bool, bool) {
        match atom {
            Atom::Register(register) => (!Motion::of_register(*register).is_uniform(), true),
            Atom::Argument(_) => (false, true),
            Atom::Quotient(left, right) | Atom::Remainder(left, right) => {
                let parts = || left.atoms().into_iter().chain(right.atoms());
                (parts().any(|part| self.may_move(part)), parts().all(|part| self.is_fixed(part)))
            }
            Atom::Loaded { address, is_local, .. } => {
                (true, !is_local && address.atoms().iter().all(|&part| self.is_fixed(part)))
            }
            Atom::Carried { .. } | Atom::Iteration(_) | Atom::Opaque { .. } | Atom::Lost(_) => (true, false),
        }
    }

    /// Finds what makes each atom change. The sets only grow; if that does not end in time, everything counts as
    /// changing.
    pub fn settle(&mut self) {
        self.motions = vec![Motion::default(); self.table.len()];
        for _ in 0..ROUNDS_MAX {
            let mut changed = false;
            for index in 0..self.table.len() {
                let found = self.motion_of_atom(index);
                changed |= std::mem::replace(&mut self.motions[index], found) != found;
            }
            if !changed {
                return;
            }
        }
        self.motions.fill(Motion::anything());
    }

    /// Causes that make a sum change; valid only after [`Atoms::settle`].
    #[must_use]
    pub fn motion(&self, polynomial: &Polynomial) -> Motion {
        self.join(&polynomial.atoms())
    }

    #[must_use]
    pub fn motion_of(&self, atom: AtomId) -> Motion {
        self.motions.get(atom.0 as usize).copied().unwrap_or_default()
    }

    fn join(&self, atoms: &[AtomId]) -> Motion {
        atoms.iter().map(|&atom| self.motion_of(atom)).fold(Motion::default(), Motion::join)
    }

    fn motion_of_atom(&self, index: usize) -> Motion {
        match &self.table[index] {
            Atom::Register(register) => Motion::of_register(*register),
            Atom::Argument(_) => Motion::default(),
            Atom::Iteration(around) => Motion::of_loop(*around),
            Atom::Carried { around, .. } => {
                let recurrence = self.recurrences.get(&AtomId(index as u32));
                let from = recurrence.map_or(Motion::anything(), |found| self.join(&found.from));
                from.join(Motion::of_loop(*around))
            }
            Atom::Quotient(left, right) | Atom::Remainder(left, right) => {
                self.motion(left).join(self.motion(right))
            }
            Atom::Loaded { address, is_local, .. } => {
                let found = self.motion(address);
                Motion { is_data: found.is_data || *is_local || !found.is_uniform(), ..found }
            }
            Atom::Opaque { from, .. } => self.join(from),
            Atom::Lost(_) => Motion::anything(),
        }
    }
}
