//! The kernels that the translation unit registers with the runtime: size and kind of each argument, and the facts from
//! the device side of the compile and from ptxas.
//!
//! clang's host stub stores each argument in a slot, builds the array of their addresses and passes it to
//! `cudaLaunchKernel`. The slots have the types of the kernel's parameters. Trap: the stub's own parameters do not,
//! because the calling convention may split a small struct in two.

use std::collections::BTreeMap;

use eager_abi::{ARG_POINTER, ARG_REPEATED, EagerKernelArg};
use eager_kernel_facts::KernelUse;
use eager_kernel_facts::resources::{self, Resources};
use eager_llvm::{Module, Opcode, Value};

use super::repeats;

/// Prefix of clang's offload entries, which describe what goes to the GPU: reserved, version, kind, flags, address,
/// name, size, ….
pub const OFFLOAD_ENTRY: &str = ".offloading.entry.";

/// Prefix that clang puts before a kernel's name for its host stub.
const STUB: &str = "__device_stub__";

/// One registered kernel.
#[derive(Clone, Debug)]
pub struct RegisteredKernel<'m> {
    /// clang's host stub, whose address is passed to `cudaLaunchKernel`.
    pub stub: Value<'m>,
    /// Mangled device name.
    pub name: String,
    pub args: Vec<EagerKernelArg>,
    pub resources: Resources,
    /// When the kernel stores none of its pointers to memory; `None` if nothing is known of the kernel or it may store
    /// them.
    pub non_retention: Option<NonRetention>,
}

/// All kernels that the module registers, in the order of registration. `uses`: facts from the device side.
#[must_use]
pub fn registered<'m>(module: &'m Module<'m>, uses: &[KernelUse]) -> Vec<RegisteredKernel<'m>> {
    // A module that a linker merged has one such function per source, with numbers appended to the name.
    let registers = module
        .functions()
        .into_iter()
        .filter(|function| function.name().starts_with("__cuda_register_globals"));
    let instructions = registers.flat_map(Value::blocks).flat_map(|block| block.instructions());
    let called = instructions.filter_map(|instruction| kernel_of(module, instruction));
    let entries = module.globals().into_iter().filter_map(|global| entry_kernel(module, global));
    let mut kernels: Vec<_> = called.chain(entries).collect();
    if kernels.is_empty() {
        return kernels;
    }
    let resources =
        resources::largest(gpu_code(module).iter().filter_map(|code| resources::of_fatbin(code).ok()));
    let repeated = repeats::repeated_functions(module);
    for kernel in &mut kernels {
        if repeated.contains(&kernel.stub) {
            let pointers = kernel.args.iter_mut().filter(|arg| arg.flags & ARG_POINTER != 0);
            pointers.for_each(|arg| arg.flags |= ARG_REPEATED);
        }
        kernel.resources = resources.get(&kernel.name).copied().unwrap_or_default();
        if let Some(found) = uses.iter().find(|found| found.name == kernel.name) {
            add_uses(&mut kernel.args, found);
            kernel.non_retention = NonRetention::of(found);
        }
    }
    kernels
}

/// When a kernel stores none of the addresses that it is given to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonRetention {
    Always,
    /// If the launch passes exactly this many pointers: the kernel's structs then hold none, so their contents do not
    /// matter.
    IfPointers(usize),
}

impl NonRetention {
    fn of(used: &KernelUse) -> Option<Self> {
        match (used.keeps_pointers, used.keeps_contents) {
            (true, _) => None,
            (false, false) => Some(Self::Always),
            (false, true) => Some(Self::IfPointers(used.pointers)),
        }
    }
}

/// Host functions of the kernels that store no pointer to memory: by registration or, if another object registers the
/// kernel, by clang's stub names.
#[must_use]
pub fn non_retaining<'m>(
    module: &'m Module<'m>,
    kernels: &[RegisteredKernel<'m>],
    uses: &[KernelUse],
) -> BTreeMap<Value<'m>, NonRetention> {
    let registered = kernels.iter().filter_map(|kernel| Some((kernel.stub, kernel.non_retention?)));
    let by_name = module.functions().into_iter().filter_map(|function| {
        let kernel = kernel_of_stub(&function.name())?;
        let used = uses.iter().find(|used| used.name == kernel)?;
        Some((function, NonRetention::of(used)?))
    });
    registered.chain(by_name).collect()
}

/// Name of the kernel that a clang stub launches: the stub's name without [`STUB`]. In a mangled name the length before
/// the function's own name shrinks accordingly.
fn kernel_of_stub(stub: &str) -> Option<String> {
    let (before, name) = stub.split_once(STUB)?;
    let start = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &before[start.len()..];
    if digits.is_empty() {
        return Some(format!("{before}{name}"));
    }
    let length = digits.parse::<usize>().ok()?.checked_sub(STUB.len())?;
    Some(format!("{start}{length}{name}"))
}

/// Kernel of one of clang's offload entries: under `-fgpu-rdc` the linker registers kernels from these tables.
fn entry_kernel<'m>(module: &'m Module<'m>, global: Value<'m>) -> Option<RegisteredKernel<'m>> {
    if !global.name().starts_with(OFFLOAD_ENTRY) {
        return None;
    }
    let fields = global.initializer()?.operands();
    let (stub, name, size) = (*fields.get(4)?, fields.get(5)?, fields.get(6)?.constant_integer()?);
    // An entry with a size is a variable.
    (size == 0 && stub.is_function())
        .then_some(())
        .and_then(|()| Some(kernel(module, stub, name.c_string()?)))
}

/// Adds flags to pointer arguments; the members of a struct have none. If the two sides count different numbers of
/// arguments, nothing is known.
fn add_uses(args: &mut [EagerKernelArg], found: &KernelUse) {
    if args.len() != found.arguments.len() {
        return;
    }
    for (arg, used) in args.iter_mut().zip(&found.arguments).filter(|(arg, _)| arg.flags & ARG_POINTER != 0) {
        arg.flags |= used.flags();
    }
}

/// Fat binaries in the module: clang's are constants in a section of their own, nvcc's is assembly.
fn gpu_code(module: &Module<'_>) -> Vec<Vec<u8>> {
    const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];
    let section = |global: &Value<'_>| global.section().is_some_and(|name| SECTIONS.contains(&name.as_str()));
    let constants = module.globals().into_iter().filter(section).filter_map(Value::constant_bytes);
    constants.chain(resources::bytes_of_assembly(&module.inline_assembly())).collect()
}

fn kernel_of<'m>(module: &'m Module<'m>, call: Value<'m>) -> Option<RegisteredKernel<'m>> {
    if call.callee_name()? != "__cudaRegisterFunction" {
        return None;
    }
    let args = call.call_args();
    let stub = *args.get(1)?;
    Some(kernel(module, stub, args.get(2)?.c_string()?))
}

fn kernel<'m>(module: &'m Module<'m>, stub: Value<'m>, name: String) -> RegisteredKernel<'m> {
    RegisteredKernel {
        stub,
        name,
        args: stub_args(module, stub),
        resources: Resources::default(),
        non_retention: None,
    }
}

/// Argument slots of a stub, in the order of `cudaLaunchKernel`'s array; empty if the stub has another form.
fn stub_args<'m>(module: &'m Module<'m>, stub: Value<'m>) -> Vec<EagerKernelArg> {
    let Some(array) = launch_array(stub) else { return Vec::new() };
    let mut slots: Vec<(i64, Value<'m>)> = Vec::new();
    for user in array.users() {
        match user.instruction_opcode() {
            Some(Opcode::LLVMStore) if user.operand_at(1) == Some(array) => {
                slots.extend(user.operand_at(0).map(|slot| (0, slot)));
            }
            Some(Opcode::LLVMGetElementPtr) => {
                let Some(offset) = module.constant_offset(user) else { return Vec::new() };
                let stores = user
                    .users()
                    .into_iter()
                    .filter(|store| store.instruction_opcode() == Some(Opcode::LLVMStore));
                slots.extend(stores.filter_map(|store| store.operand_at(0)).map(|slot| (offset, slot)));
            }
            _ => {}
        }
    }
    slots.sort_unstable();
    slots.into_iter().filter_map(|(_, slot)| slot_arg(module, slot)).collect()
}

fn launch_array(stub: Value<'_>) -> Option<Value<'_>> {
    let launch = stub.blocks().into_iter().flat_map(|block| block.instructions()).find(|instruction| {
        instruction
            .callee_name()
            .is_some_and(|name| super::calls::runtime_name(&name) == Some("cudaLaunchKernel"))
    })?;
    launch.call_args().get(5).copied().filter(|array| array.instruction_opcode() == Some(Opcode::LLVMAlloca))
}

fn slot_arg(module: &Module<'_>, slot: Value<'_>) -> Option<EagerKernelArg> {
    let ty = slot.slot_type().or_else(|| slot.own_byval_type())?;
    let size = u32::try_from(module.size_of(ty)).ok()?;
    Some(EagerKernelArg { size, flags: if ty.is_pointer() { ARG_POINTER } else { 0 } })
}

#[cfg(test)]
mod tests {
    use super::kernel_of_stub;

    #[test]
    fn a_stub_names_its_kernel() {
        for (stub, kernel) in [
            ("_Z18__device_stub__onePi", Some("_Z3onePi")),
            ("_ZN1a16__device_stub__kEPf", Some("_ZN1a1kEPf")),
            ("__device_stub__plain", Some("plain")),
            ("_Z3onePi", None),
            ("_Z1__device_stub__k", None),
        ] {
            assert_eq!(kernel_of_stub(stub).as_deref(), kernel);
        }
    }
}
