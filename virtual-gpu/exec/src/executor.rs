//! Runs one grid at a time over a pool of persistent threads.
//!
//! Trap: blocks of a grid run in any order and some at the same time. A block may wait for another only in kernels in
//! which the compiler found such a wait ([`abi::YIELDS`]); otherwise the kernel may never end.

use core::ffi::{c_char, c_void};
use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::abi::{self, KernelEntry, dynamic_shared_offset};
use crate::cluster::Clusters;
use crate::fault::{self, Fault, Running};
use crate::image::{ImageFault, Objects};
use crate::strict::{Finding, Parted, Strict};
use crate::touch::TouchMap;
use crate::turns::{Turns, WaitingAt};
use crate::worker::{Grid, TrapUnwind, WORKSPACE_BYTES, Worker};

/// Stack of a pool thread in bytes: local arrays of a kernel lie there.
const STACK_BYTES: usize = 16 << 20;
/// A grid of fewer threads than this runs in the caller's thread: waking the pool takes longer (specification S-637).
const INLINE_THREADS_MAX: u64 = 4096;
/// Workers take blocks in portions of about this fraction of their share, so that all finish at about the same time.
const PORTIONS_PER_WORKER: u64 = 8;

/// Size of the memory shared by the blocks of a cooperative launch: first its own size in bytes, then the barrier that
/// CUDA's header counts in (`cooperative_groups/details/helpers.h`), zero at the start.
const WORKSPACE_WORDS: usize = WORKSPACE_BYTES / size_of::<u32>();

/// One kernel launch. The caller checks the limits of the device (threads per block, shared memory).
#[derive(Debug)]
pub struct Launch<'a> {
    pub entry: &'a KernelEntry,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    pub dynamic_shared_bytes: u32,
    /// One pointer to the value of each parameter.
    pub args: &'a [*const c_void],
    /// Where to record the memory blocks accessed.
    pub touch: Option<&'a TouchMap>,
    /// All blocks are resident at once, so that they may wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster in x, y, z, each of which divides the grid's; ones if there is no cluster.
    pub cluster: [u32; 3],
    /// Strict mode: memory that the kernel may access. All blocks then run in the calling thread, in order.
    pub strict: Option<&'a Mutex<Strict>>,
    /// The texture and surface objects that the kernel may use.
    pub objects: Option<&'a Objects>,
    /// Processor time that one thread may spend on this launch before it is aborted.
    pub time_max: Option<Duration>,
}

/// Work that the kernel requested of the device, summed over its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaunchCost {
    /// Bytes of global loads and stores requested.
    pub global_bytes: u64,
    /// Operations in single precision; an FMA counts two.
    pub flops32: u64,
    /// Operations in double precision.
    pub flops64: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFailure {
    /// Some thread executed `__trap()`; blocks that had not started were not run.
    #[error("a kernel thread executed a trap")]
    Trap,
    /// Some thread failed an `assert`, which was printed; otherwise like a trap.
    #[error("a kernel thread failed an assertion")]
    Assertion,
    /// Some thread made the processor fault; otherwise like a trap.
    #[error("{0}")]
    Fault(Fault),
    /// Strict mode rejected an access; otherwise like a trap.
    #[error("{0}")]
    Strict(Box<Finding>),
    /// Strict mode found threads at one barrier in two places; otherwise like a trap.
    #[error("{0}")]
    Parted(Box<Parted>),
    /// Some thread misused a texture or surface; otherwise like a trap.
    #[error("{0}")]
    Image(Box<ImageFault>),
}

/// A running grid, shared by the workers that take blocks from it.
struct Job {
    grid: Grid,
    /// The kernel reads the position of its block in the cluster.
    uses_cluster: bool,
    /// Memory that [`Grid::workspace`] points to.
    _workspace: Option<Box<[u32; WORKSPACE_WORDS]>>,
    /// Kernel name, NUL-terminated.
    kernel: *const c_char,
    blocks: u64,
    portion: u64,
    args: Vec<*const c_void>,
    touch: Option<*const TouchMap>,
    strict: Option<*const Mutex<Strict>>,
    time_max: Option<Duration>,
    next_block: AtomicU64,
    trapped: AtomicBool,
    /// The first failure.
    failure: Mutex<Option<LaunchFailure>>,
    /// Payload of a panic that was no trap. It is passed on to the launching thread: if it ended a pool thread instead,
    /// the launching thread would wait forever.
    defect: Mutex<Option<Box<dyn Any + Send>>>,
    cost: [AtomicU64; 3],
    waiting_at: Arc<WaitingAt>,
    /// Two places of one barrier at which threads of a block have waited, the first that were seen.
    parted: Mutex<Option<[String; 2]>>,
}

// SAFETY: the pointers of a job (name, arguments, touch map, state of strict mode) are only read, and
// `Executor::launch` returns, ending its borrow of them, after every worker has finished with the job.
unsafe impl Send for Job {}
// SAFETY: as for `Send`; everything that changes is atomic.
unsafe impl Sync for Job {}

impl Job {
    fn new(launch: &Launch, workers: usize, waiting_at: Arc<WaitingAt>) -> Self {
        let blocks = launch.grid.iter().map(|&n| u64::from(n)).product();
        let shared_bytes = dynamic_shared_offset(launch.entry.static_shared_bytes)
            .saturating_add(launch.dynamic_shared_bytes);
        let workspace = launch.cooperative.then(|| {
            let mut words = Box::new([0; WORKSPACE_WORDS]);
            words[0] = WORKSPACE_BYTES as u32;
            words
        });
        Job {
            grid: Grid {
                run_block: launch.entry.run_block,
                grid: launch.grid,
                block: launch.block,
                shared_bytes,
                waits: launch.entry.flags & abi::WAITS != 0,
                blocks_may_wait: launch.cooperative || launch.entry.flags & abi::YIELDS != 0,
                names_waits: launch.entry.flags & abi::NAMES_WAITS != 0,
                workspace: workspace.as_ref().map_or(0, |words| words.as_ptr() as u64),
                objects: launch.objects.map_or(std::ptr::null(), std::ptr::from_ref),
                cluster: launch.cluster,
            },
            uses_cluster: launch.entry.flags & abi::USES_CLUSTER != 0,
            _workspace: workspace,
            kernel: launch.entry.name,
            blocks,
            portion: (blocks / (workers as u64 * PORTIONS_PER_WORKER)).max(1),
            args: launch.args.to_vec(),
            touch: launch.touch.map(std::ptr::from_ref),
            strict: launch.strict.map(std::ptr::from_ref),
            time_max: launch.time_max,
            next_block: AtomicU64::new(0),
            trapped: AtomicBool::new(false),
            failure: Mutex::new(None),
            defect: Mutex::new(None),
            cost: Default::default(),
            waiting_at,
            parted: Mutex::new(None),
        }
    }

    fn touch(&self) -> Option<&TouchMap> {
        // SAFETY: the map outlives the launch, which waits for all workers of the job (see `Send`).
        self.touch.map(|touch| unsafe { &*touch })
    }

    fn strict(&self) -> Option<&Mutex<Strict>> {
        // SAFETY: as for the touch map.
        self.strict.map(|strict| unsafe { &*strict })
    }

    /// Runs blocks until none is left.
    fn work(&self, worker: &mut Worker) {
        let touch = self.touch();
        if self.uses_cluster {
            return self.work_in_clusters(worker);
        }
        if self.grid.blocks_may_wait {
            return self.work_in_turns(worker);
        }
        worker.prepare(&self.grid, touch, self.strict());
        self.note(|| self.run_portions(worker));
        self.take_results(worker, touch);
    }

    /// Runs blocks and records how they ended.
    fn note(&self, run: impl FnOnce() -> Result<(), Fault>) {
        let running = Running::start(self.kernel, self.time_max);
        let run = catch_unwind(AssertUnwindSafe(run));
        drop(running);
        let payload = match run {
            Ok(Ok(())) => return,
            Ok(Err(fault)) => return self.failed(LaunchFailure::Fault(fault)),
            Err(payload) => payload,
        };
        let payload = match payload.downcast::<Finding>() {
            Ok(finding) => return self.failed(LaunchFailure::Strict(finding)),
            Err(payload) => payload,
        };
        let payload = match payload.downcast::<Parted>() {
            Ok(parted) => return self.failed(LaunchFailure::Parted(parted)),
            Err(payload) => payload,
        };
        let payload = match payload.downcast::<ImageFault>() {
            Ok(fault) => return self.failed(LaunchFailure::Image(fault)),
            Err(payload) => payload,
        };
        self.failed(match payload.downcast::<TrapUnwind>() {
            Ok(trap) if trap.asserted => LaunchFailure::Assertion,
            Ok(_) => LaunchFailure::Trap,
            Err(payload) => {
                *self.defect.lock() = Some(payload);
                LaunchFailure::Trap
            }
        });
    }

    fn failed(&self, failure: LaunchFailure) {
        self.trapped.store(true, Relaxed);
        self.failure.lock().get_or_insert(failure);
    }

    fn take_results(&self, worker: &mut Worker, touch: Option<&TouchMap>) {
        for (sum, counted) in self.cost.iter().zip(worker.counters()) {
            sum.fetch_add(counted, Relaxed);
        }
        if let Some(places) = worker.parted() {
            *self.parted.lock() = Some(places);
        }
        if let Some(touch) = touch {
            worker.merge_touches(touch);
        }
    }

    /// Runs blocks that may wait for each other, on this thread, until none is left.
    fn work_in_turns(&self, worker: &mut Worker) {
        let touch = self.touch();
        let prepared = |mut worker: Box<Worker>| {
            worker.prepare(&self.grid, touch, self.strict());
            worker
        };
        let first = prepared(Box::new(std::mem::replace(worker, Worker::new())));
        let mut turns = Turns {
            grid: &self.grid,
            args: &self.args,
            prepared: &|| prepared(Box::new(Worker::new())),
            take: &|| Some(self.next_block.fetch_add(1, Relaxed)).filter(|&index| index < self.blocks),
            failed: &|| self.trapped.load(Relaxed),
            all_at_once: self.grid.workspace != 0,
            waiting_at: &self.waiting_at,
            time_max: self.time_max,
            free: vec![first],
            aside: VecDeque::new(),
        };
        // SAFETY: every worker is prepared for this grid; the arguments are the launch's, which is still waiting.
        self.note(|| unsafe { turns.run() });
        let aside = turns.aside.into_iter().map(|(_, worker)| worker);
        for mut used in turns.free.into_iter().chain(aside) {
            self.take_results(&mut used, touch);
            // Keeps its buffers for the next launch.
            *worker = *used;
        }
    }

    /// Runs clusters of blocks on this thread, until none is left.
    fn work_in_clusters(&self, worker: &mut Worker) {
        let touch = self.touch();
        let prepared = |mut worker: Box<Worker>| {
            worker.prepare(&self.grid, touch, self.strict());
            worker
        };
        let first = prepared(Box::new(std::mem::replace(worker, Worker::new())));
        let mut clusters = Clusters {
            grid: &self.grid,
            args: &self.args,
            prepared: &|| prepared(Box::new(Worker::new())),
            next: &self.next_block,
            failed: &|| self.trapped.load(Relaxed),
            free: vec![first],
        };
        // SAFETY: every worker is prepared for this grid; the arguments are the launch's, which is still waiting.
        self.note(|| unsafe { clusters.run() });
        for mut used in clusters.free {
            self.take_results(&mut used, touch);
            // Keeps its buffers for the next launch.
            *worker = *used;
        }
    }

    fn run_portions(&self, worker: &mut Worker) -> Result<(), Fault> {
        while !self.trapped.load(Relaxed) {
            let first = self.next_block.fetch_add(self.portion, Relaxed);
            if first >= self.blocks {
                break;
            }
            for index in first..self.blocks.min(first + self.portion) {
                // SAFETY: `work` prepared the worker for this grid; the arguments are the launch's, which is still waiting.
                unsafe { worker.run(&self.grid, index, &self.args, false)? };
            }
        }
        Ok(())
    }

    fn outcome(&self) -> Result<LaunchCost, LaunchFailure> {
        if let Some(payload) = self.defect.lock().take() {
            resume_unwind(payload);
        }
        if let Some(failure) = self.failure.lock().take() {
            return Err(failure);
        }
        let [global_bytes, flops32, flops64] = [0, 1, 2].map(|i| self.cost[i].load(Relaxed));
        Ok(LaunchCost { global_bytes, flops32, flops64 })
    }
}

#[derive(Default)]
struct Board {
    job: Option<Arc<Job>>,
    /// Incremented with every job, so that a thread takes part in each at most once.
    generation: u64,
    /// Pool threads that have not finished the current job.
    busy: usize,
    closing: bool,
}

#[derive(Default)]
struct Pool {
    board: Mutex<Board>,
    posted: Condvar,
    finished: Condvar,
}

/// Runs launches. May be shared between threads: a grid that needs the pool waits for the previous one.
pub struct Executor {
    workers: usize,
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
    /// Held by the launch that uses the pool.
    turn: Mutex<()>,
    /// Workers of calling threads, kept for their buffers.
    idle: Mutex<Vec<Worker>>,
    waiting_at: Arc<WaitingAt>,
    parted: Mutex<Option<[String; 2]>>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Executor {
    /// Creates an executor in which `workers` threads run blocks, the caller's included; 1 starts no thread. The first
    /// executor of a process installs a handler for faults of kernels, unless the program has its own.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn new(workers: NonZeroUsize) -> std::io::Result<Self> {
        fault::install();
        let mut executor = Executor {
            workers: workers.get(),
            pool: Arc::default(),
            threads: Vec::new(),
            turn: Mutex::new(()),
            idle: Mutex::default(),
            waiting_at: Arc::default(),
            parted: Mutex::default(),
        };
        for index in 1..workers.get() {
            let pool = executor.pool.clone();
            let thread = std::thread::Builder::new()
                .name(format!("vgpu-{index}"))
                .stack_size(STACK_BYTES)
                .spawn(move || serve(&pool))?;
            executor.threads.push(thread);
        }
        Ok(executor)
    }

    /// `file:line` of a loop in which threads of the running launch have polled memory for more than a second without
    /// success. For use by another thread.
    pub fn waiting_at(&self) -> Arc<Mutex<Option<String>>> {
        self.waiting_at.clone()
    }

    /// Runs all blocks of `launch` and returns when the last block has ended.
    ///
    /// # Errors
    /// The kernel trapped or faulted; memory that it wrote until then stays written.
    ///
    /// # Safety
    /// `entry` comes from a kernel table of this ABI version; `args` holds one pointer for each of its parameters, to a
    /// value of that parameter's type; the kernel may access the memory that device pointers among them point to.
    pub unsafe fn launch(&self, launch: &Launch) -> Result<LaunchCost, LaunchFailure> {
        let job = Job::new(launch, self.workers, self.waiting_at.clone());
        if let Some(strict) = launch.strict {
            strict.lock().races.begin(launch.grid, launch.entry.flags & abi::REPORTS_ORDER != 0);
        }
        let threads_per_block: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
        let alone =
            self.workers == 1 || job.blocks == 1 || job.blocks * threads_per_block < INLINE_THREADS_MAX;
        let alone = alone || launch.strict.is_some();
        let alone = alone || launch.cooperative || job.uses_cluster && job.grid.blocks_may_wait;
        if alone {
            self.work_here(&job);
        } else {
            let job = Arc::new(job);
            let _turn = self.turn.lock();
            self.pool.post(&job, self.threads.len());
            self.work_here(&job);
            self.pool.wait();
            return self.outcome(&job);
        }
        self.outcome(&job)
    }

    fn outcome(&self, job: &Job) -> Result<LaunchCost, LaunchFailure> {
        if let Some(places) = job.parted.lock().take() {
            *self.parted.lock() = Some(places);
        }
        job.outcome()
    }

    /// Returns and clears the `file:line` of two `__syncthreads()` at which threads of one block have waited at the same
    /// time, in a launch without strict mode since the last call. Some forms of kernels do not see it.
    pub fn take_parted(&self) -> Option<[String; 2]> {
        self.parted.lock().take()
    }

    fn work_here(&self, job: &Job) {
        let mut worker = self.idle.lock().pop().unwrap_or_else(Worker::new);
        job.work(&mut worker);
        self.idle.lock().push(worker);
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.pool.board.lock().closing = true;
        self.pool.posted.notify_all();
        for thread in self.threads.drain(..) {
            // Pool threads catch all panics of kernels, so the result of `join` carries no information.
            let _ = thread.join();
        }
    }
}

impl Pool {
    fn post(&self, job: &Arc<Job>, threads: usize) {
        let mut board = self.board.lock();
        board.job = Some(job.clone());
        board.generation += 1;
        board.busy = threads;
        self.posted.notify_all();
    }

    fn wait(&self) {
        let mut board = self.board.lock();
        self.finished.wait_while(&mut board, |board| board.busy > 0);
        board.job = None;
    }

    /// Waits for the next job after `seen`; `None` if the executor is being dropped.
    fn next(&self, seen: u64) -> Option<(Arc<Job>, u64)> {
        let mut board = self.board.lock();
        self.posted.wait_while(&mut board, |board| board.generation == seen && !board.closing);
        if board.closing {
            return None;
        }
        board.job.clone().map(|job| (job, board.generation))
    }

    fn finish(&self) {
        let mut board = self.board.lock();
        board.busy -= 1;
        if board.busy == 0 {
            self.finished.notify_one();
        }
    }
}

fn serve(pool: &Pool) {
    let mut worker = Worker::new();
    let mut seen = 0;
    while let Some((job, generation)) = pool.next(seen) {
        seen = generation;
        job.work(&mut worker);
        drop(job);
        pool.finish();
    }
}
