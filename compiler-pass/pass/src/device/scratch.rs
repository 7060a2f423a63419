//! A copy of the device module in a context of its own, simplified for the reader: helpers inlined into kernels,
//! variables in SSA form.
//!
//! Trap: a copy in clang's context would report every inlining to the user a second time (`-Rpass=inline`). And
//! inlining everything can grow code without limit, so functions that would add too much code stay calls.

use std::collections::BTreeMap;

use eager_llvm::{LLVMLinkage, Module, OwnContext, Value};

const PASSES: &str = "always-inline,globaldce,function(sroa,early-cse,simplifycfg)";
/// Limit on the instructions that inlining may add in one module.
const GROWTH_MAX: usize = 200_000;
/// Calling convention of `ptx_kernel` functions since LLVM 20.
const PTX_KERNEL: u32 = 71;
/// Metadata in which LLVM before 20 lists kernels.
const ANNOTATIONS: &str = "nvvm.annotations";

/// Runs a function on the copy and the names of its kernels, in the order of the file; `None` if LLVM cannot read its
/// own bitcode back. The context collects what LLVM says, and nobody asks for it.
pub fn with_copy<R>(bitcode: &[u8], run: impl FnOnce(&Module<'_>, &[String]) -> R) -> Option<R> {
    let own = OwnContext::new();
    let copy = own.handle().parse_bitcode(bitcode).ok()?;
    let kernels = kernels(&copy);
    simplify(&copy, &kernels);
    Some(run(&copy, &kernels))
}

/// Names of the kernels with a body, in the order of the file.
fn kernels(module: &Module<'_>) -> Vec<String> {
    let annotated: Vec<String> =
        module.annotated_functions(ANNOTATIONS, "kernel").into_iter().map(Value::name).collect();
    let functions = module.functions().into_iter().filter(|function| !function.is_declaration());
    let is_kernel = |function: &Value<'_>| {
        function.calling_convention() == PTX_KERNEL || annotated.contains(&function.name())
    };
    functions.filter(is_kernel).map(Value::name).collect()
}

/// Inlines and simplifies. A failure leaves the code unchanged, which costs precision only.
fn simplify(module: &Module<'_>, kernels: &[String]) {
    let defined: Vec<Value<'_>> =
        module.functions().into_iter().filter(|function| !function.is_declaration()).collect();
    for &function in &defined {
        for name in ["noinline", "optnone", "alwaysinline", "optsize", "minsize"] {
            function.remove_attribute(name);
        }
        allow_inlining_of_calls(function);
    }
    for function in worth_inlining(&defined, kernels) {
        function.add_attribute("alwaysinline");
    }
    // Nothing outside of it refers to the copy.
    for &function in defined.iter().filter(|function| !kernels.contains(&function.name())) {
        function.set_linkage(LLVMLinkage::LLVMInternalLinkage);
    }
    // The result is not asked for: see above.
    let _ = module.run_passes_with(PASSES, None);
}

fn allow_inlining_of_calls(function: Value<'_>) {
    for call in function.instructions().into_iter().filter(|i| i.call_target().is_some()) {
        call.remove_call_attribute("noinline");
    }
}

/// Functions to inline at all their calls: those not on a cycle of calls, as long as the total growth stays in its
/// limit. Visits callees before callers, because a caller's size includes its inlined callees.
fn worth_inlining<'m>(defined: &[Value<'m>], kernels: &[String]) -> Vec<Value<'m>> {
    let index: BTreeMap<Value<'m>, usize> = defined.iter().copied().zip(0..).collect();
    let mut own_sizes = Vec::new();
    let mut callees: Vec<Vec<usize>> = Vec::new();
    let mut calls = vec![0usize; defined.len()];
    for function in defined {
        let instructions: Vec<_> =
            function.blocks().into_iter().flat_map(|block| block.instructions()).collect();
        let called: Vec<usize> = instructions
            .iter()
            .filter_map(|instruction| index.get(&instruction.call_target()?).copied())
            .collect();
        called.iter().for_each(|&callee| calls[callee] += 1);
        own_sizes.push(instructions.len());
        callees.push(called);
    }
    let mut sizes = own_sizes.clone();
    let mut growth = 0usize;
    let mut chosen = vec![false; defined.len()];
    for function in callees_first(&callees) {
        let inlined = callees[function].iter().filter(|&&callee| chosen[callee]).map(|&callee| sizes[callee]);
        sizes[function] = inlined.fold(own_sizes[function], usize::saturating_add);
        let on_cycle = reaches_itself(&callees, function);
        let grown = growth.saturating_add(sizes[function].saturating_mul(calls[function]));
        if !on_cycle && grown <= GROWTH_MAX && !kernels.contains(&defined[function].name()) {
            chosen[function] = true;
            growth = grown;
        }
    }
    defined.iter().zip(chosen).filter(|&(_, chosen)| chosen).map(|(&function, _)| function).collect()
}

/// Post-order of the call graph.
fn callees_first(callees: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; callees.len()];
    let mut order = Vec::new();
    for root in 0..callees.len() {
        let mut stack = vec![(root, 0)];
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        while let Some((function, next)) = stack.pop() {
            match callees[function].get(next) {
                Some(&callee) => {
                    stack.push((function, next + 1));
                    if !std::mem::replace(&mut seen[callee], true) {
                        stack.push((callee, 0));
                    }
                }
                None => order.push(function),
            }
        }
    }
    order
}

fn reaches_itself(callees: &[Vec<usize>], function: usize) -> bool {
    let mut seen = vec![false; callees.len()];
    let mut open = callees[function].clone();
    while let Some(next) = open.pop() {
        if next == function {
            return true;
        }
        if !std::mem::replace(&mut seen[next], true) {
            open.extend(&callees[next]);
        }
    }
    false
}
