//! Numbers that depend on the lane alone, such as the source lanes of a transpose: `(lane & 7) * 4 + lane / 8`.
//!
//! They are computed at compile time for each of the 32 lanes. Trap: of a thread's x only the low five bits are known,
//! and these are its lane only in a warp whose 32 threads are in one row that begins at a multiple of 32.

use super::unroll::compare;
use crate::fission::INDEX;
use crate::llvm::{Opcode, Value};
use crate::pure;

/// Limit on the steps that a value is traced through.
const DEPTH_MAX: u32 = 12;
const LANES: u32 = 32;

/// The low five bits of `value` for each lane, if they are the same in all warps.
pub(crate) fn low_bits_by_lane(value: Value, function: Value) -> Option<Vec<u32>> {
    (0..LANES).map(|lane| Some(of_lane(value, function, lane, DEPTH_MAX)?.number as u32 % LANES)).collect()
}

#[derive(Clone, Copy)]
struct Known {
    number: u64,
    /// All bits are known, not only the lowest five.
    exact: bool,
}

fn of_lane(value: Value, function: Value, lane: u32, depth: u32) -> Option<Known> {
    let bits = value.ty().integer_bits().filter(|&bits| bits <= 64)?;
    let cut = |number: u64| number & (u64::MAX >> (64 - bits));
    if let Some(number) = value.constant_integer() {
        return Some(Known { number: cut(number), exact: true });
    }
    let params = function.params();
    if value == params[INDEX as usize] {
        return Some(Known { number: lane.into(), exact: true });
    }
    let is_x = value.is_instruction()
        && value.opcode() == Some(Opcode::LLVMCall)
        && pure::index_call(value) == Some(0);
    if value == params[1] || is_x {
        return Some(Known { number: lane.into(), exact: false });
    }
    if depth == 0 || !value.is_instruction() {
        return None;
    }
    let of = |index: u32| of_lane(value.operand(index), function, lane, depth - 1);
    let exactly = |index: u32| of(index).filter(|known| known.exact).map(|known| known.number);
    let both = |compute: fn(u64, u64) -> u64| {
        let (one, other) = (of(0)?, of(1)?);
        Some(Known { number: cut(compute(one.number, other.number)), exact: one.exact && other.exact })
    };
    let exact = |number: u64| Some(Known { number: cut(number), exact: true });
    match value.opcode()? {
        Opcode::LLVMAdd => both(u64::wrapping_add),
        Opcode::LLVMSub => both(u64::wrapping_sub),
        Opcode::LLVMMul => both(u64::wrapping_mul),
        Opcode::LLVMOr => both(|one, other| one | other),
        Opcode::LLVMXor => both(|one, other| one ^ other),
        Opcode::LLVMAnd => {
            let (one, other) = (of(0)?, of(1)?);
            let is_short = |known: Known| known.exact && known.number < LANES.into();
            let exact = one.exact && other.exact || is_short(one) || is_short(other);
            Some(Known { number: one.number & other.number, exact })
        }
        Opcode::LLVMShl => {
            let (one, by) = (of(0)?, exactly(1).filter(|&by| by < bits.into())?);
            Some(Known { number: cut(one.number << by), exact: one.exact })
        }
        Opcode::LLVMLShr => exact(exactly(0)? >> exactly(1).filter(|&by| by < bits.into())?),
        Opcode::LLVMAShr => {
            let by = exactly(1).filter(|&by| by < bits.into())?;
            exact((signed(exactly(0)?, bits) >> by).cast_unsigned())
        }
        Opcode::LLVMTrunc if bits >= 5 => of(0).map(|known| Known { number: cut(known.number), ..known }),
        Opcode::LLVMZExt | Opcode::LLVMFreeze => of(0),
        Opcode::LLVMSExt => {
            let (from, known) = (value.operand(0).ty().integer_bits()?, of(0)?);
            Some(Known { number: cut(signed(known.number, from).cast_unsigned()), ..known })
        }
        Opcode::LLVMSelect => of(if exactly(0)? & 1 == 1 { 1 } else { 2 }),
        Opcode::LLVMICmp => {
            let from = value.operand(0).ty().integer_bits().filter(|&from| from <= 64)?;
            exact(compare(value.predicate(), exactly(0)?, exactly(1)?, from).into())
        }
        _ => None,
    }
}

fn signed(number: u64, bits: u32) -> i64 {
    (number << (64 - bits)).cast_signed() >> (64 - bits)
}
