//! Translates sizes of called functions into terms of the calling function.
//!
//! A parameter becomes the actual argument of the call; a value in memory becomes a load that the root function can do
//! itself, with the points that may change the memory in between. A value that a callee computes exists in no other
//! function, so it is never known where the root's task begins.

use std::collections::{BTreeMap, BTreeSet};

use crate::expand::Expansion;
use crate::expr::Expr;
use crate::facts::{Leaf, LeafSource, Reload};
use crate::names::{FrameId, LeafId, Point, PointerId, ReloadBase};
use crate::pointers::{Object, ObjectId, Pointers, Slot, Target, Targets, addresses};
use crate::program::{ActionKind, Geometry, PointerDef, RawSource};

/// Number of nodes of an expression beyond which a size counts as unknown.
const NODES_MAX: usize = 256;

/// Effect of an action on host memory.
#[derive(Clone, Debug)]
enum Written {
    /// Writes from the slot on; `None`: an unknown number of bytes.
    Slot(Slot, Option<u64>),
    /// Writes through an unknown pointer.
    Somewhere,
    /// Writes anything that code outside the program can reach, including these objects, which it is given.
    Outside(BTreeSet<ObjectId>),
}

/// Collects the leaves of one function's sizes.
#[derive(Debug)]
pub struct Sizes<'a, 'p> {
    expansion: &'a Expansion<'p>,
    pointers: &'a Pointers<'a, 'p>,
    reachable_globals: &'a [bool],
    writes: Vec<(Point, Written)>,
    /// Points at which code in the graph itself reads or writes an object.
    uses: BTreeMap<ObjectId, Vec<Point>>,
    /// Objects that were given to code outside the program.
    given_away: BTreeSet<ObjectId>,
    /// Objects that an asynchronous copy may write at any later time.
    unsteady: BTreeSet<ObjectId>,
    known: BTreeMap<(FrameId, LeafId), LeafId>,
    leaves: Vec<Leaf>,
}

impl<'a, 'p> Sizes<'a, 'p> {
    #[must_use]
    pub fn new(
        expansion: &'a Expansion<'p>,
        pointers: &'a Pointers<'a, 'p>,
        reachable_globals: &'a [bool],
    ) -> Self {
        let mut sizes = Self {
            expansion,
            pointers,
            reachable_globals,
            writes: Vec::new(),
            uses: BTreeMap::new(),
            given_away: BTreeSet::new(),
            unsteady: BTreeSet::new(),
            known: BTreeMap::new(),
            leaves: Vec::new(),
        };
        for frame in (0_u32..).map(FrameId).take(expansion.frames.len()) {
            for action in &expansion.function(frame).actions {
                if let Some(at) = expansion.point(frame, action.at) {
                    sizes.collect(frame, &action.kind, action.at, at, &mut BTreeSet::new());
                    sizes.add_use(frame, &action.kind, at);
                }
            }
            for leaf in &expansion.function(frame).leaves {
                if let RawSource::Memory { at, address, is_loaded: true } = leaf.source
                    && let Some(at) = expansion.point(frame, at)
                {
                    sizes.add_uses(frame, address, at);
                }
            }
        }
        sizes
    }

    /// Records a use of the object that an action itself writes.
    fn add_use(&mut self, frame: FrameId, kind: &ActionKind, point: Point) {
        if let ActionKind::Store { to, .. }
        | ActionKind::Write { to, .. }
        | ActionKind::Copy { to, .. }
        | ActionKind::Allocate { into: to, .. }
        | ActionKind::Create { into: to } = kind
        {
            self.add_uses(frame, *to, point);
        }
    }

    fn add_uses(&mut self, frame: FrameId, address: PointerId, point: Point) {
        let targets = self.pointers.targets(frame, address);
        if let ([(object, _)], 1) = (addresses(targets).as_slice(), targets.len()) {
            self.uses.entry(*object).or_default().push(point);
        }
    }

    #[must_use]
    pub fn into_leaves(self) -> Vec<Leaf> {
        self.leaves
    }

    /// Records the writes of an action, as happening at `point` of the graph.
    fn collect(
        &mut self,
        frame: FrameId,
        kind: &ActionKind,
        at: Point,
        point: Point,
        seen: &mut BTreeSet<FrameId>,
    ) {
        match kind {
            ActionKind::Store { to, .. }
            | ActionKind::Allocate { into: to, .. }
            | ActionKind::Create { into: to } => self.add_write(frame, *to, Some(8), point),
            ActionKind::Copy { to, .. } => self.add_write(frame, *to, None, point),
            ActionKind::Write { to, bytes } => self.add_write(frame, *to, *bytes, point),
            ActionKind::Use { call, operands } => {
                // A plain copy writes only its target.
                let written = if is_plain_copy(call) { 1 } else { operands.len() };
                for &operand in operands.iter().take(written) {
                    self.add_operand(frame, operand, point);
                    if call.contains("Async") {
                        let slots = addresses(self.pointers.targets(frame, operand));
                        self.unsteady.extend(slots.into_iter().map(|(object, _)| object));
                    }
                }
            }
            ActionKind::Library { operands } => {
                operands.iter().for_each(|&operand| self.add_operand(frame, operand, point));
            }
            ActionKind::Opaque { operands, .. } => {
                let given: Targets =
                    operands.iter().flat_map(|&o| self.pointers.targets(frame, o).clone()).collect();
                let objects = self.pointers.reach(&given).1;
                self.given_away.extend(objects.iter().copied());
                self.writes.push((point, Written::Outside(objects)));
            }
            ActionKind::Call { .. } => {
                let Some(&entered) = self.expansion.entered.get(&(frame, at)) else { return };
                if !self.expansion.is_spliced(entered) && seen.insert(entered) {
                    for inner in &self.expansion.function(entered).actions {
                        self.collect(entered, &inner.kind, inner.at, point, seen);
                    }
                }
            }
            _ => {}
        }
    }

    fn add_write(&mut self, frame: FrameId, to: PointerId, bytes: Option<u64>, point: Point) {
        let targets = self.pointers.targets(frame, to);
        self.writes.extend(addresses(targets).into_iter().map(|slot| (point, Written::Slot(slot, bytes))));
        if targets.iter().any(|target| matches!(target, Target::Foreign(_))) {
            self.writes.push((point, Written::Somewhere));
        }
    }

    /// Records writes through an operand of a library or runtime call, which writes through its operands only.
    fn add_operand(&mut self, frame: FrameId, operand: PointerId, point: Point) {
        let slots = addresses(self.pointers.targets(frame, operand));
        self.writes.extend(slots.into_iter().map(|slot| (point, Written::Slot(slot, None))));
    }

    /// Translates an expression of a frame into the root's terms; `None` if it is too large.
    pub fn translate(&mut self, frame: FrameId, expr: &Expr) -> Option<Expr> {
        let mut nodes = 0;
        self.expr(frame, expr, &mut nodes)
    }

    pub fn geometry(&mut self, frame: FrameId, geometry: &Geometry) -> Option<Geometry> {
        let blocks = self.translate(frame, &geometry.blocks)?;
        Some(Geometry { blocks, threads: self.translate(frame, &geometry.threads)? })
    }

    fn expr(&mut self, frame: FrameId, expr: &Expr, nodes: &mut usize) -> Option<Expr> {
        *nodes += 1;
        if *nodes > NODES_MAX {
            return None;
        }
        Some(match expr {
            Expr::Const { .. } => expr.clone(),
            Expr::Leaf(leaf) => return self.leaf(frame, *leaf, nodes),
            Expr::Cast { op, bits, arg } => {
                Expr::Cast { op: *op, bits: *bits, arg: Box::new(self.expr(frame, arg, nodes)?) }
            }
            Expr::Binary { op, args } => {
                let args = (self.expr(frame, &args.0, nodes)?, self.expr(frame, &args.1, nodes)?);
                Expr::Binary { op: *op, args: Box::new(args) }
            }
        })
    }

    fn leaf(&mut self, frame: FrameId, id: LeafId, nodes: &mut usize) -> Option<Expr> {
        if let Some(&known) = self.known.get(&(frame, id)) {
            return Some(Expr::Leaf(known));
        }
        let raw = self.expansion.function(frame).leaf(id);
        let is_root = frame == FrameId::ROOT;
        let own = is_root.then_some(id);
        let leaf = match &raw.source {
            RawSource::Argument(_) if is_root => self.new_leaf(frame, id, LeafSource::Argument, own, None),
            RawSource::Argument(index) => {
                if let Some((caller, actual)) = self.actual(frame, *index)
                    && self.expansion.function(caller).bits(&actual) == Some(raw.bits)
                {
                    return self.expr(caller, &actual, nodes);
                }
                self.new_leaf(frame, id, LeafSource::Inner, None, None)
            }
            RawSource::Instruction(at) => {
                let source = self.expansion.point(frame, *at).filter(|_| is_root);
                let source = source.map_or(LeafSource::Inner, LeafSource::Instruction);
                self.new_leaf(frame, id, source, own, None)
            }
            RawSource::Memory { at, address, is_loaded } => {
                let at = self.expansion.point(frame, *at)?;
                let is_own = is_root && *is_loaded;
                let own = own.filter(|_| is_own);
                match self.reload(frame, *address, raw.bits) {
                    Some((slot, reload)) => {
                        let clobbers = self.clobbers(slot, u64::from(raw.bits.div_ceil(8)));
                        let source = LeafSource::Memory { at, clobbers, is_loaded: is_own };
                        self.new_leaf(frame, id, source, own, Some(reload))
                    }
                    None if is_own => self.new_leaf(frame, id, LeafSource::Instruction(at), own, None),
                    None => self.new_leaf(frame, id, LeafSource::Inner, None, None),
                }
            }
        };
        Some(Expr::Leaf(leaf))
    }

    fn new_leaf(
        &mut self,
        frame: FrameId,
        id: LeafId,
        source: LeafSource,
        own: Option<LeafId>,
        reload: Option<Reload>,
    ) -> LeafId {
        let description = self.expansion.function(frame).leaf(id).description.clone();
        let new = LeafId(u32::try_from(self.leaves.len()).expect("fewer than 2^32 leaves"));
        self.leaves.push(Leaf { source, description, own, reload });
        self.known.insert((frame, id), new);
        new
    }

    /// Caller and actual argument for a parameter, if the frame has a single call.
    fn actual(&self, frame: FrameId, index: u32) -> Option<(FrameId, Expr)> {
        let [binding] = self.expansion.frames[frame.index()].bindings[..] else { return None };
        let actual = self.expansion.actuals(binding).get(index as usize)?;
        Some((binding.caller, actual.integer.clone()?))
    }

    /// Returns how the root can load from an address of a frame; `None` unless the address is one known location.
    fn reload(&self, frame: FrameId, address: PointerId, bits: u32) -> Option<(Slot, Reload)> {
        let targets = self.pointers.targets(frame, address);
        let (&Target::Address((object, Some(offset))), 1) = (targets.first()?, targets.len()) else {
            return None;
        };
        if self.unsteady.contains(&object) {
            return None;
        }
        let (base, offset, from) = match self.pointers.kind(object) {
            Object::Global(global) => (ReloadBase::Global(global), offset, None),
            Object::Local(FrameId::ROOT, id) => (ReloadBase::Pointer(id), offset, None),
            Object::Local(..) | Object::Symbols => return None,
            Object::Fresh(..) | Object::Formal(_) | Object::Behind(..) => {
                let (base, behind, from) = self.root_pointer(object)?;
                (ReloadBase::Pointer(base), offset - behind, from)
            }
        };
        let is_variable = matches!(self.pointers.kind(object), Object::Global(_) | Object::Local(..));
        let witnesses = (!is_variable).then(|| self.uses.get(&object).cloned().unwrap_or_default());
        Some(((object, Some(offset)), Reload { base, offset, bits, from, witnesses }))
    }

    /// A pointer of the root that can only point into an object, its offset there, and the point from which on it is
    /// known.
    fn root_pointer(&self, object: ObjectId) -> Option<(PointerId, i64, Option<Point>)> {
        let root = self.expansion.function(FrameId::ROOT);
        let known = |(id, def): (PointerId, &PointerDef)| {
            let targets = self.pointers.targets(FrameId::ROOT, id);
            let (&Target::Address((found, Some(behind))), 1) = (targets.first()?, targets.len()) else {
                return None;
            };
            let from = match def {
                _ if found != object => return None,
                PointerDef::Argument(_) => None,
                PointerDef::Result(at) | PointerDef::Fresh(at) | PointerDef::Load { at, .. } => {
                    Some(self.expansion.point(FrameId::ROOT, self.known_from(*at)?)?)
                }
                _ => return None,
            };
            Some((from, id, behind))
        };
        let all = (0_u32..).map(PointerId).zip(&root.pointers).filter_map(known);
        all.min().map(|(from, id, behind)| (id, behind, from))
    }

    /// Point from which on a result is known; that of an invoking call is known at its normal successor only.
    fn known_from(&self, at: Point) -> Option<Point> {
        let root = self.expansion.function(FrameId::ROOT);
        let block = &root.blocks[at.block.index()];
        if at.position + 1 < block.len {
            return Some(at);
        }
        let normal = *block.successors.first()?;
        let ways = root.blocks.iter().flat_map(|block| &block.successors).filter(|&&to| to == normal);
        (ways.count() == 1).then_some(Point { block: normal, position: 0 })
    }

    /// Points that may change `bytes` bytes at a slot.
    fn clobbers(&self, (object, offset): Slot, bytes: u64) -> Vec<Point> {
        let is_foreign = self.pointers.foreign_of(object).is_some();
        let is_exposed = is_foreign || self.given_away.contains(&object);
        let is_reachable = match self.pointers.kind(object) {
            Object::Global(global) => self.reachable_globals[global.index()],
            _ => is_exposed,
        };
        let hits = |written: &Written| match written {
            Written::Slot((other, at), count) if *other == object => overlaps(offset, bytes, *at, *count),
            Written::Slot((other, _), _) => self.pointers.may_coincide(*other, object),
            Written::Somewhere => is_exposed,
            Written::Outside(given) => is_reachable || given.contains(&object),
        };
        let points = self.writes.iter().filter(|(_, written)| hits(written)).map(|(point, _)| *point);
        points.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Whether a call is a copy that writes only through its first operand.
fn is_plain_copy(call: &str) -> bool {
    let name = call.trim_end_matches("_ptds").trim_end_matches("_ptsz").trim_end_matches("Async");
    matches!(name, "cudaMemcpy" | "cudaMemcpy2D")
}

fn overlaps(offset: Option<i64>, bytes: u64, at: Option<i64>, count: Option<u64>) -> bool {
    let (Some(offset), Some(at)) = (offset, at) else { return true };
    let end = offset.saturating_add_unsigned(bytes);
    at < end && count.is_none_or(|count| at.saturating_add_unsigned(count) > offset)
}
