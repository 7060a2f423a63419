//! All end-to-end tests, in one binary: it is linked once, and tests of different files wait beside each other.
//!
//! One file: `cargo test -p eager-tests --test e2e faults::crash`. Programs of other crates that a test starts are built by
//! `cargo build --workspace`.

mod compiling;
mod faults;
mod gpu;
mod kernels;
mod preload;
mod repository;
mod scheduling;
