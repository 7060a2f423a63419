//! Finds out how the root obtains the pointer of each buffer right after its allocation.
//!
//! Trap: a slot that something other than an allocation may have written does not prove which pointer was allocated. A
//! buffer gets captures only if each of its allocations has one.

use std::collections::{BTreeMap, BTreeSet};

use super::Reader;
use crate::contents::Capture;
use crate::expand::{Binding, Frame};
use crate::names::{BufferId, FrameId, Point, PointerId, ReloadBase};
use crate::pointers::{Object, Slot, Target, Targets, addresses};
use crate::program::{Action, ActionKind};

impl Reader<'_, '_> {
    pub(super) fn captures(&self) -> BTreeMap<BufferId, Vec<Capture>> {
        let mut found: BTreeMap<BufferId, Vec<Capture>> = BTreeMap::new();
        let mut hidden = BTreeSet::new();
        for frame in (0_u32..).map(FrameId).take(self.expansion.frames.len()) {
            for action in &self.expansion.function(frame).actions {
                let ActionKind::Allocate { into, .. } = &action.kind else { continue };
                for slot in addresses(self.pointers.targets(frame, *into)) {
                    let Some(&buffer) = self.ids.get(&slot) else { continue };
                    let captures = self.captures_of(frame, action, *into, slot);
                    hidden.extend(captures.is_empty().then_some(buffer));
                    found.entry(buffer).or_default().extend(captures);
                }
            }
        }
        found.retain(|buffer, _| !hidden.contains(buffer));
        for captures in found.values_mut() {
            captures.sort_unstable();
            captures.dedup();
        }
        found
    }

    fn captures_of(&self, frame: FrameId, action: &Action, into: PointerId, slot: Slot) -> Vec<Capture> {
        if frame == FrameId::ROOT {
            return vec![Capture::Allocation { at: action.at, into }];
        }
        let base = match (self.pointers.kind(slot.0), slot.1) {
            (Object::Local(FrameId::ROOT, id), Some(offset)) => (ReloadBase::Pointer(id), offset),
            (Object::Global(global), Some(offset)) => (ReloadBase::Global(global), offset),
            (Object::Local(own, id), Some(0)) if (own, id) == (frame, into) => {
                return self.returned(frame, action, id, slot).into_iter().collect();
            }
            _ => return Vec::new(),
        };
        if !self.holds_only_allocated(slot) {
            return Vec::new();
        }
        let capture = |at| Capture::Place { at, base: base.0, offset: base.1 };
        self.root_calls(frame).into_iter().map(capture).collect()
    }

    /// Capture of an allocation in a function that the root calls and that returns the pointer through a variable of
    /// its own; `None` if the result may be anything but that pointer or null.
    fn returned(&self, frame: FrameId, action: &Action, variable: PointerId, slot: Slot) -> Option<Capture> {
        let Frame { function, bindings, .. } = &self.expansion.frames[frame.index()];
        let [Binding { caller: FrameId::ROOT, at }] = bindings[..] else { return None };
        let pointer = Targets::from([Target::Device { slot, moved: false }]);
        let gives = |&(_, value): &(Point, PointerId)| {
            *self.pointers.targets(frame, value) == pointer || self.is_null(frame, value)
        };
        let returns = &self.expansion.function(frame).returns;
        let is_known = !returns.is_empty() && returns.iter().all(gives) && self.holds_only_allocated(slot);
        is_known.then_some(Capture::Returned { at, function: *function, made: action.at, variable })
    }

    /// Whether only allocations write a pointer to a slot; writes of null do not count.
    fn holds_only_allocated(&self, slot: Slot) -> bool {
        let mut frames = (0_u32..).map(FrameId).take(self.expansion.frames.len());
        let is_there = |frame: FrameId, to: PointerId, bytes: Option<u64>| {
            let places = addresses(self.pointers.targets(frame, to));
            places.into_iter().any(|place| self.pointers.covered(place, bytes).contains(&slot))
        };
        let is_written = |frame: FrameId, action: &Action| match &action.kind {
            ActionKind::Store { value, to } => !self.is_null(frame, *value) && is_there(frame, *to, Some(8)),
            ActionKind::Copy { to, .. } => is_there(frame, *to, None),
            ActionKind::Use { operands, .. } | ActionKind::Library { operands } => {
                operands.iter().any(|&operand| is_there(frame, operand, None))
            }
            _ => false,
        };
        !frames.any(|frame| {
            let actions = &self.expansion.function(frame).actions;
            actions.iter().any(|action| is_written(frame, action))
        })
    }

    /// Calls in the root that lead into a frame, directly or through other frames.
    fn root_calls(&self, frame: FrameId) -> BTreeSet<Point> {
        let mut calls = BTreeSet::new();
        let mut seen = BTreeSet::from([frame]);
        let mut pending = vec![frame];
        while let Some(frame) = pending.pop() {
            for binding in &self.expansion.frames[frame.index()].bindings {
                if binding.caller == FrameId::ROOT {
                    calls.insert(binding.at);
                } else if seen.insert(binding.caller) {
                    pending.push(binding.caller);
                }
            }
        }
        calls
    }
}
