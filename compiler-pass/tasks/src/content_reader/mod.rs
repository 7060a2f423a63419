//! Derives [`Contents`] from an expanded function and its pointers.
//!
//! Reads every action, also of functions outside the graph, because a pointer may be hidden in any of them. Trap: an
//! empty set of targets means that nothing is known of the pointer, so it may be any buffer's. Only a pointer that the
//! program sets to null names no buffer.

mod captures;

use std::collections::{BTreeMap, BTreeSet};

use crate::contents::{AliveReason, ContentUse, Contents};
use crate::expand::Expansion;
use crate::facts::BufferKind;
use crate::names::{BufferId, ForeignBuffer, FrameId, Place, Point, PointerId};
use crate::pointers::{Object, ObjectId, Pointers, Slot, Target, Targets, addresses};
use crate::program::{Action, ActionKind, PointerDef};

/// Allocations whose memory can be reached only through the pointer that they write.
const FOLLOWED: &[&str] = &[
    "cudaMalloc",
    "cudaMalloc3D",
    "cudaMallocAsync",
    "cudaMallocAsync_ptsz",
    "cudaMallocFromPoolAsync",
    "cudaMallocFromPoolAsync_ptsz",
    "cudaMallocPitch",
];
/// Name prefixes of calls that use their operands and keep no pointer. Every other call may keep its operands.
const KEEP_NOTHING: &[&str] = &[
    "cudaMemcpy",
    "cudaMemset",
    "cudaMemPrefetch",
    "cudaMemAdvise",
    "cudaPointerGetAttributes",
    "cudaFreeHost",
];
/// Functions that can return twice, so that code may run again without a loop in the graph.
const RETURN_TWICE: &[&str] =
    &["_setjmp", "__sigsetjmp", "getcontext", "savectx", "setjmp", "sigsetjmp", "swapcontext", "vfork"];

/// Buffers that the pointers of one call may name.
#[derive(Clone, Debug, Default)]
struct Named {
    direct: BTreeSet<Slot>,
    /// Buffers whose pointers lie in memory that can be reached from the operands.
    deep: BTreeSet<Slot>,
    /// An operand may name any buffer.
    anything: bool,
    /// An operand may hold what the caller's memory held before, which can only be a buffer that code outside this
    /// function knows.
    foreign: bool,
}

impl Named {
    fn add(&mut self, other: Named) {
        self.direct.extend(other.direct);
        self.deep.extend(other.deep);
        self.anything |= other.anything;
        self.foreign |= other.foreign;
    }

    fn slots(&self) -> BTreeSet<Slot> {
        self.direct.union(&self.deep).copied().collect()
    }
}

/// A call that uses contents, recorded before the pointers in device memory are known.
struct RawUse {
    at: Option<Point>,
    place: Option<Place>,
    named: Named,
    /// A copy whose target is not a buffer.
    leaves_device: bool,
}

/// Collects the contents of one function.
struct Reader<'a, 'p> {
    expansion: &'a Expansion<'p>,
    pointers: &'a Pointers<'a, 'p>,
    ids: &'a BTreeMap<Slot, BufferId>,
    uses: Vec<RawUse>,
    kept: BTreeMap<BufferId, (AliveReason, Option<Place>)>,
    /// Device memory that holds pointers to buffers, by the buffer that holds them.
    holds: BTreeMap<Slot, BTreeSet<Slot>>,
}

/// Reads the contents of one function. `reachable`: buffers that code outside the program may find in memory.
#[must_use]
pub fn contents<'a>(
    expansion: &'a Expansion<'_>,
    pointers: &'a Pointers<'a, '_>,
    ids: &'a BTreeMap<Slot, BufferId>,
    reachable: &BTreeSet<BufferId>,
) -> Contents {
    let mut reader =
        Reader { expansion, pointers, ids, uses: Vec::new(), kept: BTreeMap::new(), holds: BTreeMap::new() };
    if pointers.is_exhausted() {
        reader.keep_all(&AliveReason::TooManyPointers, None);
    }
    for frame in (0_u32..).map(FrameId).take(expansion.frames.len()) {
        for action in &expansion.function(frame).actions {
            reader.read(frame, action);
        }
    }
    for &(_, value) in &expansion.function(FrameId::ROOT).returns {
        let slots = pointers.reach(pointers.targets(FrameId::ROOT, value)).0;
        reader.keep(&slots, &AliveReason::Returned, None);
    }
    reader.keep_reachable(reachable);
    reader.spread_held();
    let captures = reader.captures();
    let (uses, indirect) = reader.resolved_uses();
    Contents { uses, kept: reader.kept, indirect, captures }
}

impl Reader<'_, '_> {
    fn keep(&mut self, slots: &BTreeSet<Slot>, reason: &AliveReason, place: Option<&Place>) {
        for slot in slots {
            if let Some(&buffer) = self.ids.get(slot) {
                self.kept.entry(buffer).or_insert_with(|| (reason.clone(), place.cloned()));
            }
        }
    }

    fn keep_all(&mut self, reason: &AliveReason, place: Option<&Place>) {
        let all = self.ids.keys().copied().collect();
        self.keep(&all, reason, place);
    }

    fn keep_reachable(&mut self, reachable: &BTreeSet<BufferId>) {
        let shared = self.pointers.shared_objects();
        for (&slot, &buffer) in self.ids {
            if reachable.contains(&buffer) {
                let own = self.pointers.foreign_of(slot.0);
                let holders = shared.iter().filter(|(object, _)| {
                    self.pointers
                        .reach(&Targets::from([Target::Address((*object, Some(0)))]))
                        .0
                        .contains(&slot)
                });
                let holder = own.or_else(|| holders.map(|(_, holder)| holder.clone()).next());
                let reason = AliveReason::Reachable { holder: holder.unwrap_or(ForeignBuffer::Memory) };
                self.kept.entry(buffer).or_insert((reason, None));
            }
        }
    }

    fn read(&mut self, frame: FrameId, action: &Action) {
        let place = action.place.as_ref();
        match &action.kind {
            ActionKind::Allocate { call, into, .. } => {
                let targets = self.pointers.targets(frame, *into);
                let slots = addresses(targets).into_iter().collect();
                if !FOLLOWED.contains(&call.as_str()) {
                    self.keep(&slots, &AliveReason::AllocatedBy { call: call.clone() }, place);
                }
                if targets.len() > 1 {
                    self.keep(&slots, &AliveReason::Stored, place);
                }
            }
            ActionKind::Use { call, operands } => self.read_use(frame, action, call, operands),
            ActionKind::WriteSymbol { operands } => self.read_symbol(frame, action, operands),
            ActionKind::Launch { .. } | ActionKind::BlindLaunch { .. } => self.read_launch(frame, action),
            ActionKind::Opaque { callee, operands } => {
                if RETURN_TWICE.contains(&callee.as_str()) {
                    self.keep_all(&AliveReason::Jump { callee: callee.clone() }, place);
                }
                self.give(frame, callee, operands, place);
            }
            ActionKind::Keep { call, operands } => self.give(frame, call, operands, place),
            ActionKind::Store { value: from, to } | ActionKind::Copy { from, to } => {
                let to = self.pointers.targets(frame, *to);
                if to.is_empty() || to.iter().any(|target| !matches!(target, Target::Address(_))) {
                    let stored = self.pointers.reach(self.pointers.targets(frame, *from)).0;
                    self.keep(&stored, &AliveReason::Stored, place);
                }
            }
            ActionKind::Conceal { pointer } => {
                let hidden = devices(self.pointers.targets(frame, *pointer));
                self.keep(&hidden, &AliveReason::Stored, place);
            }
            ActionKind::Create { .. }
            | ActionKind::Free { .. }
            | ActionKind::Destroy { .. }
            | ActionKind::Write { .. }
            | ActionKind::Call { .. }
            | ActionKind::Library { .. } => {}
        }
    }

    /// Keeps alive the buffers that `callee` gets. An unknown pointer may be that of any buffer, if the program hides
    /// pointers at all.
    fn give(&mut self, frame: FrameId, callee: &str, operands: &[PointerId], place: Option<&Place>) {
        let named = self.named(frame, operands);
        let reason = AliveReason::GivenTo { callee: callee.to_owned() };
        self.keep(&named.slots(), &reason, place);
        if named.anything && self.hides_pointers() {
            self.keep_all(&reason, place);
        }
    }

    /// Whether the program converts a pointer to a number anywhere, from which a pointer could be recovered.
    fn hides_pointers(&self) -> bool {
        let mut frames = (0_u32..).map(FrameId).take(self.expansion.frames.len());
        frames.any(|frame| {
            let actions = &self.expansion.function(frame).actions;
            actions.iter().any(|action| matches!(action.kind, ActionKind::Conceal { .. }))
        })
    }

    fn read_use(&mut self, frame: FrameId, action: &Action, call: &str, operands: &[PointerId]) {
        let place = action.place.as_ref();
        if call.contains("BeginCapture") {
            self.keep_all(&AliveReason::Graph, place);
        }
        let named = self.named(frame, operands);
        // Batched calls take their buffers' addresses from an array in memory.
        if !KEEP_NOTHING.iter().any(|start| call.starts_with(start)) || call.contains("Batch") {
            self.keep(&named.slots(), &AliveReason::GivenTo { callee: call.to_owned() }, place);
        }
        // A copy to a buffer also puts the pointers in the copied memory into that buffer.
        for &holder in &named.direct {
            self.holds.entry(holder).or_default().extend(&named.deep);
        }
        if named.anything || named.foreign {
            self.keep(&named.deep, &AliveReason::Stored, place);
        }
        let target = operands.first().map(|&to| self.named(frame, &[to]));
        let leaves_device = target.is_some_and(|to| to.direct.is_empty() || to.anything || to.foreign);
        self.add_use(frame, action, named, leaves_device);
    }

    /// Treats a write of a device variable as storing the pointers there: every kernel may use device variables.
    fn read_symbol(&mut self, frame: FrameId, action: &Action, operands: &[PointerId]) {
        let named = self.named(frame, operands);
        if let Some(symbols) = self.symbols() {
            let held = named.slots();
            self.holds.entry(symbols).or_default().extend(held);
        }
        self.add_use(frame, action, named, true);
    }

    fn read_launch(&mut self, frame: FrameId, action: &Action) {
        let mut named = Named::default();
        let (kernel, keeps) = match &action.kind {
            ActionKind::Launch { kernel, operands, structs, keeps_pointers, .. } => {
                named = self.named(frame, operands);
                for &at in structs {
                    named.add(self.inside(frame, at));
                }
                (kernel.clone(), *keeps_pointers)
            }
            _ => {
                named.anything = true;
                (None, true)
            }
        };
        named.direct.extend(self.symbols());
        if keeps {
            let kept = if named.anything { self.ids.keys().copied().collect() } else { named.slots() };
            self.keep(&kept, &AliveReason::KeptByKernel { kernel }, action.place.as_ref());
        }
        self.add_use(frame, action, named, false);
    }

    fn add_use(&mut self, frame: FrameId, action: &Action, named: Named, leaves_device: bool) {
        let at = self.expansion.point(frame, action.at);
        self.uses.push(RawUse { at, place: action.place.clone(), named, leaves_device });
    }

    fn named(&self, frame: FrameId, operands: &[PointerId]) -> Named {
        let mut all = Named::default();
        for &operand in operands {
            let targets = self.pointers.targets(frame, operand);
            let mut named = self.of_targets(targets);
            named.anything |= targets.is_empty() && !self.is_null(frame, operand);
            all.add(named);
        }
        all
    }

    /// Buffers whose pointers are in the struct at an address.
    fn inside(&self, frame: FrameId, at: PointerId) -> Named {
        let targets = self.pointers.targets(frame, at);
        let mut named = self.of_targets(&self.pointers.inside(targets));
        named.direct.extend(self.of_targets(targets).deep);
        named.anything |= targets.is_empty();
        named
    }

    fn of_targets(&self, targets: &Targets) -> Named {
        let direct = devices(targets);
        let (reached, objects) = self.pointers.reach(targets);
        let is_unknown =
            |foreign: &ForeignBuffer| matches!(foreign, ForeignBuffer::Memory | ForeignBuffer::CallResult);
        let holds_unknown = self.pointers.stored_in(&objects).any(|target| match target {
            Target::Foreign(foreign) => is_unknown(foreign),
            _ => false,
        });
        let from_before =
            |object: ObjectId| matches!(self.pointers.kind(object), Object::Formal(_) | Object::Behind(..));
        let mut named = Named {
            deep: reached.difference(&direct).copied().collect(),
            direct,
            anything: holds_unknown,
            foreign: false,
        };
        for target in targets {
            match target {
                Target::Foreign(foreign) if is_unknown(foreign) => named.anything = true,
                Target::Foreign(_) => named.foreign = true,
                Target::Address((object, _)) => named.foreign |= from_before(*object),
                Target::Device { .. } => {}
            }
        }
        named
    }

    fn is_null(&self, frame: FrameId, pointer: PointerId) -> bool {
        let function = self.expansion.function(frame);
        let is_nothing = |id: PointerId| *function.pointer(id) == PointerDef::Nothing;
        match function.pointer(pointer) {
            PointerDef::Nothing => true,
            PointerDef::Choice(all) => all.iter().all(|&one| is_nothing(one)),
            _ => false,
        }
    }

    fn symbols(&self) -> Option<Slot> {
        let all = self.pointers.slots().iter();
        all.filter(|(_, kind)| **kind == BufferKind::Symbols).map(|(slot, _)| *slot).next()
    }

    /// Spreads held pointers among all buffers that one call names: the call may copy contents, pointers included,
    /// between them.
    fn spread_held(&mut self) {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for used in &self.uses {
                let held = self.held(&used.named.direct);
                for holder in used.named.direct.iter().filter(|_| !held.is_empty()) {
                    let known = self.holds.entry(*holder).or_default();
                    let before = known.len();
                    known.extend(&held);
                    changed |= known.len() != before;
                }
            }
        }
        let lost: Vec<_> = self
            .uses
            .iter()
            .filter(|used| used.leaves_device || used.named.anything || used.named.foreign)
            .map(|used| (self.held(&used.named.direct), used.place.clone()))
            .collect();
        for (held, place) in lost {
            self.keep(&held, &AliveReason::Stored, place.as_ref());
        }
        self.keep_what_kept_buffers_hold();
    }

    /// Keeps alive every buffer whose pointer lies in a buffer that is kept alive or shared.
    fn keep_what_kept_buffers_hold(&mut self) {
        let shared = self.shared();
        loop {
            let is_kept =
                |slot: &Slot| self.ids.get(slot).is_some_and(|buffer| self.kept.contains_key(buffer));
            let holders = self.holds.keys().filter(|slot| is_kept(slot) || shared.contains(slot)).copied();
            let held = self.held(&holders.collect());
            let before = self.kept.len();
            self.keep(&held, &AliveReason::Stored, None);
            if self.kept.len() == before {
                return;
            }
        }
    }

    /// Buffers whose pointers may exist before or after the function. None for `main`, which runs once.
    fn shared(&self) -> BTreeSet<Slot> {
        let is_main = self.expansion.function(FrameId::ROOT).name == "main";
        let objects = self.pointers.shared_objects().into_iter().filter(|_| !is_main);
        let reach = |(object, _)| self.pointers.reach(&Targets::from([Target::Address((object, Some(0)))])).0;
        objects.flat_map(reach).collect()
    }

    fn held(&self, holders: &BTreeSet<Slot>) -> BTreeSet<Slot> {
        holders.iter().filter_map(|holder| self.holds.get(holder)).flatten().copied().collect()
    }

    /// Resolves the recorded uses to buffers. Also returns the buffers that some call uses without being given a
    /// pointer to them.
    fn resolved_uses(&self) -> (Vec<ContentUse>, BTreeSet<BufferId>) {
        let is_memory = |slot: &Slot| self.pointers.slots().get(slot) == Some(&BufferKind::Memory);
        let shared = self.shared();
        let (mut uses, mut indirect) = (Vec::new(), BTreeSet::new());
        for used in &self.uses {
            let Some(at) = used.at else { continue };
            let mut slots = used.named.slots();
            slots.extend(self.held(&used.named.direct));
            if used.named.anything {
                slots.extend(self.ids.keys());
            }
            // One location in the caller's memory may have several names.
            let is_caller_memory = |slot: &Slot| matches!(self.outermost(slot.0), Object::Formal(_));
            if used.named.foreign || slots.iter().any(is_caller_memory) {
                slots.extend(&shared);
            }
            let buffers: Vec<_> = slots.iter().filter(|s| is_memory(s)).map(|slot| self.ids[slot]).collect();
            let is_indirect = |slot: &&Slot| is_memory(slot) && !used.named.direct.contains(slot);
            indirect.extend(slots.iter().filter(is_indirect).map(|slot| self.ids[slot]));
            if !buffers.is_empty() {
                uses.push(ContentUse { at, place: used.place.clone(), buffers });
            }
        }
        uses.sort_by_key(|used| used.at);
        (uses, indirect)
    }

    fn outermost(&self, object: ObjectId) -> Object {
        match self.pointers.kind(object) {
            Object::Behind(inner, _) => self.outermost(inner),
            other => other,
        }
    }
}

fn devices(targets: &Targets) -> BTreeSet<Slot> {
    let device = |target: &Target| match target {
        Target::Device { slot, .. } => Some(*slot),
        _ => None,
    };
    targets.iter().filter_map(device).collect()
}
