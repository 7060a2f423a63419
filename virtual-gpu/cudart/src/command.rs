//! Commands of a stream: pieces of asynchronous work, each carried out in its turn.
//!
//! A command holds copies of everything it needs from the program's call. Trap: the same command runs again with every
//! launch of a graph that holds it, so running must not change it.

use core::cell::Cell;
use core::ffi::c_void;

use eager_exec::strict::Problem;
use eager_exec::{Fault, LaunchFailure};
use eager_gpu_model::{AllocId, Op};

use crate::kernel::{Launch, LaunchContext, copies};
use crate::log::log_line;
use crate::names::readable;
use crate::runtime::Runtime;
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
    /// Runs the command and waits for its modelled end; returns the modelled duration in nanoseconds.
    ///
    /// # Errors
    /// The code that the program gets at its next call.
    pub fn run(&self, runtime: &Runtime) -> Result<u64, Code> {
        match self {
            Command::Nothing => Ok(0),
            Command::Kernel(launch) => run_kernel(runtime, launch),
            Command::Copy(copy) => copy.run(runtime),
            Command::Fill(fill) => fill.run(runtime),
            Command::Release(address) => runtime.release(*address).map(|()| 0),
            Command::Prefetch(device, op) => runtime.prefetch(*device, op.clone()),
            Command::Discard(discarded) => runtime.discard(*discarded).map(|()| 0),
            Command::Host(host) => {
                as_host_function(|| (host.function)(host.data));
                Ok(0)
            }
            Command::Callback(callback) => {
                callback.call(Code::cudaSuccess);
                Ok(0)
            }
        }
    }

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

    /// Replaces [`Command::run`] when earlier work has failed: callbacks get the error, all other work is dropped.
    pub fn run_after_failure(&self, code: Code) {
        if let Command::Callback(callback) = self {
            callback.call(code);
        }
    }
}

impl Callback {
    fn call(&self, status: Code) {
        as_host_function(|| (self.function)(self.stream, status, self.data));
    }
}

fn as_host_function(call: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    call();
    IN_HOST_FUNCTION.set(false);
}

/// Runs the kernel on the CPU, then in the model.
fn run_kernel(runtime: &Runtime, launch: &Launch) -> Result<u64, Code> {
    let name = launch.kernel.name;
    let op = {
        let mut compute = runtime.compute.lock();
        copies::show(launch.device)?;
        let modelled = runtime.memory.lock().table.modelled();
        let strict = runtime.strict_mode.as_ref();
        let books = strict.and_then(|strict| strict.before_launch(&launch.kernel, &runtime.memory));
        let mut profile = runtime.profile.as_ref().map(|profile| profile.lock());
        let objects = runtime.images.now();
        let ran = compute.run(
            launch,
            &modelled,
            profile.as_deref_mut(),
            LaunchContext { objects: &objects, strict: books, memory: &runtime.memory },
        );
        let races = strict.map_or(Ok(()), |strict| strict.after_launch(name));
        let op = ran.map_err(|failure| {
            if let (Some(strict), LaunchFailure::Strict(_) | LaunchFailure::Parted(_)) = (strict, &failure) {
                strict.count_failed_launch();
            }
            log_line(format_args!("kernel {}: {failure}", readable(name)));
            code_of(&failure)
        })?;
        races?;
        op
    };
    let device_ns = runtime.run_op(launch.device, op)?;
    if let Some(profile) = &runtime.profile {
        profile.lock().took(name, device_ns);
    }
    Ok(device_ns)
}

fn code_of(failure: &LaunchFailure) -> Code {
    match failure {
        LaunchFailure::Fault(Fault::Address(_) | Fault::NoAddress) => Code::cudaErrorIllegalAddress,
        // On a GPU a stuck kernel would run until the watchdog ends it.
        LaunchFailure::Fault(Fault::Stuck(_) | Fault::TimeOut) => Code::cudaErrorLaunchTimeout,
        LaunchFailure::Assertion => Code::cudaErrorAssert,
        LaunchFailure::Fault(Fault::Division) | LaunchFailure::Trap => Code::cudaErrorLaunchFailure,
        // A GPU may hang, go on, or give wrong results.
        LaunchFailure::Parted(_) => Code::cudaErrorLaunchFailure,
        // A GPU reports the same for accesses outside a surface; for a destroyed object it reports less or nothing.
        LaunchFailure::Image(_) => Code::cudaErrorIllegalAddress,
        LaunchFailure::Strict(finding) => match finding.problem {
            Problem::Misaligned(_) => Code::cudaErrorMisalignedAddress,
            _ => Code::cudaErrorIllegalAddress,
        },
    }
}
