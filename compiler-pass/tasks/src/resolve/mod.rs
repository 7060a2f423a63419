//! Turns an expanded function and its pointers into [`Facts`]: sites that name buffers instead of pointers.
//!
//! An unknown pointer counts as everything that it may be. A launch that gets one is foreign, and an allocation into
//! one of several slots belongs to no buffer.

mod frees;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::content_reader::contents;
use crate::contents::Contents;
use crate::expand::Expansion;
use crate::facts::{BufferFacts, BufferKind, EscapeKind, Facts, Site, SiteKind, SiteOrigin};
use crate::flow::Flow;
use crate::names::{BlockId, BufferId, ForeignBuffer, FrameId, Point, PointerId};
use crate::places::Places;
use crate::pointers::{Object, ObjectId, Pointers, Slot, Target, Targets, addresses};
use crate::program::{Action, ActionKind, PointerDef};
use crate::sizes::Sizes;

/// Buffers and foreign pointers that operands name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Named {
    buffers: Vec<BufferId>,
    foreign: Option<ForeignBuffer>,
}

/// Resolves one function; the points-to analysis may take `steps` steps.
#[must_use]
pub fn resolve(expansion: &Expansion<'_>, reachable_globals: &[bool], steps: usize) -> Facts {
    let pointers = Pointers::solve(expansion, steps);
    let ids = pointers.slots().keys().enumerate().map(|(index, &slot)| (slot, buffer_id(index))).collect();
    let flow = Flow::new(&expansion.blocks);
    let copied = (0_u32..).map(FrameId).take(expansion.frames.len()).map(|f| expansion.function(f).copied());
    let mut resolver = Resolver {
        expansion,
        pointers: &pointers,
        flow: &flow,
        copied: copied.collect(),
        ids,
        reachable: BTreeSet::new(),
        steps: Cell::new(0),
    };
    resolver.reachable = resolver.reachable_from_outside(reachable_globals);
    let mut sizes = Sizes::new(expansion, &pointers, reachable_globals);
    let mut sites = Vec::new();
    for frame in (0_u32..).map(FrameId).take(expansion.frames.len()) {
        if expansion.is_spliced(frame) {
            let actions = expansion.function(frame).actions.iter();
            sites.extend(actions.flat_map(|action| resolver.sites(&mut sizes, frame, action)));
        }
    }
    sites.extend(resolver.returns());
    sites.extend(resolver.new_variables());
    sites.sort_by_key(|site| site.at);
    // A function whose analysis was given up is not planned, so contents and pairs are not needed.
    let (contents, mixed) = if pointers.is_incomplete() {
        (Contents::default(), Vec::new())
    } else {
        let mixed = pointers.mixed().map(|(one, other)| (resolver.ids[&one], resolver.ids[&other]));
        (contents(expansion, &pointers, &resolver.ids, &resolver.reachable), mixed.collect())
    };
    Facts {
        function: expansion.function(FrameId::ROOT).name.clone(),
        blocks: expansion.blocks.clone(),
        frames: expansion.frame_facts(),
        buffers: resolver.buffers(),
        contents,
        mixed,
        leaves: sizes.into_leaves(),
        sites,
        throws: expansion
            .function(FrameId::ROOT)
            .throws
            .iter()
            .filter_map(|&at| expansion.point(FrameId::ROOT, at))
            .collect(),
        leaving: expansion.leaving.clone(),
        pointer_steps: steps - pointers.steps_left(),
        incomplete: pointers.is_incomplete(),
    }
}

fn buffer_id(index: usize) -> BufferId {
    BufferId(u32::try_from(index).expect("a function has fewer than 2^32 buffers"))
}

struct Resolver<'a, 'p> {
    expansion: &'a Expansion<'p>,
    pointers: &'a Pointers<'a, 'p>,
    flow: &'a Flow<'a>,
    /// By frame: [`crate::program::Function::copied`].
    copied: Vec<Vec<bool>>,
    ids: BTreeMap<Slot, BufferId>,
    /// Buffers whose pointers code outside the program may find in memory.
    reachable: BTreeSet<BufferId>,
    /// Remaining steps for the current question (`frees`).
    steps: Cell<usize>,
}

impl Resolver<'_, '_> {
    fn buffers(&self) -> Vec<BufferFacts> {
        let mut shared: BTreeMap<Slot, ForeignBuffer> = BTreeMap::new();
        for (object, foreign) in self.pointers.shared_objects() {
            for slot in self.pointers.reach(&address_of(object)).0 {
                shared.entry(slot).or_insert_with(|| foreign.clone());
            }
        }
        let has_formal = self.ids.keys().any(|slot| matches!(self.outermost(slot.0), Object::Formal(_)));
        let beside = (0_u32..).map(FrameId).take(self.expansion.frames.len());
        let unsteady: BTreeSet<Slot> = beside
            .filter(|&frame| !self.expansion.is_spliced(frame))
            .flat_map(|frame| {
                self.expansion
                    .function(frame)
                    .actions
                    .iter()
                    .flat_map(move |a| self.overwritten(frame, &a.kind))
            })
            .collect();
        let places = self.places();
        let device_variables = ForeignBuffer::Global { name: "the device's variables".to_owned() };
        let facts = |(slot, &kind): (&Slot, &BufferKind)| BufferFacts {
            kind,
            shared: match kind {
                BufferKind::Symbols => Some(device_variables.clone()),
                _ => shared.get(slot).cloned(),
            },
            unsteady: unsteady.contains(slot) || !places.is_one_place(*slot),
            inherited: match self.outermost(slot.0) {
                Object::Formal(_) => true,
                Object::Global(_) => has_formal,
                _ => false,
            },
            aliases: self.buffers_of(&self.pointers.aliases(*slot).collect()),
        };
        self.pointers.slots().iter().map(facts).collect()
    }

    fn places(&self) -> Places<'_, '_> {
        Places { expansion: self.expansion, pointers: self.pointers, flow: self.flow }
    }

    fn reachable_from_outside(&self, reachable_globals: &[bool]) -> BTreeSet<BufferId> {
        let is_reachable = |object: ObjectId| match self.outermost(object) {
            Object::Global(global) => reachable_globals[global.index()],
            Object::Formal(_) => true,
            _ => false,
        };
        let objects = self.pointers.shared_objects().into_iter().map(|(object, _)| object);
        objects
            .filter(|&object| is_reachable(object))
            .flat_map(|object| self.pointers.reach(&address_of(object)).0)
            .filter_map(|slot| self.ids.get(&slot).copied())
            .collect()
    }

    fn outermost(&self, object: ObjectId) -> Object {
        match self.pointers.kind(object) {
            Object::Behind(inner, _) => self.outermost(inner),
            other => other,
        }
    }

    fn sites(&self, sizes: &mut Sizes<'_, '_>, frame: FrameId, action: &Action) -> Vec<Site> {
        let Some(at) = self.expansion.point(frame, action.at) else { return Vec::new() };
        let origin = SiteOrigin { function: self.expansion.frames[frame.index()].function, at: action.at };
        let kinds = self.kinds(sizes, frame, action);
        let site = |kind| Site { at, place: action.place.clone(), origin, kind };
        let buffers = self.buffers_of(&self.overwritten(frame, &action.kind).into_iter().collect());
        let overwrite = (!buffers.is_empty()).then_some(SiteKind::Overwrite { buffers });
        kinds.into_iter().chain(overwrite).map(site).collect()
    }

    /// Slots that an action writes other than by an allocation.
    fn overwritten(&self, frame: FrameId, kind: &ActionKind) -> Vec<Slot> {
        let (to, bytes) = match kind {
            ActionKind::Store { to, .. } => (to, Some(8)),
            ActionKind::Copy { to, .. } => (to, None),
            ActionKind::Write { to, bytes } => (to, *bytes),
            _ => return Vec::new(),
        };
        let places = addresses(self.pointers.targets(frame, *to));
        places.into_iter().flat_map(|place| self.pointers.covered(place, bytes)).collect()
    }

    /// Overwrites where a called function gets new variables and where host memory is allocated: slots in them start
    /// empty.
    fn new_variables(&self) -> Vec<Site> {
        let mut sites = Vec::new();
        for frame in (0_u32..).map(FrameId).take(self.expansion.frames.len()) {
            let function = self.expansion.function(frame);
            for (id, def) in (0_u32..).map(PointerId).zip(&function.pointers) {
                let entry = Point { block: BlockId(0), position: 0 };
                let made = match def {
                    PointerDef::Local | PointerDef::Copied(_) if frame != FrameId::ROOT => entry,
                    PointerDef::Fresh(at) => *at,
                    _ => continue,
                };
                let object = self.pointers.made_by(frame, id);
                let slots =
                    object.map(|object| self.pointers.covered((object, None), None)).unwrap_or_default();
                let buffers = self.buffers_of(&slots.into_iter().collect());
                if let (false, Some(at)) = (buffers.is_empty(), self.expansion.point(frame, made)) {
                    let function = self.expansion.frames[frame.index()].function;
                    let origin = SiteOrigin { function, at: made };
                    sites.push(Site { at, place: None, origin, kind: SiteKind::Overwrite { buffers } });
                }
            }
        }
        sites
    }

    fn kinds(&self, sizes: &mut Sizes<'_, '_>, frame: FrameId, action: &Action) -> Vec<SiteKind> {
        let targets = |pointer: &PointerId| self.pointers.targets(frame, *pointer);
        if let ActionKind::Allocate { into, .. } | ActionKind::Create { into } = &action.kind
            && targets(into).len() > 1
        {
            let places = addresses(targets(into)).into_iter().collect();
            let into = targets(into).iter().find_map(|target| self.foreign(target));
            let allocation = SiteKind::ForeignAllocation { into: into.unwrap_or(ForeignBuffer::Memory) };
            return [allocation].into_iter().chain(self.escape(&places, EscapeKind::Ambiguous)).collect();
        }
        let kind = match &action.kind {
            ActionKind::Allocate { call, into, size } => {
                let size = size.as_ref().and_then(|size| sizes.translate(frame, size));
                Some(self.allocation(targets(into), |buffer| (call.clone(), buffer, size)))
            }
            ActionKind::Create { into } => {
                let nothing = Some(crate::expr::Expr::Const { value: 0, bits: 64 });
                Some(self.allocation(targets(into), |buffer| ("a handle".to_owned(), buffer, nothing)))
            }
            ActionKind::Free { pointer } | ActionKind::Destroy { handle: pointer } => {
                self.free(frame, *pointer, action.at)
            }
            ActionKind::Use { call, operands } => self.access(frame, call, operands),
            ActionKind::WriteSymbol { operands } => return self.symbol_sites(frame, operands),
            ActionKind::Launch { kernel, operands, structs, geometry, .. } => {
                let Named { buffers, foreign } = self.launched(frame, operands, structs);
                let geometry = geometry.as_ref().and_then(|geometry| sizes.geometry(frame, geometry));
                Some(SiteKind::Launch { kernel: kernel.clone(), buffers, foreign, geometry })
            }
            ActionKind::BlindLaunch { .. } => Some(SiteKind::Launch {
                kernel: None,
                buffers: self.ids.values().copied().collect(),
                foreign: Some(ForeignBuffer::Memory),
                geometry: None,
            }),
            ActionKind::Opaque { callee, operands } => return self.opaque(frame, callee, operands),
            ActionKind::Store { value, to } | ActionKind::Copy { from: value, to } => {
                let is_unknown = |target: &Target| !matches!(target, Target::Address(_));
                let shown = targets(to).iter().any(is_unknown).then(|| targets(value));
                shown.and_then(|shown| self.escape(&self.pointers.reach(shown).0, EscapeKind::Stored))
            }
            ActionKind::Conceal { pointer } => {
                self.escape(&devices(targets(pointer)).collect(), EscapeKind::Stored)
            }
            ActionKind::Write { .. }
            | ActionKind::Call { .. }
            | ActionKind::Library { .. }
            | ActionKind::Keep { .. } => None,
        };
        kind.into_iter().collect()
    }

    fn allocation(
        &self,
        into: &Targets,
        site: impl FnOnce(BufferId) -> (String, BufferId, Option<crate::expr::Expr>),
    ) -> SiteKind {
        let slot = addresses(into).first().and_then(|slot| self.ids.get(slot)).filter(|_| into.len() == 1);
        match slot {
            Some(&buffer) => {
                let (call, buffer, size) = site(buffer);
                SiteKind::Allocation { call, buffer, size }
            }
            None => {
                let into = into.iter().find_map(|target| self.foreign(target));
                SiteKind::ForeignAllocation { into: into.unwrap_or(ForeignBuffer::Memory) }
            }
        }
    }

    /// Buffers among targets that are used as device pointers.
    fn named<'t>(&self, targets: impl IntoIterator<Item = &'t Target>) -> Named {
        let mut named = Named::default();
        for target in targets {
            match target {
                Target::Device { slot, .. } => named.buffers.extend(self.ids.get(slot)),
                other => named.foreign = named.foreign.or_else(|| self.foreign(other)),
            }
        }
        named.buffers.sort_unstable();
        named.buffers.dedup();
        named
    }

    /// Origin of a target that a kernel gets as a pointer; `None` for this function's own buffers and host memory.
    fn foreign(&self, target: &Target) -> Option<ForeignBuffer> {
        match target {
            Target::Foreign(foreign) => Some(foreign.clone()),
            Target::Address((object, _)) => match self.pointers.kind(*object) {
                // The address of the variable itself is a host address.
                Object::Global(_) => None,
                _ => self.pointers.foreign_of(*object),
            },
            Target::Device { .. } => None,
        }
    }

    fn launched(&self, frame: FrameId, operands: &[PointerId], structs: &[PointerId]) -> Named {
        let direct = operands.iter().flat_map(|&operand| self.pointers.targets(frame, operand));
        let inside: Targets =
            structs.iter().flat_map(|&at| self.pointers.inside(self.pointers.targets(frame, at))).collect();
        let mut named = self.named(direct.chain(&inside));
        if let Some((_, symbols)) = self.symbols() {
            named.buffers.push(symbols);
        } else if self.expansion.program.writes_symbols() {
            let name = "the device's variables".to_owned();
            named.foreign = named.foreign.or(Some(ForeignBuffer::Global { name }));
        }
        named
    }

    fn symbols(&self) -> Option<(Slot, BufferId)> {
        let all = self.pointers.slots().iter();
        let slot = all.filter(|(_, kind)| **kind == BufferKind::Symbols).map(|(slot, _)| *slot).next()?;
        Some((slot, *self.ids.get(&slot)?))
    }

    fn symbol_sites(&self, frame: FrameId, operands: &[PointerId]) -> Vec<SiteKind> {
        let Some((_, symbols)) = self.symbols() else { return Vec::new() };
        let size = Some(crate::expr::Expr::Const { value: 0, bits: 64 });
        let written = SiteKind::Allocation { call: "cudaMemcpyToSymbol".to_owned(), buffer: symbols, size };
        // Every kernel can use the pointers in the copied memory.
        let source: Targets =
            operands.iter().flat_map(|&operand| self.pointers.targets(frame, operand).clone()).collect();
        let mut buffers = self.buffers_of(&self.pointers.reach(&source).0);
        buffers.push(symbols);
        let call = "cudaMemcpyToSymbol".to_owned();
        vec![written, SiteKind::Access { call, buffers, joins: true }]
    }

    fn access(&self, frame: FrameId, call: &str, operands: &[PointerId]) -> Option<SiteKind> {
        let all = operands.iter().flat_map(|&operand| self.pointers.targets(frame, operand));
        let direct = self.named(all).buffers;
        let slots = operands.iter().flat_map(|&operand| devices(self.pointers.targets(frame, operand)));
        let is_handle = |slot: &Slot| self.pointers.slots().get(slot) == Some(&BufferKind::Handle);
        let mut joins = slots.into_iter().any(|slot| is_handle(&slot));
        let mut buffers = direct;
        // Kernels that get the copy can use the device pointers in the copied memory.
        if let (true, [to, from, ..]) = (call.starts_with("cudaMemcpy"), operands) {
            let is_upload = devices(self.pointers.targets(frame, *to)).next().is_some();
            let inside = self.pointers.reach(self.pointers.targets(frame, *from)).0;
            let is_deep = |target: &Target| matches!(target, Target::Address(_));
            if is_upload && self.pointers.targets(frame, *from).iter().any(is_deep) && !inside.is_empty() {
                buffers.extend(self.buffers_of(&inside));
                joins = true;
            }
        } else if let [only] = operands {
            buffers.extend(self.buffers_of(&self.pointers.reach(self.pointers.targets(frame, *only)).0));
        }
        buffers.sort_unstable();
        buffers.dedup();
        (!buffers.is_empty()).then(|| SiteKind::Access { call: call.to_owned(), buffers, joins })
    }

    fn opaque(&self, frame: FrameId, callee: &str, operands: &[PointerId]) -> Vec<SiteKind> {
        let given: Targets =
            operands.iter().flat_map(|&operand| self.pointers.targets(frame, operand).clone()).collect();
        let given = self.pointers.reach(&given).0;
        let callee = callee.to_owned();
        let found = self.reachable.iter().copied().filter(|b| !self.buffers_of(&given).contains(b)).collect();
        let reached =
            SiteKind::Escape { buffers: found, kind: EscapeKind::Reachable { callee: callee.clone() } };
        let given = self.escape(&given, EscapeKind::Call { callee });
        given.into_iter().chain(Some(reached).filter(|site| !site.buffers().is_empty())).collect()
    }

    fn returns(&self) -> Vec<Site> {
        let root = self.expansion.function(FrameId::ROOT);
        let function = self.expansion.frames[FrameId::ROOT.index()].function;
        let site = |&(at, value): &(Point, PointerId)| {
            let reach = self.pointers.reach(self.pointers.targets(FrameId::ROOT, value)).0;
            let kind = self.escape(&reach, EscapeKind::Returned)?;
            let point = self.expansion.point(FrameId::ROOT, at)?;
            Some(Site { at: point, place: None, origin: SiteOrigin { function, at }, kind })
        };
        root.returns.iter().filter_map(site).collect()
    }

    fn buffers_of(&self, slots: &BTreeSet<Slot>) -> Vec<BufferId> {
        slots.iter().filter_map(|slot| self.ids.get(slot).copied()).collect()
    }

    fn escape(&self, slots: &BTreeSet<Slot>, kind: EscapeKind) -> Option<SiteKind> {
        let buffers = self.buffers_of(slots);
        (!buffers.is_empty()).then_some(SiteKind::Escape { buffers, kind })
    }
}

fn address_of(object: ObjectId) -> Targets {
    Targets::from([Target::Address((object, Some(0)))])
}

fn devices(targets: &Targets) -> impl Iterator<Item = Slot> + '_ {
    targets.iter().filter_map(|target| match target {
        Target::Device { slot, .. } => Some(*slot),
        _ => None,
    })
}
