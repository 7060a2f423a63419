//! Computes what every pointer of an expanded function may point to: inclusion-based points-to analysis (Andersen,
//! 1994) with constant offsets, flow-insensitive.
//!
//! A device buffer is named by the *slot* whose address an allocation got, so "the buffer in `net->weights`" stays the
//! same buffer when the pointer is copied around. Limits: the analysis does not distinguish what a slot holds before
//! the allocation, after it, and after the program overwrites the slot. Memory that a caller owns already holds
//! pointers, which [`Target::Foreign`] stands for. Copies that move each other's contents on would produce offsets
//! without end, so copies fill only a limited number of places in an object. And a solution that takes too many steps
//! is given up ([`Pointers::is_incomplete`]), because the targets found until then are incomplete.

mod queries;
mod stale;

use std::collections::{BTreeMap, BTreeSet};

use crate::expand::{Binding, Expansion};
use crate::facts::BufferKind;
use crate::names::{ForeignBuffer, FrameId, GlobalId, Point, PointerId};
use crate::program::{Action, ActionKind, PointerDef};

use stale::Ages;

/// Index into the objects of a solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(usize);

/// A piece of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A variable of a frame, or the frame's copy of a by-value parameter.
    Local(FrameId, PointerId),
    Global(GlobalId),
    /// Host memory that a frame allocates.
    Fresh(FrameId, PointerId),
    /// Memory that a parameter of the root points to.
    Formal(u32),
    /// Memory that a pointer leads to which such memory held, at this offset, when the root began.
    Behind(ObjectId, i64),
    /// All device variables of the module, as one object.
    Symbols,
}

/// A location in memory: object and offset; `None` if the offset is unknown.
pub type Slot = (ObjectId, Option<i64>);

/// One possible value of a pointer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Address(Slot),
    /// The device pointer that an allocation wrote to the slot; `moved` if an offset was added.
    Device {
        slot: Slot,
        moved: bool,
    },
    Foreign(ForeignBuffer),
}

pub type Targets = BTreeSet<Target>;

/// Sets of targets larger than this count as unknown.
const TARGETS_MAX: usize = 64;
/// Number of offsets into one object beyond which a pointer may be anywhere in the object.
const OFFSETS_MAX: usize = 8;
/// Number of pointers that are followed through memory of a caller.
const BEHIND_MAX: usize = 3;
/// Number of places in one object that block copies fill. Further places count as an unknown offset in the object.
const COPIED_PLACES_MAX: usize = 64;
/// Number of targets read and moved after which the analysis of a function is given up; about a second.
pub const STEPS_MAX: usize = 20_000_000;

/// The solution for one root function.
#[derive(Debug)]
pub struct Pointers<'a, 'p> {
    expansion: &'a Expansion<'p>,
    objects: Vec<Object>,
    ids: BTreeMap<Object, ObjectId>,
    values: Vec<Vec<Targets>>,
    memory: BTreeMap<Slot, Targets>,
    slots: BTreeMap<Slot, BufferKind>,
    /// Block copies: target, source, and the distance that is added to an offset.
    copies: BTreeSet<(ObjectId, ObjectId, Option<i64>)>,
    /// Slots that unseen code has written and may have put a pointer into.
    tainted: BTreeSet<Slot>,
    /// Whether the initial contents of memory count.
    with_initial: bool,
    ages: Ages,
    /// Remaining steps that this solution may take.
    steps: usize,
}

impl<'a, 'p> Pointers<'a, 'p> {
    /// Solves for one root function in at most `steps` steps ([`STEPS_MAX`] is the largest sensible number).
    #[must_use]
    pub fn solve(expansion: &'a Expansion<'p>, steps: usize) -> Self {
        let count =
            |frame: usize| expansion.function(FrameId(u32::try_from(frame).unwrap_or(0))).pointers.len();
        let mut solution = Self {
            expansion,
            objects: Vec::new(),
            ids: BTreeMap::new(),
            values: (0..expansion.frames.len()).map(|frame| vec![Targets::new(); count(frame)]).collect(),
            memory: BTreeMap::new(),
            slots: BTreeMap::new(),
            copies: BTreeSet::new(),
            tainted: BTreeSet::new(),
            with_initial: false,
            ages: Ages::new((0..expansion.frames.len()).map(|frame| {
                let actions = |frame: usize| {
                    expansion.function(FrameId(u32::try_from(frame).unwrap_or(0))).actions.len()
                };
                (count(frame), actions(frame))
            })),
            steps,
        };
        solution.iterate();
        solution.with_initial = true;
        solution.ages.forget_looks();
        solution.iterate();
        debug_assert!(
            solution.is_incomplete()
                || steps - solution.steps > stale::CHECKED_STEPS_MAX
                || solution.is_settled(),
            "a part of a solution was not looked at although something that it is made of had changed"
        );
        solution
    }

    /// Evaluates everything, then repeatedly what depends on a change, until nothing changes.
    fn iterate(&mut self) {
        loop {
            let before = self.ages.now();
            for frame in (0_u32..).map(FrameId).take(self.expansion.frames.len()) {
                let function = self.expansion.function(frame);
                for id in (0_u32..).map(PointerId).take(function.pointers.len()) {
                    if !self.is_value_stale(frame, id) {
                        continue;
                    }
                    self.ages.look_at_value(frame, id);
                    let found = self.eval(frame, id);
                    self.spend(found.len());
                    self.add_value(frame, id, found);
                }
                for (number, action) in function.actions.iter().enumerate() {
                    if !self.is_action_stale(frame, number, action) {
                        continue;
                    }
                    self.ages.look_at_action(frame, number);
                    self.spend(1);
                    self.apply(frame, action);
                }
                if self.is_incomplete() {
                    return;
                }
            }
            if self.ages.now() == before {
                return;
            }
        }
    }

    fn spend(&mut self, targets: usize) {
        self.steps = self.steps.saturating_sub(1 + targets);
    }

    fn object(&mut self, object: Object) -> ObjectId {
        *self.ids.entry(object).or_insert_with(|| {
            self.objects.push(object);
            ObjectId(self.objects.len() - 1)
        })
    }

    fn add_value(&mut self, frame: FrameId, id: PointerId, found: Targets) {
        if merge(&mut self.values[frame.index()][id.index()], found) {
            self.ages.value_changed(frame, id);
        }
    }

    fn store(&mut self, slot: Slot, found: Targets) {
        if !found.is_empty() && merge(self.memory.entry(slot).or_default(), found) {
            self.ages.object_changed(slot.0);
        }
    }

    fn eval(&mut self, frame: FrameId, id: PointerId) -> Targets {
        let address = |object| Targets::from([Target::Address((object, Some(0)))]);
        match self.expansion.function(frame).pointer(id) {
            PointerDef::Nothing | PointerDef::Fields(_) => Targets::new(),
            PointerDef::Unknown(from) => Targets::from([Target::Foreign(from.clone())]),
            PointerDef::Local => address(self.object(Object::Local(frame, id))),
            PointerDef::Copied(index) => {
                let local = self.object(Object::Local(frame, id));
                self.copy_actual(frame, *index, local);
                address(local)
            }
            PointerDef::Global(global) => address(self.object(Object::Global(*global))),
            PointerDef::Argument(index) if frame == FrameId::ROOT => {
                address(self.object(Object::Formal(*index)))
            }
            PointerDef::Argument(index) => {
                let actual = |binding: &Binding| self.actual(*binding, *index);
                self.expansion.frames[frame.index()].bindings.iter().flat_map(actual).collect()
            }
            PointerDef::Result(at) => self.returned(frame, *at),
            PointerDef::Fresh(_) => address(self.object(Object::Fresh(frame, id))),
            PointerDef::Offset { of, by } => {
                self.targets(frame, *of).iter().map(|target| offset(target, *by)).collect()
            }
            PointerDef::Load { from, .. } => {
                let from = self.targets(frame, *from).clone();
                self.load_all(&from, 0)
            }
            PointerDef::Choice(all) => all.iter().flat_map(|&one| self.targets(frame, one).clone()).collect(),
            PointerDef::Field { of, offset } => self.field(frame, *of, *offset),
        }
    }

    fn actual(&self, binding: Binding, index: u32) -> Targets {
        let actual = self.expansion.actuals(binding).get(index as usize).and_then(|actual| actual.pointer);
        actual.map(|pointer| self.targets(binding.caller, pointer).clone()).unwrap_or_default()
    }

    fn copy_actual(&mut self, frame: FrameId, index: u32, local: ObjectId) {
        for binding in self.expansion.frames[frame.index()].bindings.clone() {
            let from = self.actual(binding, index);
            self.copy(&Targets::from([Target::Address((local, Some(0)))]), &from);
        }
    }

    fn returned(&self, frame: FrameId, at: Point) -> Targets {
        let Some(&entered) = self.expansion.entered.get(&(frame, at)) else { return Targets::new() };
        let returns = &self.expansion.function(entered).returns;
        returns.iter().flat_map(|&(_, value)| self.targets(entered, value).clone()).collect()
    }

    /// Value of a struct at an offset. Values may be chosen from each other in cycles, so each is visited once.
    fn field(&mut self, frame: FrameId, of: PointerId, at: i64) -> Targets {
        let expansion = self.expansion;
        let mut found = Targets::new();
        let mut seen = BTreeSet::from([(frame, of)]);
        let mut open = vec![(frame, of)];
        while let Some((frame, of)) = open.pop() {
            match expansion.function(frame).pointer(of) {
                PointerDef::Fields(fields) => {
                    let field = fields.iter().find(|(offset, _)| *offset == at);
                    found.extend(field.iter().flat_map(|&&(_, value)| self.targets(frame, value).clone()));
                }
                PointerDef::Choice(all) => {
                    open.extend(all.iter().map(|&one| (frame, one)).filter(|&next| seen.insert(next)));
                }
                PointerDef::Result(call) => {
                    let Some(&entered) = expansion.entered.get(&(frame, *call)) else { continue };
                    let returns = expansion.function(entered).returns.iter();
                    open.extend(
                        returns.map(|&(_, value)| (entered, value)).filter(|&next| seen.insert(next)),
                    );
                }
                PointerDef::Load { from, .. } => {
                    let from = self.targets(frame, *from).clone();
                    found.extend(self.load_all(&from, at));
                }
                _ => found.extend(self.targets(frame, of).clone()),
            }
        }
        self.spend(seen.len() + found.len());
        found
    }

    fn load_all(&mut self, from: &Targets, at: i64) -> Targets {
        let mut found = Targets::new();
        for target in from {
            match target {
                Target::Address((object, offset)) => {
                    found.extend(self.load(*object, moved_by(*offset, Some(at)), 0))
                }
                // The host cannot read memory behind a device pointer, unless the memory is managed.
                Target::Device { .. } => {
                    found.insert(Target::Foreign(ForeignBuffer::Memory));
                }
                Target::Foreign(foreign) => {
                    found.insert(Target::Foreign(foreign.clone()));
                }
            }
        }
        found
    }

    fn load(&mut self, object: ObjectId, offset: Option<i64>, depth: usize) -> Targets {
        let at_offset = |slot: &Slot| offset.is_none() || slot.1.is_none() || slot.1 == offset;
        let stored = self.memory_of(object).filter(|(slot, _)| at_offset(slot));
        let mut found: Targets = stored.flat_map(|(_, targets)| targets.clone()).collect();
        let slots: Vec<_> = self.slots_of(object).filter(at_offset).collect();
        found.extend(slots.iter().map(|&slot| Target::Device { slot, moved: false }));
        self.spend(found.len());
        if self.with_initial && depth < BEHIND_MAX {
            let foreign = self.foreign_of(object);
            let is_main = self.expansion.function(FrameId::ROOT).name == "main";
            let may_hold_more = foreign.is_some() && !is_main && slots.is_empty();
            if found.is_empty() || may_hold_more {
                found.extend(self.initial(object, offset, foreign, depth));
            }
        }
        found
    }

    /// Pointers that memory held before the root began, or that unseen code put there.
    fn initial(
        &mut self,
        object: ObjectId,
        offset: Option<i64>,
        foreign: Option<ForeignBuffer>,
        depth: usize,
    ) -> Targets {
        let sources: Vec<_> = self.copies.iter().filter(|&&(to, ..)| to == object).copied().collect();
        let mut found = Targets::new();
        for (_, from, shift) in sources {
            if self.is_incomplete() {
                break;
            }
            let there = moved_by(offset, shift.and_then(i64::checked_neg));
            found.extend(self.load(from, there, depth + 1));
        }
        if let Some(foreign) = foreign {
            found.insert(match offset {
                Some(offset) if self.depth(object) < BEHIND_MAX => {
                    Target::Address((self.object(Object::Behind(object, offset)), Some(0)))
                }
                _ => Target::Foreign(foreign),
            });
        }
        if self.tainted.contains(&(object, offset)) || self.tainted.contains(&(object, None)) {
            found.insert(Target::Foreign(ForeignBuffer::Memory));
        }
        found
    }

    fn depth(&self, object: ObjectId) -> usize {
        match self.objects[object.0] {
            Object::Behind(inner, _) => 1 + self.depth(inner),
            _ => 0,
        }
    }

    fn apply(&mut self, frame: FrameId, action: &Action) {
        match &action.kind {
            ActionKind::Allocate { into, .. } => self.add_slot(frame, *into, BufferKind::Memory),
            ActionKind::Create { into } => self.add_slot(frame, *into, BufferKind::Handle),
            ActionKind::WriteSymbol { .. } => {
                let symbols = self.object(Object::Symbols);
                if self.slots.insert((symbols, Some(0)), BufferKind::Symbols).is_none() {
                    self.ages.object_changed(symbols);
                }
            }
            ActionKind::Store { value, to } => {
                let value = self.targets(frame, *value).clone();
                for slot in addresses(&self.targets(frame, *to).clone()) {
                    self.store(slot, value.clone());
                }
            }
            ActionKind::Copy { to, from } => {
                let (to, from) = (self.targets(frame, *to).clone(), self.targets(frame, *from).clone());
                self.copy(&to, &from);
            }
            ActionKind::Use { operands, .. } | ActionKind::Library { operands } => {
                let written = operands.iter().flat_map(|&operand| addresses(self.targets(frame, operand)));
                let written: Vec<_> = written.collect();
                self.taint(written);
            }
            ActionKind::Opaque { operands, .. } => {
                let written = operands.iter().flat_map(|&operand| addresses(self.targets(frame, operand)));
                let written: Vec<_> = written.map(|(object, _)| (object, None)).collect();
                self.taint(written);
            }
            _ => {}
        }
    }

    fn taint(&mut self, written: Vec<Slot>) {
        for slot in written {
            if self.tainted.insert(slot) {
                self.ages.object_changed(slot.0);
            }
        }
    }

    fn add_slot(&mut self, frame: FrameId, into: PointerId, kind: BufferKind) {
        for slot in addresses(&self.targets(frame, into).clone()) {
            if self.slots.insert(slot, kind).is_none() {
                self.ages.object_changed(slot.0);
            }
        }
    }

    fn copy(&mut self, to: &Targets, from: &Targets) {
        for (source, source_offset) in addresses(from) {
            for (target, target_offset) in addresses(to).into_iter().filter(|&(target, _)| target != source) {
                let shift = moved_by(target_offset, source_offset.and_then(i64::checked_neg));
                if self.copies.insert((target, source, shift)) {
                    self.ages.object_changed(target);
                }
                let begins = source_offset.unwrap_or(i64::MIN);
                let is_copied = |slot: &Slot| slot.1.is_none_or(|at| at >= begins);
                let moved = |slot: &Slot| (target, moved_by(slot.1, shift));
                let stored: Vec<_> = self
                    .memory_of(source)
                    .filter(|(slot, _)| is_copied(slot))
                    .map(|(slot, targets)| (moved(slot), targets.clone()))
                    .collect();
                let devices: Vec<_> = self.slots_of(source).filter(is_copied).collect();
                self.spend(
                    stored.iter().map(|(_, targets)| 1 + targets.len()).sum::<usize>() + devices.len(),
                );
                for (slot, targets) in stored {
                    self.store_copy(slot, targets);
                }
                for slot in devices {
                    self.store_copy(moved(&slot), Targets::from([Target::Device { slot, moved: false }]));
                }
            }
        }
    }

    /// Stores the result of a block copy; at an unknown offset if copies already fill many places of the object.
    fn store_copy(&mut self, slot: Slot, found: Targets) {
        let is_full = || self.memory_of(slot.0).count() >= COPIED_PLACES_MAX;
        let somewhere = !self.memory.contains_key(&slot) && is_full();
        self.store(if somewhere { (slot.0, None) } else { slot }, found);
    }

    /// Targets stored in an object, by slot.
    fn memory_of(&self, object: ObjectId) -> impl Iterator<Item = (&Slot, &Targets)> {
        self.memory.range((object, None)..=(object, Some(i64::MAX)))
    }

    /// Slots of an object that allocations fill.
    fn slots_of(&self, object: ObjectId) -> impl Iterator<Item = Slot> + '_ {
        self.slots.range((object, None)..=(object, Some(i64::MAX))).map(|(&slot, _)| slot)
    }
}

/// Slots that the targets are addresses of.
#[must_use]
pub fn addresses(targets: &Targets) -> Vec<Slot> {
    let address = |target: &Target| match target {
        Target::Address(slot) => Some(*slot),
        _ => None,
    };
    targets.iter().filter_map(address).collect()
}

fn offset(target: &Target, by: Option<i64>) -> Target {
    match target {
        Target::Address((object, offset)) => Target::Address((*object, moved_by(*offset, by))),
        Target::Device { slot, moved } => Target::Device { slot: *slot, moved: *moved || by != Some(0) },
        Target::Foreign(foreign) => Target::Foreign(foreign.clone()),
    }
}

/// Adds `by` to an offset; `None` if one of the two is unknown or the sum overflows.
fn moved_by(offset: Option<i64>, by: Option<i64>) -> Option<i64> {
    offset?.checked_add(by?)
}

/// Adds targets to a set and keeps the set small. Returns whether the set grew.
fn merge(set: &mut Targets, found: Targets) -> bool {
    let unknown = Target::Foreign(ForeignBuffer::Memory);
    let mut grew = false;
    for target in found {
        if set.len() >= TARGETS_MAX {
            return set.insert(unknown) || grew;
        }
        let Target::Address((object, Some(_))) = target else {
            grew |= set.insert(target);
            continue;
        };
        if set.contains(&target) || set.contains(&Target::Address((object, None))) {
            continue;
        }
        let known = |t: &&Target| matches!(t, Target::Address((o, Some(_))) if *o == object);
        let is_many = set.iter().filter(known).count() >= OFFSETS_MAX;
        grew |= set.insert(if is_many { Target::Address((object, None)) } else { target });
    }
    grew
}
