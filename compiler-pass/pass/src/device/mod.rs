//! The device half of a compile: what the host half of the same clang command gets from the NVPTX module.
//!
//! CPU kernels ([`cpu_kernels`]) and what kernels do with their arguments ([`kernel_data`]). Before both, what clang gets
//! wrong is put right ([`mend`]); after them casts are what a GPU has an instruction for ([`casts`]). Trap: neither of the
//! first two may change the module, which goes on to become the program's GPU code; what CPU kernels need otherwise is
//! changed in a copy.

pub mod casts;
pub mod clusters;
pub mod cpu_kernels;
pub mod kernel_data;
pub mod mend;
mod read;
mod scratch;

use llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use llvm_sys::core::{
    LLVMCloneModule, LLVMDisposeMemoryBuffer, LLVMDisposeModule, LLVMGetBufferSize, LLVMGetBufferStart,
};

use crate::emit::managed;
use crate::ir::Module;

/// Whether this module is the device side of a CUDA compile.
#[must_use]
pub fn is_device(module: Module<'_>) -> bool {
    module.triple().starts_with("nvptx")
}

/// Bitcode of the module as CPU kernels are made from it.
fn bitcode_for_cpu(module: Module<'_>) -> Vec<u8> {
    // SAFETY: the module is live; the copy is ours, in the same context, and gone when nothing refers to it any more.
    unsafe {
        let copy = LLVMCloneModule(module.raw());
        managed::point_device(Module::from_raw(copy));
        let bytes = bitcode(Module::from_raw(copy));
        LLVMDisposeModule(copy);
        bytes
    }
}

/// The module as bitcode: the only form in which it can be taken into another context.
fn bitcode(module: Module<'_>) -> Vec<u8> {
    // SAFETY: the module is live; the buffer is ours until disposed of, and its bytes are copied out before that.
    unsafe {
        let buffer = LLVMWriteBitcodeToMemoryBuffer(module.raw());
        let start = LLVMGetBufferStart(buffer).cast::<u8>();
        let bytes = std::slice::from_raw_parts(start, LLVMGetBufferSize(buffer)).to_vec();
        LLVMDisposeMemoryBuffer(buffer);
        bytes
    }
}
