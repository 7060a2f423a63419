//! Kernel launches as host compilers emit them, and their numbers of blocks and threads.
//!
//! clang and nvcc both lower `k<<<grid, block, shared, stream>>>(args)` to a call of `__cudaPushCallConfiguration` and,
//! on the branch where that returned zero, a call of the kernel's host function with the kernel's arguments. For nvcc
//! that host function has the kernel's own name and calls the stub, for clang it is the stub.

use eager_llvm::{Block, Opcode, Value};
use eager_tasks::program::Geometry;
use eager_tasks::{BinaryOp, CastOp, Expr};

use super::sizes::SizeReader;

const PUSH: &str = "__cudaPushCallConfiguration";
const POP: &str = "__cudaPopCallConfiguration";
const STUB: &str = "__device_stub__";
/// Limit on the blocks between configuration and launch, which only copy the arguments.
const BLOCKS_BETWEEN_MAX: usize = 8;

/// Whether a function is the host side of a kernel: the stub, or nvcc's function around it.
#[must_use]
pub fn is_kernel_host_function(function: Value<'_>) -> bool {
    if function.name().contains(STUB) {
        return true;
    }
    // nvcc names the stub after the function: `__device_stub_` + `_Z4vaddPf`, or with one more `_` for a plain name.
    let name = function.name();
    let own_stubs = [format!("__device_stub_{name}"), format!("{STUB}{name}")];
    let mut calls_stub = false;
    for instruction in function.blocks().into_iter().flat_map(Block::instructions) {
        match instruction.callee_name() {
            Some(name) if name == POP => return true,
            Some(name) if name == PUSH => return false,
            Some(name) => calls_stub |= own_stubs.iter().any(|stub| name.contains(stub)),
            None => {}
        }
    }
    calls_stub
}

/// The call of `__cudaPushCallConfiguration` that belongs to a launch; `None` if the call is not a launch.
#[must_use]
pub fn configuration<'m>(call: Value<'m>) -> Option<Value<'m>> {
    let callee = call.call_target()?;
    let is_candidate = if callee.is_function() { is_kernel_host_function(callee) } else { true };
    if !is_candidate {
        return None;
    }
    let mut block = call.place()?;
    for _ in 0..BLOCKS_BETWEEN_MAX {
        let before = block.instructions().into_iter().take_while(|&i| i != call);
        if let Some(push) = before.filter(|i| i.callee_name().is_some_and(|name| name == PUSH)).last() {
            return Some(push);
        }
        let [only] = block.predecessors()[..] else { return None };
        block = only;
    }
    None
}

/// Whether a call is a launch: of a kernel's host function, or through a pointer directly after a configuration.
#[must_use]
pub fn is_launch(call: Value<'_>) -> bool {
    let Some(callee) = call.call_target() else { return false };
    if callee.is_function() { is_kernel_host_function(callee) } else { is_first_behind_push(call) }
}

fn is_first_behind_push(call: Value<'_>) -> bool {
    let Some(push) = configuration(call) else { return false };
    let Some(block) = call.place() else { return false };
    let is_other_call = |i: &Value<'_>| {
        *i != push
            && matches!(i.instruction_opcode(), Some(Opcode::LLVMCall | Opcode::LLVMInvoke))
            && i.callee_name().is_none_or(|name| !name.starts_with("llvm."))
    };
    push.place() != Some(block) && !block.instructions().iter().take_while(|&&i| i != call).any(is_other_call)
}

/// Stream argument of a configuration; `None` for a constant one, such as the default stream.
#[must_use]
pub fn stream<'m>(push: Value<'m>) -> Option<Value<'m>> {
    push.call_args().get(5).copied().filter(|stream| stream.is_pointer() && !stream.is_constant())
}

/// Geometry of a configuration: each `dim3` is 8 bytes of x and y and 4 bytes of z.
pub fn geometry<'m>(sizes: &mut SizeReader<'_, '_, 'm>, push: Value<'m>) -> Option<Geometry> {
    let args = push.call_args();
    let [grid_xy, grid_z, block_xy, block_z, ..] = args[..] else { return None };
    let mut product = |xy: Value<'m>, z: Value<'m>| {
        let (xy, z) = (sizes.read(xy).filter(|_| xy.integer_bits() == Some(64))?, sizes.read(z)?);
        let wide = |value, bits| Expr::Const { value, bits };
        let binary = |op, a, b| Expr::Binary { op, args: Box::new((a, b)) };
        let x = binary(BinaryOp::And, xy.clone(), wide(0xffff_ffff, 64));
        let y = binary(BinaryOp::ShiftRightLogical, xy, wide(32, 64));
        let z = Expr::Cast { op: CastOp::ZeroExtend, bits: 64, arg: Box::new(z) };
        Some(binary(BinaryOp::Mul, binary(BinaryOp::Mul, x, y), z))
    };
    Some(Geometry { blocks: product(grid_xy, grid_z)?, threads: product(block_xy, block_z)? })
}
