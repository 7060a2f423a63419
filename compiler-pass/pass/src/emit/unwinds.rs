//! Ends tasks where an exception leaves the function: calls that may throw get a landing pad that ends the active tasks
//! and resumes the exception.
//!
//! Without an exception this costs nothing at run time. Trap: a call becomes an invoke at the end of its block and the
//! old call is deleted, so this must run after everything else that is emitted into the function.

use std::collections::BTreeMap;

use crate::llvm_sys::core::*;
use crate::llvm_sys::prelude::*;
use eager_tasks::{Point, StaticTask};

use super::constants::{Constants, c_name};
use crate::ir::{Block, Value};
use crate::read::function::Reading;

unsafe extern "C" {
    fn eager_invoke(call: LLVMValueRef, unwind: LLVMBasicBlockRef);
}

/// Announcements of a landing pad: sites that end, each with whether all-launched comes first.
type Announced = Vec<(u64, bool)>;

/// Emits the ends of one function's static tasks for exceptions that leave it.
pub fn emit_unwinds(constants: Constants<'_>, reading: &Reading<'_>, tasks: &[(u64, &StaticTask)]) {
    let mut by_call: BTreeMap<Point, Announced> = BTreeMap::new();
    for (site, task) in tasks {
        for unwind in &task.unwinds {
            by_call.entry(unwind.call).or_default().push((*site, unwind.all_launched));
        }
    }
    let mut pads: BTreeMap<Announced, Block<'_>> = BTreeMap::new();
    for (point, announced) in by_call {
        let call = reading.instructions[point.block.index()][point.position as usize];
        let Some(function) = call.block().and_then(Block::function) else { continue };
        let known = pads.get(&announced).copied();
        let Some(pad) = known.or_else(|| landing_pad(constants, function, &announced)) else { continue };
        pads.insert(announced, pad);
        // SAFETY: the call is a plain call of this function (the reader checked), and the pad is a landing pad in it.
        unsafe { eager_invoke(call.raw(), pad.raw()) };
    }
}

fn landing_pad<'m>(
    constants: Constants<'m>,
    function: Value<'m>,
    announced: &Announced,
) -> Option<Block<'m>> {
    let context = constants.module().context();
    // SAFETY: the function is a live definition of the module; the builder is disposed of, and is in the new block.
    unsafe {
        if LLVMHasPersonalityFn(function.raw()) == 0 {
            LLVMSetPersonalityFn(function.raw(), personality(constants));
        }
        let block = LLVMAppendBasicBlockInContext(context, function.raw(), c"eager.unwind".as_ptr());
        let builder = LLVMCreateBuilderInContext(context);
        LLVMPositionBuilderAtEnd(builder, block);
        let mut fields = [constants.pointer(), constants.int(32)];
        let caught = LLVMStructTypeInContext(context, fields.as_mut_ptr(), 2, 0);
        let pad = LLVMBuildLandingPad(builder, caught, std::ptr::null_mut(), 0, c"".as_ptr());
        LLVMSetCleanup(pad, 1);
        for &(site, all_launched) in announced {
            let launched = all_launched.then_some(eager_abi::ALL_LAUNCHED);
            for name in launched.into_iter().chain([eager_abi::TASK_END]) {
                let (ty, callee) = constants.declare(name, &mut [constants.int(64)]);
                LLVMBuildCall2(builder, ty, callee, [constants.u64(site)].as_mut_ptr(), 1, c"".as_ptr());
            }
        }
        LLVMBuildResume(builder, pad);
        LLVMDisposeBuilder(builder);
        Block::from_raw(block)
    }
}

/// The personality function of the C++ runtime, with which every program that throws is linked.
fn personality(constants: Constants<'_>) -> LLVMValueRef {
    const NAME: &str = "__gxx_personality_v0";
    if let Some(known) = constants.module().function(NAME) {
        return known.raw();
    }
    let name = c_name(NAME);
    // SAFETY: the module is live, and has no function of this name (looked up above); the type takes any arguments.
    unsafe {
        let ty = LLVMFunctionType(constants.int(32), std::ptr::null_mut(), 0, 1);
        LLVMAddFunction(constants.module().raw(), name.as_ptr(), ty)
    }
}
