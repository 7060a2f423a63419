//! Finds CUDA runtime calls, also behind clang's typed wrappers.
//!
//! CUDA's headers wrap several calls in C++ templates (`cudaMalloc<float>(float **, size_t)`), which clang emits as
//! small internal functions. Trap: the user's function calls the wrapper, not the C function. A pass that looks for
//! `cudaMalloc` alone finds no allocation in most programs.

use std::collections::BTreeMap;

use eager_llvm::{Module, Opcode, Value};

/// Source of an argument of the wrapped call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrappedArg<'m> {
    /// The wrapper's own parameter.
    Param(usize),
    Fixed(Value<'m>),
}

/// A function that does nothing but call one runtime function with its own parameters and constants. A function that
/// computes an argument is an ordinary one.
#[derive(Clone, Debug)]
pub struct Wrapper<'m> {
    pub call: String,
    pub args: Vec<WrappedArg<'m>>,
}

/// A runtime call at a call site, with arguments in the order of the C function; `None` where the call has too few.
#[derive(Clone, Debug)]
pub struct RuntimeCall<'m> {
    pub name: String,
    pub args: Vec<Option<Value<'m>>>,
}

/// All wrappers of the module, by function.
#[derive(Clone, Debug, Default)]
pub struct Wrappers<'m>(BTreeMap<Value<'m>, Wrapper<'m>>);

/// Returns the CUDA runtime's name for a function that has that name or the shim's name for it; `None` for other names.
#[must_use]
pub fn runtime_name(name: &str) -> Option<&str> {
    let plain = name.strip_prefix(eager_abi::RENAME_PREFIX).unwrap_or(name);
    plain
        .strip_prefix("cuda")
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|_| plain)
}

impl<'m> Wrappers<'m> {
    /// Finds the wrappers: single-block functions with exactly one call, to a declared runtime function.
    #[must_use]
    pub fn find(module: &'m Module<'m>) -> Self {
        let found = module.functions().into_iter().filter_map(|f| wrapper_of(f).map(|wrapper| (f, wrapper)));
        Self(found.collect())
    }

    #[must_use]
    pub fn is_wrapper(&self, function: Value<'m>) -> bool {
        self.0.contains_key(&function)
    }

    /// The runtime call that an instruction makes, directly or through a wrapper.
    #[must_use]
    pub fn runtime_call(&self, instruction: Value<'m>) -> Option<RuntimeCall<'m>> {
        let callee = instruction.call_target().filter(|callee| callee.is_function())?;
        let args = instruction.call_args();
        if let Some(wrapper) = self.0.get(&callee) {
            let through = |arg: &WrappedArg<'m>| match *arg {
                WrappedArg::Param(index) => args.get(index).copied(),
                WrappedArg::Fixed(value) => Some(value),
            };
            return Some(RuntimeCall {
                name: wrapper.call.clone(),
                args: wrapper.args.iter().map(through).collect(),
            });
        }
        let name = runtime_name(&callee.name()).filter(|_| callee.is_declaration())?.to_owned();
        Some(RuntimeCall { name, args: args.into_iter().map(Some).collect() })
    }
}

fn wrapper_of<'m>(function: Value<'m>) -> Option<Wrapper<'m>> {
    let [block] = function.blocks().try_into().ok()?;
    let instructions = block.instructions();
    let stays = |store: &&Value<'_>| {
        store.operand_at(1).is_some_and(|to| to.instruction_opcode() == Some(Opcode::LLVMAlloca))
    };
    let mut stores = instructions.iter().filter(|i| i.instruction_opcode() == Some(Opcode::LLVMStore));
    if !stores.all(|store| stays(&store)) {
        return None;
    }
    let mut calls = instructions.iter().filter(|i| i.call_target().is_some() && !is_intrinsic(**i));
    let (call, None) = (*calls.next()?, calls.next()) else { return None };
    let callee = call.call_target().filter(|callee| callee.is_function() && callee.is_declaration())?;
    let name = runtime_name(&callee.name())?.to_owned();
    let params = function.params();
    let args = call.call_args().into_iter().map(|arg| wrapped_arg(arg, &params));
    Some(Wrapper { call: name, args: args.collect::<Option<_>>()? })
}

fn is_intrinsic(call: Value<'_>) -> bool {
    call.callee_name().is_some_and(|name| name.starts_with("llvm."))
}

/// Finds the source of an argument, also through the slot in which unoptimised code stores each parameter.
fn wrapped_arg<'m>(arg: Value<'m>, params: &[Value<'m>]) -> Option<WrappedArg<'m>> {
    if let Some(index) = params.iter().position(|&param| param == arg) {
        return Some(WrappedArg::Param(index));
    }
    if arg.is_constant() {
        return Some(WrappedArg::Fixed(arg));
    }
    stored_param(arg, params).map(WrappedArg::Param)
}

fn stored_param<'m>(load: Value<'m>, params: &[Value<'m>]) -> Option<usize> {
    if load.instruction_opcode() != Some(Opcode::LLVMLoad) {
        return None;
    }
    let slot = load.operand_at(0).filter(|slot| slot.instruction_opcode() == Some(Opcode::LLVMAlloca))?;
    let mut stores =
        slot.users().into_iter().filter(|user| user.instruction_opcode() == Some(Opcode::LLVMStore));
    let (store, None) = (stores.next()?, stores.next()) else { return None };
    let stored = store.operand_at(0)?;
    params.iter().position(|&param| param == stored)
}
