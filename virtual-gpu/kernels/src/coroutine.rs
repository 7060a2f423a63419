//! Turns a thread's code into an LLVM coroutine that suspends at every barrier.
//!
//! The block function resumes all threads of the block in rounds; a thread that has returned stays done. That is
//! exactly CUDA's barrier since Volta: it waits for the threads that have not exited, whichever `__syncthreads` they
//! are at. (LLVM, "Coroutines in LLVM", switched-resume lowering.) Trap: only this loop may resume a suspended thread,
//! and its frame lies in the arena that `eager.frame` allocates from, so nothing is ever destroyed or freed.

use crate::llvm::{Block, Opcode, Split, Value};
use crate::runtime::{helper, is_barrier_call};
use crate::suspend;
use crate::thread::{Form, Lowering, Thread};

/// The blocks of a coroutine to which suspension points branch.
struct Ends<'m> {
    suspended: Block<'m>,
    cleanup: Block<'m>,
}

pub(crate) fn suspend_at_barriers(
    lowering: Lowering,
    function: Value,
    thread: Thread,
    counters: Value,
    prologue: Block,
    form: Form,
) {
    function.add_attribute("presplitcoroutine");
    let handle = begin(lowering, thread, prologue);
    let ends = add_ends(lowering, function, handle);
    let builder = lowering.context.builder();
    // LLVM takes one final suspension only, so all returns lead to it.
    let finished = lowering.context.append_block(function, "finished");
    finish_at(lowering, finished, thread, counters, &ends);
    for instruction in function.instructions() {
        let call = instruction.opcode() == Some(Opcode::LLVMCall);
        if is_barrier_call(instruction) || call && suspend::is_marker(instruction) {
            suspend_at(lowering, instruction, thread, counters, &ends);
        } else if instruction.opcode() == Some(Opcode::LLVMRet) && instruction.parent() != ends.suspended {
            if form == Form::Scheduled {
                let [x, y, z] = thread.index;
                let exited = helper(lowering.module, "eager.exited");
                builder.before(instruction).call(exited, &[thread.block_context, x, y, z]);
            }
            let block = instruction.parent();
            instruction.erase();
            builder.at_end(block);
            builder.branch(finished);
        }
    }
}

/// Allocates a frame at the end of the prologue; returns the coroutine's handle.
fn begin<'m>(lowering: Lowering<'m>, thread: Thread<'m>, prologue: Block<'m>) -> Value<'m> {
    let (module, context) = (lowering.module, lowering.context);
    let null = context.ptr_type(0).null();
    let builder = context.builder();
    builder.before(prologue.terminator());
    let align = context.int_type(32).constant(0);
    let id = builder.call(module.intrinsic("llvm.coro.id", &[]), &[align, null, null, null]);
    let size = builder.call(module.intrinsic("llvm.coro.size", &[context.int_type(64)]), &[]);
    let [x, y, z] = thread.index;
    let frame =
        builder.call(helper(module, "eager.frame"), &[thread.block_context, x, y, z, size, thread.out]);
    builder.call(module.intrinsic("llvm.coro.begin", &[]), &[id, frame])
}

fn add_ends<'m>(lowering: Lowering<'m>, function: Value<'m>, handle: Value<'m>) -> Ends<'m> {
    let (module, context) = (lowering.module, lowering.context);
    let builder = context.builder();
    let suspended = context.append_block(function, "suspended");
    let cleanup = context.append_block(function, "cleanup");
    builder.at_end(cleanup).branch(suspended);
    builder.at_end(suspended);
    let unwinding = context.int_type(1).constant(0);
    builder.call(module.intrinsic("llvm.coro.end", &[]), &[handle, unwinding, context.token_none()]);
    builder.return_value(handle);
    Ends { suspended, cleanup }
}

fn suspend_at(lowering: Lowering, barrier: Value, thread: Thread, counters: Value, ends: &Ends) {
    let builder = lowering.context.builder();
    let Split { head, tail: resumed } = builder.split_before(barrier, "resumed");
    barrier.erase();
    builder.at_end(head);
    // Counters are flushed before the thread suspends, so that they need no place in its frame.
    builder.call(helper(lowering.module, "eager.flush"), &[counters, thread.out]);
    let last = lowering.context.int_type(1).constant(0);
    let suspend = lowering.module.intrinsic("llvm.coro.suspend", &[]);
    let state = builder.call(suspend, &[lowering.context.token_none(), last]);
    builder.switch(state, ends.suspended, &[(0, resumed), (1, ends.cleanup)]);
}

/// Ends a thread in `block`, which is empty.
fn finish_at(lowering: Lowering, block: Block, thread: Thread, counters: Value, ends: &Ends) {
    let builder = lowering.context.builder();
    builder.at_end(block);
    builder.call(helper(lowering.module, "eager.flush"), &[counters, thread.out]);
    let last = lowering.context.int_type(1).constant(1);
    let suspend = lowering.module.intrinsic("llvm.coro.suspend", &[]);
    let state = builder.call(suspend, &[lowering.context.token_none(), last]);
    builder.switch(state, ends.suspended, &[(1, ends.cleanup)]);
}
