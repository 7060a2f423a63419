//! The steps from device bitcode to CPU bitcode, in order.
//!
//! Trap: a pass run, a link or a re-parse of the module invalidates values and functions found before; each step must
//! look them up again by name.

use crate::body::{BLOCKS_MAX, Body, fixed_memory, make_body};
use crate::check::{check, readable};
use crate::import::{Imported, import};
use crate::llvm::{Context, LLVMLinkage, Machine, Module, OwnContext, Value};
use crate::out_of_line::ENTER;
use crate::runtime::{MARK_OUT_OF_LINE, Runtime};
use crate::thread::{Form, Lowering};
use crate::{ConvertError, Converted, KernelReport, Mode, Note, Options, ParamReport, Report};
use crate::{driver, fission, guards, lockstep, out_of_line, places, polls, variables, warp};

/// `always-inline` first, so that no body is split into a coroutine before its helpers are in it.
const OPTIMISE: &str = "always-inline,globaldce,default<O3>";
/// Removes what lanes leave in arrays for each other once operations of the warp are vectors, which O3 looks at before.
const LAST_OF_WARPS: &str = "function(dse)";
/// Passes for modules with a kernel that is too large for `-O3`.
const OPTIMISE_LITTLE: &str = "always-inline,globaldce,default<O1>";

pub(crate) fn translate(bitcode: &[u8], options: &Options) -> Result<Converted, ConvertError> {
    match attempt(bitcode, options) {
        // Coroutines make the fewest demands on the code.
        Err(ConvertError::Defect { reason, .. }) if options.mode != Mode::Coroutine => {
            let simpler = Options { mode: Mode::Coroutine, ..options.clone() };
            let mut converted = attempt(bitcode, &simpler)?;
            let text = format!("kernels run as coroutines, which is slower: other forms failed ({reason})");
            let kernel =
                converted.report.kernels.first().map(|kernel| kernel.name.clone()).unwrap_or_default();
            converted.report.notes.push(Note { kernel, text, is_warning: false });
            Ok(converted)
        }
        other => other,
    }
}

fn attempt(bitcode: &[u8], options: &Options) -> Result<Converted, ConvertError> {
    let own = OwnContext::new();
    let context = own.handle();
    let machine = Machine::new(&options.cpu).map_err(|reason| ConvertError::Target {
        module: options.module_name.clone(),
        cpu: options.cpu.clone(),
        reason,
    })?;
    let runtime = Runtime::new();
    let mut imported = import(context, &machine, &runtime, bitcode, options.strict)
        .map_err(|reason| ConvertError::Malformed { module: options.module_name.clone(), reason })?;
    let unsupported = check(&imported, &runtime);
    if !unsupported.is_empty() {
        return Err(ConvertError::Unsupported(unsupported));
    }
    generate(context, &machine, &mut imported, &runtime, options).map_err(|reason| {
        let said = context.messages();
        let reason = if said.is_empty() { reason } else { format!("{reason} ({said})") };
        ConvertError::Defect { module: options.module_name.clone(), reason }
    })
}

fn generate<'m>(
    context: Context<'m>,
    machine: &Machine,
    imported: &mut Imported<'m>,
    runtime: &Runtime,
    options: &Options,
) -> Result<Converted, String> {
    let defined = imported.module.functions().into_iter().filter(|function| !function.is_declaration());
    let noted = |function: &Value| {
        options.strict || polls::may_wait(*function, runtime) || lockstep::concerns(*function)
    };
    for function in defined {
        if noted(&function) {
            places::note(context, function);
        } else {
            places::note_barriers(context, function);
        }
    }
    imported.module.strip_debug_info();
    imported.module = without_module_metadata(context, &imported.module)?;
    let module = &imported.module;
    link_text(context, module, &runtime.text)?;
    let is_constant = |g: &Value| imported.variables.iter().any(|v| v.constant && v.symbol == g.name());
    let constants: Vec<Value> = module.globals().into_iter().filter(is_constant).collect();
    let lowering = Lowering { context, module, machine, runtime, options, constants: &constants };
    warp::unroll(lowering, imported)?;
    let module = &imported.module;
    let lowering = Lowering { module, ..lowering };
    let stay: Vec<Value> = imported.out_of_line.iter().filter_map(|name| module.function(name)).collect();
    let layout = out_of_line::layout(lowering, &stay);
    stay.into_iter().try_for_each(|function| out_of_line::lower(lowering, function, &layout))?;
    let mut bodies = imported
        .kernels
        .iter()
        .map(|kernel| make_body(lowering, kernel, options.mode, &layout))
        .collect::<Result<Vec<_>, _>>()?;
    // LLVM's passes crash on invalid code; the verifier reports the error instead.
    module.verify()?;
    finish_loops(lowering, &mut bodies)?;
    link_text(context, module, &driver::driver(&bodies, imported, options))?;
    for global in module.globals() {
        let appending = global.linkage() == LLVMLinkage::LLVMAppendingLinkage;
        if global.initializer().is_some() && !appending {
            global.make_internal();
        }
    }
    finish_functions(module, options);
    module.verify()?;
    optimise(module, machine, &bodies)?;
    variables::place(context, module, machine, &imported.variables);
    module.verify()?;
    module.forget_triple();
    let variables = imported.variables.iter().map(|v| v.name.clone()).collect();
    let kernels = bodies.iter().map(report).collect();
    let report = Report { kernels, variables, notes: notes(&bodies) };
    Ok(Converted { bitcode: module.to_bitcode(), report })
}

fn optimise(module: &Module, machine: &Machine, bodies: &[Body]) -> Result<(), String> {
    let any = |holds: fn(&Body) -> bool| bodies.iter().any(holds);
    let passes = if any(|body| body.economy.little_optimised) { OPTIMISE_LITTLE } else { OPTIMISE };
    module.optimise(passes, machine, !any(|body| body.economy.no_slp))?;
    match any(|body| body.form == Form::Warp) {
        true => module.run_passes(LAST_OF_WARPS, machine),
        false => Ok(()),
    }
}

/// Notes to the user on kernels that are too large for an optimisation, or whose threads wait for each other.
fn notes(bodies: &[Body]) -> Vec<Note> {
    let mut notes = Vec::new();
    for body in bodies {
        let (kernel, name) = (&body.kernel, readable(&body.kernel));
        let mut add = |text, is_warning| notes.push(Note { kernel: kernel.clone(), text, is_warning });
        if body.is_large {
            let text = format!(
                "kernel {name} has more than {BLOCKS_MAX} basic blocks: it runs in a simpler, slower form"
            );
            add(text, false);
        }
        if !body.lock_step.is_empty() {
            let places = body.lock_step.join(", ");
            let text = format!(
                "kernel {name} relies on the threads of a warp running in step at {places}: CPU code runs them in step, which is \
                 slower; add __syncwarp() between what one thread writes and another reads"
            );
            add(text, true);
        }
        if !body.polls.is_empty() {
            let places = body.polls.join(", ");
            let text = format!("kernel {name} waits for other threads at {places}: its threads yield there");
            add(text, false);
        }
        if let Some(cuts) = body.economy.describe() {
            add(format!("kernel {name} is large; to limit compile time, {cuts}"), false);
        }
    }
    notes
}

/// Cuts kernels into regions, and finds guards of their loops over threads.
fn finish_loops(lowering: Lowering, bodies: &mut [Body]) -> Result<(), String> {
    let run = |passes| lowering.module.run_passes(passes, lowering.machine);
    let thread_function =
        |body: &Body| lowering.module.function(&body.symbol).ok_or("a thread function is missing");
    if bodies.iter().any(|body| body.form.is_cut()) {
        run("function(reg2mem)")?;
        for body in bodies.iter_mut().filter(|body| body.form == Form::Fission) {
            let function = thread_function(body)?;
            let fixed = fixed_memory(lowering, function, &body.params);
            body.cut = Some(fission::cut(lowering, function, &fixed));
        }
        let apart = lowering.options.mode == Mode::LanesApart;
        for body in bodies.iter_mut().filter(|body| body.form == Form::Warp) {
            let stops = std::mem::take(&mut body.stops);
            body.warp = Some(warp::cut(lowering, thread_function(body)?, stops, apart));
        }
        run("function(sroa<preserve-cfg>,early-cse)")?;
    }
    if lowering.options.strict {
        return Ok(());
    }
    let may_be_guarded = |body: &&mut Body| {
        let can_be = match body.form {
            Form::Plain | Form::Fission => true,
            Form::Warp => body.warp.as_ref().is_some_and(|cut| !cut.apart),
            _ => false,
        };
        can_be && !body.is_large && !body.economy.no_guards
    };
    for body in bodies.iter_mut().filter(may_be_guarded) {
        guards::find(lowering, thread_function(body)?, body);
    }
    Ok(())
}

/// Returns the module without its flags and named metadata: the device's SDK version and float modes would contradict
/// the host module's. LLVM's C interface can only add such metadata, so the module goes through its text form.
fn without_module_metadata<'m>(context: Context<'m>, module: &Module) -> Result<Module<'m>, String> {
    let other = |line: &&str| {
        let after = line.strip_prefix('!').and_then(|rest| rest.bytes().next());
        !after.is_some_and(|byte| byte.is_ascii_alphabetic())
    };
    let text = module.to_text();
    let kept: Vec<&str> = text.lines().filter(other).collect();
    context.parse_text(&kept.join("\n"))
}

fn link_text(context: Context, module: &Module, text: &str) -> Result<(), String> {
    let other = context.parse_text(text)?;
    other.set_layout_of(module);
    module.link(other).map_err(|()| "linking helper code failed".to_owned())
}

/// Makes all functions internal, for the requested CPU, and such that a trap can unwind through them.
fn finish_functions(module: &Module, options: &Options) {
    for function in module.functions().into_iter().filter(|f| !f.is_declaration()) {
        let name = function.name();
        function.make_internal();
        if Runtime::is_helper(&name)
            && ![driver::CONSTRUCTOR, MARK_OUT_OF_LINE, ENTER].contains(&name.as_str())
        {
            function.add_attribute("alwaysinline");
        }
        function.remove_attribute("nounwind");
        // 2: asynchronous tables, as clang emits for x86-64.
        function.add_attribute_value("uwtable", 2);
        function.add_string_attribute("target-cpu", &options.cpu);
    }
}

fn report(body: &Body) -> KernelReport {
    KernelReport {
        name: body.kernel.clone(),
        mode: body.form.mode(),
        params: body.params.iter().map(|p| ParamReport { size: p.size, align: p.align }).collect(),
        static_shared_bytes: body.static_shared_bytes,
    }
}
