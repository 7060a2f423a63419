//! Interface between the code that the compiler pass inserts into a program and `libeager.so`.
//!
//! The pass builds its declarations from these names and layouts, and the shim implements them, so that the two
//! cannot differ. Trap: every change here changes the binary interface. Raise [`ABI_VERSION`] and the name in
//! [`VERSION_SYMBOL`] with it: each instrumented object refers to that symbol, so that a shim of another version
//! fails at link (or load) time with a name that shows why, not at run time.
//!
//! Programs outlive releases, so the shim keeps defining the version symbols of earlier releases
//! ([`RELEASED_FIRST`]): a program with an old symbol starts, gets one line that names the source to recompile, and
//! is not scheduled. This needs [`EagerModule::abi_version`] and [`EagerModule::source`] at the same offsets in every
//! version.
#![forbid(unsafe_code)]

pub mod calls;

use core::ffi::{c_char, c_void};
use core::mem::offset_of;

/// Version of everything in this file.
pub const ABI_VERSION: u32 = 3;
/// First version that was released (0.1.0). The shim defines the version symbols from this one on.
pub const RELEASED_FIRST: u32 = 3;
/// Symbol that each instrumented object refers to and the shim defines: a `uint32_t` that holds [`ABI_VERSION`]. Only
/// its address is used.
pub const VERSION_SYMBOL: &str = "eager_abi_v3";

/// `void eager_module_register(const EagerModule *)`: called from a constructor of each instrumented object.
pub const MODULE_REGISTER: &str = "eager_module_register";
/// `void eager_task_begin(uint64_t site, uint64_t bytes, uint64_t live_bytes, uint64_t blocks, uint32_t
/// threads_per_block)`: begins a *static* task, which holds at most `bytes` at once, and at most `live_bytes` of them
/// between each buffer's first use by the device (or a copy) and its death (`eager_buffer_dead`, or the free where no
/// death is declared). `live_bytes` is at most `bytes`, and equals it where the pass proves nothing about the
/// buffers. `blocks` and `threads_per_block`: geometry of the first launch whose geometry is known here, 0 if none
/// is. Returns when the scheduler has answered, or when there is none. Dominates every device use of the
/// task. Inside another static task of the same thread it *nests*: if the outer task's row lists the site as covered,
/// nothing is requested; otherwise the outer task is extended by `bytes` until the inner end. Both are then one task
/// on one device.
pub const TASK_BEGIN: &str = "eager_task_begin";
/// `void eager_all_launched(uint64_t site)`: called after the task's last launch, on every path.
pub const ALL_LAUNCHED: &str = "eager_all_launched";
/// `void eager_task_end(uint64_t site)`: ends the task; nothing of it remains on the device.
pub const TASK_END: &str = "eager_task_end";

/// `void eager_buffer_dead(void *buffer)`: no execution uses the contents of this allocation again, and only
/// `cudaFree` uses its pointer. Null and pointers that are not an allocation are ignored. The call is after the
/// last call that uses the buffer, not after the work that this call started: the memory may be freed once the device
/// has finished all work requested before. It may be called twice for an allocation.
pub const BUFFER_DEAD: &str = "eager_buffer_dead";

/// `void eager_managed_variable(u64 bytes)`: the program has a `__managed__` variable of this size. Called from a
/// constructor, once per variable. Any kernel may use the variable, so every task of the program requests its bytes
/// too.
pub const MANAGED_VARIABLE: &str = "eager_managed_variable";

/// Prefix that the pass puts before the name of a CUDA runtime call that the shim owns: `cudaMalloc` becomes
/// `eager_cudaMalloc`, with the same signature. Renaming covers programs linked with the static runtime too.
pub const RENAME_PREFIX: &str = "eager_";

/// Runtime functions that the shim itself may call. Every instrumented object carries their addresses in
/// [`EagerModule::runtime`], besides those of the renamed calls that it makes. The references are weak, so that a
/// program links with a runtime that lacks some; their addresses are then null.
pub const RUNTIME_CALLS: &[&str] = &[
    "cudaDeviceGetAttribute",
    "cudaDeviceGetStreamPriorityRange",
    "cudaDeviceReset",
    "cudaDeviceSetCacheConfig",
    "cudaDeviceSetLimit",
    "cudaDeviceSynchronize",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaEventSynchronize",
    "cudaFree",
    "cudaFreeAsync",
    "cudaFreeHost",
    "cudaFuncSetAttribute",
    "cudaFuncSetCacheConfig",
    "cudaGetDeviceCount",
    "cudaGetDriverEntryPoint",
    "cudaGetDriverEntryPointByVersion",
    "cudaGetLastError",
    "cudaGraphLaunch",
    "cudaHostRegister",
    "cudaHostUnregister",
    "cudaLaunchCooperativeKernel",
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMalloc",
    "cudaMallocAsync",
    "cudaMallocFromPoolAsync",
    "cudaMallocHost",
    "cudaMallocManaged",
    "cudaMallocPitch",
    "cudaMemAdvise",
    "cudaMemAdvise_v2",
    "cudaMemDiscardAndPrefetchBatchAsync",
    "cudaMemGetInfo",
    "cudaMemPrefetchAsync",
    "cudaMemPrefetchAsync_v2",
    "cudaMemcpy",
    "cudaMemcpy2D",
    "cudaMemcpy2DAsync",
    "cudaMemcpyAsync",
    "cudaPeekAtLastError",
    "cudaPointerGetAttributes",
    "cudaRuntimeGetVersion",
    "cudaSetDevice",
    "cudaStreamCreateWithPriority",
    "cudaStreamDestroy",
    "cudaStreamIsCapturing",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
];

/// Tables of one translation unit. Emitted as a constant by the pass; valid as long as the object is loaded.
#[repr(C)]
#[derive(Debug)]
pub struct EagerModule {
    /// [`ABI_VERSION`] of the pass that emitted the module.
    pub abi_version: u32,
    pub kernel_count: u32,
    pub task_count: u32,
    pub runtime_count: u32,
    /// NUL-terminated path of the source file.
    pub source: *const c_char,
    pub kernels: *const EagerKernel,
    pub tasks: *const EagerTask,
    /// Runtime functions as the linker resolved them for this object: with a static runtime there is no other way to
    /// find them. Null, and `runtime_count` 0, when the object carries none.
    pub runtime: *const EagerRuntimeCall,
}

/// A function of the CUDA runtime that the program is linked with.
#[repr(C)]
#[derive(Debug)]
pub struct EagerRuntimeCall {
    /// NUL-terminated name, as in CUDA's header.
    pub name: *const c_char,
    pub address: *const c_void,
}

/// A kernel launched (or defined) in the translation unit.
#[repr(C)]
#[derive(Debug)]
pub struct EagerKernel {
    /// Address given to `cudaLaunchKernel` (clang's host stub).
    pub stub: *const c_void,
    /// NUL-terminated mangled device name, as given to `__cudaRegisterFunction`.
    pub name: *const c_char,
    pub arg_count: u32,
    /// Registers per thread as ptxas assigned them; 0 if unknown.
    pub registers: u32,
    /// Size and kind of each argument, in the order of `cudaLaunchKernel`'s `args`.
    pub args: *const EagerKernelArg,
    /// Static shared memory per block, in bytes; 0 also if unknown.
    pub shared_bytes: u32,
    pub reserved: u32,
}

/// A kernel argument.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EagerKernelArg {
    /// Size in bytes of the value at `args[i]`.
    pub size: u32,
    /// [`ARG_POINTER`], [`ARG_READ`], [`ARG_WRITTEN`], [`ARG_REPEATED`], and an access class at [`ARG_ACCESS_SHIFT`].
    pub flags: u32,
}

/// The argument itself is a pointer. Without this flag the shim still searches the argument's 8-byte words for device
/// addresses.
pub const ARG_POINTER: u32 = 1;
/// The kernel may read the memory that the argument points to. With neither this flag nor [`ARG_WRITTEN`] the use is
/// unknown, or, with class [`ACCESS_UNUSED`], there is none.
pub const ARG_READ: u32 = 2;
/// The kernel may write the memory that the argument points to.
pub const ARG_WRITTEN: u32 = 4;
/// A launch of the kernel is in a host loop: later launches use the buffer again, whatever the access class of a
/// single launch is.
pub const ARG_REPEATED: u32 = 8;
/// Bit at which the access class starts in an argument's flags; it has [`ARG_ACCESS_BITS`] bits.
pub const ARG_ACCESS_SHIFT: u32 = 8;
pub const ARG_ACCESS_BITS: u32 = 4;

/// How a launch accesses a buffer, as far as the device code shows (all but "unused" are estimates for the
/// scheduler).
pub const ACCESS_UNKNOWN: u32 = 0;
/// Each byte about once, in block order, so that pages stream through.
pub const ACCESS_ONE_PASS: u32 = 1;
/// The same bytes repeatedly within the launch.
pub const ACCESS_CYCLIC: u32 = 2;
/// Few bytes of each page, or only some pages: strided or data-dependent addresses.
pub const ACCESS_SPARSE: u32 = 3;
/// The kernel does not touch the buffer.
pub const ACCESS_UNUSED: u32 = 4;

/// A static task of the translation unit.
#[repr(C)]
#[derive(Debug)]
pub struct EagerTask {
    /// Id given to `eager_task_begin`: a hash of source path, function and ordinal; unique in a program with high
    /// probability, the same from build to build.
    pub site: u64,
    /// NUL-terminated name of the function that holds the task.
    pub function: *const c_char,
    /// Source line of its first allocation, 0 if unknown.
    pub line: u32,
    /// Number of launch sites of the task.
    pub launch_sites: u32,
    /// Sites of static tasks whose memory this task's requirement contains: tasks of functions called while it runs.
    pub covered: *const u64,
    pub covered_count: u32,
    /// [`TASK_REUSES`], [`TASK_LIVE_REUSES`] and [`TASK_NAMED`].
    pub flags: u32,
}

/// The task may allocate again what it frees, so nothing that it frees is returned before its end. Set where the
/// requirement is the peak of what is allocated at once, below the sum of the allocations, or where the task (or a
/// covered site) allocates more than once, in a loop.
pub const TASK_REUSES: u32 = 1;
/// `live_bytes` is below the sum of all that is ever in use: memory comes into use after other memory is dead, so the
/// task may need again, before its end, what it returns when a buffer dies.
pub const TASK_LIVE_REUSES: u32 = 2;
/// The pass sees all uses of the task's memory, and each is a launch or a renamed call that is given a pointer to it:
/// no other code gets its addresses, and no kernel finds one in memory. So an address needs no memory before a call
/// names it. Covered sites carry the flag for themselves.
pub const TASK_NAMED: u32 = 4;

// The pass emits constants of these layouts; these asserts are the test.
const _: () = assert!(size_of::<EagerModule>() == 48 && align_of::<EagerModule>() == 8);
const _: () = assert!(size_of::<EagerKernel>() == 40 && size_of::<EagerKernelArg>() == 8);
const _: () = assert!(size_of::<EagerTask>() == 40 && size_of::<EagerRuntimeCall>() == 16);
// These offsets are the same in every version.
const _: () = assert!(offset_of!(EagerModule, abi_version) == 0 && offset_of!(EagerModule, source) == 16);
