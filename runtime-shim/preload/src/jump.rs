//! The exported functions: jumps that leave all arguments where they are, so that no signature is repeated here.
//!
//! Trap: between the program's call and the hook nothing may change a register that carries an argument, nor the stack
//! above the return address (System V calling convention): six integer and eight vector registers, and `al`.

/// Exports a call: a jump through its entry of the table.
macro_rules! export {
    ($index:literal $name:ident) => {
        /// # Safety
        /// As for the CUDA call.
        // SAFETY: this name is exported so that it stands before the runtime's; the hook behind it has the same
        // signature.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "jmp qword ptr [rip + {table} + {offset}]",
                table = sym TABLE,
                offset = const $index * 8,
            )
        }
    };
}

/// Declares the function that an entry holds at first: it finds the hook of this call.
macro_rules! first {
    ($index:literal $first:ident) => {
        /// # Safety
        /// Only entered by the jump of its call.
        // SAFETY: `r11` carries no argument, and a callee may change it.
        #[unsafe(naked)]
        unsafe extern "C" fn $first() {
            core::arch::naked_asm!(
                "mov r11d, {index}",
                "jmp {resolve}",
                index = const $index,
                resolve = sym crate::jump::resolve_and_jump,
            )
        }
    };
}

pub(crate) use {export, first};

/// Saves the registers that carry arguments, asks [`crate::resolve::find`] for the function of call `r11`, restores
/// them and jumps there.
///
/// # Safety
/// Only entered by the functions of [`first!`], with the stack as at the program's call.
// SAFETY: seven words and 128 bytes are pushed over the return address, which aligns the stack to 16 bytes for the call
// of `find`, and all of it is popped again before the jump.
#[unsafe(naked)]
pub unsafe extern "C" fn resolve_and_jump() {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "sub rsp, 128",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "mov rdi, r11",
        // The return address: inside the library that calls.
        "mov rsi, [rsp + 128 + 56]",
        "call {find}",
        "mov r11, rax",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 128",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp r11",
        find = sym crate::resolve::find,
    )
}
