//! Kernels: registration, checks, argument capture, execution on the CPU, touched memory.
//!
//! Trap: the CPU must compute the result before the model runs the kernel, because only then is the touched memory
//! known; for the program the launch ends when the modelled time is over.

mod accesses;
mod args;
mod check;
pub mod cluster;
pub mod copies;
mod host_pointer;
mod managed;
mod profile;
mod registry;
mod run;
mod slow_kernel;

pub use args::CapturedArgs;
pub use check::{BLOCK_MAX, GRID_MAX, Limits, SHARED_BYTES_PER_BLOCK, Shape, THREADS_PER_BLOCK_MAX};
pub use managed::{add_managed, forget_managed, make as make_managed_variables, managed_at, variable};
pub use profile::Profile;
pub use registry::{
    CpuKernel, add_shadow, add_stub, add_table, allow_non_portable_clusters, allows_non_portable_clusters,
    is_registered, kernel, opt_in_shared, shared_opt_in_bytes, some_kernel_checks, variable_at, variables,
};
pub use run::{BlockSizes, Compute, Launch, LaunchContext, TimeLimits};
