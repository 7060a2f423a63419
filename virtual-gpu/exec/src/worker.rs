//! What one worker owns while it runs blocks: the context, shared memory, coroutine frames and its private touch map.
//!
//! Trap: the helpers get only a `BlockContext *`. They find the worker behind it because the context is the worker's
//! first field; a context that is not inside a [`Worker`] must never reach a kernel.

use core::ffi::c_void;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::abi::{BlockContext, BlockFn, Helpers};
use crate::fault::{self, Fault, InHelper};
use crate::printf::device_vprintf;
use crate::touch::TouchMap;

/// Alignment of shared memory and of coroutine frames, in bytes (the ABI promises 128 and 64).
const BUFFER_ALIGN: usize = 128;

static HELPERS: Helpers = Helpers { grow_scratch, vprintf: device_vprintf, trap };

/// What [`trap`] unwinds with; anything else that unwinds is a defect of ours.
pub(crate) struct TrapUnwind;

/// Geometry and entry point of the grid a worker takes blocks from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub run_block: BlockFn,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Worker {
    context: BlockContext,
    shared: Buffer,
    scratch: Buffer,
    marks: Vec<u8>,
}

// SAFETY: the raw pointers in the context lead into this worker's own buffers (owned, moved with it, heap-allocated) and
// to the `HELPERS` static; nothing of it is tied to a thread.
unsafe impl Send for Worker {}

impl Worker {
    pub fn new() -> Self {
        let context = BlockContext {
            block_idx: [0; 3],
            block_dim: [0; 3],
            grid_dim: [0; 3],
            shared_bytes: 0,
            shared: std::ptr::null_mut(),
            scratch: std::ptr::null_mut(),
            scratch_bytes: 0,
            touch_base: 0,
            touch_limit: 0,
            touch_map: std::ptr::null_mut(),
            touch_shift: 0,
            reserved: 0,
            global_bytes: 0,
            flops32: 0,
            flops64: 0,
            helpers: &HELPERS,
        };
        Worker { context, shared: Buffer::default(), scratch: Buffer::default(), marks: Vec::new() }
    }

    /// Gets ready for blocks of `grid`; counters start at zero and the touch map clean.
    pub fn prepare(&mut self, grid: &Grid, touch: Option<&TouchMap>) {
        let marks = touch.map_or(2, TouchMap::mark_count);
        self.marks.clear();
        self.marks.resize(marks, 0);
        self.shared.ensure(grid.shared_bytes as usize);
        let context = &mut self.context;
        context.block_dim = grid.block;
        context.grid_dim = grid.grid;
        context.shared_bytes = grid.shared_bytes;
        context.shared = self.shared.as_ptr();
        context.scratch = self.scratch.as_ptr();
        context.scratch_bytes = self.scratch.bytes() as u64;
        context.touch_base = touch.map_or(0, TouchMap::base);
        context.touch_shift = touch.map_or(63, TouchMap::shift);
        context.touch_limit = (marks / 2 - 1) as u64;
        context.touch_map = self.marks.as_mut_ptr();
        (context.global_bytes, context.flops32, context.flops64) = (0, 0, 0);
    }

    /// Runs the block of linear index `index` (x fastest).
    ///
    /// # Errors
    /// The kernel faulted.
    ///
    /// # Safety
    /// `prepare` was called for this grid, and `args` are arguments of its kernel whose pointees live until the return.
    pub unsafe fn run(&mut self, grid: &Grid, index: u64, args: &[*const c_void]) -> Result<(), Fault> {
        let (x, y) = (u64::from(grid.grid[0]), u64::from(grid.grid[1]));
        self.context.block_idx = [(index % x) as u32, (index / x % y) as u32, (index / (x * y)) as u32];
        let context = (&raw mut *self).cast::<BlockContext>();
        // SAFETY: the context is this worker's first field (`repr(C)`) and the pointer may be used for the whole worker,
        // as `grow_scratch` does; buffers are as large as `prepare` made them; `args` are the caller's promise.
        unsafe { fault::run_block(grid.run_block, context, args.as_ptr()) }
    }

    /// Bytes of global memory asked for, and operations in single and double precision, since `prepare`.
    pub fn counters(&self) -> [u64; 3] {
        [self.context.global_bytes, self.context.flops32, self.context.flops64]
    }

    pub fn merge_touches(&mut self, touch: &TouchMap) {
        touch.merge(&mut self.marks);
    }
}

unsafe extern "C" fn grow_scratch(context: *mut BlockContext, bytes: u64) -> *mut u8 {
    // SAFETY: kernels pass on the context that `Worker::run` gave them, whose pointer covers the whole worker; the worker
    // is borrowed by that call alone and it does not touch its fields until the kernel returns.
    let worker = unsafe { &mut *context.cast::<Worker>() };
    let _helper = InHelper::enter();
    worker.scratch.ensure(usize::try_from(bytes).expect("frames fit the address space"));
    worker.context.scratch = worker.scratch.as_ptr();
    worker.context.scratch_bytes = worker.scratch.bytes() as u64;
    worker.context.scratch
}

unsafe extern "C-unwind" fn trap(_context: *mut BlockContext) -> ! {
    // Never left again by the handler: what unwinds now is Rust's.
    std::mem::forget(InHelper::enter());
    // Not `panic!`: a kernel's trap is the program's business and must not print a Rust panic message.
    std::panic::resume_unwind(Box::new(TrapUnwind))
}

/// Memory of at least the size last asked for, contents undefined.
#[derive(Debug, Default)]
struct Buffer {
    memory: Option<(NonNull<u8>, Layout)>,
}

impl Buffer {
    fn bytes(&self) -> usize {
        self.memory.map_or(0, |(_, layout)| layout.size())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.memory.map_or(std::ptr::null_mut(), |(start, _)| start.as_ptr())
    }

    fn ensure(&mut self, bytes: usize) {
        if bytes <= self.bytes() {
            return;
        }
        let layout =
            Layout::from_size_align(bytes.next_power_of_two(), BUFFER_ALIGN).expect("a block's memory fits");
        *self = Buffer::default();
        // SAFETY: `bytes > self.bytes() >= 0`, so the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        self.memory = Some((start, layout));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((start, layout)) = self.memory {
            // SAFETY: allocated by `ensure` with this layout, and freed only here.
            unsafe { dealloc(start.as_ptr(), layout) }
        }
    }
}
