//! Calls a block function so that a fault handler can abandon it: the stack pointer is saved, and all callee-saved
//! registers lie on the stack there.
//!
//! Trap: the block function's frames are dropped without unwinding. That is right for kernels, which own nothing; it
//! must never happen to Rust code, so a fault inside a helper ends the process instead (`fault::InHelper`).

use core::arch::global_asm;
use core::ffi::c_void;

use crate::abi::{BlockContext, BlockFn};

// System V ABI for x86-64. On entry the stack is 8 off a multiple of 16; the push of the frame pointer and six more
// leave it aligned for the call. The unwind table lets a trap unwind through this frame.
global_asm!(
    ".pushsection .text.eager_vgpu_call,\"ax\",@progbits",
    ".p2align 4",
    ".hidden eager_vgpu_call_block",
    ".globl eager_vgpu_call_block",
    ".type eager_vgpu_call_block,@function",
    "eager_vgpu_call_block:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rbx",
    ".cfi_offset rbx, -24",
    "push r12",
    ".cfi_offset r12, -32",
    "push r13",
    ".cfi_offset r13, -40",
    "push r14",
    ".cfi_offset r14, -48",
    "push r15",
    ".cfi_offset r15, -56",
    "push rcx",
    "mov [rcx], rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "call rax",
    // From here on a signal handler must not return here: the saved stack is about to be popped.
    "mov rcx, [rsp]",
    "mov qword ptr [rcx], 0",
    "xor eax, eax",
    // The fault handler jumps here, with the saved stack pointer and 1 in rax.
    ".hidden eager_vgpu_leave_block",
    ".globl eager_vgpu_leave_block",
    "eager_vgpu_leave_block:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size eager_vgpu_call_block, . - eager_vgpu_call_block",
    ".popsection",
);

unsafe extern "C-unwind" {
    /// Saves its stack pointer in `stack`, calls `run(context, args)`, and writes 0 to `stack` when that returns.
    /// Returns 0, or 1 when the handler sent the thread back.
    pub(crate) fn eager_vgpu_call_block(
        run: BlockFn,
        context: *mut BlockContext,
        args: *const *const c_void,
        stack: *mut u64,
    ) -> u32;
    fn eager_vgpu_leave_block();
}

/// Instruction pointer of an interrupted thread.
///
/// # Safety
/// `context` is the `ucontext_t` of a signal.
pub(crate) unsafe fn instruction_of(context: *mut c_void) -> u64 {
    // SAFETY: the caller says that this is a signal's context.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[libc::REG_RIP as usize].cast_unsigned()
}

/// Changes the registers of an interrupted thread so that it continues by returning 1 from [`eager_vgpu_call_block`].
///
/// # Safety
/// `context` is the `ucontext_t` of a signal that interrupted code called by that function on this thread, and `stack`
/// is the value that the function saved.
pub(crate) unsafe fn leave_block(context: *mut c_void, stack: u64) {
    // SAFETY: the caller says that this is the signal's context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let leave: unsafe extern "C-unwind" fn() = eager_vgpu_leave_block;
    registers[libc::REG_RIP as usize] = (leave as usize).cast_signed() as i64;
    registers[libc::REG_RSP as usize] = stack.cast_signed();
    registers[libc::REG_RAX as usize] = 1;
}
