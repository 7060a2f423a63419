//! Decides whether a free releases the pointer that the buffer's slot holds *now*, so that its allocation is gone.
//!
//! Trap: `prev = d` in a loop keeps a pointer that the slot has long replaced, although both come from the same slot;
//! see [`Resolver::is_current`].

use super::Resolver;
use crate::expand::Binding;
use crate::facts::SiteKind;
use crate::names::{FrameId, Point, PointerId};
use crate::pointers::{Slot, Target, Targets, addresses};
use crate::program::{ActionKind, PointerDef};

/// Number of calls and copies through which pointers are followed.
const DEPTH_MAX: usize = 16;
/// Depth that a copy by way of memory counts for, because its stores must be searched.
const COPY_DEPTH: usize = 4;
/// Number of pointers visited for one question. Choices among choices have very many paths within the depth.
const STEPS_MAX: usize = 4096;

impl Resolver<'_, '_> {
    pub(super) fn free(&self, frame: FrameId, pointer: PointerId, at: Point) -> Option<SiteKind> {
        let targets = self.pointers.targets(frame, pointer);
        let buffers = self.named(targets).buffers;
        let exact = match targets.iter().collect::<Vec<_>>()[..] {
            [Target::Device { slot, moved: false }] => {
                let is_one = slot.1.is_some() || self.is_same_element(frame, pointer, *slot);
                is_one && self.is_current(frame, pointer, at, *slot)
            }
            _ => false,
        };
        (!buffers.is_empty()).then_some(SiteKind::Free { buffers, exact })
    }

    /// Whether a pointer from an unknown element of an array is loaded from the very address that the only allocation
    /// got. Where the allocation dominates the load, the address cannot have been recomputed in between.
    fn is_same_element(&self, frame: FrameId, pointer: PointerId, slot: Slot) -> bool {
        match self.expansion.function(frame).pointer(pointer) {
            PointerDef::Load { from, at } => {
                let Some(load) = self.expansion.point(frame, *at) else { return false };
                let [(of, into, made)] = self.allocations_into(slot)[..] else { return false };
                (of, into) == (frame, *from) && self.flow.point_dominates(made, load)
            }
            PointerDef::Argument(index) => {
                let [binding] = self.expansion.frames[frame.index()].bindings[..] else { return false };
                let actual = self.expansion.actuals(binding).get(*index as usize);
                actual
                    .and_then(|actual| actual.pointer)
                    .is_some_and(|actual| self.is_same_element(binding.caller, actual, slot))
            }
            _ => false,
        }
    }

    /// Whether a pointer that comes from a slot is still the one that the slot holds when the pointer is used at `at`.
    fn is_current(&self, frame: FrameId, pointer: PointerId, at: Point, slot: Slot) -> bool {
        let allocations: Vec<_> = self.allocations_into(slot).into_iter().map(|(.., at)| at).collect();
        if let [only] = allocations[..]
            && !self.flow.in_cycle(only.block)
            && {
                self.steps.set(STEPS_MAX);
                self.is_certain(frame, pointer, slot, 0)
            }
            && self.is_from_after(frame, pointer, at, slot, only)
        {
            return true;
        }
        match self.expansion.function(frame).pointer(pointer) {
            PointerDef::Load { from, at: load } => {
                let from = self.pointers.targets(frame, *from);
                let is_direct = from.len() == 1 && from.contains(&Target::Address(slot));
                is_direct && self.is_straight(frame, *load, at, &allocations)
            }
            PointerDef::Argument(index) => {
                let is_inside = |point: &Point| {
                    self.frames_outwards(self.expansion.blocks[point.block.index()].frame).any(|f| f == frame)
                };
                let [binding] = self.expansion.frames[frame.index()].bindings[..] else { return false };
                let actual =
                    self.expansion.actuals(binding).get(*index as usize).and_then(|actual| actual.pointer);
                !allocations.iter().any(is_inside)
                    && actual.is_some_and(|actual| self.is_current(binding.caller, actual, binding.at, slot))
            }
            _ => false,
        }
    }

    /// Whether a pointer is, on every path, a value that the slot held at some time, and never null for another reason.
    fn is_certain(&self, frame: FrameId, pointer: PointerId, slot: Slot, depth: usize) -> bool {
        let function = self.expansion.function(frame);
        let Some(steps) = self.steps.get().checked_sub(1) else { return false };
        self.steps.set(steps);
        let again = |frame, pointer| depth < DEPTH_MAX && self.is_certain(frame, pointer, slot, depth + 1);
        match function.pointer(pointer) {
            PointerDef::Load { from, at } => {
                let from = addresses(self.pointers.targets(frame, *from));
                let [place] = from[..] else { return false };
                place == slot
                    || self
                        .expansion
                        .point(frame, *at)
                        .is_some_and(|at| self.holds_copy(place, slot, at, depth))
            }
            PointerDef::Argument(index) => {
                let actual = |binding: &Binding| {
                    let actual = self.expansion.actuals(*binding).get(*index as usize);
                    actual
                        .and_then(|actual| actual.pointer)
                        .is_some_and(|actual| again(binding.caller, actual))
                };
                self.expansion.frames[frame.index()].bindings.iter().all(actual)
            }
            PointerDef::Result(at) => self.expansion.entered.get(&(frame, *at)).is_some_and(|&entered| {
                self.expansion.function(entered).returns.iter().all(|&(_, value)| again(entered, value))
            }),
            PointerDef::Choice(all) => all.iter().all(|&one| again(frame, one)),
            _ => false,
        }
    }

    /// Whether a location holds a copy of a slot's pointer at a point: the copy was stored on every path to the point,
    /// and nothing else was stored there afterwards.
    fn holds_copy(&self, place: Slot, slot: Slot, at: Point, depth: usize) -> bool {
        if place.1.is_none() || !self.places().is_one_place(place) {
            return false;
        }
        let copy = Targets::from([Target::Device { slot, moved: false }]);
        let mut copies = Vec::new();
        let mut others = Vec::new();
        for frame in (0_u32..).map(FrameId).take(self.expansion.frames.len()) {
            for action in &self.expansion.function(frame).actions {
                let (value, to) = match &action.kind {
                    ActionKind::Store { value, to } => (Some(*value), *to),
                    ActionKind::Copy { to, .. } => (None, *to),
                    _ => continue,
                };
                let names_place = |(object, _): &Slot| self.pointers.may_coincide(*object, place.0);
                if !addresses(self.pointers.targets(frame, to)).iter().any(names_place) {
                    continue;
                }
                let to_place = *self.pointers.targets(frame, to) == Targets::from([Target::Address(place)]);
                // The stored value may itself come from a location that held nothing yet.
                let is_copy = to_place
                    && value.is_some_and(|value| {
                        *self.pointers.targets(frame, value) == copy
                            && depth < DEPTH_MAX
                            && self.is_certain(frame, value, slot, depth + COPY_DEPTH)
                    });
                let is_elsewhere = value.is_some()
                    && addresses(self.pointers.targets(frame, to))
                        .iter()
                        .all(|to| to.0 == place.0 && to.1.is_some() && to.1 != place.1);
                match self.expansion.point(frame, action.at) {
                    _ if is_elsewhere => {}
                    Some(point) if is_copy => copies.push(point),
                    Some(point) => others.push(point),
                    None => return false,
                }
            }
        }
        let is_undone = |other: &Point| {
            copies.iter().any(|&made| self.flow.reaches(made, *other)) && self.flow.reaches(*other, at)
        };
        copies.iter().any(|&made| self.flow.point_dominates(made, at)) && !others.iter().any(is_undone)
    }

    /// Whether a pointer that comes from a slot is the one that the only allocation wrote: neither the pointer nor a
    /// copy of it was loaded from the slot before the allocation.
    fn is_from_after(&self, frame: FrameId, pointer: PointerId, at: Point, slot: Slot, made: Point) -> bool {
        let Some(used) = self.expansion.point(frame, at) else { return false };
        let is_stale = |load: Option<Point>| {
            load.is_none_or(|load| self.flow.reaches(load, made)) && self.flow.reaches(made, used)
        };
        let mut frames = (0_u32..).map(FrameId).take(self.expansion.frames.len());
        frames.all(|inner| {
            let function = self.expansion.function(inner);
            let mut loads =
                (0_u32..).map(PointerId).zip(&function.pointers).filter_map(|(id, def)| match def {
                    PointerDef::Load { from, at } => Some((id, *from, *at)),
                    _ => None,
                });
            loads.all(|(id, from, at)| {
                let is_meant = (inner, id) == (frame, pointer) || self.copied[inner.index()][id.index()];
                let is_of_slot =
                    addresses(self.pointers.targets(inner, from)).iter().any(|place| place.0 == slot.0);
                !is_meant || !is_of_slot || !is_stale(self.expansion.point(inner, at))
            })
        })
    }

    fn frames_outwards(&self, frame: FrameId) -> impl Iterator<Item = FrameId> + '_ {
        let caller = |frame: &FrameId| {
            self.expansion.frames[frame.index()].bindings.first().map(|binding| binding.caller)
        };
        std::iter::successors(Some(frame), caller)
    }

    /// Allocations into a slot: frame, address and point of each.
    fn allocations_into(&self, slot: Slot) -> Vec<(FrameId, PointerId, Point)> {
        let mut found = Vec::new();
        for frame in (0_u32..).map(FrameId).take(self.expansion.frames.len()) {
            for action in &self.expansion.function(frame).actions {
                let (ActionKind::Allocate { into, .. } | ActionKind::Create { into }) = &action.kind else {
                    continue;
                };
                if addresses(self.pointers.targets(frame, *into)).contains(&slot) {
                    found.extend(self.expansion.point(frame, action.at).map(|at| (frame, *into, at)));
                }
            }
        }
        found
    }

    /// Whether `to` is reached only straight from `from`: no other path joins in between, and none of `barriers` lies
    /// there.
    fn is_straight(&self, frame: FrameId, from: Point, to: Point, barriers: &[Point]) -> bool {
        let points = (self.expansion.point(frame, from), self.expansion.point(frame, to));
        let (Some(from), Some(mut to)) = points else { return false };
        for _ in 0..self.expansion.blocks.len() {
            let first = if from.block == to.block { from.position } else { 0 };
            let is_between = |barrier: &Point| {
                barrier.block == to.block && (first..to.position).contains(&barrier.position)
            };
            if barriers.iter().any(is_between) {
                return false;
            }
            if from.block == to.block {
                return from.position < to.position;
            }
            let ways: Vec<_> = self.flow.ways_in(to.block).collect();
            let [only] = ways[..] else { return false };
            to = Point { block: only, position: self.expansion.blocks[only.index()].end };
        }
        false
    }
}
