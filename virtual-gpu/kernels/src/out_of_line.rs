//! Functions that are not inlined: those whose address is taken (function tables, virtual functions) and recursive
//! ones. Everything else is inlined into the kernels.
//!
//! They keep their own parameters, so that a pointer to one is called like any other; they read their thread from a
//! thread-local record that the kernel fills before the call. Their code lies in a section of its own. A call through a
//! pointer that leads elsewhere goes to address 0, so that no host function or data runs as device code. Trap: such a
//! function cannot wait. If it waits at a barrier or a warp operation, it is inlined, behind a comparison, at every
//! call through a pointer that may mean it; if it also calls itself, it is rejected.

use std::collections::{BTreeMap, BTreeSet};

use crate::body::{add_counters, place_shared_memory, replace_device_calls, shared_variables, static_shared};
use crate::instrument::{Instrument, instrument};
use crate::llvm::{Block, Context, Module, Opcode, Split, Value};
use crate::provenance::KnownAddresses;
use crate::runtime::{Runtime, helper, is_barrier_call};
use crate::shared;
use crate::thread::{Form, Lowering, Thread};

/// The record's layout is that of `eager.thread` in `runtime.ll`.
const OUT: u64 = 8;
const DYNAMIC: u64 = 16;
const INDEX: u64 = 24;
const MARKS: u64 = 36;
/// A C identifier, so that the linker defines symbols for the section's start and end.
const SECTION: &str = "eager_device_code";

/// Static shared memory of functions that are not inlined: at the same place in every kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout<'m> {
    pub offsets: Vec<(Value<'m>, u64)>,
    pub bytes: u64,
}

/// Runs before inlining: names waiting functions in the indirect calls that may mean them, and keeps recursive
/// functions from being inlined.
pub(crate) fn prepare(context: Context, module: &Module, runtime: &Runtime) {
    let defined = || module.functions().into_iter().filter(|f| !f.is_declaration());
    let taken: Vec<Value> = defined().filter(|f| is_address_taken(*f)).collect();
    if !taken.is_empty() {
        let waiting = waiting(&defined().collect::<Vec<_>>(), &taken, runtime);
        let targets: Vec<Value> = taken.into_iter().filter(|f| waiting.contains(f)).collect();
        for function in defined().filter(|_| !targets.is_empty()).collect::<Vec<_>>() {
            for call in function.instructions().into_iter().filter(is_indirect) {
                name_targets(context, call, &targets);
            }
        }
    }
    for function in cycles(&defined().collect::<Vec<_>>()) {
        function.remove_attribute("alwaysinline");
        function.add_attribute("noinline");
    }
}

/// True for a call through a pointer.
pub(crate) fn is_indirect(instruction: &Value) -> bool {
    let call = instruction.opcode() == Some(Opcode::LLVMCall) && instruction.callee().is_none();
    call && instruction.called_value().assembly().is_none()
}

/// True if a function is used other than by being called.
pub(crate) fn is_address_taken(function: Value) -> bool {
    function.users().into_iter().any(|user| {
        let calls = user.opcode() == Some(Opcode::LLVMCall) && user.callee() == Some(function);
        !calls || user.call_arguments().contains(&function)
    })
}

/// The functions that may reach a barrier or an operation of the warp.
fn waiting<'m>(functions: &[Value<'m>], taken: &[Value<'m>], runtime: &Runtime) -> BTreeSet<Value<'m>> {
    let mut found: BTreeSet<Value> = BTreeSet::new();
    loop {
        let before = found.len();
        for &function in functions {
            if !found.contains(&function) && waits(function, &found, taken, runtime) {
                found.insert(function);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn waits(function: Value, found: &BTreeSet<Value>, taken: &[Value], runtime: &Runtime) -> bool {
    let calls = |i: &Value| i.opcode() == Some(Opcode::LLVMCall);
    function.instructions().into_iter().filter(calls).any(|call| {
        let may_mean = |f: &&Value| found.contains(f) && f.value_type() == call.called_function_type();
        match call.callee() {
            Some(callee) => found.contains(&callee) || suspends(call, runtime),
            None => taken.iter().any(|f| may_mean(&f)),
        }
    })
}

fn suspends(call: Value, runtime: &Runtime) -> bool {
    is_barrier_call(call) || call.callee().is_some_and(|callee| runtime.suspends(&callee.name()))
}

/// Emits `if (pointer == f) f(…); else pointer(…);` for each of `targets` that the call may mean.
fn name_targets(context: Context, call: Value, targets: &[Value]) {
    let ty = call.called_function_type();
    let targets: Vec<Value> = targets.iter().copied().filter(|target| target.value_type() == ty).collect();
    if targets.is_empty() {
        return;
    }
    let builder = context.builder();
    let result = (ty.return_type() != context.void_type()).then(|| {
        builder.before(call.parent().function().blocks()[0].instructions()[0]);
        builder.alloca(ty.return_type(), 16)
    });
    let Split { head, tail: after } = builder.split_before(call.next_instruction(), "after.call");
    builder.at_end(head).branch(after);
    if let Some(slot) = result {
        builder.before(after.instructions()[0]);
        call.replace_uses_with(builder.load(ty.return_type(), slot));
        builder.before(head.terminator()).store(call, slot);
    }
    let pointer = call.called_value();
    let Split { head: mut from, tail: through } = builder.split_before(call, "through.pointer");
    for (index, &target) in targets.iter().enumerate() {
        let then = context.append_block(call.parent().function(), "named.call");
        let last = index + 1 == targets.len();
        let otherwise =
            if last { through } else { context.append_block(call.parent().function(), "other.call") };
        builder.at_end(from);
        let is_target = builder.equal(pointer, target);
        builder.branch_if(is_target, then, otherwise);
        builder.at_end(then);
        let named = builder.clone_here(call);
        named.set_called_value(target);
        if let Some(slot) = result {
            builder.store(named, slot);
        }
        builder.branch(after);
        from = otherwise;
    }
}

/// Functions that call themselves, directly or through others, and those on a path between two such.
fn cycles<'m>(functions: &[Value<'m>]) -> Vec<Value<'m>> {
    let mut calls: BTreeMap<Value, BTreeSet<Value>> = BTreeMap::new();
    for &function in functions {
        let direct = function.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMCall));
        let named = direct.filter_map(Value::callee).filter(|callee| !callee.is_declaration());
        calls.insert(function, named.collect());
    }
    // A function that calls none of those left is in no cycle, and neither is one that none of them calls.
    loop {
        let before = calls.len();
        let left: BTreeSet<Value> = calls.keys().copied().collect();
        calls.retain(|_, callees| callees.iter().any(|callee| left.contains(callee)));
        let called: BTreeSet<Value> = calls.values().flatten().copied().collect();
        calls.retain(|function, _| called.contains(function));
        if calls.len() == before {
            return calls.into_keys().collect();
        }
    }
}

/// Reason why a function that cannot be inlined is rejected, and the instruction at fault; `None` if it is fine.
pub(crate) fn refusal<'m>(function: Value<'m>, runtime: &Runtime) -> Option<(Value<'m>, &'static str)> {
    let instructions = function.instructions();
    if function.is_variadic() {
        return Some((instructions[0], "a function with a variable number of arguments"));
    }
    let calls = instructions.into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMCall));
    calls.into_iter().find_map(|call| {
        if call.callee().is_some_and(|callee| Runtime::ends_thread(&callee.name())) {
            return Some((
                call,
                "a thread's exit in a function that is recursive or called through a pointer",
            ));
        }
        let calls_itself = suspends(call, runtime) && is_called(function);
        calls_itself.then_some((call, "a barrier or warp operation in a recursive function"))
    })
}

fn is_called(function: Value) -> bool {
    let calls = |user: &Value| user.opcode() == Some(Opcode::LLVMCall) && user.callee() == Some(function);
    function.users().iter().any(calls)
}

/// Assigns places to the static shared variables of these functions.
pub(crate) fn layout<'m>(lowering: Lowering<'m>, functions: &[Value<'m>]) -> Layout<'m> {
    let variables = shared_variables(lowering);
    let used: Vec<Value> = functions.iter().flat_map(|f| static_shared(*f, &variables)).collect();
    let mut layout = Layout::default();
    for variable in variables.into_iter().filter(|variable| used.contains(variable)) {
        layout.add(lowering, variable);
    }
    layout
}

impl<'m> Layout<'m> {
    pub fn add(&mut self, lowering: Lowering<'m>, variable: Value<'m>) {
        if self.offsets.iter().any(|(there, _)| *there == variable) {
            return;
        }
        let ty = variable.value_type();
        let align = u64::from(variable.alignment().max(lowering.machine.align_of(ty)).max(1));
        let offset = self.bytes.next_multiple_of(align);
        self.offsets.push((variable, offset));
        self.bytes = offset + lowering.machine.size_of(ty);
    }
}

/// Lowers a function that is not inlined to CPU code.
pub(crate) fn lower(lowering: Lowering, function: Value, layout: &Layout) -> Result<(), String> {
    let is_taken = is_address_taken(function);
    let context = lowering.context;
    let waits = function
        .instructions()
        .into_iter()
        .any(|i| i.opcode() == Some(Opcode::LLVMCall) && suspends(i, lowering.runtime));
    if waits {
        // Every call that may mean it has it inlined: only its address is left.
        stub(lowering, function);
        return Ok(());
    }
    let Entered { prologue, thread, dynamic } = enter(lowering, function);
    let counters = add_counters(lowering, prologue);
    let blocks: Vec<_> = function.blocks().into_iter().filter(|&block| block != prologue).collect();
    let private: Vec<Value> = (0..)
        .zip(function.params())
        .filter(|(index, _)| function.byval_type(*index).is_some())
        .map(|(_, param)| param)
        .collect();
    let known = KnownAddresses { private: &private, constant: lowering.constants };
    shared::wrap(context, lowering.module, function, thread.block_context, known);
    let instruments = Instrument {
        context,
        module: lowering.module,
        machine: lowering.machine,
        options: lowering.options,
        thread,
        counters,
        known,
        always_marks: false,
        marks_out_of_line: false,
    };
    instrument(&instruments, &blocks);
    replace_device_calls(lowering, function, thread, Form::Plain)?;
    let i64 = context.int_type(64);
    let offsets = layout.offsets.iter().map(|(variable, at)| (*variable, i64.constant(*at)));
    place_shared_memory(lowering, function, thread, offsets.collect(), dynamic)?;
    check_pointers(lowering, function);
    let flush = helper(lowering.module, "eager.flush");
    for end in function.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMRet)) {
        context.builder().before(end).call(flush, &[counters, thread.out]);
    }
    finish(function, is_taken);
    Ok(())
}

/// Values that the prologue of such a function computes.
struct Entered<'m> {
    prologue: Block<'m>,
    thread: Thread<'m>,
    /// Offset of dynamic shared memory.
    dynamic: Value<'m>,
}

/// Inserts a first block that takes the stack slots and reads the thread's record.
fn enter<'m>(lowering: Lowering<'m>, function: Value<'m>) -> Entered<'m> {
    let context = lowering.context;
    let builder = context.builder();
    let Split { head: prologue, tail } = builder.split_before(function.instructions()[0], "body");
    builder.at_end(prologue);
    for slot in tail.instructions() {
        if slot.opcode() == Some(Opcode::LLVMAlloca) && slot.operand(0).is_constant() {
            builder.move_here(slot);
        }
    }
    let (i32, i64, ptr) = (context.int_type(32), context.int_type(64), context.ptr_type(0));
    let record = builder.call(helper(lowering.module, "eager.entered"), &[]);
    let load = |ty, at| builder.load(ty, builder.offset(record, i64.constant(at)));
    let thread = Thread {
        block_context: load(ptr, 0),
        index: [load(i32, INDEX), load(i32, INDEX + 4), load(i32, INDEX + 8)],
        out: load(ptr, OUT),
        marks: builder.cast_integer(load(i32, MARKS), context.int_type(1)),
    };
    let dynamic = load(i64, DYNAMIC);
    builder.branch(tail);
    Entered { prologue, thread, dynamic }
}

/// Replaces a function by one of the same type that does nothing, for its address.
fn stub(lowering: Lowering, function: Value) {
    let name = function.name();
    function.set_name("");
    let stub = lowering.module.add_function(&name, function.value_type());
    function.replace_uses_with(stub);
    function.delete();
    let builder = lowering.context.builder();
    builder.at_end(lowering.context.append_block(stub, "never"));
    let result = stub.value_type().return_type();
    if result == lowering.context.void_type() {
        builder.return_nothing();
    } else {
        builder.return_value(result.null());
    }
    finish(stub, true);
}

fn finish(function: Value, is_taken: bool) {
    for name in ["alwaysinline", "memory"] {
        function.remove_attribute(name);
    }
    function.add_attribute("noinline");
    for call in function.users().into_iter().filter(|user| user.opcode() == Some(Opcode::LLVMCall)) {
        call.remove_call_attribute("memory");
    }
    if is_taken {
        function.set_section(SECTION);
    }
}

/// True if a kernel calls functions that are not inlined.
pub(crate) fn calls_any(function: Value) -> bool {
    function.instructions().into_iter().any(is_call)
}

fn is_call(instruction: Value) -> bool {
    let named = || {
        let call = instruction.opcode() == Some(Opcode::LLVMCall);
        call && instruction.callee().is_some_and(|f| !f.is_declaration() && !Runtime::is_helper(&f.name()))
    };
    is_indirect(&instruction) || named()
}

/// Fills the thread's record before each such call in `function`, a kernel. Its dynamic shared memory begins at
/// `dynamic`.
pub(crate) fn enter_before_calls(lowering: Lowering, function: Value, thread: Thread, dynamic: Value) {
    check_pointers(lowering, function);
    let enter = helper(lowering.module, ENTER);
    let builder = lowering.context.builder();
    for call in function.instructions().into_iter().filter(|i| is_call(*i)) {
        let [x, y, z] = thread.index;
        builder.before(call);
        let marks = builder.cast_integer(thread.marks, lowering.context.int_type(32));
        builder.call(enter, &[thread.block_context, x, y, z, thread.out, marks, dynamic]);
    }
}

/// Helper that fills the record; never inlined, because a coroutine may resume in another thread of the process.
pub(crate) const ENTER: &str = "eager.enter";

/// Redirects calls through pointers that lead to no device function to address 0.
fn check_pointers(lowering: Lowering, function: Value) {
    let check = helper(lowering.module, "eager.callee");
    let builder = lowering.context.builder();
    for call in function.instructions().into_iter().filter(is_indirect) {
        builder.before(call);
        let checked = builder.call(check, &[call.called_value()]);
        call.set_called_value(checked);
    }
}
