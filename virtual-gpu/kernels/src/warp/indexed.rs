//! Local arrays whose index has few possible values, such as `a[lane & 4 ? k : k | 4]`: a step of a transpose by
//! shuffles. Each access becomes one of every possible element, and a choice, so that the array can become values.
//!
//! A value that is in registers, and beside those of the other lanes, is faster than an element of a lane's own array.
//! Trap: an access out of the array's bounds has no meaning, so an index may be taken to be inside.

use std::collections::BTreeMap;

use crate::llvm::{Builder, LLVMIntPredicate, Opcode, Value};
use crate::thread::Lowering;

/// Limit on the bits of an index that are not known; each of them doubles the accesses.
const BITS_MAX: u32 = 3;
/// Limit on the added accesses of a kernel.
const ACCESSES_MAX: usize = 512;
const DEPTH_MAX: u32 = 8;

/// Resolves such accesses in all arrays of `kernel` of which no other use remains; returns whether there are any.
pub(crate) fn resolve(lowering: Lowering, kernel: Value) -> bool {
    let slots = kernel.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMAlloca));
    let (mut changed, mut accesses) = (false, 0);
    for slot in slots.collect::<Vec<_>>() {
        let Some(addresses) = addresses(lowering, slot) else { continue };
        let added = |(address, bits): (&Value, &Bits)| address.users().len() << bits.open.count_ones();
        accesses += addresses.iter().map(added).sum::<usize>();
        if accesses > ACCESSES_MAX {
            break;
        }
        for (address, bits) in addresses {
            address.users().into_iter().for_each(|user| resolve_access(lowering, slot, address, bits, user));
            address.erase();
            changed = true;
        }
    }
    changed
}

/// What is known of an integer: bits that are not open have the values in `number`.
#[derive(Clone, Copy)]
struct Bits {
    number: u64,
    open: u64,
}

/// Addresses in `slot` with an index that has few values; `None` if it has another use that keeps it an array.
fn addresses<'m>(lowering: Lowering<'m>, slot: Value<'m>) -> Option<BTreeMap<Value<'m>, Bits>> {
    let mut found = BTreeMap::new();
    let mut open = slot.users();
    while let Some(user) = open.pop() {
        match user.opcode()? {
            Opcode::LLVMAddrSpaceCast => open.extend(user.users()),
            Opcode::LLVMGetElementPtr => {
                let last = user.operands().len() - 1;
                let index = user.operand(last as u32);
                if !user.operands()[1..last].iter().all(|operand| operand.is_constant())
                    || !user.users().into_iter().all(|access| is_access(access, user))
                {
                    return None;
                }
                if !index.is_constant() {
                    let bits = bits_of(index, DEPTH_MAX)?;
                    let few = bits.open.count_ones() <= BITS_MAX;
                    if !few || !is_inside(lowering, slot, user, bits.number | bits.open) {
                        return None;
                    }
                    found.insert(user, bits);
                }
            }
            Opcode::LLVMCall if user.callee()?.name().starts_with("llvm.lifetime.") => {}
            // Of the first element, or of a cast of the address that is not looked at.
            Opcode::LLVMLoad | Opcode::LLVMStore => {}
            _ => return None,
        }
    }
    Some(found).filter(|found| !found.is_empty())
}

fn is_access(access: Value, address: Value) -> bool {
    match access.opcode() {
        Some(Opcode::LLVMLoad) => !access.is_volatile(),
        Some(Opcode::LLVMStore) => access.operand(0) != address && !access.is_volatile(),
        _ => false,
    }
}

/// True if the element with this index is in the slot.
fn is_inside(lowering: Lowering, slot: Value, address: Value, index: u64) -> bool {
    let [all, source] = [slot.allocated_type(), address.gep_source()].map(|ty| lowering.machine.size_of(ty));
    match address.operands().len() {
        // An element of an array, whose first index is 0.
        3 => {
            let element = address.gep_source().element();
            address.operand(1).constant_integer() == Some(0)
                && source <= all
                && (index + 1) * lowering.machine.size_of(element) <= source
        }
        2 => {
            let widest =
                address.users().into_iter().map(|access| lowering.machine.size_of(accessed(access))).max();
            index * source + widest.unwrap_or(0) <= all
        }
        _ => false,
    }
}

fn accessed(access: Value) -> crate::llvm::Type {
    if access.opcode() == Some(Opcode::LLVMLoad) { access.ty() } else { access.operand(0).ty() }
}

fn resolve_access<'m>(
    lowering: Lowering<'m>,
    slot: Value<'m>,
    address: Value<'m>,
    bits: Bits,
    access: Value<'m>,
) {
    let builder = lowering.context.builder();
    builder.before(access);
    let last = address.operands().len() - 1;
    let index = address.operand(last as u32);
    let base = address.operand(0);
    debug_assert!(base == slot || base.opcode() == Some(Opcode::LLVMAddrSpaceCast));
    let numbers = (0..=bits.open).filter(|number| number & !bits.open == 0).map(|open| bits.number | open);
    let elements: Vec<(u64, Value)> = numbers
        .map(|number| {
            let mut operands = address.operands();
            operands[last] = index.ty().constant(number);
            (number, builder.gep(address.gep_source(), &operands))
        })
        .collect();
    let is = |builder: &Builder<'m>, number: u64| {
        builder.compare(LLVMIntPredicate::LLVMIntEQ, index, index.ty().constant(number))
    };
    let ty = accessed(access);
    if access.opcode() == Some(Opcode::LLVMLoad) {
        let mut value = builder.load(ty, elements[0].1);
        for &(number, element) in &elements[1..] {
            let other = builder.load(ty, element);
            value = builder.select(is(&builder, number), other, value);
        }
        access.replace_uses_with(value);
    } else {
        for &(number, element) in &elements {
            let old = builder.load(ty, element);
            let new = builder.select(is(&builder, number), access.operand(0), old);
            builder.store(new, element);
        }
    }
    access.erase();
}

/// The bits of `value` that are the same however it is computed.
fn bits_of(value: Value, depth: u32) -> Option<Bits> {
    let width = value.ty().integer_bits().filter(|&width| width <= 64)?;
    let all = u64::MAX >> (64 - width);
    if let Some(number) = value.constant_integer() {
        return Some(Bits { number: number & all, open: 0 });
    }
    let any = Some(Bits { number: 0, open: all });
    if depth == 0 || !value.is_instruction() {
        return any;
    }
    let of = |index: u32| bits_of(value.operand(index), depth - 1);
    let by = || value.operand(1).constant_integer().filter(|&by| by < width.into());
    // Bits that may be 1.
    let most = |bits: Bits| bits.number | bits.open;
    match value.opcode()? {
        Opcode::LLVMAnd => {
            let (one, other) = (of(0)?, of(1)?);
            let (number, most) = (one.number & other.number, most(one) & most(other));
            Some(Bits { number, open: most & !number })
        }
        Opcode::LLVMOr => {
            let (one, other) = (of(0)?, of(1)?);
            let number = one.number | other.number;
            Some(Bits { number, open: (one.open | other.open) & !number })
        }
        Opcode::LLVMXor => {
            let (one, other) = (of(0)?, of(1)?);
            let open = one.open | other.open;
            Some(Bits { number: (one.number ^ other.number) & !open, open })
        }
        Opcode::LLVMShl => match by() {
            Some(by) => {
                of(0).map(|bits| Bits { number: bits.number << by & all, open: bits.open << by & all })
            }
            None => any,
        },
        Opcode::LLVMLShr => match by() {
            Some(by) => of(0).map(|bits| Bits { number: bits.number >> by, open: bits.open >> by }),
            None => any,
        },
        Opcode::LLVMTrunc => of(0).map(|bits| Bits { number: bits.number & all, open: bits.open & all }),
        Opcode::LLVMZExt | Opcode::LLVMFreeze => of(0),
        Opcode::LLVMSExt => {
            let from = value.operand(0).ty().integer_bits()?;
            let sign = 1 << (from - 1);
            of(0).map(|bits| if most(bits) & sign == 0 { bits } else { Bits { number: 0, open: all } })
        }
        Opcode::LLVMSelect => {
            let (one, other) = (of(1)?, of(2)?);
            let open = one.open | other.open | (one.number ^ other.number);
            Some(Bits { number: one.number & !open, open })
        }
        _ => any,
    }
}
