//! Which kind of memory an address leads to.
//!
//! Trap: unknown means global. A pointer loaded from memory or passed as an argument may lead anywhere, and an access
//! that is recorded for nothing only marks the touch map's "outside" entry, while one that is missed would be a kernel
//! with too small a footprint.

use std::collections::BTreeSet;

use crate::import::{CONSTANT, LOCAL, SHARED};
use crate::llvm::{Opcode, Value};

/// An address that comes from more values may lead anywhere: each access asks, so that this bounds the square of them.
const VALUES_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A thread's own: local variables, parameters.
    Private,
    /// The block's shared memory.
    Shared,
    /// `__constant__` variables.
    Constant,
    /// Device memory, or not known.
    Global,
}

/// Addresses whose memory their type no longer tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownAddresses<'a> {
    /// Parameters passed by value.
    pub private: &'a [Value],
    /// `__constant__` variables.
    pub constant: &'a [Value],
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

/// Whether an address is seen to lead to shared memory, if only sometimes.
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

/// The one value that an address is computed from, whichever way control went; nothing where there are several.
pub(crate) fn origin(address: Value) -> Option<Value> {
    walk(address, |value| computed_from(value).map_or(Step::Found(value), Step::From))
}

enum Step<T> {
    Found(T),
    /// The address is one of these, or lies in the same object.
    From(Vec<Value>),
}

/// What is found wherever an address may come from, if that is one thing.
fn walk<T: PartialEq>(address: Value, step: impl Fn(Value) -> Step<T>) -> Option<T> {
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

/// What an address is one of, or lies in the same object as; nothing where it begins.
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

/// The memory that an address is seen to lead to without looking at what it is computed from.
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
