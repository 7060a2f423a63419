//! The binary interface between CPU kernels (made by eager-kernels, linked into the program) and their executor.
//!
//! A compiled object holds one [`KernelTable`] and a constructor that calls [`REGISTER_SYMBOL`] if the symbol is
//! defined. It is weak, so that the same executable also runs on NVIDIA's runtime, which does not define it. The
//! constructor has priority 101 and so runs before clang's, which registers the kernels with CUDA (65535). Two
//! translation units may hold static kernels with equal names, and some may have no table at all; the address of the
//! unit's GPU code tells them apart ([`KernelTable::device_code`]). Trap: eager-kernels writes these layouts as LLVM
//! IR. A change here needs the same change there, and raises [`KERNEL_ABI_VERSION`].

use core::ffi::{c_char, c_void};

pub const KERNEL_ABI_VERSION: u32 = 7;
/// `void eager_vgpu_register(const KernelTable *)`, defined by the stand-in runtime, weak in every object.
pub const REGISTER_SYMBOL: &str = "eager_vgpu_register";

/// [`KernelEntry::flags`]: memory accesses are recorded in the touch map.
pub const RECORDS_TOUCHES: u32 = 1;
/// [`KernelEntry::flags`]: cost counters are kept.
pub const COUNTS: u32 = 2;
/// [`KernelEntry::flags`]: threads record in [`BlockContext::waits`] what they wait for.
pub const WAITS: u32 = 4;
/// [`KernelEntry::flags`]: the kernel calls [`Helpers::check`] before every access.
pub const CHECKS: u32 = 8;

/// [`KernelEntry::flags`]: threads of this kernel may yield to threads of blocks that have not started.
pub const YIELDS: u32 = 16;

/// [`KernelEntry::flags`]: the kernel reads the position of its block in the cluster ([`BlockContext::cluster`]).
pub const USES_CLUSTER: u32 = 32;
/// [`KernelEntry::flags`]: the kernel also reports barriers and fences to [`Helpers::check`]
/// ([`access_class::EVENT_SHIFT`]).
pub const REPORTS_ORDER: u32 = 1 << 8;
/// Flag of a kernel whose threads write the place where they wait ([`Wait::result`]).
pub const NAMES_WAITS: u32 = 1 << 9;

/// Flags of [`Helpers::check`]: the access reads.
pub const ACCESS_READS: u32 = 1;
/// [`Helpers::check`] flag: the access writes.
pub const ACCESS_WRITES: u32 = 2;
/// [`Helpers::check`] flag: the access copies bytes elsewhere, so the bytes need not be initialized.
pub const ACCESS_COPIES: u32 = 4;
/// [`Helpers::check`] flag: the address was computed from a variable or array of known size, and must stay in that
/// object. Without the flag, the address was computed from a pointer, if from anything known, and must stay in the
/// memory that the pointer points into.
pub const ACCESS_OF_OBJECT: u32 = 8;
/// [`Helpers::check`] flag: the object is the dynamic part of shared memory, which ends where shared memory does.
pub const ACCESS_OF_DYNAMIC: u32 = 16;

/// [`Helpers::check`] flag: the access is volatile, or an atomic load or store.
pub const ACCESS_VOLATILE: u32 = 32;

/// Further fields in the flags of [`Helpers::check`].
pub mod access_class {
    /// Position of the class of memory in the flags, four bits: one of the constants below.
    pub const SHIFT: u32 = 8;
    pub const ANY: u32 = 0;
    pub const SHARED: u32 = 1;
    pub const LOCAL: u32 = 2;
    /// Position of the logarithm of the alignment, eight bits.
    pub const ALIGN_SHIFT: u32 = 16;
    /// Position of the event, four bits. If not 0, there is no access but an event that orders threads: one of those
    /// below.
    pub const EVENT_SHIFT: u32 = 24;
    /// The thread continues after a barrier of the whole block.
    pub const EVENT_BARRIER: u32 = 1;
    /// The thread executes a fence.
    pub const EVENT_FENCE: u32 = 2;
    /// Threads of the block wait at its barrier in two places: the access's place, and the text that its object is.
    pub const EVENT_PARTED: u32 = 3;
}

/// Encoding of a texture or surface access: the argument `form` of [`Helpers::image`].
pub mod image_form {
    /// Number of coordinates, 1 to 3.
    pub const DIMENSIONS: u32 = 3;
    pub const OPERATION: u32 = 3 << 2;
    /// Reads a texture: coordinates are `float`; returns four components of 32 bits.
    pub const SAMPLE: u32 = 0;
    /// Reads a surface: x counts bytes; returns the bytes read.
    pub const LOAD: u32 = 1 << 2;
    /// Writes a surface.
    pub const STORE: u32 = 2 << 2;
    /// Texture only: coordinates are integers, used as indices.
    pub const BY_INDEX: u32 = 1 << 4;
    /// Texture only: reads one component of four neighbours, `tex2Dgather`.
    pub const GATHER: u32 = 1 << 5;
    /// Position of the component number for [`GATHER`], two bits.
    pub const COMPONENT_SHIFT: u32 = 6;
    /// Surface only: behaviour of an access outside.
    pub const BOUNDARY: u32 = 3 << 8;
    pub const BOUNDARY_ZERO: u32 = 0;
    pub const BOUNDARY_CLAMP: u32 = 1 << 8;
    pub const BOUNDARY_TRAP: u32 = 2 << 8;
    /// Surface only: position of the number of bytes, five bits.
    pub const BYTES_SHIFT: u32 = 10;
}

/// Encoding of a tensor-core operation: [`Wait::argument`] and, for types of elements, [`Wait::control`] of a lane that
/// waits for the operation ([`crate::schedule::WaitKind::Tensor`]). [`Wait::value`] is the address of the lane's
/// record.
pub mod tensor_form {
    /// Logarithms of the sizes, four bits each.
    pub const M_SHIFT: u32 = 0;
    pub const N_SHIFT: u32 = 4;
    pub const K_SHIFT: u32 = 8;
    pub const SATURATES: u32 = 1 << 12;
    pub const BY_AND: u32 = 1 << 13;
    pub const A_BY_COLUMNS: u32 = 1 << 14;
    pub const B_BY_ROWS: u32 = 1 << 15;
    pub const OPERATION: u32 = 3 << 16;
    pub const MULTIPLY: u32 = 0;
    /// Passes addresses of rows for `ldmatrix` and `stmatrix`; the low bits are the number of matrices.
    pub const ADDRESSES: u32 = 1 << 16;
    pub const TRANSPOSE: u32 = 2 << 16;
    pub const TRANSPOSED: u32 = 1 << 18;
    /// Types of elements, four bits each.
    pub const A_SHIFT: u32 = 0;
    pub const B_SHIFT: u32 = 4;
    pub const C_SHIFT: u32 = 8;
    pub const D_SHIFT: u32 = 12;
    pub const F16: u32 = 0;
    pub const BF16: u32 = 1;
    pub const TF32: u32 = 2;
    pub const F32: u32 = 3;
    pub const F64: u32 = 4;
    pub const S8: u32 = 5;
    pub const U8: u32 = 6;
    pub const S4: u32 = 7;
    pub const U4: u32 = 8;
    pub const B1: u32 = 9;
    pub const S32: u32 = 10;
    pub const E4M3: u32 = 11;
    pub const E5M2: u32 = 12;
}

/// Registers of 32 bits in a lane's record of a tensor-core operation.
pub const TENSOR_WORDS: usize = 32;

/// 16 bytes read from, or written to, a texture or surface.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Texels {
    pub low: u64,
    pub high: u64,
}

/// Runs all threads of one block. It may unwind: [`Helpers::trap`] leaves a kernel that way.
pub type BlockFn = unsafe extern "C-unwind" fn(ctx: *mut BlockContext, args: *const *const c_void);

/// One translation unit's kernels and device variables.
#[repr(C)]
#[derive(Debug)]
pub struct KernelTable {
    pub abi_version: u32,
    pub kernel_count: u32,
    pub variable_count: u32,
    /// Compute capability of the GPU that the unit was compiled for: 90 for `sm_90`; 0: unknown.
    pub architecture: u32,
    pub kernels: *const KernelEntry,
    pub variables: *const VariableEntry,
    /// Pointer that the same unit passes to `__cudaRegisterFatBinary`; null if the compiler pass did not link it in.
    pub device_code: *const c_void,
    /// Where the variables lie.
    pub memory: *const VariableMemory,
}

/// Memory of a unit's device variables, which holds nothing else.
#[repr(C)]
#[derive(Debug)]
pub struct VariableMemory {
    /// Variables with initial values.
    pub initialised: MemoryRange,
    /// Variables that start with zeros.
    pub zeroed: MemoryRange,
}

/// Whole pages of the program; null and 0 for none.
#[repr(C)]
#[derive(Debug)]
pub struct MemoryRange {
    pub start: *mut c_void,
    pub bytes: u64,
}

#[repr(C)]
#[derive(Debug)]
pub struct KernelEntry {
    /// NUL-terminated mangled device name (as given to `__cudaRegisterFunction`).
    pub name: *const c_char,
    pub run_block: BlockFn,
    pub params: *const ParamDesc,
    pub param_count: u32,
    /// 0 loop (no barrier), 1 coroutine, 2 fission, 3 warp by warp.
    pub mode: u32,
    /// Bytes of static `__shared__` memory, placed at the start of [`BlockContext::shared`]; the dynamic part starts
    /// at the next multiple of 16 ([`dynamic_shared_offset`]).
    pub static_shared_bytes: u32,
    /// See [`RECORDS_TOUCHES`] and its neighbours.
    pub flags: u32,
    /// Upper bound on the threads of a block, from `__launch_bounds__`; 0: none.
    pub threads_max: u32,
    /// Cluster size from `__cluster_dims__` in blocks along x, y, z, 8 bits each from the lowest; 0: none.
    pub cluster: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ParamDesc {
    pub size: u32,
    pub align: u32,
}

/// A `__device__` or `__constant__` variable.
#[repr(C)]
#[derive(Debug)]
pub struct VariableEntry {
    /// NUL-terminated device name (as given to `__cudaRegisterVar`).
    pub name: *const c_char,
    pub address: *mut c_void,
    pub bytes: u64,
}

/// State of one block, shared with its kernel code. The executor fills it before each block.
#[repr(C)]
#[derive(Debug)]
pub struct BlockContext {
    pub block_idx: [u32; 3],
    pub block_dim: [u32; 3],
    pub grid_dim: [u32; 3],
    /// Bytes at `shared` (static + dynamic).
    pub shared_bytes: u32,
    /// Aligned to 128; static variables first, then the dynamic part (aligned to 16).
    pub shared: *mut u8,
    /// Memory for coroutine frames, `scratch_bytes` long. See [`Helpers::grow_scratch`].
    pub scratch: *mut u8,
    pub scratch_bytes: u64,
    /// Start of the device address range that the touch map covers.
    pub touch_base: u64,
    /// Last valid entry of `touch_map`; addresses outside the range land there.
    pub touch_limit: u64,
    /// Two bytes for each `1 << touch_shift` bytes of memory, first "read", then "written". Kernels only ever store the
    /// value 1: no read-modify-write, so no store-to-load dependence from one access to the next. Never null: without a
    /// map the executor points it at one dummy entry with `touch_limit` 0, which costs less than a test before every
    /// access.
    pub touch_map: *mut u8,
    pub touch_shift: u32,
    /// In: 1 if the block resumes after yielding, 0 if it starts. Out, from a block that [`WAITS`]: a
    /// [`crate::schedule::Round`].
    pub phase: u32,
    /// Counters that instrumented kernels add to: bytes of global loads and stores requested, floating-point operations
    /// (an FMA counts two) in single and in double precision.
    pub global_bytes: u64,
    pub flops32: u64,
    pub flops64: u64,
    /// Bytes from one thread's coroutine frame to the next; only the block's code uses it.
    pub frame_stride: u64,
    pub helpers: *const Helpers,
    /// One entry for each thread, by linear index (x fastest), in whole warps; null unless the kernel [`WAITS`].
    pub waits: *mut Wait,
    /// Address of memory that all blocks of a cooperative launch share, whose first word is its size in bytes; 0 in
    /// other launches.
    pub grid_workspace: u64,
    /// Set before [`Helpers::trap`]: the `assert` that failed, or null for a plain trap.
    pub assertion: *const Assertion,
    /// Out, from [`Helpers::next_round`]: the next sweep goes from the last warp and lane to the first if this is not 0.
    pub falling: u64,
    /// For a kernel that [`USES_CLUSTER`]: the cluster as seen from this block; null for others.
    pub cluster: *const ClusterView,
    pub reserved: [u64; 2],
}

/// A cluster of blocks, as seen from one of them.
#[repr(C)]
#[derive(Debug)]
pub struct ClusterView {
    /// Every block's shared memory, by rank.
    pub shared: *const *mut u8,
    /// Rank of this block, x fastest.
    pub rank: u32,
    /// Number of blocks in the cluster.
    pub count: u32,
    /// Position of this block in the cluster.
    pub block: [u32; 3],
    /// Blocks of the cluster in x, y, z.
    pub sizes: [u32; 3],
    /// Position of the cluster in the grid.
    pub cluster: [u32; 3],
    /// Clusters of the grid in x, y, z.
    pub clusters: [u32; 3],
}

/// An `assert` of device code that failed. The texts are NUL-terminated.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Assertion {
    pub message: *const c_char,
    pub file: *const c_char,
    pub function: *const c_char,
    pub line: u32,
    pub thread_idx: [u32; 3],
}

/// Wait of one thread, written by the thread before it suspends; the executor answers in `result`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wait {
    /// A [`crate::schedule::WaitKind`].
    pub kind: u32,
    /// Threads of the warp that take part, or the number of a block barrier.
    pub mask: u32,
    /// Operand of the thread: 32 or 64 bits, zero-extended. Of a thread that yields: address of the NUL-terminated
    /// `file:line` of its polling loop, or 0.
    pub value: u64,
    /// Source lane or distance of a shuffle, thread count of a barrier (0: all), place of an `__activemask`.
    pub argument: u32,
    /// Segment and clamp of a shuffle as in PTX, or the reduction of a barrier.
    pub control: u32,
    /// Bits of the result; bit 32 is the predicate of operations that have one beside the result. Of a thread that waits,
    /// in a kernel with [`NAMES_WAITS`]: address of the NUL-terminated `file:line` where it waits, or 0.
    pub result: u64,
}

/// Functions that kernels may call back. They keep the objects free of undefined symbols other than libm's.
#[repr(C)]
#[derive(Debug)]
pub struct Helpers {
    /// Grows `scratch` to at least `bytes` (contents lost); returns it (aligned to 64), never null.
    pub grow_scratch: unsafe extern "C" fn(ctx: *mut BlockContext, bytes: u64) -> *mut u8,
    /// Device-side `printf`: format and the packed argument buffer that clang makes for `vprintf`.
    pub vprintf: unsafe extern "C" fn(format: *const c_char, args: *const c_void) -> i32,
    /// `__trap`, `assert`: ends the launch with a sticky error; does not return to the kernel.
    pub trap: unsafe extern "C-unwind" fn(ctx: *mut BlockContext) -> !,
    /// Completes operations that the threads of a warp wait for together; returns the lanes that can continue, 0 if
    /// none can.
    pub ready_lanes: unsafe extern "C" fn(ctx: *mut BlockContext, warp: u32) -> u32,
    /// Called when no warp can continue: completes operations that the block waits for together. Returns 1 if some
    /// thread can continue, else 0.
    pub next_round: unsafe extern "C" fn(ctx: *mut BlockContext) -> u32,
    /// Nanoseconds of a monotonic clock.
    pub nanoseconds: unsafe extern "C" fn() -> u64,
    /// `malloc` in device code: memory of the process, not of the device.
    pub allocate: unsafe extern "C" fn(ctx: *mut BlockContext, bytes: u64) -> *mut c_void,
    /// `free` in device code.
    pub release: unsafe extern "C" fn(ctx: *mut BlockContext, memory: *mut c_void),
    /// Strict mode: checks an access that the thread of linear index `thread` is about to make: address, size, object
    /// and kind (`ACCESS_…`), at `place` in the source (`file:line` or null). Does not return to the kernel if the
    /// access is invalid.
    pub check: unsafe extern "C-unwind" fn(
        ctx: *mut BlockContext,
        thread: u32,
        address: u64,
        bytes: u64,
        object: u64,
        object_bytes: u64,
        place: *const c_char,
        flags: u32,
    ),
    /// Performs an access of the thread of linear index `thread` to a texture or surface object, encoded in `form`
    /// ([`image_form`]). `xy` holds x and y, `z_layer` z and the layer, in 32 bits each; `low` and `high` are the bytes
    /// to store. `place`: `file:line` or null. Does not return to the kernel if there is no such object.
    pub image: unsafe extern "C-unwind" fn(
        ctx: *mut BlockContext,
        thread: u32,
        object: u64,
        form: u32,
        xy: u64,
        z_layer: u64,
        low: u64,
        high: u64,
        place: *const c_char,
    ) -> Texels,
}

/// Where the dynamic part of shared memory starts, in bytes from [`BlockContext::shared`].
pub const fn dynamic_shared_offset(static_shared_bytes: u32) -> u32 {
    static_shared_bytes.next_multiple_of(16)
}

const _: () = assert!(size_of::<BlockContext>() == 192 && size_of::<KernelEntry>() == 48);
const _: () = assert!(size_of::<Wait>() == 32 && size_of::<Assertion>() == 40);
const _: () = assert!(
    size_of::<KernelTable>() == 48 && size_of::<VariableMemory>() == 32 && size_of::<VariableEntry>() == 24
);
