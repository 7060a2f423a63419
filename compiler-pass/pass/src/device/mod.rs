//! The device half of a compile: derives from the NVPTX module what the host half of the same clang command needs.
//!
//! That is CPU kernels ([`cpu_kernels`]) and facts about kernels' arguments ([`kernel_data`]). Before both, errors of
//! clang are corrected ([`mend`]) and warp functions of old get a mask ([`old_warp`]); after both, casts become the GPU's
//! own instructions ([`casts`]). Trap: `cpu_kernels` and `kernel_data` must not change the module, which becomes the
//! program's GPU code. Changes that CPU kernels need are made in a copy.

pub mod casts;
pub mod clusters;
pub mod cpu_kernels;
pub mod kernel_data;
pub mod mend;
pub mod old_warp;
mod read;
mod scratch;

use eager_llvm::Module;

use crate::emit::managed;

/// Whether this module is the device side of a CUDA compile.
#[must_use]
pub fn is_device(module: &Module<'_>) -> bool {
    module.triple().starts_with("nvptx")
}

/// Bitcode of the module, in the form that CPU kernels are made from.
fn bitcode_for_cpu(module: &Module<'_>) -> Vec<u8> {
    let copy = module.copy();
    managed::point_device(&copy);
    copy.to_bitcode()
}
