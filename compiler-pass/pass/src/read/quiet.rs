//! Calls that leave other people's memory alone, as far as can be seen without a points-to analysis.
//!
//! Error checks after every runtime call are the common case: `if (error) { print; exit }`. Trap: what such a function
//! does before `exit` does not matter, since the caller does not go on; only blocks that can return are looked at.

use llvm_sys::LLVMOpcode;

use super::calls::runtime_name;
use super::trace::{Base, Origin, origins};
use crate::ir::{Block, Module, Value};

/// Library functions that write to nothing the caller can size a buffer with.
const QUIET_FUNCTIONS: &[&str] = &[
    "abort", "exit", "fflush", "fprintf", "fputc", "fputs", "free", "printf", "putchar", "puts", "vfprintf",
    "vprintf",
];

/// How deep calls are followed.
const DEPTH_MAX: usize = 4;

/// What calls of the CUDA runtime count as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// It does not write to host memory that is not named in the call.
    Quiet,
    /// It may allocate, free or launch.
    Loud,
}

/// Whether a call neither writes to memory that its caller can see nor, with [`Runtime::Loud`], uses the device.
#[must_use]
pub fn is_quiet<'m>(module: Module<'m>, call: Value<'m>, runtime: Runtime) -> bool {
    is_quiet_call(module, call, runtime, 0)
}

fn is_quiet_call<'m>(module: Module<'m>, call: Value<'m>, runtime: Runtime, depth: usize) -> bool {
    let Some(callee) = call.callee().filter(|callee| callee.is_function()) else { return false };
    let name = callee.name();
    if callee.is_declaration() {
        let is_runtime = runtime == Runtime::Quiet && runtime_name(&name).is_some();
        return is_runtime || QUIET_FUNCTIONS.contains(&name.as_str());
    }
    depth < DEPTH_MAX
        && returning_blocks(callee).into_iter().all(|block| is_quiet_block(module, block, runtime, depth))
}

fn is_quiet_block<'m>(module: Module<'m>, block: Block<'m>, runtime: Runtime, depth: usize) -> bool {
    let writes_locals_only = |address: Value<'m>| {
        origins(module, address)
            .into_iter()
            .all(|o| matches!(o, Origin::Address { base: Base::Local(_), .. }))
    };
    block.instructions().into_iter().all(|instruction| match instruction.opcode() {
        Some(LLVMOpcode::LLVMStore) => instruction.operand(1).is_some_and(writes_locals_only),
        Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => match intrinsic_writes(instruction) {
            Some(false) => true,
            Some(true) => instruction.call_args().first().copied().is_some_and(writes_locals_only),
            None => is_quiet_call(module, instruction, runtime, depth + 1),
        },
        Some(LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg) => false,
        _ => true,
    })
}

/// Blocks from which a return can be reached.
fn returning_blocks(function: Value<'_>) -> Vec<Block<'_>> {
    let blocks = function.blocks();
    let ends = |block: &Block<'_>| block.instructions().last().and_then(|last| last.opcode());
    let mut returning: Vec<Block<'_>> =
        blocks.iter().copied().filter(|block| ends(block) == Some(LLVMOpcode::LLVMRet)).collect();
    let mut next = 0;
    while next < returning.len() {
        let target = returning[next];
        for &block in &blocks {
            if !returning.contains(&block) && block.successors().contains(&target) {
                returning.push(block);
            }
        }
        next += 1;
    }
    returning
}

/// For intrinsics, whether they write through their first argument; `None` for other calls.
#[must_use]
pub fn intrinsic_writes(call: Value<'_>) -> Option<bool> {
    let name = call.callee_name()?;
    let intrinsic = name.strip_prefix("llvm.")?;
    Some(
        ["memcpy", "memmove", "memset", "va_start", "va_copy"]
            .iter()
            .any(|writer| intrinsic.starts_with(writer)),
    )
}

/// Whether the address of a local is used for anything but reading and writing it in place.
#[must_use]
pub fn is_exposed(object: Value<'_>) -> bool {
    object.users().into_iter().any(|user| match user.opcode() {
        Some(LLVMOpcode::LLVMLoad) => false,
        Some(LLVMOpcode::LLVMStore) => user.operand(0) == Some(object),
        Some(LLVMOpcode::LLVMGetElementPtr) => is_exposed(user),
        Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => {
            let by_value =
                |(index, arg): (usize, Value<'_>)| arg != object || user.call_byval_type(index).is_some();
            intrinsic_writes(user).is_none() && !user.call_args().into_iter().enumerate().all(by_value)
        }
        _ => true,
    })
}
