//! The table of runtime functions: addresses in the program's own CUDA runtime of the calls that the shim makes for it.
//!
//! The linker fills the addresses in, so the shim calls the copy of the runtime that knows the program's kernels: the
//! static runtime, or any version of the shared one. Trap: a call that the source made must stay a strong reference
//! after the renaming, so that the same library is linked. A call that only the shim makes must be weak, because the
//! program's version of CUDA may lack it.

use std::collections::BTreeSet;

use eager_llvm::{LLVMLinkage, Module, Value};

use super::constants::Constants;

/// Returns the array of `eager_abi::EagerRuntimeCall` and its length. `renamed`: the calls that the module makes.
pub fn runtime_table<'m>(module: &'m Module<'m>, renamed: &[&str]) -> (Value<'m>, usize) {
    let constants = Constants::new(module);
    // The shim carries out the per-thread default stream variant of a call by the call itself.
    let bases = renamed.iter().filter_map(|name| eager_abi::calls::call(name)).map(|call| call.name);
    let own: BTreeSet<&str> = eager_abi::RUNTIME_CALLS.iter().copied().chain(bases).collect();
    let own = own.into_iter().filter(|name| !renamed.contains(name));
    let names = renamed.iter().map(|name| (*name, true)).chain(own.map(|name| (name, false)));
    let row = |(name, strong): (&str, bool)| {
        let known = module.function(name).is_some();
        let (_, function) = constants.declare(name, &[]);
        if !known && !strong {
            function.set_linkage(LLVMLinkage::LLVMExternalWeakLinkage);
        }
        constants.structure(&[constants.string("eager.call", name), function])
    };
    let rows: Vec<_> = names.map(row).collect();
    (constants.array("eager.runtime", &rows), rows.len())
}
