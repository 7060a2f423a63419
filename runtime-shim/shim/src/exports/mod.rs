//! The tables of hooks: each renamed CUDA call is one entry, exported as `eager_…` with the call's own arguments.
//!
//! A hook handles the call itself ([`Outcome::Handled`]), forwards it to the real runtime with its arguments (as the
//! body left them), or fails it with a CUDA error. Trap: a hook that makes something before it has checked the
//! program's output pointer for null leaks it; [`stored`] checks first.

#[macro_use]
mod table;

mod copies;
mod devices;
mod graphs;
mod launches;
pub mod layouts;
mod libraries;
mod memory;
mod registration;
mod streams;

use crate::library::Status;
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, StreamId};
use crate::signature::Hook;
use cudarc::runtime::sys::cudaStream_t;
use std::ffi::c_void;

/// Every hook, grouped by subject; per-thread variants are not listed.
pub fn all() -> impl Iterator<Item = &'static Hook> {
    let tables: [&[Hook]; 8] = [
        memory::HOOKS,
        copies::HOOKS,
        launches::HOOKS,
        launches::internal::HOOKS,
        graphs::HOOKS,
        streams::HOOKS,
        devices::HOOKS,
        memory::changed::HOOKS,
    ];
    tables.into_iter().flatten()
}

/// Stores at `out` what `make` made. A null `out` is checked first, so that nothing is made that cannot be stored;
/// the runtime then returns its own error for the null pointer.
fn stored<T>(out: *mut T, make: impl FnOnce() -> Outcome<T>) -> Outcome<()> {
    if out.is_null() {
        return Outcome::PassThrough(Why::AsItIs);
    }
    // SAFETY: not null, and the program gave it to this CUDA call to be written.
    make().map(|value| unsafe { out.write(value) })
}

/// Reads what a successful call wrote to `out`.
fn made<T>(status: Status, out: *const T) -> CudaResult<T> {
    CudaError::check(status)?;
    if out.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: not null, and the call that succeeded has just written it.
    Ok(unsafe { out.read() })
}

fn number(address: *const c_void) -> u64 {
    address.expose_provenance() as u64
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

fn stream_id(stream: cudaStream_t) -> StreamId {
    StreamId(stream.expose_provenance())
}

fn stream_handle(stream: StreamId) -> cudaStream_t {
    std::ptr::with_exposed_provenance_mut(stream.0)
}

/// The stream that a per-thread variant uses.
fn per_thread(stream: cudaStream_t) -> cudaStream_t {
    if stream.is_null() { stream_handle(StreamId::PER_THREAD) } else { stream }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_exactly_the_calls_that_the_pass_renames() {
        let mut ours: Vec<&str> = all().map(|hook| hook.name).collect();
        ours.sort_unstable();
        let renamed = eager_abi::calls::calls().filter(|call| call.is_renamed());
        let mut theirs: Vec<&str> = renamed.map(|call| call.name).collect();
        theirs.sort_unstable();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn hooks_have_the_arguments_that_cuda_declares() {
        let checked = [
            (memory::HOOKS, memory::declared()),
            (copies::HOOKS, copies::declared()),
            (launches::HOOKS, launches::declared()),
            (graphs::HOOKS, graphs::declared()),
            (streams::HOOKS, streams::declared()),
            (devices::HOOKS, devices::declared()),
        ];
        for (ours, cudas) in checked {
            assert_eq!(ours, cudas);
        }
    }
}
