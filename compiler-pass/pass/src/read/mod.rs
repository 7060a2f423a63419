//! Host IR into plain data: what kernels there are, and what each function does with device memory.
//!
//! Nothing here changes the module, with one exception named in [`prepare`].

pub mod calls;
pub mod kernels;
