//! Strict mode: reports events that order threads and that no executor sees: barriers of the whole block, and fences.
//!
//! A thread reports a barrier when it continues after it; in every form all threads stop at the barrier before any
//! continues.

use crate::instrument::Instrument;
use crate::llvm::{Opcode, Value};
use crate::places;
use crate::runtime::{is_barrier_call, is_syncthreads};

const EVENT_SHIFT: u32 = 24;
const BARRIER: u64 = 1;
const FENCE: u64 = 2;
/// Flags of the report that threads wait at the block's barrier in two places.
pub(crate) const PARTED: u64 = 3 << EVENT_SHIFT;

/// Inserts the report after `instruction` if it orders threads.
pub(crate) fn report_order(instrument: &Instrument, instruction: Value) {
    let event = match () {
        () if is_barrier_call(instruction) => BARRIER,
        () if is_fence(instruction) => FENCE,
        () => return,
    };
    let context = instrument.context;
    let builder = context.builder();
    builder.before(instruction.next_instruction());
    let (i32, i64, none) = (context.int_type(32), context.int_type(64), context.ptr_type(0).null());
    let [x, y, z] = instrument.thread.index;
    let (zero, flags) = (i64.constant(0), i32.constant(event << EVENT_SHIFT));
    // With its place a barrier is compared with those of other threads.
    let compared = event == BARRIER && is_syncthreads(instruction);
    let place = places::noted(context, instruction)
        .filter(|_| compared)
        .map_or(none, |place| places::constant(context, instrument.module, &place));
    builder.call(
        instrument.helper("eager.check"),
        &[instrument.thread.block_context, x, y, z, none, zero, none, zero, place, flags],
    );
}

fn is_fence(instruction: Value) -> bool {
    match instruction.opcode() {
        Some(Opcode::LLVMFence) => true,
        Some(Opcode::LLVMCall) => instruction.callee().is_some_and(|callee| {
            let name = callee.name();
            name.starts_with("llvm.nvvm.membar.") || name.starts_with("llvm.nvvm.fence.")
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_exec::abi::access_class;

    #[test]
    fn events_are_those_of_the_binary_interface() {
        assert_eq!(EVENT_SHIFT, access_class::EVENT_SHIFT);
        let theirs = [access_class::EVENT_BARRIER, access_class::EVENT_FENCE];
        assert_eq!([BARRIER, FENCE], theirs.map(u64::from));
        assert_eq!(PARTED >> EVENT_SHIFT, u64::from(access_class::EVENT_PARTED));
    }
}
