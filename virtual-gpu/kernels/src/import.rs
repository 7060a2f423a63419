//! Reads a device module and turns it into an ordinary x86-64 module whose kernels contain all their code.
//!
//! Trap: `__constant__` variables are marked constant (and `externally_initialized`) although the host writes them; the
//! mark must be removed before any optimisation, or every read becomes the zero that they start with. A variable that
//! no kernel of the file uses must survive too, because the host may copy to it.

use std::collections::BTreeMap;

use crate::llvm::{Context, LLVMLinkage, Machine, Module, Opcode, Value, constant_address_space_cast};
use crate::runtime::Runtime;
use crate::{casts, denormals, integers, library, math, minmax, out_of_line, ptx};

/// Calling convention of `ptx_kernel` functions since LLVM 20.
const PTX_KERNEL: u32 = 71;
/// Address spaces of NVPTX.
pub(crate) const GLOBAL: u32 = 1;
pub(crate) const SHARED: u32 = 3;
pub(crate) const CONSTANT: u32 = 4;
pub(crate) const LOCAL: u32 = 5;

/// Inlines everything into the kernels.
const INLINE: &str = "always-inline,globaldce";
/// Simplifies so that addresses and values can be traced. Barriers are still convergent calls, opaque to the passes.
const SIMPLIFY: &str = "function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,\
    instcombine<no-verify-fixpoint>,gvn,simplifycfg,instcombine<no-verify-fixpoint>,sroa<modify-cfg>,adce,simplifycfg)";

/// Turns recursion into a loop if nothing, or only an addition to the result, follows the last call.
const RECURSION_TO_LOOPS: &str = "function(sroa<modify-cfg>,simplifycfg,tailcallelim,simplifycfg)";

/// Function attributes that prevent inlining and optimising for another target.
const DEVICE_ATTRIBUTES: &[&str] = &["noinline", "optnone", "optsize", "minsize", "convergent", "norecurse"];
const DEVICE_STRING_ATTRIBUTES: &[&str] =
    &["target-cpu", "target-features", "tune-cpu", "no-trapping-math", "stack-protector-buffer-size"];

/// Prefix of the mangled name of a class's table of virtual functions.
const VIRTUAL_FUNCTIONS: &str = "_ZTV";

/// A device variable.
#[derive(Debug)]
pub(crate) struct Variable {
    /// Name under which the host registers it, if it does.
    pub name: String,
    /// Name in the module.
    pub symbol: String,
    pub bytes: u64,
    /// In `__constant__` memory.
    pub constant: bool,
}

/// Launch bounds that the program declares for a kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Upper bound on the threads of a block, from `__launch_bounds__`; 0: none.
    pub threads_max: u32,
    /// Cluster size from `__cluster_dims__`, encoded as in the kernel table; 0: none.
    pub cluster: u32,
}

impl Bounds {
    /// Reads LLVM's attributes, each of one number or three.
    fn of(function: Value) -> Bounds {
        let numbers = |key: &str| -> Vec<u32> {
            let text = function.string_attribute(key).unwrap_or_default();
            text.split(',').filter_map(|number| number.trim().parse().ok()).collect()
        };
        let threads = numbers("nvvm.maxntid");
        let cluster = numbers("nvvm.cluster_dim");
        Bounds {
            threads_max: if threads.is_empty() { 0 } else { threads.iter().product() },
            cluster: (0..)
                .zip(&cluster)
                .fold(0, |packed, (axis, &blocks)| packed | blocks.min(0xff) << (8 * axis)),
        }
    }
}

/// A device module ready for translation.
pub(crate) struct Imported<'m> {
    pub module: Module<'m>,
    /// Names of the kernels, in the order of the file.
    pub kernels: Vec<String>,
    /// Names of the functions that are not inlined ([`out_of_line`]).
    pub out_of_line: Vec<String>,
    /// Launch bounds by kernel.
    pub bounds: BTreeMap<String, Bounds>,
    pub variables: Vec<Variable>,
    /// Compute capability of the GPU that it was compiled for: 90 for `sm_90`; 0 if unknown.
    pub architecture: u32,
}

/// Imports a module. With `literals`, constants of the program count as variables, so that all its memory is listed.
///
/// # Errors
/// LLVM's message, if it cannot read the module or a pass fails.
pub(crate) fn import<'m>(
    context: Context<'m>,
    machine: &Machine,
    runtime: &Runtime,
    bitcode: &[u8],
    literals: bool,
) -> Result<Imported<'m>, String> {
    let module = context.parse_bitcode(bitcode)?;
    let triple = module.triple();
    if !triple.starts_with("nvptx64") {
        return Err(format!("made for target `{triple}`, not for nvptx64"));
    }
    let architecture = module.functions().into_iter().find_map(architecture_of).unwrap_or(0);
    let kernels = take_kernels(&module);
    let bounds =
        kernels.iter().filter_map(|name| Some((name.clone(), Bounds::of(module.function(name)?)))).collect();
    module.set_target(machine);
    // Before function bodies are replaced: the replacements do not carry the program's attributes.
    denormals::flush(context, &module)?;
    replace_math(context, &module)?;
    // Drops globals that only libdevice's bodies referred to.
    module.run_passes("globaldce", machine)?;
    for name in ["llvm.used", "llvm.compiler.used", "llvm.global.annotations"] {
        if let Some(list) = module.globals().into_iter().find(|g| g.name() == name) {
            list.delete();
        }
    }
    let variables = take_variables(context, &module, machine, literals);
    ptx::replace_assembly(context, &module)?;
    ptx::replace_tensor_intrinsics(context, &module)?;
    minmax::order(context, &module)?;
    casts::saturate(context, &module)?;
    integers::define_all_results(context, &module)?;
    for function in module.functions() {
        prepare_function(context, function, kernels.contains(&function.name()));
    }
    if module.functions().into_iter().any(calls_itself) {
        module.run_passes(RECURSION_TO_LOOPS, machine)?;
    }
    out_of_line::prepare(context, &module, runtime);
    module.run_passes(INLINE, machine)?;
    ptx::give_carry_slots(context, &module);
    ptx::give_register_slots(context, &module);
    module.run_passes(SIMPLIFY, machine)?;
    let stays = |f: &Value| !f.is_declaration() && !kernels.contains(&f.name());
    let out_of_line = module.functions().into_iter().filter(stays).map(Value::name).collect();
    Ok(Imported { module, kernels, out_of_line, bounds, variables, architecture })
}

fn calls_itself(function: Value) -> bool {
    let calls = |i: &Value| i.opcode() == Some(Opcode::LLVMCall) && i.callee() == Some(function);
    function.instructions().iter().any(calls)
}

/// Compute capability from a function's target CPU; `sm_90a` gives 90.
fn architecture_of(function: Value) -> Option<u32> {
    let cpu = function.string_attribute("target-cpu")?;
    let digits = cpu.strip_prefix("sm_")?.trim_end_matches(|c: char| c.is_ascii_lowercase());
    digits.parse().ok()
}

/// Turns the kernels into ordinary functions; returns their names.
fn take_kernels(module: &Module) -> Vec<String> {
    let mut kernels = Vec::new();
    for function in module.functions() {
        if function.calling_convention() == PTX_KERNEL {
            function.set_calling_convention(0);
            function.set_linkage(LLVMLinkage::LLVMExternalLinkage);
            if !function.is_declaration() {
                kernels.push(function.name());
            }
        }
    }
    kernels
}

/// Moves device variables to the CPU's only address space, and lists them.
fn take_variables(context: Context, module: &Module, machine: &Machine, literals: bool) -> Vec<Variable> {
    let mut variables = Vec::new();
    for global in module.globals() {
        let space = global.ty().pointer_address_space();
        let defined = global.initializer();
        if space == SHARED || defined.is_none() || !matches!(space, 0 | GLOBAL | CONSTANT) {
            continue;
        }
        let local =
            matches!(global.linkage(), LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage);
        let virtual_functions = global.name().starts_with(VIRTUAL_FUNCTIONS);
        if virtual_functions {
            global.make_internal();
        }
        if (virtual_functions || local && global.is_global_constant()) && !literals {
            // A literal. Other local variables are listed although the host cannot name them: LLVM assumes that a
            // variable whose address does not escape is safe from other threads at a suspension point.
            continue;
        }
        let name = global.name();
        let symbol = format!("{name}.device");
        let moved = module.add_global(&symbol, global.value_type());
        moved.set_alignment(global.alignment().max(machine.align_of(global.value_type())));
        if let Some(value) = defined {
            moved.set_initializer(value);
        }
        moved.make_mutable();
        if space == 0 {
            global.replace_uses_with(moved);
        } else {
            global.replace_uses_with(constant_address_space_cast(moved, context.ptr_type(space)));
        }
        let bytes = machine.size_of(global.value_type());
        variables.push(Variable { name, symbol, bytes, constant: space == CONSTANT });
        global.delete();
    }
    variables
}

/// Gives the `__nv_*` functions in use the bodies of [`math`] and [`library`], and removes libdevice's body from all. A
/// function without a replacement is only declared, and the check reports it.
fn replace_math(context: Context, module: &Module) -> Result<(), String> {
    let mut from_library = false;
    for function in module.functions() {
        let name = function.name();
        if !name.starts_with(math::PREFIX) {
            continue;
        }
        let (own, in_library) = (math::definition(&name), library::defines(&name));
        if own.is_none() && !in_library && !is_libdevices(function) {
            continue;
        }
        let ty = function.value_type();
        let is_used = !function.users().is_empty();
        function.set_name("");
        let declared = module.add_function(&name, ty);
        function.replace_uses_with(declared);
        function.delete();
        if !is_used {
            declared.delete();
        } else if let Some(text) = own {
            let own = context.parse_text(&text)?;
            if own.function(&name).is_some_and(|own| own.value_type() == ty) {
                link(context, module, own, &name)?;
            }
        } else {
            from_library |= in_library;
        }
    }
    if from_library {
        link(context, module, context.parse_text(library::TEXT)?, "mathematics")?;
    }
    Ok(())
}

/// True for a function of libdevice: CUDA's headers use similar names, but lack the floating-point attribute that older
/// compilers put on every function.
fn is_libdevices(function: Value) -> bool {
    function.string_attribute("less-precise-fpmad").is_some()
}

fn link(context: Context, module: &Module, other: Module, name: &str) -> Result<(), String> {
    other.set_layout_of(module);
    module.link(other).map_err(|()| format!("{name}: {}", context.messages()))
}

fn prepare_function(context: Context, function: Value, is_kernel: bool) {
    if function.is_declaration() {
        return;
    }
    for name in DEVICE_ATTRIBUTES {
        function.remove_attribute(name);
    }
    for key in DEVICE_STRING_ATTRIBUTES {
        function.remove_string_attribute(key);
    }
    if !is_kernel {
        function.make_internal();
        function.add_attribute("alwaysinline");
    }
    let invariant = context.metadata_kind("invariant.load");
    for instruction in function.instructions() {
        // `__ldg` and loads through `restrict`: constant for a GPU kernel, but here ordinary loads that are recorded.
        if instruction.has_metadata(invariant) {
            instruction.remove_metadata(invariant);
        }
        if instruction.opcode() == Some(Opcode::LLVMCall) {
            instruction.remove_call_attribute("noinline");
        }
    }
}
