//! Resources that one worker owns while it runs blocks: the context, shared memory, coroutine frames and its private
//! touch map.
//!
//! Trap: the helpers get only a `BlockContext *`. They find the worker behind it because the context is the worker's
//! first field; a context that is not inside a [`Worker`] must never reach a kernel.

use core::ffi::{CStr, c_char, c_void};
use core::ops::Range;

use parking_lot::Mutex;

use crate::abi::{ACCESS_WRITES, Assertion, BlockContext, BlockFn, ClusterView, Helpers, Wait, access_class};
use crate::buffer::{BUFFER_ALIGN, Buffer};
use crate::cluster;
use crate::fault::{self, Fault, InHelper, Standstill};
use crate::image::{self, Objects};
use crate::printf::device_vprintf;
use crate::races::{BlockRaces, Detector};
use crate::schedule::{self, Round, WARP};
use crate::strict::{self, Access, Meetings, Own, SharedBytes, Strict};
use crate::tensor;
use crate::touch::TouchMap;

/// Size of the shared memory after the program's own, zero when a block starts, that CUDA reserves for cooperative
/// groups (`%reserved_smem_offset_1`, PTX ISA).
const RESERVED_SHARED_BYTES: usize = 1024;

/// Size of the memory shared by the blocks of a cooperative launch.
pub(crate) const WORKSPACE_BYTES: usize = 64;

static HELPERS: Helpers = Helpers {
    grow_scratch,
    vprintf: device_vprintf,
    trap,
    ready_lanes,
    next_round,
    nanoseconds,
    allocate,
    release,
    check,
    image: image::image,
};

/// Payload of an unwinding [`trap`]; any other payload that is no finding is a defect of this crate.
pub(crate) struct TrapUnwind {
    /// The trap was a failed `assert`.
    pub asserted: bool,
}

/// Geometry and entry point of the grid a worker takes blocks from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub run_block: BlockFn,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    /// Threads of this kernel write wait records.
    pub waits: bool,
    /// Threads of one block may wait for those of another.
    pub blocks_may_wait: bool,
    /// Its threads write where they wait.
    pub names_waits: bool,
    /// Address of the memory shared by the blocks of a cooperative launch; 0 for other launches.
    pub workspace: u64,
    /// Texture and surface objects, alive as long as the launch; null for none.
    pub objects: *const Objects,
    /// Blocks of a cluster in x, y, z.
    pub cluster: [u32; 3],
}

impl Grid {
    /// Clusters of the grid in x, y, z.
    pub fn clusters(&self) -> [u32; 3] {
        [0, 1, 2].map(|axis| self.grid[axis] / self.cluster[axis].max(1))
    }

    fn threads_per_block(&self) -> usize {
        self.block.iter().map(|&n| n as usize).product()
    }
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Worker {
    context: BlockContext,
    waits: Vec<Wait>,
    shared: Buffer,
    scratch: Buffer,
    marks: Vec<u8>,
    strict: Option<Checked>,
    /// Address of the text of the place where a thread of the block last polled memory, or 0.
    polled_at: u64,
    blocks_may_wait: bool,
    /// The kernel's threads write where they wait.
    names_waits: bool,
    /// Two threads that wait for each other, once the block is stuck.
    standstill: Option<Standstill>,
    /// Addresses of the texts of two places of one barrier at which threads of a block have waited; 0 until then.
    parted: [usize; 2],
    /// A thread had yielded when the block last stopped.
    yielded: bool,
    /// Texture and surface objects of the launch.
    objects: *const Objects,
    /// State shared by the blocks of the cluster; null if there is none.
    cluster: *const cluster::Shared,
    /// Last barrier phase in which each thread of the block arrived.
    arrived: Vec<cluster::Arrived>,
}

/// State that strict mode adds to a worker.
#[derive(Debug)]
struct Checked {
    /// State shared by the launches of the process.
    strict: *const Mutex<Strict>,
    shared_bytes: SharedBytes,
    races: BlockRaces,
    meetings: Meetings,
}

impl Checked {
    fn strict(&self) -> &Mutex<Strict> {
        // SAFETY: the launch that `prepare` was called for keeps it alive until its last block has ended.
        unsafe { &*self.strict }
    }

    /// Runs `update` with the race detector and the block's part of its state.
    fn with_races(&mut self, update: impl FnOnce(&mut Detector, &mut BlockRaces)) {
        // SAFETY: as above; its address does not move with the borrow of the block's part.
        let strict = unsafe { &*self.strict };
        update(&mut strict.lock().races, &mut self.races);
    }
}

// SAFETY: the raw pointers in the context point into this worker's own buffers (owned, moved with it, heap-allocated)
// and to the `HELPERS` static; none of them is tied to a thread.
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
            phase: 0,
            global_bytes: 0,
            flops32: 0,
            flops64: 0,
            frame_stride: 0,
            helpers: &HELPERS,
            waits: std::ptr::null_mut(),
            grid_workspace: 0,
            assertion: std::ptr::null(),
            falling: 0,
            cluster: std::ptr::null(),
            reserved: [0; 2],
        };
        Worker {
            context,
            waits: Vec::new(),
            shared: Buffer::default(),
            scratch: Buffer::default(),
            marks: Vec::new(),
            strict: None,
            polled_at: 0,
            blocks_may_wait: false,
            names_waits: false,
            standstill: None,
            parted: [0; 2],
            yielded: false,
            objects: std::ptr::null(),
            cluster: std::ptr::null(),
            arrived: Vec::new(),
        }
    }

    /// Prepares the worker for blocks of `grid`; counters start at zero and the touch map clean.
    pub fn prepare(&mut self, grid: &Grid, touch: Option<&TouchMap>, strict: Option<&Mutex<Strict>>) {
        self.strict = strict.map(|strict| Checked {
            strict: std::ptr::from_ref(strict),
            shared_bytes: SharedBytes::new(grid.shared_bytes),
            races: BlockRaces::new(grid.shared_bytes),
            meetings: Meetings::default(),
        });
        self.blocks_may_wait = grid.blocks_may_wait;
        (self.names_waits, self.standstill, self.parted) = (grid.names_waits, None, [0; 2]);
        self.objects = grid.objects;
        (self.cluster, self.context.cluster) = (std::ptr::null(), std::ptr::null());
        let marks = touch.map_or(2, TouchMap::mark_count);
        self.marks.clear();
        self.marks.resize(marks, 0);
        let reserved = if grid.waits { RESERVED_SHARED_BYTES } else { 0 };
        self.shared.ensure((grid.shared_bytes as usize).next_multiple_of(BUFFER_ALIGN) + reserved);
        let waiting = if grid.waits { grid.threads_per_block() } else { 0 };
        self.waits.resize(waiting, Wait::default());
        let context = &mut self.context;
        context.waits = if grid.waits { self.waits.as_mut_ptr() } else { std::ptr::null_mut() };
        context.grid_workspace = grid.workspace;
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

    /// Runs the block of linear index `index` (x fastest), or resumes it if it yielded.
    ///
    /// # Errors
    /// The kernel faulted, or its threads wait for each other.
    ///
    /// # Safety
    /// `prepare` was called for this grid, and `args` are arguments of its kernel whose pointees live until the return.
    /// A block resumes in the worker that started it, which has run no other block since.
    pub unsafe fn run(
        &mut self,
        grid: &Grid,
        index: u64,
        args: &[*const c_void],
        go_on: bool,
    ) -> Result<Round, Fault> {
        let (x, y) = (u64::from(grid.grid[0]), u64::from(grid.grid[1]));
        self.context.block_idx = [(index % x) as u32, (index / x % y) as u32, (index / (x * y)) as u32];
        self.context.phase = u32::from(go_on);
        if !go_on {
            self.context.falling = 0;
        }
        if grid.waits && !go_on {
            let reserved = (grid.shared_bytes as usize).next_multiple_of(BUFFER_ALIGN);
            // SAFETY: `prepare` made the buffer this much larger than the size that the program requested.
            unsafe { self.context.shared.add(reserved).write_bytes(0, RESERVED_SHARED_BYTES) };
        }
        if let Some(checked) = self.strict.as_mut() {
            if !go_on {
                checked.shared_bytes.clear();
                checked.meetings.begin(grid.threads_per_block());
            }
            checked.with_races(|detector, races| detector.enter(races, index, grid.block, go_on));
        }
        let context = (&raw mut *self).cast::<BlockContext>();
        // SAFETY: the context is this worker's first field (`repr(C)`) and the pointer may be used for the whole worker,
        // as `grow_scratch` does; buffers are as large as `prepare` made them; `args` are the caller's promise.
        unsafe { fault::run_block(grid.run_block, context, args.as_ptr())? };
        match self.context.phase {
            _ if !grid.waits => Ok(Round::Finished),
            phase if phase == Round::Stuck as u32 => Err(Fault::Stuck(self.standstill)),
            phase if phase == Round::Yielded as u32 => Ok(Round::Yielded),
            _ => Ok(Round::Finished),
        }
    }

    /// The block's shared memory, which stays in place until the worker is prepared for another grid.
    pub fn shared_memory(&self) -> *mut u8 {
        self.shared.as_ptr()
    }

    /// Makes the next block that runs here one of a cluster. `view` and `shared` must stay in place until the cluster's
    /// last block has ended.
    pub fn join(&mut self, view: &ClusterView, shared: &cluster::Shared) {
        self.context.cluster = view;
        self.cluster = shared;
        self.arrived.clear();
        self.arrived.resize(self.waits.len(), 0);
    }

    /// True if every thread of the block that has not exited has arrived at its cluster's barrier in this phase.
    pub fn has_arrived(&self, phase: cluster::Arrived) -> bool {
        let exited = |wait: &Wait| wait.kind == schedule::WaitKind::Exited as u32;
        self.waits.iter().zip(&self.arrived).all(|(wait, &arrived)| exited(wait) || arrived == phase)
    }

    /// True if a thread of the block had yielded when the block last stopped.
    pub fn polls(&self) -> bool {
        self.yielded
    }

    /// Place where a thread of the block last polled memory: `file:line`.
    pub fn polled_at(&self) -> Option<String> {
        // SAFETY: kernels store the address of one of their constants there (`Wait::value`), and their launch is still
        // running.
        let text = (self.polled_at != 0).then(|| unsafe { CStr::from_ptr(self.polled_at as *const c_char) });
        text.map(|text| text.to_string_lossy().into_owned())
    }

    /// Bytes of memory that a block occupies while it is under way.
    pub fn bytes(&self) -> usize {
        self.shared.bytes() + self.scratch.bytes() + self.waits.len() * size_of::<Wait>() + self.marks.len()
    }

    /// Bytes of global memory requested, and operations in single and double precision, since `prepare`.
    pub fn counters(&self) -> [u64; 3] {
        [self.context.global_bytes, self.context.flops32, self.context.flops64]
    }

    /// Memory that belongs to the block and to the thread whose stack spans `stack`.
    fn own(&self, stack: Range<u64>) -> Own {
        let context = &self.context;
        let (shared, bytes) = (context.shared as u64, u64::from(context.shared_bytes));
        let reserved = shared + bytes.next_multiple_of(BUFFER_ALIGN as u64);
        let reserved_bytes = if context.waits.is_null() { 0 } else { RESERVED_SHARED_BYTES as u64 };
        let (frames, workspace) = (context.scratch as u64, context.grid_workspace);
        let workspace_bytes = if workspace == 0 { 0 } else { WORKSPACE_BYTES as u64 };
        Own {
            block: context.block_idx,
            block_dim: context.block_dim,
            shared: shared..shared + bytes,
            reserved: reserved..reserved + reserved_bytes,
            local: [stack, frames..frames + context.scratch_bytes, workspace..workspace + workspace_bytes],
        }
    }

    /// The cluster of the block, if it has more than one block.
    fn cluster(&self) -> Option<&ClusterView> {
        // SAFETY: a cluster outlives the blocks that run in it.
        unsafe { self.context.cluster.as_ref() }.filter(|view| view.count > 1)
    }

    /// True if an address is in the shared memory of the block's cluster, whose writes by other blocks strict mode does
    /// not track.
    fn is_in_cluster(&self, address: u64) -> bool {
        let Some(view) = self.cluster() else { return false };
        // SAFETY: the list has an entry for each block, and outlives them.
        let shared = unsafe { std::slice::from_raw_parts(view.shared, view.count as usize) };
        let bytes = u64::from(self.context.shared_bytes);
        shared.iter().any(|&start| (start as u64..start as u64 + bytes).contains(&address))
    }

    /// Strict mode: checks an access, and ends the launch if it is invalid.
    fn examine(&mut self, access: &Access, stack: Range<u64>, helper: InHelper) {
        if self.is_in_cluster(access.address) {
            return;
        }
        let own = self.own(stack);
        if let Some(parted) =
            self.strict.as_mut().and_then(|checked| access.parted(&mut checked.meetings, &own))
        {
            // As below.
            std::mem::forget(helper);
            std::panic::resume_unwind(Box::new(parted))
        }
        // The race detector does not know the barrier that orders the blocks of a cluster.
        let is_ordered_by_cluster = self.cluster().is_some();
        let Some(checked) = &mut self.strict else { return };
        // SAFETY: the launch keeps it alive, and its address does not move with the borrow below.
        let strict = &mut *unsafe { &*checked.strict }.lock();
        let Some(finding) = strict::examine(access, strict, &mut checked.shared_bytes, &own) else {
            if !is_ordered_by_cluster {
                strict::look_for_races(access, strict, &mut checked.races, &own);
            }
            return;
        };
        // Never released: from here on Rust code unwinds, which the fault handler must not drop.
        std::mem::forget(helper);
        std::panic::resume_unwind(Box::new(finding))
    }

    /// Notes that threads of a block wait at one barrier in places with these texts.
    fn note_parted(&mut self, places: [usize; 2]) {
        if self.parted == [0; 2] && self.strict.is_none() && text_at(places[0]) != text_at(places[1]) {
            self.parted = places;
        }
    }

    /// The two places of one barrier at which threads of a block have waited since `prepare`, if any.
    pub fn parted(&self) -> Option<[String; 2]> {
        (self.parted != [0; 2]).then(|| self.parted.map(|at| text_at(at).to_string_lossy().into_owned()))
    }

    pub fn merge_touches(&mut self, touch: &TouchMap) {
        touch.merge(&mut self.marks);
    }
}

unsafe extern "C" fn grow_scratch(context: *mut BlockContext, bytes: u64) -> *mut u8 {
    // SAFETY: kernels pass on the context that `Worker::run` gave them; the worker is borrowed by that call alone and it
    // does not touch its fields until the kernel returns.
    let worker = unsafe { worker_of(context) };
    let _helper = InHelper::enter();
    worker.scratch.ensure(usize::try_from(bytes).expect("frames fit the address space"));
    worker.context.scratch = worker.scratch.as_ptr();
    worker.context.scratch_bytes = worker.scratch.bytes() as u64;
    worker.context.scratch
}

/// The text at an address that a kernel gave, empty for 0.
fn text_at(address: usize) -> &'static CStr {
    // SAFETY: kernels give addresses of constants of their program, NUL-terminated; the program stays loaded.
    if address == 0 { c"" } else { unsafe { CStr::from_ptr(address as *const c_char) } }
}

/// Returns the worker behind the context that a kernel passes on.
///
/// # Safety
/// `context` is the one that `Worker::run` gave to the kernel that calls, and nothing else borrows the worker.
unsafe fn worker_of<'a>(context: *mut BlockContext) -> &'a mut Worker {
    // SAFETY: the context is the first field of its worker, and the pointer was made from the whole worker.
    unsafe { &mut *context.cast::<Worker>() }
}

unsafe extern "C" fn ready_lanes(context: *mut BlockContext, warp: u32) -> u32 {
    // SAFETY: called by a kernel, between two resumptions of its threads; `Worker::run` touches nothing meanwhile.
    let worker = unsafe { worker_of(context) };
    let _helper = InHelper::enter();
    let first = warp as usize * WARP;
    let end = worker.waits.len().min(first + WARP);
    let Worker { waits, strict, .. } = worker;
    let Some(waits) = waits.get_mut(first..end) else { return 0 };
    if tensor::is_complete(waits) {
        // SAFETY: kernels give each lane a record on its stack, which is valid while the lane waits.
        unsafe { tensor::complete(waits) };
    }
    schedule::ready_lanes_with(waits, &mut |members, alive| {
        if let Some(checked) = strict {
            checked.with_races(|detector, races| detector.lanes_met(races, warp, members, alive));
        }
    })
}

unsafe extern "C" fn next_round(context: *mut BlockContext) -> u32 {
    // SAFETY: as for `ready_lanes`.
    let worker = unsafe { worker_of(context) };
    let _helper = InHelper::enter();
    let polled_at = schedule::polled_at(&worker.waits);
    worker.yielded = worker.waits.iter().any(|wait| wait.kind == schedule::WaitKind::Yield as u32);
    let Worker { waits, strict, blocks_may_wait, cluster: shared, .. } = worker;
    let mut parted = None;
    let round = schedule::next_round_with(waits, *blocks_may_wait || !shared.is_null(), &mut |met| {
        if let Some(checked) = strict {
            checked.with_races(|detector, races| detector.warps_met(races, met.mask, met.all));
        }
        parted = parted.or(met.places);
    });
    if let Some(places) = parted.filter(|_| worker.names_waits) {
        worker.note_parted(places.map(|at| at as usize));
    }
    // SAFETY: a cluster outlives the blocks that run in it.
    let round = match unsafe { worker.cluster.as_ref() } {
        Some(shared) if round != Round::Finished => {
            let goes_on = cluster::step(&mut worker.waits, &mut worker.arrived, shared);
            match round {
                _ if goes_on => Round::GoesOn,
                Round::Stuck if cluster::awaits(&worker.waits) => Round::Yielded,
                round => round,
            }
        }
        _ => round,
    };
    if round == Round::Stuck && worker.names_waits && worker.strict.is_some() {
        // SAFETY: such a kernel writes addresses of texts that are part of the program, which stays loaded.
        let text = |at: u64| unsafe { CStr::from_ptr(at as *const c_char) };
        worker.standstill = schedule::standstill(&worker.waits)
            .map(|threads| Standstill(threads.map(|(thread, at)| (thread, text(at)))));
    }
    worker.context.phase = round as u32;
    // So a chain in which each thread waits for the next one ends in two sweeps, instead of one sweep for each thread.
    worker.context.falling = u64::from(polled_at != 0 && worker.context.falling == 0);
    worker.polled_at = polled_at;
    u32::from(round == Round::GoesOn)
}

unsafe extern "C" fn nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the structure given; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

unsafe extern "C" fn allocate(context: *mut BlockContext, bytes: u64) -> *mut c_void {
    // SAFETY: called by a kernel, which passes its own context.
    let worker = unsafe { worker_of(context) };
    let _helper = InHelper::enter();
    // SAFETY: any size may be requested; on failure the result is null, as in CUDA.
    let memory = usize::try_from(bytes).map_or(std::ptr::null_mut(), |bytes| unsafe { libc::malloc(bytes) });
    if let Some(checked) = worker.strict.as_ref().filter(|_| !memory.is_null()) {
        let mut strict = checked.strict().lock();
        strict.memory.allocated(memory as u64, bytes);
        strict.races.allocated(memory as u64, bytes);
    }
    memory
}

unsafe extern "C" fn release(context: *mut BlockContext, memory: *mut c_void) {
    // SAFETY: as for `allocate`.
    let worker = unsafe { worker_of(context) };
    let _helper = InHelper::enter();
    if let Some(checked) = &worker.strict {
        checked.strict().lock().memory.release(memory as u64);
    }
    // SAFETY: the kernel frees memory that `allocate` returned, as CUDA demands of it.
    unsafe { libc::free(memory) }
}

unsafe extern "C-unwind" fn check(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    bytes: u64,
    object: u64,
    object_bytes: u64,
    place: *const c_char,
    flags: u32,
) {
    let here = 0_u8;
    let stack = (&raw const here) as u64..fault::stack_of_block();
    // SAFETY: called by a kernel, which passes its own context.
    let worker = unsafe { worker_of(context) };
    let helper = InHelper::enter();
    if flags >> access_class::EVENT_SHIFT == access_class::EVENT_PARTED {
        return worker.note_parted([place as usize, object as usize]);
    }
    let access = Access { thread, address, bytes, object, object_bytes, place, flags };
    worker.examine(&access, stack, helper);
}

/// The texture and surface objects of the launch.
///
/// # Safety
/// `context` is the one that `Worker::run` gave to the kernel that calls.
pub(crate) unsafe fn objects_of<'a>(context: *mut BlockContext) -> Option<&'a Objects> {
    // SAFETY: as for `ready_lanes`; the launch that `prepare` was called for keeps the objects alive.
    unsafe { worker_of(context).objects.as_ref() }
}

/// Counts, marks and checks an access that an executor function is about to make to an image's memory, as if the kernel
/// made it itself.
///
/// # Safety
/// `context` is the one that `Worker::run` gave to the kernel that calls, and `place` null or a text of the program.
pub(crate) unsafe fn before_image_access(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    bytes: u64,
    object: u64,
    place: *const c_char,
    flags: u32,
) {
    // SAFETY: as for `ready_lanes`.
    let worker = unsafe { worker_of(context) };
    let context = &mut worker.context;
    context.global_bytes += bytes;
    // An element may cross the end of a block of the map.
    for address in [address, address + bytes - 1] {
        let block = address.wrapping_sub(context.touch_base).checked_shr(context.touch_shift).unwrap_or(0);
        let mark = 2 * block.min(context.touch_limit) as usize + usize::from(flags & ACCESS_WRITES != 0);
        if let Some(mark) = worker.marks.get_mut(mark) {
            *mark = 1;
        }
    }
    if worker.strict.is_some() {
        let access = Access { thread, address, bytes, object, object_bytes: 0, place, flags };
        worker.examine(&access, 0..0, InHelper::enter());
    }
}

unsafe extern "C-unwind" fn trap(context: *mut BlockContext) -> ! {
    // Never released: from here on Rust code unwinds, which the fault handler must not drop.
    std::mem::forget(InHelper::enter());
    // SAFETY: called by a kernel, which passes its own context.
    let context = unsafe { &mut *context };
    let assertion = std::mem::replace(&mut context.assertion, std::ptr::null());
    // SAFETY: the kernel has just stored it on its stack, which still exists, or null.
    let asserted =
        unsafe { assertion.as_ref() }.map(|assertion| print_assertion(context.block_idx, assertion));
    // Not `panic!`: the program caused the trap, and no Rust panic message must be printed.
    std::panic::resume_unwind(Box::new(TrapUnwind { asserted: asserted.is_some() }))
}

/// Prints the assertion on standard error, in the words of NVIDIA's runtime.
fn print_assertion(block: [u32; 3], assertion: &Assertion) {
    // SAFETY: constants of the program, as clang passes them for `assert`.
    let text = |text: *const c_char| match unsafe { text.as_ref() } {
        // SAFETY: as above; not null.
        Some(_) => unsafe { CStr::from_ptr(text) }.to_string_lossy(),
        None => "?".into(),
    };
    let place = |[x, y, z]: [u32; 3]| format!("[{x},{y},{z}]");
    let (line, block, thread) = (assertion.line, place(block), place(assertion.thread_idx));
    let (file, function) = (text(assertion.file), text(assertion.function));
    let message = text(assertion.message);
    eprintln!("{file}:{line}: {function}: block: {block}, thread: {thread} Assertion `{message}` failed.");
}
