//! Describes one access as movements: how far the address moves from thread to thread, block to block and iteration to
//! iteration.
//!
//! A quotient moves slowly, and a remainder moves and then starts again. Movements inside a remainder are kept apart.

use super::atoms::Atom;
use super::code::{Axis, Register};
use super::flow::LoopId;
use super::polynomial::{AtomId, Polynomial};
use super::shape::Shapes;

/// Cause of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mover {
    Thread(Axis),
    Block(Axis),
    Loop(LoopId),
}

/// Bytes per step, as a polynomial over atoms that are the same for all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    pub mover: Mover,
    pub bytes: Polynomial,
}

/// All movements of one access.
#[derive(Clone, Debug, Default)]
pub struct Movements {
    pub straight: Vec<Movement>,
    /// Movements that start again after some distance.
    pub wrapping: Vec<Movement>,
    /// The part that does not move.
    pub fixed: Polynomial,
}

/// Depth to which carried values, quotients and remainders are expanded.
const DEPTH_MAX: u32 = 8;

/// Movements of an address; `None` if it is not an affine function of indices and iteration counts.
#[must_use]
pub fn movements(shapes: &Shapes, offset: &Polynomial) -> Option<Movements> {
    movements_within(shapes, offset, 0)
}

fn movements_within(shapes: &Shapes, offset: &Polynomial, depth: u32) -> Option<Movements> {
    let offset = expand(shapes, offset, 0)?;
    let mut found = Movements::default();
    for (monomial, coefficient) in offset.terms() {
        let is_moving = |atom: &AtomId| !shapes.atoms.motion_of(*atom).is_uniform();
        let moving: Vec<AtomId> = monomial.iter().copied().filter(is_moving).collect();
        let rest: Vec<AtomId> = monomial.iter().copied().filter(|atom| !is_moving(atom)).collect();
        let bytes = Polynomial::product(coefficient, rest);
        match moving[..] {
            [] => found.fixed = found.fixed.plus(&bytes)?,
            [single] => found.add(shapes, single, &bytes, depth)?,
            _ => return None,
        }
    }
    found.straight.retain(|movement| movement.bytes != Polynomial::default());
    found.wrapping.retain(|movement| movement.bytes != Polynomial::default());
    Some(found)
}

/// Replaces carried values by `start + step · iteration`.
fn expand(shapes: &Shapes, polynomial: &Polynomial, depth: u32) -> Option<Polynomial> {
    let carried = |atom: &AtomId| matches!(shapes.atoms.get(*atom), Atom::Carried { .. });
    let Some(atom) = polynomial.atoms().into_iter().find(carried) else { return Some(polynomial.clone()) };
    let Atom::Carried { around, .. } = shapes.atoms.get(atom) else { return None };
    let recurrence = shapes.atoms.recurrences.get(&atom)?;
    let step = recurrence.step.as_ref()?;
    let iteration = shapes.iteration_atom(*around)?;
    let value = recurrence.start.as_ref()?.plus(&step.times(&Polynomial::atom(iteration))?)?;
    let mut replaced = Polynomial::default();
    for (monomial, coefficient) in polynomial.terms() {
        let mut product = Polynomial::constant(coefficient);
        for &factor in monomial {
            let factor = if factor == atom { value.clone() } else { Polynomial::atom(factor) };
            product = product.times(&factor)?;
        }
        replaced = replaced.plus(&product)?;
    }
    if depth == DEPTH_MAX { None } else { expand(shapes, &replaced, depth + 1) }
}

impl Movements {
    /// Adds the movements of one moving atom with the factor `bytes`.
    fn add(&mut self, shapes: &Shapes, atom: AtomId, bytes: &Polynomial, depth: u32) -> Option<()> {
        let nested = |part: &Polynomial| {
            if depth == DEPTH_MAX { None } else { movements_within(shapes, part, depth + 1) }
        };
        match shapes.atoms.get(atom) {
            Atom::Register(Register::ThreadIndex(axis)) => {
                push(&mut self.straight, Mover::Thread(*axis), bytes)
            }
            Atom::Register(Register::BlockIndex(axis)) => {
                push(&mut self.straight, Mover::Block(*axis), bytes)
            }
            Atom::Iteration(around) => push(&mut self.straight, Mover::Loop(*around), bytes),
            Atom::Quotient(left, right) => {
                let inner = nested(left)?;
                shapes.atoms.motion(right).is_uniform().then_some(())?;
                for movement in inner.straight {
                    let slow = slowed(&movement.bytes, right, bytes)?;
                    push(&mut self.straight, movement.mover, &slow)?;
                }
                inner.wrapping.is_empty().then_some(())
            }
            Atom::Remainder(left, right) => {
                let inner = nested(left)?;
                shapes.atoms.motion(right).is_uniform().then_some(())?;
                for movement in inner.straight.into_iter().chain(inner.wrapping) {
                    push(&mut self.wrapping, movement.mover, &movement.bytes.times(bytes)?)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

fn push(list: &mut Vec<Movement>, mover: Mover, bytes: &Polynomial) -> Option<()> {
    match list.iter_mut().find(|known| known.mover == mover) {
        Some(known) => known.bytes = known.bytes.plus(bytes)?,
        None => list.push(Movement { mover, bytes: bytes.clone() }),
    }
    Some(())
}

/// Bytes per step of a quotient: `inner / divisor` elements, rounded away from 0 so that a moving address is not taken
/// for a fixed one. A divisor that is not constant gives one byte, which is slower than any other movement.
fn slowed(inner: &Polynomial, divisor: &Polynomial, bytes: &Polynomial) -> Option<Polynomial> {
    let Some(divisor) = divisor.as_constant().filter(|&by| by > 0) else {
        return Some(Polynomial::constant(1));
    };
    let product = inner.times(bytes)?;
    let mut slow = Polynomial::default();
    for (monomial, coefficient) in product.terms() {
        let least = coefficient.signum();
        let part =
            if coefficient.unsigned_abs() < divisor.unsigned_abs() { least } else { coefficient / divisor };
        slow = slow.plus(&Polynomial::product(part, monomial.clone()))?;
    }
    Some(slow)
}
