//! Tracks which parts of a solution must be evaluated again because one of their inputs has changed.
//!
//! Without this every round evaluates every pointer and copies large sets for nothing: most of the compile time where
//! containers of the C++ library are passed around. Trap: every input of a part must be listed here, or a change of it
//! is missed. Where the inputs are not plain, any change counts.

use super::{ObjectId, Pointers, addresses};
use crate::names::{FrameId, PointerId};
use crate::program::{Action, ActionKind, PointerDef};

/// Solutions that took more steps than this are not checked for being settled, because the check takes as many steps
/// again.
pub(super) const CHECKED_STEPS_MAX: usize = 100_000;

/// Serial number of a change; 0 means never.
type Age = u64;

/// Times of changes, and of the evaluations of parts of the solution.
#[derive(Debug, Default)]
pub(super) struct Ages {
    now: Age,
    /// Last change of a pointer's targets, by frame and pointer.
    values: Vec<Vec<Age>>,
    /// Last change of what an object holds, or of what is copied into it.
    objects: Vec<Age>,
    any_object: Age,
    /// Last evaluation of a pointer, by frame and pointer; it covers every change up to then. 0: never evaluated.
    looks: Vec<Vec<Age>>,
    action_looks: Vec<Vec<Age>>,
}

impl Ages {
    /// Takes for each frame the number of its pointers and of its actions.
    pub fn new(frames: impl Iterator<Item = (usize, usize)>) -> Ages {
        // 1, so that an evaluation in the first round does not count as "never".
        let mut ages = Ages { now: 1, ..Ages::default() };
        for (pointers, actions) in frames {
            ages.values.push(vec![0; pointers]);
            ages.looks.push(vec![0; pointers]);
            ages.action_looks.push(vec![0; actions]);
        }
        ages
    }

    pub fn now(&self) -> Age {
        self.now
    }

    pub fn value_changed(&mut self, frame: FrameId, id: PointerId) {
        self.now += 1;
        self.values[frame.index()][id.index()] = self.now;
    }

    pub fn object_changed(&mut self, object: ObjectId) {
        self.now += 1;
        self.any_object = self.now;
        if self.objects.len() <= object.0 {
            self.objects.resize(object.0 + 1, 0);
        }
        self.objects[object.0] = self.now;
    }

    pub fn look_at_value(&mut self, frame: FrameId, id: PointerId) {
        self.looks[frame.index()][id.index()] = self.now;
    }

    pub fn look_at_action(&mut self, frame: FrameId, number: usize) {
        self.action_looks[frame.index()][number] = self.now;
    }

    /// Marks everything for evaluation.
    pub fn forget_looks(&mut self) {
        self.looks.iter_mut().chain(&mut self.action_looks).for_each(|frame| frame.fill(0));
    }

    fn value(&self, frame: FrameId, id: PointerId) -> Age {
        self.values[frame.index()][id.index()]
    }

    fn object(&self, object: ObjectId) -> Age {
        self.objects.get(object.0).copied().unwrap_or(0)
    }
}

impl Pointers<'_, '_> {
    /// Whether one more evaluation of everything changes nothing.
    pub(super) fn is_settled(&mut self) -> bool {
        let (before, steps) = (self.ages.now(), self.steps);
        self.ages.forget_looks();
        self.iterate();
        self.steps = steps;
        self.ages.now() == before
    }

    /// Whether an input of a pointer's value has changed since the last evaluation.
    pub(super) fn is_value_stale(&self, frame: FrameId, id: PointerId) -> bool {
        let look = self.ages.looks[frame.index()][id.index()];
        if look == 0 {
            return true;
        }
        let changed = |of: PointerId| self.ages.value(frame, of) > look;
        match self.expansion.function(frame).pointer(id) {
            PointerDef::Nothing
            | PointerDef::Fields(_)
            | PointerDef::Unknown(_)
            | PointerDef::Local
            | PointerDef::Global(_)
            | PointerDef::Fresh(_) => false,
            PointerDef::Argument(_) if frame == FrameId::ROOT => false,
            PointerDef::Argument(index) => {
                self.expansion.frames[frame.index()].bindings.iter().any(|&binding| {
                    let actual = self.expansion.actuals(binding).get(*index as usize);
                    let pointer = actual.and_then(|actual| actual.pointer);
                    pointer.is_some_and(|pointer| self.ages.value(binding.caller, pointer) > look)
                })
            }
            PointerDef::Offset { of, .. } => changed(*of),
            PointerDef::Choice(all) => all.iter().any(|&one| changed(one)),
            PointerDef::Load { from, .. } => changed(*from) || self.memory_changed(frame, *from, look),
            PointerDef::Result(_) | PointerDef::Field { .. } | PointerDef::Copied(_) => {
                self.ages.now() > look
            }
        }
    }

    /// Whether an input of an action has changed since the last evaluation.
    pub(super) fn is_action_stale(&self, frame: FrameId, number: usize, action: &Action) -> bool {
        let look = self.ages.action_looks[frame.index()][number];
        if look == 0 {
            return true;
        }
        let changed = |of: PointerId| self.ages.value(frame, of) > look;
        match &action.kind {
            ActionKind::Allocate { into, .. } | ActionKind::Create { into } => changed(*into),
            ActionKind::Store { value, to } => changed(*value) || changed(*to),
            ActionKind::Copy { to, from } => {
                changed(*to) || changed(*from) || self.memory_changed(frame, *from, look)
            }
            ActionKind::Use { operands, .. }
            | ActionKind::Library { operands }
            | ActionKind::Opaque { operands, .. } => operands.iter().any(|&operand| changed(operand)),
            _ => false,
        }
    }

    /// Whether the memory behind a pointer has changed. Once initial contents count, any object's change counts,
    /// because initial contents are found by way of other objects.
    fn memory_changed(&self, frame: FrameId, from: PointerId, look: u64) -> bool {
        if self.with_initial {
            return self.ages.any_object > look;
        }
        addresses(self.targets(frame, from)).into_iter().any(|(object, _)| self.ages.object(object) > look)
    }
}
