//! Commands of a stream: pieces of asynchronous work, each carried out in its turn by [`crate::execution`].
//!
//! A command holds copies of everything it needs from the program's call. Trap: the same command runs again with every
//! launch of a graph that holds it, so running must not change it.

use core::cell::Cell;
use core::ffi::c_void;

use eager_gpu_model::{AllocId, Op};

use crate::kernel::Launch;
use crate::status::Code;
use crate::transfer::{Copy, Fill, Region};

/// A piece of asynchronous work.
#[derive(Debug)]
pub enum Command {
    /// Only marks a place in the stream: an event, a wait, an empty node.
    Nothing,
    Kernel(Launch),
    Copy(Copy),
    Fill(Fill),
    /// Frees the memory that starts at an address.
    Release(u64),
    /// `Op::Prefetch` on a device; only the model is involved.
    Prefetch(u32, Op),
    #[cfg_attr(cuda_12, allow(dead_code, reason = "only CUDA 13 has discards"))]
    Discard(Discarded),
    Host(HostFunction),
    Callback(Callback),
}

/// A whole managed allocation whose contents are no longer needed.
#[derive(Debug, Clone, Copy)]
pub struct Discarded {
    pub alloc: AllocId,
    pub address: u64,
    pub bytes: u64,
}

/// Arguments of `cudaLaunchHostFunc`.
#[derive(Debug, Clone, Copy)]
pub struct HostFunction {
    pub function: extern "C" fn(*mut c_void),
    pub data: *mut c_void,
}

/// Arguments of `cudaStreamAddCallback`.
#[derive(Debug, Clone, Copy)]
pub struct Callback {
    pub function: extern "C" fn(stream: *mut c_void, status: Code, data: *mut c_void),
    pub stream: *mut c_void,
    pub data: *mut c_void,
}

// SAFETY: the pointers are only passed to the program's function, on whatever thread runs it, as CUDA documents;
// nothing here dereferences them.
unsafe impl Send for HostFunction {}
// SAFETY: as for `Send`.
unsafe impl Sync for HostFunction {}
// SAFETY: as for `HostFunction`.
unsafe impl Send for Callback {}
// SAFETY: as for `HostFunction`.
unsafe impl Sync for Callback {}

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// True while the calling thread is inside a function called by a stream, which must not call CUDA.
pub fn in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

impl Command {
    /// True if a graph can hold the command. It cannot hold commands that move or free memory, nor a callback, which
    /// belongs to its stream.
    pub fn may_be_captured(&self) -> bool {
        match self {
            Command::Nothing
            | Command::Kernel(_)
            | Command::Copy(_)
            | Command::Fill(_)
            | Command::Host(_) => true,
            Command::Release(_) | Command::Prefetch(..) | Command::Discard(_) | Command::Callback(_) => false,
        }
    }

    /// True if the command may use memory of `bytes` from `address` on. The memory of a kernel is known only
    /// afterwards.
    pub fn may_use(&self, address: u64, bytes: u64) -> bool {
        let holds = |region: &Region| (address..address + bytes).contains(&region.address);
        match self {
            Command::Kernel(_) | Command::Prefetch(..) => true,
            Command::Copy(copy) => holds(&copy.to) || holds(&copy.from),
            Command::Fill(fill) => holds(&fill.to),
            Command::Discard(discarded) => (address..address + bytes).contains(&discarded.address),
            Command::Nothing | Command::Release(_) | Command::Host(_) | Command::Callback(_) => false,
        }
    }

    /// Replaces `Command::run` when earlier work has failed: callbacks get the error, all other work is dropped.
    pub fn run_after_failure(&self, code: Code) {
        if let Command::Callback(callback) = self {
            callback.call(code);
        }
    }
}

impl HostFunction {
    /// Calls the program's function, in which it must not call CUDA.
    pub fn call(&self) {
        as_host_function(|| (self.function)(self.data));
    }
}

impl Callback {
    /// Calls the program's function, in which it must not call CUDA.
    pub fn call(&self, status: Code) {
        as_host_function(|| (self.function)(self.stream, status, self.data));
    }
}

fn as_host_function(call: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    call();
    IN_HOST_FUNCTION.set(false);
}
