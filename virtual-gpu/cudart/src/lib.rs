//! `libcudart.so.13` stand-in: the CUDA 13 runtime API over virtual GPUs, with kernels that run on the CPU. Built with
//! `cfg(cuda_12)`, by the crate eager-cudart12, it is `libcudart.so.12` with the entry points of CUDA 12.9.
//!
//! A program finds this library instead of NVIDIA's by the loader's search path and needs no change. `api` holds the
//! exported functions, each thin; the other modules implement them. Trap: the exported names must also be in
//! `libcudart.map`, or the linker hides them.

mod api;
mod capture;
mod clock;
mod command;
mod config;
mod device;
mod driver;
mod ending;
mod error_texts;
mod event;
mod execution;
mod ffi;
mod forked;
mod graph;
mod guard;
mod host_faults;
mod kernel;
mod log;
mod memory;
mod names;
mod runtime;
mod server;
mod status;
mod stream;
mod strict_mode;
mod trace;
mod transfer;
mod visible;

pub use api::{Export, Refused, exports, refused};
