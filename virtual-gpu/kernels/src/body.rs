//! Lowers a kernel to a function that runs a single thread. Its parameters are the block context, the thread index,
//! memory for counters, and the kernel's own parameters.
//!
//! Trap: the C interface cannot add parameters, so the kernel's blocks move into a new function. Stack slots must end
//! up in its first block: elsewhere they would be allocated again each time control passes.

use std::collections::BTreeSet;

use crate::budget::{Economy, count_accesses};
use crate::fission::{self, Cut};
use crate::import::SHARED;
use crate::instrument::{Instrument, instrument};
use crate::llvm::{Block, Builder, Context, Machine, Opcode, Split, Type, Value};
use crate::out_of_line::{self, Layout};
use crate::provenance::KnownAddresses;
use crate::runtime::{Runtime, helper, helper_name, is_block_barrier, is_syncthreads};
use crate::thread::{Form, Lowering, Thread};
use crate::warp::{Stop, WarpCut};
use crate::{Mode, clusters, coroutine, lockstep, places, polls, shared, suspend, warp};

/// A kernel parameter as the launch passes it.
#[derive(Debug)]
pub(crate) struct Param {
    /// LLVM's text of the type; `ptr` for a parameter passed by value.
    pub ty: String,
    /// Passed by value: the body takes the address of the value.
    pub by_value: bool,
    pub size: u32,
    pub align: u32,
}

/// Limit on the basic blocks of a kernel that is cut at its barriers or searched for guards: both take time that grows
/// with the square of them.
pub(crate) const BLOCKS_MAX: usize = 4096;

/// A kernel with its finished body.
#[derive(Debug)]
pub(crate) struct Body {
    /// The kernel's name.
    pub kernel: String,
    /// The thread function's name in the module.
    pub symbol: String,
    pub params: Vec<Param>,
    pub form: Form,
    /// Threads have stack slots of their own in the block function, so that their order matters to the optimiser.
    pub has_slots: bool,
    /// Regions of a kernel that is cut at barriers.
    pub cut: Option<Cut>,
    /// For a kernel that runs warp by warp: the points where its lanes may wait, and how it was cut there.
    pub stops: Vec<Stop>,
    pub warp: Option<WarpCut>,
    /// Number of the guard of the loop over threads, for a kernel that is not cut.
    pub guard: Option<usize>,
    pub static_shared_bytes: u32,
    /// It has more than [`BLOCKS_MAX`] blocks.
    pub is_large: bool,
    /// Places where it relies on threads of a warp running in step: `file:line`.
    pub lock_step: Vec<String>,
    /// Places where its threads poll memory that other threads write: `file:line`.
    pub polls: Vec<String>,
    /// Some thread may yield to those of other blocks.
    pub yields: bool,
    /// It reads the position of its block in the cluster.
    pub uses_cluster: bool,
    pub economy: Economy,
    /// Number of memory accesses in the loop over threads; for a kernel that is cut, see its regions.
    pub accesses: usize,
}

/// Makes the thread function of a kernel.
///
/// # Errors
/// The kernel has a construct that the check before did not foresee.
pub(crate) fn make_body(
    lowering: Lowering,
    kernel: &str,
    mode: Mode,
    out_of_line: &Layout,
) -> Result<Body, String> {
    let old = lowering.module.function(kernel).ok_or_else(|| format!("kernel {kernel} is missing"))?;
    let params = describe_params(old, lowering.machine);
    end_threads(lowering, old);
    let is_large = old.blocks().len() > BLOCKS_MAX;
    let lock_step = lockstep::insert_steps(lowering, old);
    let polls = if is_large { Vec::new() } else { polls::insert_yields(lowering, old) };
    let yields = old.instructions().into_iter().any(yields);
    let uses_cluster = old.instructions().into_iter().any(clusters::concerns);
    let form = form_of(lowering, old, if is_large { Mode::Loops } else { mode }, yields);
    let instructions = old.instructions();
    let economy = Economy::of(instructions.len(), form, &lowering.options.budget);
    let accesses = count_accesses(&instructions);
    let symbol = format!("{kernel}.thread");
    let (function, thread) = new_function(lowering, old, &symbol, form);
    let prologue = move_blocks(lowering.context, old, function);
    let private = pass_params(lowering, old, function, prologue);
    old.replace_uses_with(function);
    old.delete();
    let has_slots = function.instructions().iter().any(|i| i.opcode() == Some(Opcode::LLVMAlloca));
    let counters = add_counters(lowering, prologue);
    let blocks: Vec<Block> = function.blocks().into_iter().filter(|&b| b != prologue).collect();
    let known = KnownAddresses { private: &private, constant: lowering.constants };
    shared::wrap(lowering.context, lowering.module, function, thread.block_context, known);
    instrument(
        &Instrument {
            context: lowering.context,
            module: lowering.module,
            machine: lowering.machine,
            options: lowering.options,
            thread,
            counters,
            known,
            always_marks: form.is_coroutine(),
            marks_out_of_line: economy.marks_out_of_line,
        },
        &blocks,
    );
    replace_device_calls(lowering, function, thread, form)?;
    let static_shared_bytes = share(lowering, function, thread, out_of_line)?;
    let stops = mark_suspensions(lowering, function, thread, counters, prologue, form, &params)?;
    Ok(Body {
        kernel: kernel.to_owned(),
        symbol,
        params,
        form,
        has_slots,
        cut: None,
        stops,
        warp: None,
        guard: None,
        static_shared_bytes,
        is_large,
        lock_step,
        polls,
        yields,
        uses_cluster,
        economy,
        accesses,
    })
}

/// Marks the places where a thread in this form may suspend; in the form without any, counters are summed up where it
/// returns. Returns the points where lanes of a warp may wait.
fn mark_suspensions(
    lowering: Lowering,
    function: Value,
    thread: Thread,
    counters: Value,
    prologue: Block,
    form: Form,
    params: &[Param],
) -> Result<Vec<Stop>, String> {
    let mut stops = Vec::new();
    match form {
        Form::Warp => {
            let fixed = fixed_memory(lowering, function, params);
            stops = warp::mark_stops(lowering, function, thread, counters, &fixed)?;
        }
        Form::Fission => {
            let fixed = fixed_memory(lowering, function, params);
            fission::mark_regions(lowering, function, counters, &fixed);
        }
        Form::Rounds | Form::Scheduled => {
            coroutine::suspend_at_barriers(lowering, function, thread, counters, prologue, form);
        }
        Form::Plain => {
            let flush = helper(lowering.module, "eager.flush");
            for end in function.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMRet)) {
                lowering.context.builder().before(end).call(flush, &[counters, thread.out]);
            }
        }
    }
    if !form.is_coroutine() {
        function.add_attribute("alwaysinline");
    }
    Ok(stops)
}

fn yields(instruction: Value) -> bool {
    let call = instruction.opcode() == Some(Opcode::LLVMCall);
    call && instruction.callee().is_some_and(|callee| suspend::yields(&callee.name()))
}

/// Turns a call that ends its thread into a return; code after it becomes unreachable.
fn end_threads(lowering: Lowering, kernel: Value) {
    for call in kernel.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMCall)) {
        if call.callee().is_some_and(|callee| Runtime::ends_thread(&callee.name())) {
            let builder = lowering.context.builder();
            let Split { head, .. } = builder.split_before(call, "after.exit");
            call.erase();
            builder.at_end(head).return_nothing();
        }
    }
}

fn form_of(lowering: Lowering, kernel: Value, mode: Mode, yields: bool) -> Form {
    let calls = kernel.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMCall));
    let (mut barriers, mut waits) = (0, false);
    for call in calls {
        if is_block_barrier(call) {
            barriers += 1;
        } else {
            waits |= call.callee().is_some_and(|callee| lowering.runtime.suspends(&callee.name()));
        }
    }
    match mode {
        _ if waits && can_be_cut(kernel) && warp::suits(lowering, kernel, mode, yields) => Form::Warp,
        _ if waits => Form::Scheduled,
        Mode::Coroutine => Form::Rounds,
        _ if barriers == 0 => Form::Plain,
        Mode::Auto | Mode::LanesApart if barriers > fission::BARRIERS_MAX => Form::Rounds,
        Mode::Auto | Mode::LanesApart | Mode::Fission if can_be_cut(kernel) => Form::Fission,
        _ => Form::Rounds,
    }
}

/// True if every run of a region may start with the function's first block, because nothing in it must happen only
/// once.
fn can_be_cut(kernel: Value) -> bool {
    let params = (0..).zip(kernel.params());
    let mut by_value = params.filter(|(index, _)| kernel.byval_type(*index).is_some());
    let fixed = |slot: &Value| slot.operand(0).is_constant() && slot.parent() == kernel.blocks()[0];
    let mut slots = kernel.instructions().into_iter().filter(|i| i.opcode() == Some(Opcode::LLVMAlloca));
    by_value.all(|(_, param)| only_read(param)) && slots.all(|slot| fixed(&slot))
}

fn describe_params(kernel: Value, machine: &Machine) -> Vec<Param> {
    let describe = |(index, param): (usize, Value)| {
        let by_value = kernel.byval_type(index as u32);
        let ty = by_value.unwrap_or(param.ty());
        let align = kernel.param_alignment(index as u32).filter(|_| by_value.is_some());
        Param {
            ty: param.ty().to_text(),
            by_value: by_value.is_some(),
            size: machine.size_of(ty) as u32,
            align: align.unwrap_or_else(|| machine.align_of(ty)),
        }
    };
    kernel.params().into_iter().enumerate().map(describe).collect()
}

fn new_function<'m>(
    lowering: Lowering<'m>,
    old: Value<'m>,
    symbol: &str,
    form: Form,
) -> (Value<'m>, Thread<'m>) {
    let (ptr, i32) = (lowering.context.ptr_type(0), lowering.context.int_type(32));
    let mut types = vec![ptr, i32, i32, i32, ptr, lowering.context.int_type(1)];
    if !form.is_coroutine() {
        types.push(i32);
    }
    if form.is_cut() {
        let i64 = lowering.context.int_type(64);
        types.extend([ptr, i64, i64, i32, ptr, ptr]);
    }
    types.extend(old.params().into_iter().map(Value::ty));
    let result = match form {
        Form::Plain => lowering.context.void_type(),
        Form::Fission | Form::Warp => i32,
        Form::Rounds | Form::Scheduled => ptr,
    };
    let function = lowering.module.add_function(symbol, Type::function(result, &types));
    let params = function.params();
    let index = [params[1], params[2], params[3]];
    let thread = Thread { block_context: params[0], index, out: params[4], marks: params[5] };
    (function, thread)
}

/// Moves all blocks of `old` after a new first block, which takes the stack slots and ends in a branch.
fn move_blocks<'m>(context: Context<'m>, old: Value<'m>, function: Value<'m>) -> Block<'m> {
    let blocks = old.blocks();
    let prologue = context.append_block(function, "prologue");
    let builder = context.builder();
    builder.at_end(prologue);
    for slot in blocks[0].instructions() {
        let fixed = slot.opcode() == Some(Opcode::LLVMAlloca) && slot.operand(0).is_constant();
        if fixed {
            builder.move_here(slot);
        }
    }
    builder.branch(blocks[0]);
    let mut last = prologue;
    for block in blocks {
        block.move_after(last);
        last = block;
    }
    prologue
}

/// Connects the kernel's parameters; returns the addresses of those that are passed by value.
fn pass_params<'m>(
    lowering: Lowering<'m>,
    old: Value<'m>,
    function: Value<'m>,
    prologue: Block<'m>,
) -> Vec<Value<'m>> {
    let mut private = Vec::new();
    let own = function.params().len() - old.params().len();
    for (index, (from, to)) in
        old.params().into_iter().zip(function.params().into_iter().skip(own)).enumerate()
    {
        let Some(ty) = old.byval_type(index as u32) else {
            from.replace_uses_with(to);
            continue;
        };
        if only_read(from) {
            from.replace_uses_with(to);
            private.push(to);
            continue;
        }
        let align = old.param_alignment(index as u32).unwrap_or_else(|| lowering.machine.align_of(ty));
        let builder = lowering.context.builder();
        builder.before(prologue.terminator());
        let copy = builder.alloca(ty, align);
        let bytes = lowering.context.int_type(64).constant(lowering.machine.size_of(ty));
        builder.copy_bytes(copy, to, align, bytes);
        from.replace_uses_with(builder.address_space_cast(copy, from.ty()));
    }
    private
}

/// Memory that is not written while a kernel runs: parameters passed by value that all threads share, and
/// `__constant__` variables.
pub(crate) fn fixed_memory<'m>(
    lowering: Lowering<'m>,
    function: Value<'m>,
    params: &[Param],
) -> Vec<Value<'m>> {
    let own = function.params().len() - params.len();
    let values = function.params().into_iter().skip(own).zip(params);
    let shared = values.filter(|(value, param)| param.by_value && only_read(*value)).map(|(value, _)| value);
    shared.chain(lowering.constants.iter().copied()).collect()
}

/// True if nothing writes through `address`, so that all threads may share the memory.
fn only_read(address: Value) -> bool {
    let mut open = vec![address];
    while let Some(address) = open.pop() {
        for user in address.users() {
            match user.opcode() {
                Some(Opcode::LLVMLoad) => {}
                Some(Opcode::LLVMGetElementPtr | Opcode::LLVMAddrSpaceCast | Opcode::LLVMBitCast) => {
                    open.push(user)
                }
                Some(Opcode::LLVMCall) => {
                    let copies = user.callee().is_some_and(|f| f.name().starts_with("llvm.memcpy."));
                    if !copies || user.operand(1) != address || user.operand(0) == address {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    }
    true
}

/// Allocates the thread's counters, initially zero; they become registers.
pub(crate) fn add_counters<'m>(lowering: Lowering<'m>, prologue: Block<'m>) -> Value<'m> {
    let i64 = lowering.context.int_type(64);
    let builder = lowering.context.builder();
    builder.before(prologue.terminator());
    let counters = builder.alloca(i64.array(3), 8);
    for slot in 0..3 {
        builder.store(i64.constant(0), builder.offset(counters, i64.constant(8 * slot)));
    }
    counters
}

/// Replaces calls of device functions by calls of their helpers, with a suspension if they wait.
pub(crate) fn replace_device_calls(
    lowering: Lowering,
    function: Value,
    thread: Thread,
    form: Form,
) -> Result<(), String> {
    for (place, call) in (0..).zip(function.instructions()) {
        let Some(callee) = (call.opcode() == Some(Opcode::LLVMCall)).then(|| call.callee()).flatten() else {
            continue;
        };
        let name = callee.name();
        if form == Form::Warp && (is_block_barrier(call) || lowering.runtime.suspends(&name)) {
            // See `warp::mark_stops`.
            continue;
        }
        if is_block_barrier(call) {
            if form == Form::Scheduled {
                suspend_in(lowering, call, suspend::block_barrier(), &[], thread, place)?;
            }
        } else if lowering.runtime.suspends(&name) {
            suspend_in(lowering, call, &name, &call.call_arguments(), thread, place)?;
        } else if !Runtime::is_helper(&name) && lowering.runtime.supports(&name) {
            let builder = lowering.context.builder();
            builder.before(call);
            let arguments = call.call_arguments();
            let replacement = call_helper(lowering, &builder, &helper_name(&name), &arguments, thread)?;
            call.replace_uses_with(replacement);
            call.erase();
        }
    }
    Ok(())
}

/// Replaces a call that may wait by three steps: write the wait record, suspend, read the result.
fn suspend_in(
    lowering: Lowering,
    call: Value,
    name: &str,
    arguments: &[Value],
    thread: Thread,
    place: u64,
) -> Result<(), String> {
    let builder = lowering.context.builder();
    builder.before(call);
    let place = lowering.context.int_type(32).constant(place);
    let noted =
        places::noted(lowering.context, call).filter(|_| lowering.options.strict || is_syncthreads(call));
    let text = noted.map_or(lowering.context.ptr_type(0).null(), |text| {
        places::constant(lowering.context, lowering.module, &text)
    });
    let arguments: Vec<Value> = arguments.iter().copied().chain([place, text]).collect();
    call_helper(lowering, &builder, &suspend::before(name), &arguments, thread)?;
    let marker = lowering.module.function(suspend::MARKER).unwrap_or_else(|| {
        lowering.module.add_function(suspend::MARKER, Type::function(lowering.context.void_type(), &[]))
    });
    builder.call(marker, &[]);
    let answer = call_helper(lowering, &builder, &suspend::after(name), &[], thread)?;
    call.replace_uses_with(answer);
    call.erase();
    Ok(())
}

/// Calls a helper with the thread's own arguments before `arguments`.
fn call_helper<'m>(
    lowering: Lowering<'m>,
    builder: &Builder<'m>,
    name: &str,
    arguments: &[Value<'m>],
    thread: Thread<'m>,
) -> Result<Value<'m>, String> {
    let helper = helper(lowering.module, name);
    let mut args = vec![thread.block_context, thread.index[0], thread.index[1], thread.index[2]];
    let types = helper.value_type().param_types();
    if types.len() != args.len() + arguments.len() {
        return Err(format!("{name} is called with arguments that its helper does not take"));
    }
    for (&argument, ty) in arguments.iter().zip(&types[args.len()..]) {
        let fitting = builder.fit(argument, *ty);
        args.push(
            fitting.ok_or_else(|| format!("{name} is called with types that its helper does not take"))?,
        );
    }
    Ok(builder.call(helper, &args))
}

/// Assigns offsets to the static shared variables of a kernel, after those of functions that are not inlined if it
/// calls any. Returns the bytes that they take.
fn share(lowering: Lowering, function: Value, thread: Thread, out_of_line: &Layout) -> Result<u32, String> {
    let calls = out_of_line::calls_any(function);
    let mut layout = if calls { out_of_line.clone() } else { Layout::default() };
    let variables = shared_variables(lowering);
    let used = static_shared(function, &variables);
    variables.into_iter().filter(|v| used.contains(v)).for_each(|variable| layout.add(lowering, variable));
    let static_bytes =
        u32::try_from(layout.bytes).map_err(|_| "static shared memory beyond 4 GiB".to_owned())?;
    let i64 = lowering.context.int_type(64);
    // All `extern __shared__` arrays start where the static variables end.
    let dynamic = i64.constant(layout.bytes.next_multiple_of(16));
    let offsets = layout.offsets.iter().map(|(variable, at)| (*variable, i64.constant(*at)));
    place_shared_memory(lowering, function, thread, offsets.collect(), dynamic)?;
    if calls {
        out_of_line::enter_before_calls(lowering, function, thread, dynamic);
    }
    Ok(static_bytes)
}

pub(crate) fn shared_variables(lowering: Lowering) -> Vec<Value> {
    lowering.module.globals().into_iter().filter(|g| g.ty().pointer_address_space() == SHARED).collect()
}

/// The variables among `variables` that have a known size and that `function` uses.
pub(crate) fn static_shared<'m>(function: Value<'m>, variables: &[Value<'m>]) -> BTreeSet<Value<'m>> {
    let sized = variables.iter().copied().filter(|v| v.initializer().is_some());
    // Once through the function: a module of templates has as many variables as kernels.
    let mut used = BTreeSet::new();
    for operand in function.instructions().into_iter().flat_map(Value::operands) {
        visit_globals(operand, &mut |global| {
            used.insert(global);
        });
    }
    sized.filter(|variable| used.contains(variable)).collect()
}

/// Computes addresses of shared variables from the block context: variables in `offsets` at these offsets, variables
/// without a size at `dynamic`.
pub(crate) fn place_shared_memory<'m>(
    lowering: Lowering<'m>,
    function: Value<'m>,
    thread: Thread<'m>,
    mut offsets: Vec<(Value<'m>, Value<'m>)>,
    dynamic: Value<'m>,
) -> Result<(), String> {
    let variables: BTreeSet<Value> = shared_variables(lowering).into_iter().collect();
    offsets.extend(variables.iter().filter(|v| v.initializer().is_none()).map(|v| (*v, dynamic)));
    let uses: Vec<(Value, u32)> = function
        .instructions()
        .into_iter()
        .flat_map(|i| {
            (0..).zip(i.operands()).filter(|(_, o)| mentions(*o, &variables)).map(move |(n, _)| (i, n))
        })
        .collect();
    for (user, operand) in uses {
        let builder = lowering.context.builder();
        let place = match user.opcode() {
            Some(Opcode::LLVMPHI) => user.incoming()[operand as usize].1.terminator(),
            _ => user,
        };
        builder.before(place);
        let value = shared_address(lowering, &builder, user.operand(operand), thread, &offsets)?;
        user.set_operand(operand, value);
    }
    Ok(())
}

/// True if a constant contains the address of one of `variables`.
fn mentions<'m>(value: Value<'m>, variables: &BTreeSet<Value<'m>>) -> bool {
    let mut found = false;
    visit_globals(value, &mut |global| found |= variables.contains(&global));
    found
}

/// Calls `visit` with each variable whose address a constant contains.
fn visit_globals<'m>(value: Value<'m>, visit: &mut dyn FnMut(Value<'m>)) {
    if value.is_global_variable() {
        visit(value);
    } else if value.is_constant() && !value.is_function() {
        value.operands().into_iter().for_each(|operand| visit_globals(operand, visit));
    }
}

/// Rebuilds a constant that contains addresses of shared variables as instructions.
fn shared_address<'m>(
    lowering: Lowering<'m>,
    builder: &Builder<'m>,
    constant: Value<'m>,
    thread: Thread<'m>,
    offsets: &[(Value<'m>, Value<'m>)],
) -> Result<Value<'m>, String> {
    if let Some((variable, offset)) = offsets.iter().find(|(variable, _)| *variable == constant) {
        let address = builder.call(helper(lowering.module, "eager.shared"), &[thread.block_context, *offset]);
        return Ok(builder.address_space_cast(address, variable.ty()));
    }
    if !constant.is_constant_expression() {
        return Ok(constant);
    }
    let operands = constant
        .operands()
        .into_iter()
        .map(|operand| shared_address(lowering, builder, operand, thread, offsets))
        .collect::<Result<Vec<_>, _>>()?;
    match constant.opcode() {
        Some(Opcode::LLVMGetElementPtr) => Ok(builder.gep(constant.gep_source(), &operands)),
        Some(opcode @ (Opcode::LLVMAdd | Opcode::LLVMSub | Opcode::LLVMXor)) => {
            Ok(builder.binary(opcode, operands[0], operands[1]))
        }
        Some(opcode) if operands.len() == 1 => Ok(builder.cast(opcode, operands[0], constant.ty())),
        _ => Err("unsupported use of a shared variable's address".to_owned()),
    }
}
