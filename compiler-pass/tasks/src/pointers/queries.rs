//! Queries on a solution: possible values of pointers, what can be reached through memory, which locations may
//! coincide.
//!
//! Trap: unequal object ids do not mean different memory. Memory that a caller made may have several names, so two
//! objects from before the root may be the same ([`Pointers::may_coincide`]).

use std::collections::{BTreeMap, BTreeSet};

use super::{Object, ObjectId, Pointers, Slot, TARGETS_MAX, Target, Targets, addresses};
use crate::facts::BufferKind;
use crate::names::{ForeignBuffer, FrameId, PointerId};
use crate::program::PointerDef;

impl Pointers<'_, '_> {
    /// Possible values of a pointer.
    #[must_use]
    pub fn targets(&self, frame: FrameId, pointer: PointerId) -> &Targets {
        &self.values[frame.index()][pointer.index()]
    }

    /// Whether the solution took too many steps, so that pointers may have more targets than it knows.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.steps == 0
    }

    /// Number of allowed steps that were not used.
    #[must_use]
    pub fn steps_left(&self) -> usize {
        self.steps
    }

    /// Whether some set of targets reached its size limit.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let is_full = |set: &Targets| set.len() >= TARGETS_MAX;
        self.values.iter().flatten().any(is_full) || self.memory.values().any(is_full)
    }

    /// Targets stored in any of these objects.
    pub fn stored_in(&self, objects: &BTreeSet<ObjectId>) -> impl Iterator<Item = &Target> {
        objects.iter().flat_map(|&object| self.memory_of(object)).flat_map(|(_, targets)| targets)
    }

    /// Slots that allocations fill, including those of handles and symbols.
    #[must_use]
    pub fn slots(&self) -> &BTreeMap<Slot, BufferKind> {
        &self.slots
    }

    /// Slots that a write of `bytes` bytes at an address covers, at least in part. `None`: unknown number of bytes.
    #[must_use]
    pub fn covered(&self, (object, offset): Slot, bytes: Option<u64>) -> Vec<Slot> {
        let end = offset.zip(bytes).map(|(offset, bytes)| offset.saturating_add_unsigned(bytes));
        let is_hit = |slot: &Slot| {
            let (Some(at), Some(first)) = (slot.1, offset) else { return true };
            at.saturating_add(8) > first && end.is_none_or(|end| at < end)
        };
        self.slots_of(object).filter(is_hit).collect()
    }

    /// Object whose address a frame's pointer is, if the object is known.
    #[must_use]
    pub fn made_by(&self, frame: FrameId, pointer: PointerId) -> Option<ObjectId> {
        let object = match self.expansion.function(frame).pointer(pointer) {
            PointerDef::Local | PointerDef::Copied(_) => Object::Local(frame, pointer),
            PointerDef::Fresh(_) => Object::Fresh(frame, pointer),
            _ => return None,
        };
        self.ids.get(&object).copied()
    }

    #[must_use]
    pub fn kind(&self, object: ObjectId) -> Object {
        self.objects[object.0]
    }

    /// Origin of the pointers that such memory held from the start; `None` for memory that this function or its callees
    /// made.
    #[must_use]
    pub fn foreign_of(&self, object: ObjectId) -> Option<ForeignBuffer> {
        match self.objects[object.0] {
            Object::Local(FrameId::ROOT, id) => {
                let root = self.expansion.function(FrameId::ROOT);
                matches!(root.pointer(id), PointerDef::Copied(_)).then_some(ForeignBuffer::Argument)
            }
            Object::Local(..) | Object::Fresh(..) | Object::Symbols => None,
            Object::Global(global) => {
                let name = self.expansion.program.globals[global.index()].name.clone();
                Some(ForeignBuffer::Global { name })
            }
            Object::Formal(_) => Some(ForeignBuffer::Argument),
            Object::Behind(inner, _) => self.foreign_of(inner),
        }
    }

    /// Whether two objects may be the same memory. Memory from before the root may have several names, and may be a
    /// global whose address is stored or passed on somewhere.
    #[must_use]
    pub fn may_coincide(&self, a: ObjectId, b: ObjectId) -> bool {
        let is_from_before =
            |object: ObjectId| matches!(self.objects[object.0], Object::Formal(_) | Object::Behind(..));
        let is_old = |object: ObjectId| match self.objects[object.0] {
            Object::Global(global) => self.expansion.whole.pointed_to[global.index()],
            _ => is_from_before(object),
        };
        a == b || (is_from_before(a) && is_old(b)) || (is_from_before(b) && is_old(a))
    }

    /// Other slots that may be the same location as `slot`.
    pub fn aliases(&self, slot: Slot) -> impl Iterator<Item = Slot> + '_ {
        self.slots.keys().copied().filter(move |&other| {
            let is_apart = other.0 == slot.0 && other.1.is_some() && slot.1.is_some();
            other != slot && !is_apart && self.may_coincide(other.0, slot.0)
        })
    }

    /// Pairs of a slot whose pointer is stored somewhere, and a slot that may be the location it is stored in, under
    /// another name.
    pub fn mixed(&self) -> impl Iterator<Item = (Slot, Slot)> + '_ {
        self.memory.iter().flat_map(|(to, targets)| {
            let stored = targets.iter().filter_map(|target| match target {
                Target::Device { slot, .. } => Some(*slot),
                _ => None,
            });
            let others: Vec<Slot> = self
                .slots
                .keys()
                .copied()
                .filter(|slot| slot.0 != to.0 && self.may_coincide(slot.0, to.0))
                .collect();
            stored.flat_map(move |slot| others.clone().into_iter().map(move |other| (slot, other)))
        })
    }

    /// Slots and objects that can be reached from a set of targets through memory, including the targets themselves.
    #[must_use]
    pub fn reach(&self, from: &Targets) -> (BTreeSet<Slot>, BTreeSet<ObjectId>) {
        let mut slots = BTreeSet::new();
        let mut objects = BTreeSet::new();
        let mut pending: Vec<Target> = from.iter().cloned().collect();
        while let Some(target) = pending.pop() {
            match target {
                Target::Device { slot, .. } => {
                    slots.insert(slot);
                }
                Target::Address((object, _)) if objects.insert(object) => {
                    slots.extend(self.slots_of(object));
                    let inside = self.memory_of(object);
                    pending.extend(inside.flat_map(|(_, targets)| targets.iter().cloned()));
                }
                Target::Address(_) | Target::Foreign(_) => {}
            }
        }
        (slots, objects)
    }

    /// Pointers inside the structs whose addresses are in `targets`.
    #[must_use]
    pub fn inside(&self, targets: &Targets) -> Targets {
        let mut found = Targets::new();
        for (object, _) in addresses(targets) {
            let devices = self.slots_of(object);
            found.extend(devices.map(|slot| Target::Device { slot, moved: false }));
            let stored = self.memory_of(object);
            found.extend(stored.flat_map(|(_, targets)| targets.iter().cloned()));
            let sources: Vec<_> = self.copies.iter().filter(|&&(to, ..)| to == object).collect();
            let foreign = sources.iter().find_map(|&&(_, from, _)| self.foreign_of(from));
            let is_tainted = self.tainted.iter().any(|&(written, _)| written == object);
            let own = self.foreign_of(object).or(is_tainted.then_some(ForeignBuffer::Memory));
            if let (true, Some(foreign)) = (found.is_empty(), own.or(foreign)) {
                found.insert(Target::Foreign(foreign));
            }
        }
        if targets.iter().any(|target| matches!(target, Target::Foreign(_))) {
            found.insert(Target::Foreign(ForeignBuffer::Memory));
        }
        found
    }

    /// All known objects that live before or after the root, with their origin.
    #[must_use]
    pub fn shared_objects(&self) -> Vec<(ObjectId, ForeignBuffer)> {
        let all = (0..self.objects.len()).map(ObjectId);
        all.filter_map(|object| {
            // The root's own copy of a by-value parameter ends with the root.
            let is_local = matches!(self.objects[object.0], Object::Local(..));
            self.foreign_of(object).filter(|_| !is_local).map(|foreign| (object, foreign))
        })
        .collect()
    }
}
