//! The slots of a function that hold device pointers, and which of them may hold each other's.
//!
//! A slot is a constant place in a local (a variable, a struct field, an array element) that `cudaMalloc` fills. Each is
//! one buffer. Trap: once a device pointer is stored into a local by hand (a swap, a struct for the kernel), a load from
//! it may give any pointer that went in, so all buffers involved become one alias class.

use std::collections::{BTreeMap, BTreeSet};

use eager_tasks::{BufferFacts, BufferId, ForeignBuffer};

use super::trace::{Base, Origin, origins};
use crate::ir::{Module, Value};

/// A local that holds device pointers, by the order of first sight.
type LocalId = usize;

/// The slots and locals of one function.
#[derive(Debug)]
pub struct Slots<'m> {
    module: Module<'m>,
    locals: Vec<Value<'m>>,
    /// Joined locals, as a forest.
    parents: Vec<LocalId>,
    /// Locals into which pointers are stored by hand or copied.
    written: BTreeSet<LocalId>,
    /// Locals that may hold a pointer this function did not allocate.
    foreign: BTreeMap<LocalId, ForeignBuffer>,
    /// `None`: somewhere in the local.
    buffers: Vec<(LocalId, Option<i64>)>,
}

/// Which buffers a pointer may point to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointees {
    pub buffers: Vec<BufferId>,
    /// It is exactly the pointer in the one slot.
    pub exact: bool,
    pub foreign: Option<ForeignBuffer>,
}

impl<'m> Slots<'m> {
    #[must_use]
    pub fn new(module: Module<'m>) -> Self {
        Self {
            module,
            locals: Vec::new(),
            parents: Vec::new(),
            written: BTreeSet::new(),
            foreign: BTreeMap::new(),
            buffers: Vec::new(),
        }
    }

    fn local(&mut self, value: Value<'m>) -> LocalId {
        self.locals.iter().position(|&known| known == value).unwrap_or_else(|| {
            self.locals.push(value);
            self.parents.push(self.parents.len());
            self.parents.len() - 1
        })
    }

    fn known_local(&self, value: Value<'m>) -> Option<LocalId> {
        self.locals.iter().position(|&known| known == value)
    }

    fn root(&self, mut local: LocalId) -> LocalId {
        while self.parents[local] != local {
            local = self.parents[local];
        }
        local
    }

    fn join(&mut self, a: LocalId, b: LocalId) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }

    /// Records an allocation through `address`; the buffer, or what foreign memory it goes to.
    ///
    /// # Errors
    /// The memory is not one local of this function.
    pub fn allocate(&mut self, address: Value<'m>) -> Result<BufferId, ForeignBuffer> {
        let found: Vec<_> = origins(self.module, address).into_iter().collect();
        let [Origin::Address { base: Base::Local(object), offset }] = found[..] else {
            return Err(found.first().map_or(ForeignBuffer::Memory, |&origin| foreign_of(origin)));
        };
        let local = self.local(object);
        let index = self.buffers.iter().position(|&slot| slot == (local, offset)).unwrap_or_else(|| {
            self.buffers.push((local, offset));
            self.buffers.len() - 1
        });
        Ok(buffer_id(index))
    }

    /// Records that `value` is written to `address`; true if that shows a device pointer to others.
    pub fn store(&mut self, value: Value<'m>, address: Value<'m>) -> bool {
        let values: Vec<_> = origins(self.module, value).into_iter().collect();
        if values.is_empty() {
            return false;
        }
        let mut escapes = false;
        for target in origins(self.module, address) {
            match target {
                Origin::Address { base: Base::Local(object), .. } => self.store_local(&values, object),
                _ => escapes |= values.iter().any(|&value| self.may_be_buffer(value)),
            }
        }
        escapes
    }

    fn store_local(&mut self, values: &[Origin<'m>], object: Value<'m>) {
        let target = self.local(object);
        self.written.insert(target);
        for &value in values {
            match value {
                Origin::Content { base: Base::Local(source), .. } => {
                    let source = self.local(source);
                    self.join(source, target);
                }
                // A host address in a local is no device pointer.
                Origin::Address { base: Base::Local(_) | Base::Global(_), .. } => {}
                other => {
                    self.foreign.entry(target).or_insert_with(|| foreign_of(other));
                }
            }
        }
    }

    /// Records a block copy between two addresses; true if it shows a device pointer to others.
    pub fn copy(&mut self, to: Value<'m>, from: Value<'m>) -> bool {
        let sources = origins(self.module, from);
        let mut escapes = false;
        for target in origins(self.module, to) {
            for &source in &sources {
                match (target, source) {
                    (
                        Origin::Address { base: Base::Local(to), .. },
                        Origin::Address { base: Base::Local(from), .. },
                    ) => {
                        let (to, from) = (self.local(to), self.local(from));
                        self.written.insert(to);
                        self.join(to, from);
                    }
                    (Origin::Address { base: Base::Local(to), .. }, other) => {
                        let to = self.local(to);
                        self.written.insert(to);
                        self.foreign.entry(to).or_insert_with(|| foreign_of(other));
                    }
                    (_, Origin::Address { base: Base::Local(from), .. }) => {
                        escapes |= self.holds_buffers(from)
                    }
                    _ => {}
                }
            }
        }
        escapes
    }

    fn may_be_buffer(&self, origin: Origin<'m>) -> bool {
        matches!(origin, Origin::Content { base: Base::Local(object), .. } if self.holds_buffers(object))
    }

    /// Whether a local may hold a pointer to a buffer.
    #[must_use]
    pub fn holds_buffers(&self, object: Value<'m>) -> bool {
        self.known_local(object).is_some_and(|local| !self.buffers_in(local).is_empty())
    }

    fn buffers_in(&self, local: LocalId) -> Vec<BufferId> {
        let root = self.root(local);
        let in_class = |&(_, &(owner, _)): &(usize, &(LocalId, Option<i64>))| self.root(owner) == root;
        self.buffers.iter().enumerate().filter(in_class).map(|(index, _)| buffer_id(index)).collect()
    }

    /// What a pointer may point to, once all stores are recorded.
    #[must_use]
    pub fn pointees(&self, pointer: Value<'m>) -> Pointees {
        let all = origins(self.module, pointer);
        let mut found = Pointees { exact: all.len() == 1, ..Pointees::default() };
        for origin in all {
            match origin {
                Origin::Content { base: Base::Local(object), offset, moved } => {
                    self.add_content(&mut found, object, offset, moved);
                }
                Origin::Address { base: Base::Local(_) | Base::Global(_), .. } => found.exact = false,
                other => {
                    found.foreign.get_or_insert_with(|| foreign_of(other));
                }
            }
        }
        found.buffers.sort_unstable();
        found.buffers.dedup();
        found.exact &= found.buffers.len() == 1 && found.foreign.is_none();
        found
    }

    fn add_content(&self, found: &mut Pointees, object: Value<'m>, offset: Option<i64>, moved: bool) {
        let Some(local) = self.known_local(object) else {
            found.foreign.get_or_insert(ForeignBuffer::Memory);
            return;
        };
        let slot = self.buffers.iter().position(|&slot| offset.is_some() && slot == (local, offset));
        match slot {
            Some(index) if !self.written.contains(&local) => {
                found.buffers.push(buffer_id(index));
                found.exact &= !moved;
            }
            _ => {
                found.exact = false;
                self.add_local(found, local);
            }
        }
    }

    fn add_local(&self, found: &mut Pointees, local: LocalId) {
        let buffers = self.buffers_in(local);
        let root = self.root(local);
        let foreign =
            self.foreign.iter().find(|&(&holder, _)| self.root(holder) == root).map(|(_, what)| what.clone());
        let unknown = buffers.is_empty().then_some(ForeignBuffer::Memory);
        if let Some(foreign) = foreign.or(unknown) {
            found.foreign.get_or_insert(foreign);
        }
        found.buffers.extend(buffers);
    }

    /// What the pointers inside a local may point to: for kernel parameters passed by value.
    #[must_use]
    pub fn pointees_inside(&self, address: Value<'m>) -> Pointees {
        let mut found = Pointees::default();
        for origin in origins(self.module, address) {
            match origin {
                Origin::Address { base: Base::Local(object), .. } => match self.known_local(object) {
                    Some(local) => self.add_local(&mut found, local),
                    None => found.foreign = Some(ForeignBuffer::Memory),
                },
                other => found.foreign = Some(foreign_of(other)),
            }
        }
        found
    }

    /// The buffers whose slots lie in the local that an address points into.
    #[must_use]
    pub fn buffers_at(&self, address: Value<'m>) -> Vec<BufferId> {
        let all = origins(self.module, address);
        let local = |origin| match origin {
            Origin::Address { base: Base::Local(object), .. } => self.known_local(object),
            _ => None,
        };
        all.into_iter().filter_map(local).flat_map(|local| self.buffers_in(local)).collect()
    }

    #[must_use]
    pub fn buffer_count(&self) -> usize {
        self.buffers.len()
    }

    /// The buffers with their alias classes: one class per group of joined locals if pointers move by hand in it.
    #[must_use]
    pub fn facts(&self) -> Vec<BufferFacts> {
        let mixed = |local: LocalId| {
            let root = self.root(local);
            let by_hand = self.written.iter().any(|&written| self.root(written) == root);
            by_hand || self.buffers.iter().any(|&(owner, offset)| owner == local && offset.is_none())
        };
        let class = |(index, &(local, _)): (usize, &(LocalId, Option<i64>))| {
            let class = if mixed(local) { self.root(local) } else { self.locals.len() + index };
            BufferFacts { alias_class: u32::try_from(class).unwrap_or(u32::MAX) }
        };
        self.buffers.iter().enumerate().map(class).collect()
    }
}

fn buffer_id(index: usize) -> BufferId {
    BufferId(u32::try_from(index).expect("a function has fewer than 2^32 buffers"))
}

fn foreign_of(origin: Origin<'_>) -> ForeignBuffer {
    let (Origin::Address { base, .. } | Origin::Content { base, .. }) = origin;
    match base {
        Base::Argument(_) => ForeignBuffer::Argument,
        Base::Global(global) => ForeignBuffer::Global { name: global.name() },
        Base::CallResult(_) => ForeignBuffer::CallResult,
        Base::Local(_) | Base::Elsewhere => ForeignBuffer::Memory,
    }
}
