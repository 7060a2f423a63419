//! Finds the functions of the CUDA runtime: in the program's own runtime, as its objects name it, or in the shared
//! library that the loader finds.
//!
//! Each instrumented object carries the addresses of the functions that it calls and that the shim needs, as the
//! linker resolved them ([`eager_abi::RUNTIME_CALLS`]). So a program with the *static* runtime, or with another
//! version of the shared one, is served by the copy that knows its kernels. For a program without such a table the shim
//! takes the runtime that the process has loaded, and only without one opens `libcudart.so.13` (or `.12`). Traps:
//! - a program with a table must never get another library's function, not even one that its own runtime lacks;
//! - return codes are plain numbers, not cudarc's enum: a code that this build does not know would be undefined
//!   behaviour as an enum.

use crate::loaded;
use crate::process::PROGRAM;
use crate::reporter::{loader_message, to_stderr};
use crate::signature::Hook;
use cudarc::runtime::sys::{
    cudaEvent_t, cudaGraphExec_t, cudaLaunchConfig_t, cudaMemLocation, cudaMemPool_t, cudaMemoryAdvise,
    cudaStream_t, dim3,
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// `cudaError_t` as a number.
pub type Status = u32;

const LIBRARIES: [&str; 2] = ["libcudart.so.13", "libcudart.so.12"];
/// Returned by a call when the library or its symbol is missing.
const MISSING: Status = 3;

/// A function that a hook forwards its call to; looked up at its first use.
#[derive(Debug)]
pub struct Symbol {
    name: &'static str,
    address: AtomicPtr<c_void>,
}

impl Symbol {
    pub const fn new(name: &'static str) -> Symbol {
        Symbol { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The function, or the status to return if it is missing.
    pub fn get(&self) -> Result<NonNull<c_void>, Status> {
        // Relaxed: the address is the only data, and every thread finds the same.
        if let Some(known) = NonNull::new(self.address.load(Ordering::Relaxed)) {
            return Ok(known);
        }
        let found = find(self.name).ok_or_else(|| missing_call(self.name))?;
        self.address.store(found.as_ptr(), Ordering::Relaxed);
        Ok(found)
    }
}

/// Looks up a function of the runtime, or of a library that the program is linked with, by its symbol.
fn find(name: &str) -> Option<NonNull<c_void>> {
    // A caller may hold a read lock already.
    let program = PROGRAM.read_recursive();
    if program.has_runtime() {
        return NonNull::new(ptr::with_exposed_provenance_mut(program.runtime(name)?));
    }
    drop(program);
    if !name.trim_start_matches('_').starts_with("cuda") {
        return loaded::function(name);
    }
    // SAFETY: only the address is taken; the caller is responsible for the type it is called with. The library is
    // never unloaded.
    let symbol = unsafe { library()?.get::<unsafe extern "C" fn()>(name).ok()? };
    NonNull::new(symbol.as_raw_ptr())
}

/// The library for programs without a table, opened once.
fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let opened = LIBRARY.get_or_init(|| {
        open().inspect_err(|error| {
            LIBRARY_MISSING.store(true, Ordering::Relaxed);
            let [name, _] = LIBRARIES;
            to_stderr(&format!(
                "cannot open {name} ({}): every CUDA call fails with an initialization error; install the \
                 CUDA 13 runtime or put its folder into LD_LIBRARY_PATH",
                loader_message(error)
            ));
        })
        .ok()
    });
    opened.as_ref()
}

static LIBRARY_MISSING: AtomicBool = AtomicBool::new(false);

/// Opens the library that the program has loaded already, or else by name, the newest first.
fn open() -> Result<Library, libloading::Error> {
    if let Some(loaded) = loaded::runtime() {
        return Ok(loaded);
    }
    let [newest, older] = LIBRARIES;
    // SAFETY: opening a CUDA runtime runs its constructors, which NVIDIA's and the stand-in's are made for.
    unsafe {
        Library::open(Some(newest), RTLD_NOW | RTLD_LOCAL)
            .or_else(|error| Library::open(Some(older), RTLD_NOW | RTLD_LOCAL).map_err(|_| error))
    }
}

/// Reports a missing function, only the first; returns the status for its call.
pub fn missing_call(name: &str) -> Status {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !LIBRARY_MISSING.load(Ordering::Relaxed) && !REPORTED.swap(true, Ordering::Relaxed) {
        to_stderr(&format!("this CUDA runtime has no {name}: the call fails with an initialization error"));
    }
    MISSING
}

/// Declares the table of runtime functions: a field for each, and a stand-in that reports it as missing.
macro_rules! runtime_table {
    ($($name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        /// The functions that the shim itself calls.
        #[allow(non_snake_case, reason = "fields are named as the functions they hold")]
        pub struct Table {
            $(pub $name: unsafe extern "C" fn($($argument: $kind),*) -> Status,)*
            pub memory: MemoryHints,
        }

        impl Table {
            #[allow(non_snake_case, reason = "stand-ins are named as the functions they stand in for")]
            fn load() -> Table {
                $(
                    unsafe extern "C" fn $name($($argument: $kind),*) -> Status {
                        $(let _ = $argument;)*
                        missing_call(stringify!($name))
                    }
                )*
                Table {
                    // SAFETY: the symbol is this CUDA function, whose arguments the headers of CUDA 12 and 13 (and
                    // cudarc, see the signature test) declare as in the table.
                    $($name: unsafe { function(stringify!($name)) }.unwrap_or($name),)*
                    memory: MemoryHints::load(),
                }
            }
        }

        /// The functions with the sizes of their arguments.
        pub const CALLS: &[Hook] = &[
            $(Hook { name: stringify!($name), argument_bytes: &[$(size_of::<$kind>()),*] },)*
        ];

        #[cfg(test)]
        mod declared {
            use super::*;
            use cudarc::runtime::sys;

            /// The functions as cudarc declares them; does not compile if cudarc has another number of arguments.
            pub fn functions() -> Vec<Hook> {
                use crate::signature::declared::{placeholder, sizes};
                vec![$({
                    let function = sys::$name as unsafe fn($(placeholder!($argument)),*) -> _;
                    Hook { name: stringify!($name), argument_bytes: sizes(function) }
                },)*]
            }
        }
    };
}

runtime_table! {
    cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    cudaDeviceReset();
    cudaDeviceSetCacheConfig(config: c_uint);
    cudaDeviceSetLimit(limit: c_uint, value: usize);
    cudaDeviceSynchronize();
    cudaEventCreateWithFlags(event: *mut cudaEvent_t, flags: c_uint);
    cudaEventDestroy(event: cudaEvent_t);
    cudaEventQuery(event: cudaEvent_t);
    cudaEventRecord(event: cudaEvent_t, stream: cudaStream_t);
    cudaEventSynchronize(event: cudaEvent_t);
    cudaFree(address: *mut c_void);
    cudaFreeAsync(address: *mut c_void, stream: cudaStream_t);
    cudaFuncSetAttribute(stub: *const c_void, attribute: c_uint, value: c_int);
    cudaFuncSetCacheConfig(stub: *const c_void, config: c_uint);
    cudaGetDeviceCount(count: *mut c_int);
    cudaGetLastError();
    cudaGraphLaunch(graph: cudaGraphExec_t, stream: cudaStream_t);
    cudaLaunchCooperativeKernel(
        stub: *const c_void,
        grid: dim3,
        block: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        stream: cudaStream_t,
    );
    cudaLaunchKernel(
        stub: *const c_void,
        grid: dim3,
        block: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        stream: cudaStream_t,
    );
    cudaLaunchKernelExC(config: *const cudaLaunchConfig_t, stub: *const c_void, args: *mut *mut c_void);
    cudaMalloc(out: *mut *mut c_void, bytes: usize);
    cudaMallocAsync(out: *mut *mut c_void, bytes: usize, stream: cudaStream_t);
    cudaMallocFromPoolAsync(out: *mut *mut c_void, bytes: usize, pool: cudaMemPool_t, stream: cudaStream_t);
    cudaMallocManaged(out: *mut *mut c_void, bytes: usize, flags: c_uint);
    cudaMallocPitch(out: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize);
    cudaMemGetInfo(free: *mut usize, total: *mut usize);
    cudaMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint);
    cudaMemcpy2D(
        dst: *mut c_void,
        dst_pitch: usize,
        src: *const c_void,
        src_pitch: usize,
        width: usize,
        height: usize,
        kind: c_uint,
    );
    cudaMemcpy2DAsync(
        dst: *mut c_void,
        dst_pitch: usize,
        src: *const c_void,
        src_pitch: usize,
        width: usize,
        height: usize,
        kind: c_uint,
        stream: cudaStream_t,
    );
    cudaMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint, stream: cudaStream_t);
    cudaPeekAtLastError();
    cudaSetDevice(device: c_int);
    cudaStreamCreateWithPriority(stream: *mut cudaStream_t, flags: c_uint, priority: c_int);
    cudaStreamDestroy(stream: cudaStream_t);
    cudaStreamIsCapturing(stream: cudaStream_t, status: *mut c_uint);
    cudaStreamQuery(stream: cudaStream_t);
    cudaStreamSynchronize(stream: cudaStream_t);
    cudaStreamWaitEvent(stream: cudaStream_t, event: cudaEvent_t, flags: c_uint);
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}

/// `cudaPointerAttributes`, in the longer form of CUDA 13.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PointerAttributes {
    pub kind: c_uint,
    pub device: c_int,
    addresses: [usize; 2],
    reserved: [i64; 8],
}

impl PointerAttributes {
    /// `cudaMemoryTypeUnregistered`.
    pub const UNREGISTERED: c_uint = 0;
}

const _: () = assert!(size_of::<PointerAttributes>() == 88);

/// Functions that a runtime or an object may lack. `cudaMemAdvise` and `cudaMemPrefetchAsync` with the arguments of
/// CUDA 13, which CUDA 12 has under `_v2` names, and not before 12.2; `__cudaLaunchKernel`, which only nvcc's
/// programs have; and the functions for the pinned ring and for addresses without memory, which objects of earlier
/// compilers do not carry.
#[derive(Debug, Clone, Copy)]
pub struct MemoryHints {
    pub advise: Option<AdviseFn>,
    pub prefetch: Option<PrefetchFn>,
    pub launch_handle: Option<LaunchHandleFn>,
    pub malloc_host: Option<MallocHostFn>,
    pub free_host: Option<FreeHostFn>,
    pub host_register: Option<HostRegisterFn>,
    pub host_unregister: Option<FreeHostFn>,
    pub pointer_attributes: Option<PointerAttributesFn>,
    pub device_attribute: Option<DeviceAttributeFn>,
    /// `cudaMemDiscardAndPrefetchBatchAsync`, since CUDA 13.
    pub discard: Option<DiscardFn>,
}

pub type DeviceAttributeFn = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> Status;
pub type DiscardFn = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut usize,
    usize,
    *mut cudaMemLocation,
    *mut usize,
    usize,
    c_ulonglong,
    cudaStream_t,
) -> Status;

pub type MallocHostFn = unsafe extern "C" fn(*mut *mut c_void, usize) -> Status;
pub type FreeHostFn = unsafe extern "C" fn(*mut c_void) -> Status;
pub type HostRegisterFn = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> Status;
pub type PointerAttributesFn = unsafe extern "C" fn(*mut PointerAttributes, *const c_void) -> Status;
pub type AdviseFn = unsafe extern "C" fn(*const c_void, usize, cudaMemoryAdvise, cudaMemLocation) -> Status;
pub type PrefetchFn =
    unsafe extern "C" fn(*const c_void, usize, cudaMemLocation, c_uint, cudaStream_t) -> Status;
pub type LaunchHandleFn =
    unsafe extern "C" fn(*mut c_void, dim3, dim3, *mut *mut c_void, usize, cudaStream_t) -> Status;

impl MemoryHints {
    fn load() -> MemoryHints {
        let [advise, prefetch] = if runtime_is_13() {
            ["cudaMemAdvise", "cudaMemPrefetchAsync"]
        } else {
            ["cudaMemAdvise_v2", "cudaMemPrefetchAsync_v2"]
        };
        // SAFETY: the names are those of the functions with these arguments in this version of the runtime.
        unsafe {
            MemoryHints {
                advise: function(advise),
                prefetch: function(prefetch),
                launch_handle: function("__cudaLaunchKernel"),
                malloc_host: function("cudaMallocHost"),
                free_host: function("cudaFreeHost"),
                host_register: function("cudaHostRegister"),
                host_unregister: function("cudaHostUnregister"),
                pointer_attributes: function("cudaPointerGetAttributes"),
                device_attribute: function("cudaDeviceGetAttribute"),
                discard: function("cudaMemDiscardAndPrefetchBatchAsync"),
            }
        }
    }
}

/// True if the program's runtime has the signatures of CUDA 13, or does not return its version.
pub fn runtime_is_13() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let mut version: c_int = 0;
        // SAFETY: the symbol is this function, and it writes to a local that outlives the call.
        let status = unsafe {
            function::<unsafe extern "C" fn(*mut c_int) -> Status>("cudaRuntimeGetVersion")
                .map(|ask| ask(&raw mut version))
        };
        status != Some(0) || version >= 13_000
    })
}

/// # Safety
/// `F` is a function pointer type with the signature of the runtime function `name`.
pub unsafe fn function<F: std::marker::Copy>(name: &str) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer") };
    let address = find(name)?.as_ptr();
    // SAFETY: not null, of a pointer's size, and by the caller's promise a function of this type.
    Some(unsafe { std::mem::transmute_copy(&address) })
}

static TABLE: OnceLock<Table> = OnceLock::new();

/// The functions that the shim calls; loaded once, at the first call.
pub fn table() -> &'static Table {
    TABLE.get_or_init(Table::load)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_has_the_arguments_that_cuda_declares() {
        assert_eq!(super::CALLS, super::declared::functions());
    }

    /// A function missing there would be missing in the program's table.
    #[test]
    fn objects_carry_every_function_that_the_shim_calls() {
        for call in super::CALLS {
            assert!(eager_abi::RUNTIME_CALLS.contains(&call.name), "{}", call.name);
        }
    }
}
