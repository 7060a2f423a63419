//! Programs that `eagercc` builds, and what it says of them.

mod abi_version;
mod bad_input;
mod build_lines;
mod equal_names;
mod fuzz;
mod kernel_facts;
mod large_programs;
mod launches;
mod nvcc_dialect;
mod quick_start;
mod worked_example;
