//! Strict mode: inserts a call before each access that reports its address, kind and source line.
//!
//! Trap: the flags are those of eager-exec's `abi` (`ACCESS_…`, `access_class`), and the test below keeps them in step.

use crate::instrument::{Access, Bytes, Instrument};
use crate::llvm::{Builder, Machine, Opcode, Value};
use crate::places;
use crate::provenance::{Memory, origin};

const READS: u64 = 1;
const WRITES: u64 = 2;
const COPIES: u64 = 4;
const OF_OBJECT: u64 = 8;
const OF_DYNAMIC: u64 = 16;
const VOLATILE: u64 = 32;
const CLASS_SHIFT: u32 = 8;
const ALIGN_SHIFT: u32 = 16;
/// The largest access of a GPU's thread, and so the largest alignment that matters.
const ALIGN_MAX: u32 = 16;

/// Origin of an address.
enum Object<'m> {
    /// A variable or array of this many bytes.
    Sized(Value<'m>, u64),
    /// The dynamic part of shared memory.
    Dynamic(Value<'m>),
    Pointer(Value<'m>),
    Unknown,
}

/// Inserts the check before `instruction`, unless the access is known to be valid.
pub(crate) fn check(instrument: &Instrument, instruction: Value, access: &Access, memory: Memory) {
    let object = object_of(access.address, instrument);
    if is_right(access, memory, &object, instrument) {
        return;
    }
    let context = instrument.context;
    let builder = context.builder();
    builder.before(instruction);
    let (i32, i64, ptr) = (context.int_type(32), context.int_type(64), context.ptr_type(0));
    let bytes = match access.bytes {
        Bytes::Known(bytes) => i64.constant(bytes),
        Bytes::Computed(bytes) => builder.cast_integer(bytes, i64),
    };
    let (base, base_bytes, of) = match object {
        Object::Sized(base, bytes) => (generic(&builder, base, instrument), bytes, OF_OBJECT),
        Object::Dynamic(base) => (generic(&builder, base, instrument), 0, OF_OBJECT | OF_DYNAMIC),
        Object::Pointer(base) => (generic(&builder, base, instrument), 0, 0),
        Object::Unknown => (ptr.null(), 0, 0),
    };
    let flags = of | way(instruction, access) | class(memory) << CLASS_SHIFT | align(instruction, access);
    let place = places::noted(context, instruction)
        .map_or(ptr.null(), |place| places::constant(context, instrument.module, &place));
    let [x, y, z] = instrument.thread.index;
    builder.call(
        instrument.helper("eager.check"),
        &[
            instrument.thread.block_context,
            x,
            y,
            z,
            generic(&builder, access.address, instrument),
            bytes,
            base,
            i64.constant(base_bytes),
            place,
            i32.constant(flags),
        ],
    );
}

fn generic<'m>(builder: &Builder<'m>, address: Value<'m>, instrument: &Instrument<'m>) -> Value<'m> {
    builder.address_space_cast(address, instrument.context.ptr_type(0))
}

fn object_of<'m>(address: Value<'m>, instrument: &Instrument<'m>) -> Object<'m> {
    let Some(base) = origin(address) else { return Object::Unknown };
    if base.is_global_variable() {
        return match base.initializer() {
            Some(_) => Object::Sized(base, instrument.machine.size_of(base.value_type())),
            None => Object::Dynamic(base),
        };
    }
    match base.opcode() {
        Some(Opcode::LLVMAlloca) => {
            slot_bytes(base, instrument.machine).map_or(Object::Unknown, |bytes| Object::Sized(base, bytes))
        }
        _ if base.is_constant() => Object::Unknown,
        _ => Object::Pointer(base),
    }
}

/// Size of a stack slot in bytes, if known.
fn slot_bytes(slot: Value, machine: &Machine) -> Option<u64> {
    slot.operand(0).constant_integer().map(|count| count * machine.size_of(slot.allocated_type()))
}

/// True if the access cannot be wrong: it starts at its object, lies inside, needs no initialized value, and no other
/// thread uses the object.
fn is_right(access: &Access, memory: Memory, object: &Object, instrument: &Instrument) -> bool {
    match (object, access.bytes) {
        (Object::Sized(base, size), Bytes::Known(bytes)) => {
            matches!(memory, Memory::Private | Memory::Constant) && access.address == *base && bytes <= *size
        }
        // A parameter passed by value: the launch checks its size.
        (Object::Pointer(base), _) => memory == Memory::Private && instrument.known.private.contains(base),
        _ => false,
    }
}

fn way(instruction: Value, access: &Access) -> u64 {
    let copies = access.reads && !access.writes && instruction.opcode() == Some(Opcode::LLVMCall);
    let single = matches!(instruction.opcode(), Some(Opcode::LLVMLoad | Opcode::LLVMStore));
    let volatile = single && (instruction.is_volatile() || instruction.is_atomic());
    u64::from(volatile) * VOLATILE
        + u64::from(access.reads) * READS
        + u64::from(access.writes) * WRITES
        + u64::from(copies) * COPIES
}

fn class(memory: Memory) -> u64 {
    match memory {
        Memory::Global | Memory::Constant => 0,
        Memory::Shared => 1,
        Memory::Private => 2,
    }
}

/// Alignment that a GPU requires, shifted into place for the flags.
fn align(instruction: Value, access: &Access) -> u64 {
    let (Bytes::Known(bytes), false) = (access.bytes, instruction.opcode() == Some(Opcode::LLVMCall)) else {
        return 0;
    };
    let size = u32::try_from(bytes).unwrap_or(ALIGN_MAX).max(1).next_power_of_two();
    let align = instruction.alignment().max(1).min(size).min(ALIGN_MAX);
    u64::from(align.ilog2()) << ALIGN_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_exec::abi;

    #[test]
    fn flags_are_those_of_the_binary_interface() {
        let ours = [READS, WRITES, COPIES, OF_OBJECT, OF_DYNAMIC, VOLATILE];
        let theirs = [
            abi::ACCESS_READS,
            abi::ACCESS_WRITES,
            abi::ACCESS_COPIES,
            abi::ACCESS_OF_OBJECT,
            abi::ACCESS_OF_DYNAMIC,
            abi::ACCESS_VOLATILE,
        ];
        assert_eq!(ours, theirs.map(u64::from));
        assert_eq!([CLASS_SHIFT, ALIGN_SHIFT], [abi::access_class::SHIFT, abi::access_class::ALIGN_SHIFT]);
        let classes = [Memory::Global, Memory::Shared, Memory::Private].map(class);
        let names = [abi::access_class::ANY, abi::access_class::SHARED, abi::access_class::LOCAL];
        assert_eq!(classes, names.map(u64::from));
    }
}
