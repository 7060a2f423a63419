//! A copy of the device module in a context of its own, simplified for the reader: helpers inlined into kernels,
//! variables in SSA form.
//!
//! Trap: a copy in clang's context would report every inlining to the user a second time (`-Rpass=inline`). And
//! inlining everything can grow code without limit, so functions that would add too much code stay calls.

use std::collections::BTreeMap;
use std::ffi::CStr;

use crate::llvm_sys::LLVMAttributeFunctionIndex;
use crate::llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use crate::llvm_sys::core::*;
use crate::llvm_sys::error::{LLVMConsumeError, LLVMErrorRef};
use crate::llvm_sys::prelude::*;
use crate::llvm_sys::transforms::pass_builder::{
    LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMRunPasses,
};

use crate::ir::{Module, Value};

const PASSES: &CStr = c"always-inline,globaldce,function(sroa,early-cse,simplifycfg)";
/// Limit on the instructions that inlining may add in one module.
const GROWTH_MAX: usize = 200_000;
/// Calling convention of `ptx_kernel` functions since LLVM 20.
const PTX_KERNEL: u32 = 71;
/// Metadata in which LLVM before 20 lists kernels.
const ANNOTATIONS: &CStr = c"nvvm.annotations";

/// The copy, which is disposed of together with its context when dropped.
#[derive(Debug)]
pub struct Scratch {
    context: LLVMContextRef,
    module: LLVMModuleRef,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: both were made by `Scratch::new` and are disposed of once, the module before its context.
        unsafe {
            LLVMDisposeModule(self.module);
            LLVMContextDispose(self.context);
        }
    }
}

impl Scratch {
    /// Parses the copy; `None` if LLVM cannot read its own bitcode back.
    #[must_use]
    pub fn new(bitcode: &[u8]) -> Option<Self> {
        // SAFETY: the buffer is a copy of `bitcode`, and parsing does not take it; on failure the context, which holds
        // nothing else, is disposed of.
        unsafe {
            let context = LLVMContextCreate();
            LLVMContextSetDiagnosticHandler(context, Some(stay_silent), std::ptr::null_mut());
            let name = c"device code".as_ptr();
            let buffer =
                LLVMCreateMemoryBufferWithMemoryRangeCopy(bitcode.as_ptr().cast(), bitcode.len(), name);
            let mut module = std::ptr::null_mut();
            let failed = LLVMParseBitcodeInContext2(context, buffer, &raw mut module) != 0;
            LLVMDisposeMemoryBuffer(buffer);
            if failed {
                LLVMContextDispose(context);
                return None;
            }
            Some(Self { context, module })
        }
    }

    #[must_use]
    pub fn module(&self) -> Module<'_> {
        // SAFETY: the module lives as long as `self`, and no other handle owns it.
        unsafe { Module::from_raw(self.module) }
    }

    /// Names of the kernels with a body, in the order of the file.
    #[must_use]
    pub fn kernels(&self) -> Vec<String> {
        let annotated = self.annotated_kernels();
        let functions = self.module().functions().into_iter().filter(|function| !function.is_declaration());
        let is_kernel = |function: &Value<'_>| {
            // SAFETY: the value is a function of the live module.
            let convention = unsafe { LLVMGetFunctionCallConv(function.raw()) };
            convention == PTX_KERNEL || annotated.contains(&function.name())
        };
        functions.filter(is_kernel).map(Value::name).collect()
    }

    fn annotated_kernels(&self) -> Vec<String> {
        let mut names = Vec::new();
        // SAFETY: the module is live, `rows` has room for as many rows as LLVM says there are, and each row and operand
        // is read only where the kind tests allow it.
        unsafe {
            let count = LLVMGetNamedMetadataNumOperands(self.module, ANNOTATIONS.as_ptr());
            let mut rows = vec![std::ptr::null_mut(); count as usize];
            LLVMGetNamedMetadataOperands(self.module, ANNOTATIONS.as_ptr(), rows.as_mut_ptr());
            for row in rows {
                let mut parts = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(row) as usize];
                LLVMGetMDNodeOperands(row, parts.as_mut_ptr());
                let [function, kind, ..] = parts[..] else { continue };
                let mut len = 0;
                if kind.is_null() || LLVMIsAMDString(kind).is_null() {
                    continue;
                }
                let text = LLVMGetMDString(kind, &raw mut len);
                let is_kernel = std::slice::from_raw_parts(text.cast::<u8>(), len as usize) == b"kernel";
                let function = Value::from_raw(function).filter(|value| is_kernel && value.is_function());
                names.extend(function.map(Value::name));
            }
        }
        names
    }

    /// Inlines and simplifies. A failure leaves the code unchanged, which costs precision only.
    pub fn simplify(&self, kernels: &[String]) {
        let module = self.module();
        let defined: Vec<Value<'_>> =
            module.functions().into_iter().filter(|function| !function.is_declaration()).collect();
        for &function in &defined {
            for name in [c"noinline", c"optnone", c"alwaysinline", c"optsize", c"minsize"] {
                remove_attribute(function, name);
            }
            allow_inlining_of_calls(function);
        }
        for function in worth_inlining(&defined, kernels) {
            add_attribute(self.context, function, c"alwaysinline");
        }
        for &function in defined.iter().filter(|function| !kernels.contains(&function.name())) {
            // SAFETY: a definition of the live module; nothing outside of it refers to the copy.
            unsafe { LLVMSetLinkage(function.raw(), crate::llvm_sys::LLVMLinkage::LLVMInternalLinkage) };
        }
        // SAFETY: the module is live and valid (it was just parsed); the options are disposed of and an error is
        // consumed. A null target machine is allowed.
        unsafe {
            let options = LLVMCreatePassBuilderOptions();
            let error: LLVMErrorRef =
                LLVMRunPasses(self.module, PASSES.as_ptr(), std::ptr::null_mut(), options);
            LLVMDisposePassBuilderOptions(options);
            if !error.is_null() {
                LLVMConsumeError(error);
            }
        }
    }
}

extern "C" fn stay_silent(_: LLVMDiagnosticInfoRef, _: *mut std::ffi::c_void) {}

fn attribute_kind(name: &CStr) -> u32 {
    // SAFETY: the name is valid for the length given.
    unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr(), name.count_bytes()) }
}

fn remove_attribute(function: Value<'_>, name: &CStr) {
    // SAFETY: the value is a live function; removing an attribute that is not there does nothing.
    unsafe {
        LLVMRemoveEnumAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, attribute_kind(name));
    }
}

fn add_attribute(context: LLVMContextRef, function: Value<'_>, name: &CStr) {
    // SAFETY: the function is live and belongs to the context; the attribute carries no value.
    unsafe {
        let attribute = LLVMCreateEnumAttribute(context, attribute_kind(name), 0);
        LLVMAddAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, attribute);
    }
}

fn allow_inlining_of_calls(function: Value<'_>) {
    for instruction in function.blocks().into_iter().flat_map(|block| block.instructions()) {
        if instruction.callee().is_some() {
            // SAFETY: the instruction is a call (it has a callee).
            unsafe {
                LLVMRemoveCallSiteEnumAttribute(
                    instruction.raw(),
                    LLVMAttributeFunctionIndex,
                    attribute_kind(c"noinline"),
                );
            }
        }
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
            .filter_map(|instruction| index.get(&instruction.callee()?).copied())
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
