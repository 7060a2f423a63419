//! Implements `__managed__` variables, which clang supports for HIP only. `eagercc` turns the keyword into a section,
//! and this module emits the code that nvcc would emit.
//!
//! Host code reaches such a variable through a pointer that the runtime fills in. GPU code gets the annotation from
//! which PTX's `.attribute(.managed)` is emitted, and CPU kernels read the pointer from a device variable of their own.
//! Under `-fgpu-rdc` the linker registers the variables (`driver/include/eager/managed_link.c`), and other files may
//! declare them. The address is known only when the program runs, so a constant cannot hold it.

use std::collections::BTreeMap;
use std::ffi::CStr;

use crate::llvm_sys::core::*;
use crate::llvm_sys::prelude::*;
use crate::llvm_sys::{LLVMIntPredicate, LLVMLinkage, LLVMOpcode, LLVMVisibility};

use super::constants::{Constants, c_name};
use super::tasks::Builder;
use crate::ir::{Module, Value};
use crate::read::kernels::OFFLOAD_ENTRY;

/// Section that the driver's header (`driver/include/eager/managed.h`) puts `__managed__` variables into. A section is
/// the one mark that clang also puts on a declaration.
const SECTION: &str = ".eager.managed";
/// Suffix of the variable that holds the address. The stand-in runtime knows it (`cudart`).
pub const POINTER_SUFFIX: &str = ".managed";

/// Section in which the program lists its pointers for the linker's registration (`-fgpu-rdc`).
const LIST_SECTION: &CStr = c"eager_managed";
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

unsafe extern "C" {
    fn eager_expand_constants(global: LLVMValueRef);
    fn eager_append_used(module: LLVMModuleRef, global: LLVMValueRef);
}

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
pub fn mark(module: Module<'_>) -> bool {
    let found = variables(module);
    let context = module.context();
    for variable in &found {
        // SAFETY: the variable is a live global of the module, and the nodes are of its context.
        unsafe {
            let one = LLVMConstInt(LLVMInt32TypeInContext(context), 1, 0);
            let word = LLVMMDStringInContext2(context, c"managed".as_ptr(), 7);
            let mut parts = [LLVMValueAsMetadata(variable.raw()), word, LLVMValueAsMetadata(one)];
            let node = LLVMMDNodeInContext2(context, parts.as_mut_ptr(), parts.len());
            LLVMAddNamedMetadataOperand(
                module.raw(),
                c"nvvm.annotations".as_ptr(),
                LLVMMetadataAsValue(context, node),
            );
        }
    }
    !found.is_empty()
}

/// Redirects every use in CPU device code (of the whole program under `-fgpu-rdc`) through a pointer `NAME.managed`.
/// The variable itself keeps only the initial bytes of the managed memory.
pub fn point_device(module: Module<'_>) {
    for variable in variables(module).into_iter().filter(|variable| !variable.is_declaration()) {
        // SAFETY: the variable is a live global; its type is a pointer, and CPU code has sections of its own.
        let pointer = unsafe {
            LLVMSetSection(variable.raw(), c"".as_ptr());
            LLVMTypeOf(variable.raw())
        };
        let slot = pointer_variable(module, variable, pointer, LLVMLinkage::LLVMInternalLinkage);
        replace_uses(module, variable, |builder| {
            // SAFETY: the slot holds a value of this type.
            unsafe { LLVMBuildLoad2(builder.raw, pointer, slot, c"".as_ptr()) }
        });
    }
}

/// Redirects every use in host code through a pointer that is registered with `__cudaRegisterManagedVar`. Returns
/// whether there were any variables.
///
/// # Errors
/// Names a variable that neither this module nor the linker registers, or whose address a constant holds.
pub fn point_host(module: Module<'_>) -> Result<bool, ManagedError> {
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
        replace_uses(module, variable, |builder| {
            // SAFETY: the function takes the address of a pointer variable, which the slot is.
            unsafe { LLVMBuildCall2(builder.raw, ty, address, [slot].as_mut_ptr(), 1, c"".as_ptr()) }
        });
        if let Some(user) = holders(variable).into_iter().find(|holder| !is_table_of_clang(holder)) {
            return Err(ManagedError::Constant { name: variable.name(), user });
        }
        // SAFETY: only clang's tables still refer to it (checked above); the slot is of the same type, and the variable
        // is not used after this.
        unsafe {
            LLVMReplaceAllUsesWith(variable.raw(), slot);
            LLVMDeleteGlobal(variable.raw());
        }
    }
    Ok(!found.is_empty())
}

/// Makes every registration, clang's or nvcc's, report to the shim how many bytes the variable takes.
pub fn report_sizes(module: Module<'_>) {
    let Some(function) = module.function(REGISTER_MANAGED) else { return };
    let constants = Constants::new(module);
    let (ty, count) = constants.declare(eager_abi::MANAGED_VARIABLE, &mut [constants.int(64)]);
    for call in function.users() {
        let Some(bytes) = call.call_args().get(REGISTERED_BYTES).copied() else { continue };
        if bytes.integer_bits() == Some(64) {
            Builder::before(module, call).call(ty, count, &mut [bytes.raw()]);
        }
    }
}

/// Managed variables in module order, including those that the file only declares.
fn variables(module: Module<'_>) -> Vec<Value<'_>> {
    let is_managed = |global: &Value<'_>| global.section().is_some_and(|section| section == SECTION);
    module.globals().into_iter().filter(is_managed).collect()
}

/// Adds a variable `NAME.managed` for an address, in the address space of the variable; null until the runtime fills it
/// in.
fn pointer_variable(
    module: Module<'_>,
    variable: Value<'_>,
    pointer: LLVMTypeRef,
    linkage: LLVMLinkage,
) -> LLVMValueRef {
    let name = c_name(&format!("{}{POINTER_SUFFIX}", variable.name()));
    // SAFETY: the variable is a live global of the module; the new one is of a pointer type, for which null is a value.
    unsafe {
        let space = LLVMGetPointerAddressSpace(LLVMTypeOf(variable.raw()));
        let slot = LLVMAddGlobalInAddressSpace(module.raw(), pointer, name.as_ptr(), space);
        LLVMSetInitializer(slot, LLVMConstNull(pointer));
        LLVMSetLinkage(slot, linkage);
        LLVMSetExternallyInitialized(slot, 1);
        slot
    }
}

/// Adds the pointer variable under `-fgpu-rdc`, where other files may use it: the file that defines the managed
/// variable lists the pointer for registration, other files declare it.
fn linked_pointer(constants: Constants<'_>, variable: Value<'_>) -> LLVMValueRef {
    let module = constants.module();
    // SAFETY: the variable is a live global; the slot and its entry are variables just made in this module. The entry
    // is marked as used, because only the section's name leads to it. Hidden visibility is set only on symbols that
    // other files may see.
    unsafe {
        let slot = pointer_variable(module, variable, constants.pointer(), LLVMGetLinkage(variable.raw()));
        if variable.is_declaration() {
            LLVMSetInitializer(slot, std::ptr::null_mut());
            LLVMSetExternallyInitialized(slot, 0);
        } else {
            let entry = constants.global("eager.managed_entry", slot);
            LLVMSetSection(entry, LIST_SECTION.as_ptr());
            eager_append_used(module.raw(), entry);
        }
        if !variable.is_internal() {
            LLVMSetVisibility(slot, LLVMVisibility::LLVMHiddenVisibility);
        }
        slot
    }
}

/// Replaces clang's registration as a device variable by nvcc's as a managed one. The arguments are the same except for
/// the second, which is the slot that receives the address.
fn register(constants: Constants<'_>, variable: Value<'_>, slot: LLVMValueRef) -> Result<(), ManagedError> {
    let module = constants.module();
    let registers = |user: &Value<'_>| user.callee_name().is_some_and(|name| name == REGISTER_VARIABLE);
    let Some(call) = variable.users().into_iter().find(registers) else {
        return Err(ManagedError::Unregistered { name: variable.name() });
    };
    let mut arguments: Vec<LLVMValueRef> = call.call_args().into_iter().map(Value::raw).collect();
    arguments[1] = slot;
    // SAFETY: the arguments are those of a live call of this function, and their types are taken from them. clang
    // declares HIP's function of this name, which has other parameters and no use here.
    unsafe {
        let mut types: Vec<LLVMTypeRef> = arguments.iter().map(|&argument| LLVMTypeOf(argument)).collect();
        let ty = LLVMFunctionType(constants.void(), types.as_mut_ptr(), types.len() as u32, 0);
        if let Some(other) = module.function(REGISTER_MANAGED)
            && LLVMGlobalGetValueType(other.raw()) != ty
        {
            LLVMSetValueName2(other.raw(), c"".as_ptr(), 0);
            if other.users().is_empty() {
                LLVMDeleteFunction(other.raw());
            }
        }
        let (ty, function) = constants.declare(REGISTER_MANAGED, &mut types);
        Builder::before(module, call).call(ty, function, &mut arguments);
        LLVMInstructionEraseFromParent(call.raw());
    }
    Ok(())
}

fn address_type(constants: Constants<'_>) -> LLVMTypeRef {
    // SAFETY: the types are of the module's context.
    unsafe { LLVMFunctionType(constants.pointer(), [constants.pointer()].as_mut_ptr(), 1, 0) }
}

/// Adds `ptr address(ptr slot)`: returns the slot's pointer, and calls `__cudaInitModule` first where that is null, as
/// nvcc's code does. Without a handle, it calls the linker's registration instead.
fn address_function(constants: Constants<'_>, handle: Option<Value<'_>>) -> LLVMValueRef {
    let module = constants.module();
    if let Some(known) = module.function(ADDRESS) {
        return known.raw();
    }
    let (context, pointer) = (module.context(), constants.pointer());
    // SAFETY: every type, function and block is of this module's context; the builder is disposed of, and each
    // instruction uses values made before it on every path to it.
    unsafe {
        let function = LLVMAddFunction(module.raw(), c_name(ADDRESS).as_ptr(), address_type(constants));
        LLVMSetLinkage(function, LLVMLinkage::LLVMInternalLinkage);
        let [entry, first, done] = [c"entry", c"first", c"done"]
            .map(|name| LLVMAppendBasicBlockInContext(context, function, name.as_ptr()));
        let builder = LLVMCreateBuilderInContext(context);
        let slot = LLVMGetParam(function, 0);
        LLVMPositionBuilderAtEnd(builder, entry);
        let known = LLVMBuildLoad2(builder, pointer, slot, c"".as_ptr());
        let missing =
            LLVMBuildICmp(builder, LLVMIntPredicate::LLVMIntEQ, known, constants.null(), c"".as_ptr());
        LLVMBuildCondBr(builder, missing, first, done);
        LLVMPositionBuilderAtEnd(builder, first);
        let (ty, init, mut arguments) = match handle {
            Some(handle) => {
                let (ty, init) = init_module(constants);
                (ty, init, vec![LLVMBuildLoad2(builder, pointer, handle.raw(), c"".as_ptr())])
            }
            None => {
                let (ty, init) = constants.declare(LINKED_INIT, &mut []);
                LLVMSetVisibility(init, LLVMVisibility::LLVMHiddenVisibility);
                (ty, init, Vec::new())
            }
        };
        let count = arguments.len() as u32;
        LLVMBuildCall2(builder, ty, init, arguments.as_mut_ptr(), count, c"".as_ptr());
        LLVMBuildBr(builder, done);
        LLVMPositionBuilderAtEnd(builder, done);
        let address = LLVMBuildLoad2(builder, pointer, slot, c"".as_ptr());
        LLVMBuildRet(builder, address);
        LLVMDisposeBuilder(builder);
        function
    }
}

/// Returns type and declaration of `char __cudaInitModule(void **)`.
fn init_module(constants: Constants<'_>) -> (LLVMTypeRef, LLVMValueRef) {
    let module = constants.module();
    // SAFETY: the types are of the module's context, and no function of this name exists when it is added.
    unsafe {
        let ty = LLVMFunctionType(constants.int(8), [constants.pointer()].as_mut_ptr(), 1, 0);
        let known = module.function(INIT_MODULE).map(Value::raw);
        let init = known.unwrap_or_else(|| LLVMAddFunction(module.raw(), c_name(INIT_MODULE).as_ptr(), ty));
        (ty, init)
    }
}

/// Replaces every use in an instruction by a value that `make` emits before the instruction; for a phi, at the end of
/// the incoming block.
fn replace_uses<'m>(module: Module<'m>, variable: Value<'m>, make: impl Fn(&Builder<'m>) -> LLVMValueRef) {
    // SAFETY: the variable is a live global of the module; only instructions are added.
    unsafe { eager_expand_constants(variable.raw()) };
    // A user is listed once per operand; its first visit replaces all operands, and later visits find none.
    for user in variable.users().into_iter().filter(|user| user.opcode().is_some()) {
        let is_phi = user.opcode() == Some(LLVMOpcode::LLVMPHI);
        // A phi may list a block twice, and then must get the same value for both.
        let mut made: BTreeMap<usize, LLVMValueRef> = BTreeMap::new();
        for (index, operand) in user.operands().into_iter().enumerate() {
            if operand.raw() != variable.raw() {
                continue;
            }
            let index = index as u32;
            // SAFETY: the user is a live instruction; a phi has an incoming block, with a terminator, for each operand.
            let place = unsafe {
                if is_phi {
                    LLVMGetBasicBlockTerminator(LLVMGetIncomingBlock(user.raw(), index))
                } else {
                    user.raw()
                }
            };
            let Some(before) = Value::from_raw(place) else { continue };
            let value = *made.entry(place as usize).or_insert_with(|| make(&Builder::before(module, before)));
            // SAFETY: the new value has the variable's type and precedes every place where this operand is read.
            unsafe { LLVMSetOperand(user.raw(), index, value) };
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
        } else if user.opcode().is_none() {
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
