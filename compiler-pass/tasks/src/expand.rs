//! Builds one graph from a function and the functions that it calls, which are inlined at their calls.
//!
//! Each call that may concern the device gets a frame of its own, so that the effects of a helper are kept apart for
//! each of its callers. A function that only moves host pointers gets one frame for all of its calls, outside the
//! graph. Trap: the graph must stay finite and small. A recursive call leads back into the frame of its function, and
//! so does every call beyond the limit that the planner sets; returns of such a frame lead to all of its callers. The
//! graph then has paths that the program does not have, which costs precision but stays correct.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{BlockFacts, Exit, FrameFacts};
use crate::names::{BlockId, FrameId, FunctionId, Point};
use crate::program::{Action, ActionKind, Actual, Function, Leave, Program};

/// Number of blocks of one graph beyond which calls reuse an existing frame of their callee.
const BLOCKS_MAX: usize = 8192;

/// A call that leads into a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    pub caller: FrameId,
    /// Position of the call in the caller's function.
    pub at: Point,
}

/// An instance of a function, in the graph or outside it.
#[derive(Clone, Debug)]
pub struct Frame {
    pub function: FunctionId,
    pub bindings: Vec<Binding>,
    /// The function's blocks in the graph, by block of the function and position; empty for a frame outside the graph.
    parts: Vec<Vec<BlockId>>,
}

/// The graph of a root function with the functions that it calls.
#[derive(Debug)]
pub struct Expansion<'p> {
    pub program: &'p Program,
    pub frames: Vec<Frame>,
    pub blocks: Vec<BlockFacts>,
    /// The frame that each call leads into.
    pub entered: BTreeMap<(FrameId, Point), FrameId>,
    /// Points, in any frame, before whose instruction an exception may leave the root without passing any of its code.
    pub leaving: Vec<Point>,
    pub whole: &'p WholeProgram,
    frames_max: usize,
    ways_back: BTreeMap<FrameId, Vec<WayBack>>,
}

/// Properties of the program that are computed once for all of its functions.
#[derive(Clone, Debug, Default)]
pub struct WholeProgram {
    /// [`Program::touching`].
    pub touching: Vec<bool>,
    /// [`Program::caught`].
    pub caught: Vec<bool>,
    /// [`Program::pointed_to`].
    pub pointed_to: Vec<bool>,
}

impl WholeProgram {
    #[must_use]
    pub fn of(program: &Program) -> Self {
        Self { touching: program.touching(), caught: program.caught(), pointed_to: program.pointed_to() }
    }
}

/// Where one call of a frame returns to.
#[derive(Clone, Copy, Debug)]
struct WayBack {
    binding: Binding,
    normal: BlockId,
    /// Target of an exception, if the call is an invoking one.
    unwind: Option<BlockId>,
}

/// Targets of exceptions that leave a frame.
#[derive(Debug, Default)]
struct WaysOut {
    /// Blocks of the graph that catch them.
    caught: BTreeSet<BlockId>,
    /// They may also leave the root, past all of its code.
    leave_root: bool,
}

impl<'p> Expansion<'p> {
    #[must_use]
    pub fn new(program: &'p Program, whole: &'p WholeProgram, root: FunctionId, frames_max: usize) -> Self {
        let mut expansion = Self {
            program,
            frames: Vec::new(),
            blocks: Vec::new(),
            entered: BTreeMap::new(),
            leaving: Vec::new(),
            whole,
            frames_max,
            ways_back: BTreeMap::new(),
        };
        let root = expansion.add_frame(root, None);
        let mut pending = expansion.calls(root);
        while let Some((frame, at, callee)) = pending.pop() {
            let binding = Binding { caller: frame, at };
            let (entered, is_new) = expansion.enter(binding, callee);
            expansion.entered.insert((frame, at), entered);
            if expansion.is_spliced(frame) && expansion.whole.touching[callee.index()] {
                expansion.connect(binding, entered);
            }
            if is_new {
                pending.extend(expansion.calls(entered));
            }
        }
        expansion.lead_back();
        expansion
    }

    #[must_use]
    pub fn function(&self, frame: FrameId) -> &'p Function {
        self.program.function(self.frames[frame.index()].function)
    }

    /// Whether the frame's blocks are in the graph.
    #[must_use]
    pub fn is_spliced(&self, frame: FrameId) -> bool {
        !self.frames[frame.index()].parts.is_empty()
    }

    /// Whether a frame stands for several simultaneous activations of its function.
    #[must_use]
    pub fn is_recursive(&self, frame: FrameId) -> bool {
        let mut seen = vec![false; self.frames.len()];
        let mut pending = vec![frame];
        while let Some(inner) = pending.pop() {
            for binding in &self.frames[inner.index()].bindings {
                if binding.caller == frame {
                    return true;
                }
                if !std::mem::replace(&mut seen[binding.caller.index()], true) {
                    pending.push(binding.caller);
                }
            }
        }
        false
    }

    /// Actual arguments of a call.
    #[must_use]
    pub fn actuals(&self, binding: Binding) -> &'p [Actual] {
        let actions = &self.function(binding.caller).actions;
        let first = actions.partition_point(|action| action.at < binding.at);
        let here = actions[first..].iter().take_while(|action| action.at == binding.at);
        let call = |action: &'p Action| match &action.kind {
            ActionKind::Call { actuals, .. } => Some(actuals.as_slice()),
            _ => None,
        };
        here.filter_map(call).next().unwrap_or_default()
    }

    /// Maps a point of a frame's function to the graph; `None` if the frame is outside the graph.
    #[must_use]
    pub fn point(&self, frame: FrameId, at: Point) -> Option<Point> {
        let parts = self.frames[frame.index()].parts.get(at.block.index())?;
        let holds = |part: &&BlockId| {
            let block = &self.blocks[part.index()];
            (block.first..block.end).contains(&at.position)
        };
        parts.iter().find(holds).map(|&block| Point { block, position: at.position })
    }

    #[must_use]
    pub fn frame_facts(&self) -> Vec<FrameFacts> {
        let facts = |frame: &Frame| FrameFacts {
            function: frame.function,
            caller: frame.bindings.first().map(|binding| binding.caller),
        };
        self.frames.iter().map(facts).collect()
    }

    fn calls(&self, frame: FrameId) -> Vec<(FrameId, Point, FunctionId)> {
        let call = |action: &Action| match action.kind {
            ActionKind::Call { callee, .. } => Some((frame, action.at, callee)),
            _ => None,
        };
        // Reversed, because the worklist takes the last entry first.
        self.function(frame).actions.iter().rev().filter_map(call).collect()
    }

    /// Returns the frame that a call leads into, and whether the frame is new.
    fn enter(&mut self, binding: Binding, callee: FunctionId) -> (FrameId, bool) {
        let is_spliced = self.whole.touching[callee.index()];
        // The root is left out: its end is a return of the graph and cannot also lead back to a caller.
        let of_callee =
            |frame: &FrameId| *frame != FrameId::ROOT && self.frames[frame.index()].function == callee;
        let is_full = self.frames.len() >= self.frames_max || self.blocks.len() >= BLOCKS_MAX;
        let mut all = (0..self.frames.len()).map(frame_id);
        let known = if is_spliced && !is_full {
            self.callers(binding.caller).find(of_callee)
        } else {
            all.find(of_callee)
        };
        if let Some(known) = known {
            self.frames[known.index()].bindings.push(binding);
            return (known, false);
        }
        (self.add_frame(callee, Some(binding)), true)
    }

    fn callers(&self, frame: FrameId) -> impl Iterator<Item = FrameId> + '_ {
        let caller =
            |frame: &FrameId| self.frames[frame.index()].bindings.first().map(|binding| binding.caller);
        std::iter::successors(Some(frame), caller)
    }

    fn add_frame(&mut self, function: FunctionId, binding: Option<Binding>) -> FrameId {
        let id = frame_id(self.frames.len());
        let is_in_graph = binding.is_none() || self.whole.touching[function.index()];
        let parts = if is_in_graph { self.add_blocks(id, function) } else { Vec::new() };
        self.frames.push(Frame { function, bindings: binding.into_iter().collect(), parts });
        id
    }

    /// Adds the function's blocks, split behind each inlined call and wherever an exception may lead to other code.
    fn add_blocks(&mut self, frame: FrameId, function: FunctionId) -> Vec<Vec<BlockId>> {
        let is_interrupted = frame != FrameId::ROOT && self.whole.caught[function.index()];
        let function = self.program.function(function);
        let mut cuts: Vec<Point> = function.actions.iter().filter_map(|a| self.inlined_call(a)).collect();
        if is_interrupted {
            cuts.extend(self.interruptions(function));
            cuts.sort_unstable();
        }
        let mut parts: Vec<Vec<BlockId>> = Vec::new();
        for (index, block) in function.blocks.iter().enumerate() {
            let origin = BlockId::from_index(index);
            let ends = cuts.iter().filter(|cut| cut.block == origin).map(|cut| cut.position + 1);
            let mut first = 0;
            let mut list = Vec::new();
            for end in ends.filter(|&end| end < block.len).chain([block.len]) {
                list.push(self.add_block(BlockFacts {
                    successors: Vec::new(),
                    exit: None,
                    first,
                    end,
                    frame,
                    origin,
                }));
                first = end;
            }
            parts.push(list);
        }
        for (block, list) in function.blocks.iter().zip(&parts) {
            for pair in list.windows(2) {
                self.blocks[pair[0].index()].successors = vec![pair[1]];
            }
            let Some(&last) = list.last() else { continue };
            let successors = block.successors.iter().map(|s| parts[s.index()][0]).collect();
            let facts = &mut self.blocks[last.index()];
            facts.successors = successors;
            facts.exit = block.leaves.map(|leave| match leave {
                Leave::Return | Leave::Unwind => Exit::Return,
                Leave::Never => Exit::NoReturn,
            });
        }
        parts
    }

    fn add_block(&mut self, block: BlockFacts) -> BlockId {
        self.blocks.push(block);
        BlockId::from_index(self.blocks.len() - 1)
    }

    /// Point of a call whose callee is inlined; `None` for other actions.
    fn inlined_call(&self, action: &Action) -> Option<Point> {
        match action.kind {
            ActionKind::Call { callee, .. } if self.whole.touching[callee.index()] => Some(action.at),
            _ => None,
        }
    }

    /// Calls of functions that are not inlined through which an exception may leave `function`. Of a run of such calls
    /// without another action between them, only the first is returned.
    fn interruptions(&self, function: &Function) -> Vec<Point> {
        let mut found: Vec<Point> = Vec::new();
        for &at in &function.throws {
            let here = || function.actions.iter().filter(|action| action.at.block == at.block);
            if here().any(|action| self.inlined_call(action) == Some(at)) {
                continue;
            }
            let is_between = |from: Point| {
                here().any(|action| (from.position + 1..=at.position).contains(&action.at.position))
            };
            let last = found.last().filter(|last| last.block == at.block);
            if last.is_none_or(|&last| is_between(last)) {
                found.push(at);
            }
        }
        found
    }

    /// Connects a call to the entry of a frame, and records where the frame returns to.
    fn connect(&mut self, binding: Binding, entered: FrameId) {
        let Some(call) = self.point(binding.caller, binding.at) else { return };
        let parts = &self.frames[binding.caller.index()].parts[binding.at.block.index()];
        let next =
            parts.iter().position(|&part| part == call.block).and_then(|at| parts.get(at + 1)).copied();
        let entry = self.frames[entered.index()].parts[0][0];
        let back = match next {
            Some(next) => {
                self.blocks[call.block.index()].successors = vec![entry];
                (next, None)
            }
            None => {
                // An invoking call gets one return block for each of its two successors. The analysis does not see
                // every exception in the callee, so the exceptional successor stays reachable in any case.
                let ways: Vec<_> =
                    self.blocks[call.block.index()].successors.iter().map(|&way| vec![way]).collect();
                let BlockFacts { end, frame, origin, .. } = self.blocks[call.block.index()];
                let mut backs = ways.into_iter().map(|successors| {
                    let exit = None;
                    self.add_block(BlockFacts { successors, exit, first: end, end, frame, origin })
                });
                let (normal, unwind) = (backs.next(), backs.next());
                drop(backs);
                self.blocks[call.block.index()].successors = [entry].into_iter().chain(unwind).collect();
                let Some(normal) = normal else { return };
                (normal, unwind)
            }
        };
        let (normal, unwind) = back;
        self.ways_back.entry(entered).or_default().push(WayBack { binding, normal, unwind });
    }

    /// Connects the ends of every frame but the root's to its callers, and exceptions to the blocks that catch them.
    fn lead_back(&mut self) {
        for frame in (0..self.frames.len()).map(frame_id) {
            if !self.is_spliced(frame) {
                continue;
            }
            let ways = self.ways_out(frame);
            for at in self.interruptions(self.function(frame)) {
                let Some(point) = self.point(frame, at) else { continue };
                if ways.leave_root {
                    self.leaving.push(point);
                }
                self.blocks[point.block.index()].successors.extend(&ways.caught);
            }
            if frame != FrameId::ROOT {
                self.lead_ends_back(frame, &ways);
            }
        }
    }

    fn lead_ends_back(&mut self, frame: FrameId, ways: &WaysOut) {
        let function = self.function(frame);
        for (index, block) in function.blocks.iter().enumerate() {
            let Some(&last) = self.frames[frame.index()].parts[index].last() else { continue };
            let back = self.ways_back.get(&frame).map(Vec::as_slice).unwrap_or_default();
            let successors: Vec<BlockId> = match block.leaves {
                Some(Leave::Return) => back.iter().map(|way| way.normal).collect(),
                Some(Leave::Unwind) => ways.caught.iter().copied().collect(),
                Some(Leave::Never) | None => continue,
            };
            if ways.leave_root && block.leaves == Some(Leave::Unwind) {
                let position = self.blocks[last.index()].end.saturating_sub(1);
                self.leaving.push(Point { block: last, position });
            }
            let facts = &mut self.blocks[last.index()];
            facts.exit = successors.is_empty().then_some(Exit::NoReturn);
            facts.successors = successors;
        }
    }

    /// Finds the targets of an exception that leaves a frame: outwards through plain calls up to the next invoking
    /// ones.
    fn ways_out(&self, frame: FrameId) -> WaysOut {
        let mut ways = WaysOut { leave_root: frame == FrameId::ROOT, ..WaysOut::default() };
        let mut seen = BTreeSet::from([frame]);
        let mut pending = vec![frame];
        while let Some(inner) = pending.pop() {
            for way in self.ways_back.get(&inner).into_iter().flatten() {
                let Binding { caller, at } = way.binding;
                match way.unwind {
                    Some(unwind) => drop(ways.caught.insert(unwind)),
                    None if !self.function(caller).throws.contains(&at) => {}
                    None if caller == FrameId::ROOT => ways.leave_root = true,
                    None if seen.insert(caller) => pending.push(caller),
                    None => {}
                }
            }
        }
        ways
    }
}

fn frame_id(index: usize) -> FrameId {
    FrameId(u32::try_from(index).expect("fewer than 2^32 frames"))
}
