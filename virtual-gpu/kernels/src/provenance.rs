//! Which kind of memory an address leads to.
//!
//! Trap: unknown means global. A pointer loaded from memory or passed as an argument may lead anywhere, and an access
//! that is recorded for nothing only marks the touch map's "outside" entry, while one that is missed would be a kernel
//! with too small a footprint.

use std::collections::BTreeSet;

use crate::import::{CONSTANT, LOCAL, SHARED};
use crate::llvm::{Opcode, Value};

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
    let mut seen = BTreeSet::new();
    let mut found = None;
    let mut open = vec![address];
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        let memory = match source(value, known) {
            Source::Known(memory) => memory,
            Source::From(values) => {
                open.extend(values);
                continue;
            }
        };
        match found {
            None => found = Some(memory),
            Some(same) if same == memory => {}
            Some(_) => return Memory::Global,
        }
    }
    found.unwrap_or(Memory::Global)
}

/// The one value that an address is computed from, whichever way control went; nothing where there are several.
pub(crate) fn origin(address: Value) -> Option<Value> {
    let mut seen = BTreeSet::new();
    let mut found = None;
    let mut open = vec![address];
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        match computed_from(value) {
            Some(values) => open.extend(values),
            None if found.is_some() => return None,
            None => found = Some(value),
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

enum Source {
    Known(Memory),
    /// The address is one of these, or lies in the same object.
    From(Vec<Value>),
}

fn source(value: Value, known: KnownAddresses) -> Source {
    if known.private.contains(&value) {
        return Source::Known(Memory::Private);
    }
    if known.constant.contains(&value) {
        return Source::Known(Memory::Constant);
    }
    match value.ty().pointer_address_space() {
        SHARED => return Source::Known(Memory::Shared),
        CONSTANT => return Source::Known(Memory::Constant),
        LOCAL => return Source::Known(Memory::Private),
        _ => {}
    }
    if value.opcode() == Some(Opcode::LLVMAlloca) {
        return Source::Known(Memory::Private);
    }
    computed_from(value).map_or(Source::Known(Memory::Global), Source::From)
}
