//! What the compiler pass inserts into a program and what `libeager.so` exports: one list for both sides.
//!
//! The pass builds its declarations from these names and layouts, and the shim implements them, so that the two cannot
//! differ. Trap: every change here is a change of the binary interface. Raise [`ABI_VERSION`] and the name in
//! [`VERSION_SYMBOL`] with it: each instrumented object refers to that symbol, so a shim without it fails at link (or load)
//! time with a name that says so, not at run time.
//!
//! Programs outlive releases, so a shim goes on to define the symbols of versions that were released ([`RELEASED_FIRST`]):
//! such a program starts, is told by one line what to compile again, and is not scheduled. For that, modules of every version
//! have [`EagerModule::abi_version`] and [`EagerModule::source`] in the same places.
#![forbid(unsafe_code)]

pub mod calls;

use core::ffi::{c_char, c_void};
use core::mem::offset_of;

/// Version of everything in this file.
pub const ABI_VERSION: u32 = 3;
/// The first version that was in a release (0.1.0). The shim defines the version symbols from this one on.
pub const RELEASED_FIRST: u32 = 3;
/// Symbol that each instrumented object refers to and the shim defines: a `uint32_t` that holds [`ABI_VERSION`]. Only
/// its address is used.
pub const VERSION_SYMBOL: &str = "eager_abi_v3";

/// `void eager_module_register(const EagerModule *)`: from a constructor of each instrumented object.
pub const MODULE_REGISTER: &str = "eager_module_register";
/// `void eager_task_begin(uint64_t site, uint64_t bytes, uint64_t live_bytes, uint64_t blocks, uint32_t
/// threads_per_block)`: a *static* task starts here and will hold at most `bytes` at once, and at most `live_bytes` of them
/// between the first use of each buffer by the device (or a copy) and its death: `eager_buffer_dead`, or the free where
/// none is declared. `live_bytes` is at most `bytes`, and equal where nothing is shown of the buffers. `blocks` and
/// `threads_per_block`: the geometry of its first launch whose geometry is known here, 0 if none is. Returns when the
/// scheduler has answered (or there is none). Dominates every device use of the task. Inside another static task of the
/// same thread it *nests*: nothing is asked for if the outer task's row lists the site as covered, else the outer task is
/// extended by `bytes` until the inner end. The two are one task then, on one device.
pub const TASK_BEGIN: &str = "eager_task_begin";
/// `void eager_all_launched(uint64_t site)`: after the last launch of the task on every path.
pub const ALL_LAUNCHED: &str = "eager_all_launched";
/// `void eager_task_end(uint64_t site)`: nothing of the task remains on the device.
pub const TASK_END: &str = "eager_task_end";

/// `void eager_buffer_dead(void *buffer)`: no execution uses the contents of this allocation again, and none but its
/// `cudaFree` its pointer. Null and pointers that are no allocation mean nothing. The call stands behind the last call
/// that uses the buffer, not behind the work that this call started: the memory may be given back once the device has
/// done what was asked for before. It may be called twice for the same allocation.
pub const BUFFER_DEAD: &str = "eager_buffer_dead";

/// `void eager_managed_variable(u64 bytes)`: the program has a `__managed__` variable of this size. Called from a
/// constructor, for each once. Any kernel may use it, so every task of the program asks for it too.
pub const MANAGED_VARIABLE: &str = "eager_managed_variable";

/// Prefix that the pass puts before the name of a CUDA runtime call that the shim owns: `cudaMalloc` becomes
/// `eager_cudaMalloc`, with the same signature. Renaming covers programs linked with the static runtime too.
pub const RENAME_PREFIX: &str = "eager_";

/// Runtime functions whose addresses every instrumented object carries in [`EagerModule::runtime`], besides those of the
/// renamed calls that it makes: what the shim itself may call. The references are weak, so that a program's runtime
/// needs none of them to link: null where it lacks one.
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

/// One translation unit's tables. Emitted as a constant by the pass; lives as long as the object is loaded.
#[repr(C)]
#[derive(Debug)]
pub struct EagerModule {
    /// [`ABI_VERSION`] of the pass.
    pub abi_version: u32,
    pub kernel_count: u32,
    pub task_count: u32,
    pub runtime_count: u32,
    /// NUL-terminated path of the source file.
    pub source: *const c_char,
    pub kernels: *const EagerKernel,
    pub tasks: *const EagerTask,
    /// The runtime functions as the linker resolved them for this object: with a static runtime there is no other way
    /// to them. Null and 0 when the object carries none.
    pub runtime: *const EagerRuntimeCall,
}

/// One function of the CUDA runtime that the program is linked with.
#[repr(C)]
#[derive(Debug)]
pub struct EagerRuntimeCall {
    /// NUL-terminated name, as in CUDA's header.
    pub name: *const c_char,
    pub address: *const c_void,
}

/// One kernel launched (or defined) in the translation unit.
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

/// One kernel argument.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EagerKernelArg {
    /// Bytes at `args[i]`.
    pub size: u32,
    /// [`ARG_POINTER`], [`ARG_READ`], [`ARG_WRITTEN`], [`ARG_REPEATED`], and an access class at [`ARG_ACCESS_SHIFT`].
    pub flags: u32,
}

/// The argument itself is a pointer. Without it the shim still looks for device addresses in its 8-byte words.
pub const ARG_POINTER: u32 = 1;
/// The kernel may read what the argument points to. Neither this nor [`ARG_WRITTEN`]: unknown, or never used if the class
/// is [`ACCESS_UNUSED`].
pub const ARG_READ: u32 = 2;
/// The kernel may write what the argument points to.
pub const ARG_WRITTEN: u32 = 4;
/// A launch of the kernel stands in a loop of the host's: later launches come back to the buffer, whatever the class says
/// of one.
pub const ARG_REPEATED: u32 = 8;
/// Where the access class starts in an argument's flags; it has [`ARG_ACCESS_BITS`] bits.
pub const ARG_ACCESS_SHIFT: u32 = 8;
pub const ARG_ACCESS_BITS: u32 = 4;

/// How one launch goes through a buffer, as the device code shows it (all but "unused" are estimates for the scheduler).
pub const ACCESS_UNKNOWN: u32 = 0;
/// Each byte about once, in the order of the blocks: paging streams through.
pub const ACCESS_ONE_PASS: u32 = 1;
/// The same bytes again and again within the launch.
pub const ACCESS_CYCLIC: u32 = 2;
/// Few bytes of each page, or only some pages: strided or data-dependent addresses.
pub const ACCESS_SPARSE: u32 = 3;
/// The kernel does not touch it.
pub const ACCESS_UNUSED: u32 = 4;

/// One static task of the translation unit.
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
    /// How many launch sites the task has.
    pub launch_sites: u32,
    /// Sites of static tasks whose memory this one's requirement contains: tasks of functions called while it runs.
    pub covered: *const u64,
    pub covered_count: u32,
    /// [`TASK_REUSES`], [`TASK_LIVE_REUSES`] and [`TASK_NAMED`].
    pub flags: u32,
}

/// The requirement is the most that is allocated at once, below the sum of the allocations, or it allocates (or a covered
/// site does) more than once, in a loop: what the task frees it may allocate again, so until its end nothing that it
/// frees is given back.
pub const TASK_REUSES: u32 = 1;
/// `live_bytes` is below the sum of what is ever in use: memory comes into use after other memory is dead, so that what
/// the task gives back when a buffer dies it may need again before its end.
pub const TASK_LIVE_REUSES: u32 = 2;
/// All uses of the task's memory are in sight of the pass, and each is a launch or a renamed call that is given a pointer
/// to it: nobody else gets its addresses, and no kernel finds one in memory. So there need be no memory behind an address
/// before a call that names it. Covered sites have the flag for themselves.
pub const TASK_NAMED: u32 = 4;

// Layouts are fixed by the emitted constants: these asserts are the test.
const _: () = assert!(size_of::<EagerModule>() == 48 && align_of::<EagerModule>() == 8);
const _: () = assert!(size_of::<EagerKernel>() == 40 && size_of::<EagerKernelArg>() == 8);
const _: () = assert!(size_of::<EagerTask>() == 40 && size_of::<EagerRuntimeCall>() == 16);
// Of every version.
const _: () = assert!(offset_of!(EagerModule, abi_version) == 0 && offset_of!(EagerModule, source) == 16);
