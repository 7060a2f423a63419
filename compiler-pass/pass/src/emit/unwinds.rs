//! Ends tasks where an exception leaves the function: calls that may throw get a landing pad that ends the active tasks
//! and resumes the exception.
//!
//! Without an exception this costs nothing at run time. Trap: a call becomes an invoke at the end of its block and the
//! old call is deleted, so this must run after everything else that is emitted into the function.

use std::collections::BTreeMap;

use eager_llvm::{Block, Type, Value};
use eager_tasks::{Point, StaticTask};

use super::constants::Constants;
use crate::read::function::Reading;

/// Announcements of a landing pad: sites that end, each with whether all-launched comes first.
type Announced = Vec<(u64, bool)>;

/// Emits the ends of one function's static tasks for exceptions that leave it.
pub fn emit_unwinds<'m>(constants: Constants<'m>, reading: &Reading<'m>, tasks: &[(u64, &StaticTask)]) {
    let mut by_call: BTreeMap<Point, Announced> = BTreeMap::new();
    for (site, task) in tasks {
        for unwind in &task.unwinds {
            by_call.entry(unwind.call).or_default().push((*site, unwind.all_launched));
        }
    }
    let mut pads: BTreeMap<Announced, Block<'m>> = BTreeMap::new();
    for (point, announced) in by_call {
        let call = reading.instructions[point.block.index()][point.position as usize];
        let function = call.parent().function();
        let known = pads.get(&announced).copied();
        let pad = known.unwrap_or_else(|| landing_pad(constants, function, &announced));
        pads.insert(announced, pad);
        call.make_invoke(pad);
    }
}

fn landing_pad<'m>(constants: Constants<'m>, function: Value<'m>, announced: &Announced) -> Block<'m> {
    let context = constants.module().context();
    if !function.has_personality() {
        function.set_personality(personality(constants));
    }
    let block = context.append_block(function, "eager.unwind");
    let builder = context.builder();
    builder.at_end(block);
    let caught = context.structure_type(&[constants.pointer(), constants.int(32)], false);
    let pad = builder.cleanup_pad(caught);
    for &(site, all_launched) in announced {
        let launched = all_launched.then_some(eager_abi::ALL_LAUNCHED);
        for name in launched.into_iter().chain([eager_abi::TASK_END]) {
            let (ty, callee) = constants.declare(name, &[constants.int(64)]);
            builder.call_as(ty, callee, &[constants.u64(site)]);
        }
    }
    builder.resume(pad);
    block
}

/// The personality function of the C++ runtime, with which every program that throws is linked. It takes any arguments.
fn personality<'m>(constants: Constants<'m>) -> Value<'m> {
    constants.declare_type("__gxx_personality_v0", Type::variadic_function(constants.int(32), &[])).1
}
