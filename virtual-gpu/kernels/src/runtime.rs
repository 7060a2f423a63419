//! The helper functions in `runtime.ll`, and the device functions that they implement.
//!
//! Trap: the set of supported device functions *is* the set of definitions in that text, so there is no second list to
//! keep in step, but a definition with a wrong signature is found only when a kernel uses it.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::intrinsics::THREAD;
use crate::llvm::{Module, Opcode, Value};
use crate::{clusters, intrinsics, ptx, rounding, stretches, suspend, warp};

const RUNTIME: &str = include_str!("runtime.ll");
const PREFIX: &str = "eager.";
/// The only helper that is called instead of inlined.
pub(crate) const MARK_OUT_OF_LINE: &str = "eager.mark.apart";

/// `__syncthreads()` in the spellings of LLVM 20 to 22 and of LLVM 19.
const BLOCK_BARRIERS: &[&str] =
    &["llvm.nvvm.barrier.cta.sync.aligned.all", "llvm.nvvm.barrier.cta.sync.all", "llvm.nvvm.barrier0"];

/// True if `call` waits for all threads of the block: barrier 0 without a thread count.
pub(crate) fn is_block_barrier(call: Value) -> bool {
    let Some(callee) = call.callee() else { return false };
    BLOCK_BARRIERS.contains(&callee.name().as_str())
        && call.call_arguments().first().is_none_or(|barrier| barrier.constant_integer() == Some(0))
}

/// True if `call` is `__syncthreads()`, which all threads of the block must call in one place. Inline PTX may wait for
/// them in several.
pub(crate) fn is_syncthreads(call: Value) -> bool {
    is_block_barrier(call) && call.callee().is_some_and(|callee| callee.name() != BLOCK_BARRIERS[1])
}

/// True if `instruction` is a call for which [`is_block_barrier`] holds.
pub(crate) fn is_barrier_call(instruction: Value) -> bool {
    instruction.opcode() == Some(Opcode::LLVMCall) && is_block_barrier(instruction)
}

/// Returns a runtime function from a module that it was linked into.
pub(crate) fn helper<'m>(module: &'m Module, name: &str) -> Value<'m> {
    module.function(name).expect("runtime.ll defines it and it was linked")
}

pub(crate) struct Runtime {
    pub text: String,
    names: BTreeSet<String>,
}

impl Runtime {
    pub fn new() -> Self {
        let text = [
            &scoped_atomics(),
            &suspend::text(),
            &warp::text(),
            &ptx::atomic_text(),
            &intrinsics::text(),
            &rounding::text(),
            &stretches::text(),
            &clusters::text(),
            RUNTIME,
        ]
        .concat();
        let names = text.lines().filter_map(defined_name).map(str::to_owned).collect();
        Runtime { text, names }
    }

    /// True if calls of the device function `name` have a translation.
    pub fn supports(&self, name: &str) -> bool {
        self.names.contains(&helper_name(name)) || self.suspends(name)
    }

    /// True if the device function `name` ends its thread.
    pub fn ends_thread(name: &str) -> bool {
        name == "llvm.nvvm.exit"
    }

    /// True if a thread may have to wait in the device function `name`.
    pub fn suspends(&self, name: &str) -> bool {
        self.names.contains(&suspend::before(name))
    }

    pub fn is_helper(name: &str) -> bool {
        name.starts_with(PREFIX)
    }
}

/// Name of the helper that implements a device function.
pub(crate) fn helper_name(device_function: &str) -> String {
    format!("{PREFIX}{}", device_function.strip_prefix("llvm.").unwrap_or(device_function))
}

fn defined_name(line: &str) -> Option<&str> {
    let after = line.strip_prefix("define ")?.split_once('@')?.1;
    after.split_once('(').map(|(name, _)| name)
}

/// `atomicAdd_block`, `atomicCAS_system` and so on, implemented by an ordinary atomic, whose scope is wide enough for
/// all. Minimum and maximum are signed; the compiler pass turns the unsigned ones into PTX (`device/mend.rs`).
fn scoped_atomics() -> String {
    let mut text = String::new();
    for scope in ["cta", "sys"] {
        for (name, operation) in [
            ("exch", "xchg"),
            ("add", "add"),
            ("and", "and"),
            ("or", "or"),
            ("xor", "xor"),
            ("min", "min"),
            ("max", "max"),
            ("inc", "uinc_wrap"),
            ("dec", "udec_wrap"),
        ] {
            for ty in ["i32", "i64"] {
                let _ = writeln!(
                    text,
                    "define {ty} @eager.nvvm.atomic.{name}.gen.i.{scope}.{ty}.p0({THREAD}, ptr %p, {ty} %v) {{\n  \
                     %old = atomicrmw {operation} ptr %p, {ty} %v monotonic\n  ret {ty} %old\n}}"
                );
            }
        }
        for (ty, suffix) in [("float", "f32"), ("double", "f64")] {
            let _ = writeln!(
                text,
                "define {ty} @eager.nvvm.atomic.add.gen.f.{scope}.{suffix}.p0({THREAD}, ptr %p, {ty} %v) {{\n  \
                 %old = atomicrmw fadd ptr %p, {ty} %v monotonic\n  ret {ty} %old\n}}"
            );
        }
        for ty in ["i32", "i64"] {
            let _ = writeln!(
                text,
                "define {ty} @eager.nvvm.atomic.cas.gen.i.{scope}.{ty}.p0({THREAD}, ptr %p, {ty} %c, {ty} %v) {{\n  \
                 %pair = cmpxchg ptr %p, {ty} %c, {ty} %v monotonic monotonic\n  \
                 %old = extractvalue {{ {ty}, i1 }} %pair, 0\n  ret {ty} %old\n}}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Runtime;

    #[test]
    fn what_is_defined_is_supported() {
        let runtime = Runtime::new();
        assert!(runtime.supports("llvm.nvvm.read.ptx.sreg.tid.x"));
        assert!(runtime.supports("vprintf"));
        assert!(runtime.supports("llvm.nvvm.atomic.cas.gen.i.cta.i32.p0"));
        assert!(runtime.supports("llvm.nvvm.shfl.sync.down.i32"));
        assert!(runtime.suspends("llvm.nvvm.shfl.sync.down.i32"));
        assert!(!runtime.suspends("vprintf"));
        assert!(!runtime.supports("llvm.nvvm.wmma.anything"));
    }
}
