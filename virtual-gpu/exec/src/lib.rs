//! Runs CPU kernels: registry of kernel tables, block contexts, persistent worker pool, touch map, cost counters.
//! (executor to be written; [`abi`] is the boundary)

pub mod abi;
