//! Determines the kind of memory that an address points to.
//!
//! Trap: unknown must mean global. A pointer loaded from memory or passed as an argument may point anywhere. An access
//! recorded needlessly only marks the touch map's "outside" entry, while a missed access makes a kernel's footprint too
//! small.

use std::collections::BTreeSet;

use crate::import::{CONSTANT, LOCAL, SHARED};
use crate::llvm::{Opcode, Value};

/// Limit on the values that an address is traced through; beyond it, it may point anywhere. Every access is traced, so
/// this bounds quadratic time.
const VALUES_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Memory of a single thread: local variables, parameters.
    Private,
    /// The block's shared memory.
    Shared,
    /// `__constant__` variables.
    Constant,
    /// Device memory, or unknown.
    Global,
}

/// Addresses whose type does not show their memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownAddresses<'a> {
    /// Parameters passed by value.
    pub private: &'a [Value<'a>],
    /// `__constant__` variables.
    pub constant: &'a [Value<'a>],
}

pub(crate) fn memory_of(address: Value, known: KnownAddresses) -> Memory {
    walk(address, |value| {
        let memory = memory_at(value, known);
        match computed_from(value) {
            Some(values) if memory.is_none() => Step::From(values),
            _ => Step::Found(memory.unwrap_or(Memory::Global)),
        }
    })
    .unwrap_or(Memory::Global)
}

/// True if an address may point to shared memory on some path.
pub(crate) fn may_be_shared(address: Value, known: KnownAddresses) -> bool {
    let found = std::cell::Cell::new(false);
    walk(address, |value| match memory_at(value, known) {
        Some(memory) => {
            found.set(found.get() || memory == Memory::Shared);
            Step::Found(())
        }
        None => computed_from(value).map_or(Step::Found(()), Step::From),
    });
    found.get()
}

/// The single value that an address is computed from on every path; `None` if there are several.
pub(crate) fn origin(address: Value) -> Option<Value> {
    walk(address, |value| computed_from(value).map_or(Step::Found(value), Step::From))
}

enum Step<'m, T> {
    Found(T),
    /// The address is one of these, or points into the same object.
    From(Vec<Value<'m>>),
}

/// Traces an address to all its origins; returns what `step` finds there, if it is the same for all.
fn walk<'m, T: PartialEq>(address: Value<'m>, step: impl Fn(Value<'m>) -> Step<'m, T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    let mut found = None;
    let mut open = vec![address];
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        if seen.len() > VALUES_MAX {
            return None;
        }
        match step(value) {
            Step::From(values) => open.extend(values),
            Step::Found(this) if found.as_ref().is_none_or(|other| *other == this) => found = Some(this),
            Step::Found(_) => return None,
        }
    }
    found
}

/// Values that an address equals, or shares an object with; `None` if it starts there.
fn computed_from(value: Value) -> Option<Vec<Value>> {
    match value.opcode()? {
        Opcode::LLVMGetElementPtr | Opcode::LLVMAddrSpaceCast | Opcode::LLVMBitCast => {
            Some(vec![value.operand(0)])
        }
        Opcode::LLVMPHI => Some(value.incoming().into_iter().map(|(v, _)| v).collect()),
        Opcode::LLVMSelect => Some(vec![value.operand(1), value.operand(2)]),
        _ => None,
    }
}

/// Memory of an address that is evident without tracing it.
fn memory_at(value: Value, known: KnownAddresses) -> Option<Memory> {
    if known.private.contains(&value) {
        return Some(Memory::Private);
    }
    if known.constant.contains(&value) {
        return Some(Memory::Constant);
    }
    match value.ty().pointer_address_space() {
        SHARED => Some(Memory::Shared),
        CONSTANT => Some(Memory::Constant),
        LOCAL => Some(Memory::Private),
        _ => (value.opcode() == Some(Opcode::LLVMAlloca)).then_some(Memory::Private),
    }
}
