//! Decides whether a slot is a single memory location, or stands for several that exist at the same time.
//!
//! Only for a single location does a free prove that its allocation is gone. A recursive function has one set of
//! variables per activation, and a loop that allocates host memory makes a new object in each round.

use crate::expand::Expansion;
use crate::flow::Flow;
use crate::names::{FrameId, Point, PointerId};
use crate::pointers::{Object, Pointers, Slot, addresses};
use crate::program::{ActionKind, Function, PointerDef};

/// Number of calls and pointer steps that are followed.
const DEPTH_MAX: usize = 16;

/// Data that the question is answered from.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a, 'p> {
    pub expansion: &'a Expansion<'p>,
    pub pointers: &'a Pointers<'a, 'p>,
    pub flow: &'a Flow<'a>,
}

impl Places<'_, '_> {
    /// Whether a slot is a single memory location at any time, as seen from all code that names it. An outer activation
    /// of a recursive function has variables of its own, and host memory from an earlier round may still exist.
    #[must_use]
    pub fn is_one_place(&self, slot: Slot) -> bool {
        match self.pointers.kind(slot.0) {
            Object::Local(frame, _) => !self.expansion.is_recursive(frame),
            Object::Fresh(frame, id) => {
                !self.expansion.is_recursive(frame) && (self.is_made_once(frame, id) || self.is_newest(slot))
            }
            Object::Global(_) | Object::Formal(_) | Object::Behind(..) | Object::Symbols => true,
        }
    }

    fn is_made_once(&self, frame: FrameId, id: PointerId) -> bool {
        let PointerDef::Fresh(mut at) = *self.expansion.function(frame).pointer(id) else { return false };
        let mut frame = frame;
        for _ in 0..DEPTH_MAX {
            if let Some(at) = self.expansion.point(frame, at) {
                return !self.flow.in_cycle(at.block);
            }
            let [binding] = self.expansion.frames[frame.index()].bindings[..] else { return false };
            if is_in_loop(self.expansion.function(frame), at) {
                return false;
            }
            (frame, at) = (binding.caller, binding.at);
        }
        false
    }

    /// Whether everything that fills or loads a slot in host memory derives its address from the value that allocated
    /// the memory, and not from other memory. That value always names the newest object.
    fn is_newest(&self, slot: Slot) -> bool {
        let mut frames = (0_u32..).map(FrameId).take(self.expansion.frames.len());
        frames.all(|frame| {
            let function = self.expansion.function(frame);
            let concerns = |pointer: PointerId| {
                addresses(self.pointers.targets(frame, pointer)).iter().any(|place| place.0 == slot.0)
            };
            let is_new = |pointer: PointerId| !concerns(pointer) || self.names_newest(frame, pointer, 0);
            let filled = function.actions.iter().all(|action| match action.kind {
                ActionKind::Allocate { into, .. } | ActionKind::Create { into } => is_new(into),
                _ => true,
            });
            let loaded = function.pointers.iter().all(|def| match *def {
                PointerDef::Load { from, .. } => is_new(from),
                _ => true,
            });
            filled && loaded
        })
    }

    fn names_newest(&self, frame: FrameId, pointer: PointerId, depth: usize) -> bool {
        let again = |frame, pointer| depth < DEPTH_MAX && self.names_newest(frame, pointer, depth + 1);
        let bindings = |frame: FrameId| &self.expansion.frames[frame.index()].bindings;
        match self.expansion.function(frame).pointer(pointer) {
            PointerDef::Fresh(_) => true,
            PointerDef::Offset { of, .. } => again(frame, *of),
            PointerDef::Argument(index) => match bindings(frame)[..] {
                [binding] => {
                    let actual = self.expansion.actuals(binding).get(*index as usize);
                    actual
                        .and_then(|actual| actual.pointer)
                        .is_some_and(|actual| again(binding.caller, actual))
                }
                _ => false,
            },
            PointerDef::Result(at) => self.expansion.entered.get(&(frame, *at)).is_some_and(|&entered| {
                let returns = &self.expansion.function(entered).returns;
                bindings(entered).len() == 1 && returns.iter().all(|&(_, value)| again(entered, value))
            }),
            _ => false,
        }
    }
}

/// Whether a point of a function can run again in the same activation of the function.
fn is_in_loop(function: &Function, at: Point) -> bool {
    let mut seen = vec![false; function.blocks.len()];
    let mut pending = vec![at.block];
    while let Some(block) = pending.pop() {
        for &next in &function.blocks[block.index()].successors {
            if next == at.block {
                return true;
            }
            if !std::mem::replace(&mut seen[next.index()], true) {
                pending.push(next);
            }
        }
    }
    false
}
