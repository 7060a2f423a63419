//! The device half of a compile: derives from the NVPTX module what the host half of the same clang command needs.
//!
//! That is CPU kernels ([`cpu_kernels`]) and facts about kernels' arguments ([`kernel_data`]). Errors of clang are
//! corrected before both ([`mend`]), warp functions of old get a mask ([`old_warp`]), and casts become the GPU's own instructions after both ([`casts`]). Trap:
//! `cpu_kernels` and `kernel_data` must not change the module, which becomes the program's GPU code. Changes that CPU
//! kernels need are made in a copy.

pub mod casts;
pub mod clusters;
pub mod cpu_kernels;
pub mod kernel_data;
pub mod mend;
pub mod old_warp;
mod read;
mod scratch;

use crate::llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use crate::llvm_sys::core::{
    LLVMCloneModule, LLVMDisposeMemoryBuffer, LLVMDisposeModule, LLVMGetBufferSize, LLVMGetBufferStart,
};

use crate::emit::managed;
use crate::ir::Module;

/// Whether this module is the device side of a CUDA compile.
#[must_use]
pub fn is_device(module: Module<'_>) -> bool {
    module.triple().starts_with("nvptx")
}

/// Bitcode of the module, in the form that CPU kernels are made from.
fn bitcode_for_cpu(module: Module<'_>) -> Vec<u8> {
    // SAFETY: the module is live; the copy belongs to this function, is in the same context, and is disposed of when
    // nothing refers to it any more.
    unsafe {
        let copy = LLVMCloneModule(module.raw());
        managed::point_device(Module::from_raw(copy));
        let bytes = bitcode(Module::from_raw(copy));
        LLVMDisposeModule(copy);
        bytes
    }
}

/// The module as bitcode, which is the only form in which it can be moved to another context.
fn bitcode(module: Module<'_>) -> Vec<u8> {
    // SAFETY: the module is live; the buffer belongs to this function until disposed of, and its bytes are copied out
    // before that.
    unsafe {
        let buffer = LLVMWriteBitcodeToMemoryBuffer(module.raw());
        let start = LLVMGetBufferStart(buffer).cast::<u8>();
        let bytes = std::slice::from_raw_parts(start, LLVMGetBufferSize(buffer)).to_vec();
        LLVMDisposeMemoryBuffer(buffer);
        bytes
    }
}
