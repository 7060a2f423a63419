//! Implements `__managed__` variables, which clang supports for HIP only. `eagercc` turns the keyword into a section,
//! and this module emits the code that nvcc would emit.
//!
//! Host code reaches such a variable through a pointer that the runtime fills in. GPU code gets the annotation from
//! which PTX's `.attribute(.managed)` is emitted, and CPU kernels read the pointer from a device variable of their own.
//! Under `-fgpu-rdc` the linker registers the variables (`driver/include/eager/managed_link.c`), and other files may
//! declare them. The address is known only when the program runs, so a constant cannot hold it.

use std::collections::BTreeMap;

use eager_llvm::{Block, Builder, LLVMLinkage, Module, Type, Value};

use super::builder_before;
use super::constants::Constants;
use crate::read::kernels::OFFLOAD_ENTRY;

/// Section that the driver's header (`driver/include/eager/managed.h`) puts `__managed__` variables into. A section is
/// the one mark that clang also puts on a declaration.
const SECTION: &str = ".eager.managed";
/// Suffix of the variable that holds the address. The stand-in runtime knows it (`cudart`).
pub const POINTER_SUFFIX: &str = ".managed";

/// Section in which the program lists its pointers for the linker's registration (`-fgpu-rdc`).
const LIST_SECTION: &str = "eager_managed";
/// Function that fills in the addresses in such a program.
const LINKED_INIT: &str = "eager_managed_init";
/// clang's lists of device variables that are kept because host code uses them.
const KEEP_LISTS: [&str; 2] = ["__clang_gpu_used_external", "llvm.compiler.used"];
/// clang's variable for the result of `__cudaRegisterFatBinary`; only in a file that registers its own device code.
const HANDLE: &str = "__cuda_gpubin_handle";
const REGISTER_VARIABLE: &str = "__cudaRegisterVar";
const REGISTER_MANAGED: &str = "__cudaRegisterManagedVar";
/// Index of its argument that holds the size.
const REGISTERED_BYTES: usize = 5;
const INIT_MODULE: &str = "__cudaInitModule";
/// Function that returns a variable's address, and makes the runtime fill the address in first if it is missing.
const ADDRESS: &str = "eager.managed_address";

/// Reason why the host code of a managed variable cannot be emitted.
#[derive(Debug, thiserror::Error)]
pub enum ManagedError {
    #[error(
        "__managed__ variable {name}: this file only declares it: to use a variable of another file, compile with -fgpu-rdc"
    )]
    Unregistered { name: String },
    #[error(
        "__managed__ variable {name}: its address is known only at run time, so it cannot be in the initial value of {user}: set {user} in a function"
    )]
    Constant { name: String, user: String },
}

/// Annotates the variables in device code for a GPU, so that the driver puts them into managed memory. Returns whether
/// there were any.
pub fn mark<'m>(module: &'m Module<'m>) -> bool {
    let found = variables(module);
    let context = module.context();
    for &variable in &found {
        let node = context.annotation_node(variable, "managed", context.int_type(32).constant(1));
        module.add_named_metadata("nvvm.annotations", node);
    }
    !found.is_empty()
}

/// Redirects every use in CPU device code (of the whole program under `-fgpu-rdc`) through a pointer `NAME.managed`.
/// The variable itself keeps only the initial bytes of the managed memory.
pub fn point_device<'m>(module: &'m Module<'m>) {
    for variable in variables(module).into_iter().filter(|variable| !variable.is_declaration()) {
        // CPU code has sections of its own.
        variable.set_section("");
        let pointer = variable.ty();
        let slot = pointer_variable(module, variable, pointer, LLVMLinkage::LLVMInternalLinkage);
        replace_uses(module, variable, |builder| builder.load(pointer, slot));
    }
}

/// Redirects every use in host code through a pointer that is registered with `__cudaRegisterManagedVar`. Returns
/// whether there were any variables.
///
/// # Errors
/// Names a variable that neither this module nor the linker registers, or whose address a constant holds.
pub fn point_host<'m>(module: &'m Module<'m>) -> Result<bool, ManagedError> {
    let found = variables(module);
    let handle = module.global(HANDLE);
    let constants = Constants::new(module);
    for &variable in &found {
        let slot = match handle {
            Some(_) => {
                let internal = LLVMLinkage::LLVMInternalLinkage;
                let slot = pointer_variable(module, variable, constants.pointer(), internal);
                register(constants, variable, slot)?;
                slot
            }
            None => linked_pointer(constants, variable),
        };
        let address = address_function(constants, handle);
        let ty = address_type(constants);
        replace_uses(module, variable, |builder| builder.call_as(ty, address, &[slot]));
        if let Some(user) = holders(variable).into_iter().find(|holder| !is_table_of_clang(holder)) {
            return Err(ManagedError::Constant { name: variable.name(), user });
        }
        // Only clang's tables still refer to it.
        variable.replace_uses_with(slot);
        variable.delete();
    }
    Ok(!found.is_empty())
}

/// Makes every registration, clang's or nvcc's, report to the shim how many bytes the variable takes.
pub fn report_sizes<'m>(module: &'m Module<'m>) {
    let Some(function) = module.function(REGISTER_MANAGED) else { return };
    let constants = Constants::new(module);
    let (ty, count) = constants.declare(eager_abi::MANAGED_VARIABLE, &[constants.int(64)]);
    for call in function.users() {
        let Some(bytes) = call.call_args().get(REGISTERED_BYTES).copied() else { continue };
        if bytes.integer_bits() == Some(64) {
            builder_before(module, call).call_as(ty, count, &[bytes]);
        }
    }
}

/// Managed variables in module order, including those that the file only declares.
fn variables<'m>(module: &'m Module<'m>) -> Vec<Value<'m>> {
    let is_managed = |global: &Value<'_>| global.section().is_some_and(|section| section == SECTION);
    module.globals().into_iter().filter(is_managed).collect()
}

/// Adds a variable `NAME.managed` for an address, in the address space of the variable; null until the runtime fills it
/// in.
fn pointer_variable<'m>(
    module: &'m Module<'m>,
    variable: Value<'m>,
    pointer: Type<'m>,
    linkage: LLVMLinkage,
) -> Value<'m> {
    let name = format!("{}{POINTER_SUFFIX}", variable.name());
    let slot = module.add_global_in(&name, pointer, variable.ty().pointer_address_space());
    slot.set_initializer(pointer.null());
    slot.set_linkage(linkage);
    slot.make_externally_initialized();
    slot
}

/// Adds the pointer variable under `-fgpu-rdc`, where other files may use it: the file that defines the managed
/// variable lists the pointer for registration, other files declare it.
fn linked_pointer<'m>(constants: Constants<'m>, variable: Value<'m>) -> Value<'m> {
    let module = constants.module();
    let slot = pointer_variable(module, variable, constants.pointer(), variable.linkage());
    if variable.is_declaration() {
        slot.make_external();
    } else {
        // Marked as used, because only the section's name leads to it.
        let entry = constants.global("eager.managed_entry", slot);
        entry.set_section(LIST_SECTION);
        module.append_used(entry);
    }
    // Only symbols that other files may see have a visibility.
    if !variable.is_internal() {
        slot.hide();
    }
    slot
}

/// Replaces clang's registration as a device variable by nvcc's as a managed one. The arguments are the same except for
/// the second, which is the slot that receives the address.
fn register<'m>(constants: Constants<'m>, variable: Value<'m>, slot: Value<'m>) -> Result<(), ManagedError> {
    let module = constants.module();
    let registers = |user: &Value<'_>| user.callee_name().is_some_and(|name| name == REGISTER_VARIABLE);
    let Some(call) = variable.users().into_iter().find(registers) else {
        return Err(ManagedError::Unregistered { name: variable.name() });
    };
    let mut arguments = call.call_args();
    arguments[1] = slot;
    let types: Vec<Type<'_>> = arguments.iter().map(|argument| argument.ty()).collect();
    // clang declares HIP's function of this name, which has other parameters and no use here.
    if let Some(other) = module.function(REGISTER_MANAGED)
        && other.value_type() != Type::function(constants.void(), &types)
    {
        other.set_name("");
        if other.users().is_empty() {
            other.delete();
        }
    }
    let (ty, function) = constants.declare(REGISTER_MANAGED, &types);
    builder_before(module, call).call_as(ty, function, &arguments);
    call.erase();
    Ok(())
}

fn address_type<'m>(constants: Constants<'m>) -> Type<'m> {
    Type::function(constants.pointer(), &[constants.pointer()])
}

/// Adds `ptr address(ptr slot)`: returns the slot's pointer, and calls `__cudaInitModule` first where that is null, as
/// nvcc's code does. Without a handle, it calls the linker's registration instead.
fn address_function<'m>(constants: Constants<'m>, handle: Option<Value<'m>>) -> Value<'m> {
    let module = constants.module();
    if let Some(known) = module.function(ADDRESS) {
        return known;
    }
    let (context, pointer) = (module.context(), constants.pointer());
    let function = module.add_function(ADDRESS, address_type(constants));
    function.set_linkage(LLVMLinkage::LLVMInternalLinkage);
    let [entry, first, done] = ["entry", "first", "done"].map(|name| context.append_block(function, name));
    let builder = context.builder();
    let slot = function.params()[0];
    builder.at_end(entry);
    let known = builder.load(pointer, slot);
    builder.branch_if(builder.equal(known, constants.null()), first, done);
    builder.at_end(first);
    match handle {
        Some(handle) => {
            let ty = Type::function(constants.int(8), &[pointer]);
            let (ty, init) = constants.declare_type(INIT_MODULE, ty);
            builder.call_as(ty, init, &[builder.load(pointer, handle)]);
        }
        None => {
            let (ty, init) = constants.declare(LINKED_INIT, &[]);
            init.hide();
            builder.call_as(ty, init, &[]);
        }
    }
    builder.branch(done);
    builder.at_end(done);
    builder.return_value(builder.load(pointer, slot));
    function
}

/// Replaces every use in an instruction by a value that `make` emits before the instruction; for a phi, at the end of
/// the incoming block.
fn replace_uses<'m>(module: &'m Module<'m>, variable: Value<'m>, make: impl Fn(&Builder<'m>) -> Value<'m>) {
    variable.expand_constants();
    // A user is listed once per operand; its first visit replaces all operands, and later visits find none.
    for user in variable.users().into_iter().filter(|user| user.is_instruction()) {
        // Blocks that the operands of a phi come from.
        let from: Vec<Block<'m>> = user.incoming().into_iter().map(|(_, block)| block).collect();
        // A phi may list a block twice, and then must get the same value for both.
        let mut made: BTreeMap<Value<'m>, Value<'m>> = BTreeMap::new();
        for (index, operand) in user.operands().into_iter().enumerate() {
            if operand != variable {
                continue;
            }
            let before = from.get(index).map_or(user, |block| block.terminator());
            let value = *made.entry(before).or_insert_with(|| make(&builder_before(module, before)));
            user.set_operand(index as u32, value);
        }
    }
}

/// Names of the globals whose constant initializers contain the variable's address.
fn holders(variable: Value<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = variable.users();
    while let Some(user) = open.pop() {
        if user.is_global() {
            found.push(user.name());
        } else if !user.is_instruction() {
            open.extend(user.users());
        }
    }
    found
}

/// Whether a global is a table of clang's, in which the pointer's address may replace the variable's without a change
/// in the program's meaning.
fn is_table_of_clang(name: &str) -> bool {
    name.starts_with(OFFLOAD_ENTRY) || KEEP_LISTS.contains(&name)
}
