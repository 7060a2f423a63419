//! State of one program as the runtime shim runs it: its position, buffers and stream.
//!
//! Trap: launches and prefetches are asynchronous; every other call of the program waits for the stream. Operations
//! in the stream start in order, one at a time.

use crate::job::{Job, KernelOp};
use crate::lives::Lives;
use crate::result::JobResult;
use crate::steps::{Step, unroll};
use crate::tasks::Wire;
use eager_client::ledger::{BufferId, Part};
use eager_client::request;
use eager_client::sites::Sites;
use eager_client::spans::Span;
use eager_client::task::{Phase, Slot};
use eager_client::{AtGate, KeptCopies, Pieces};
use eager_core::event::{Estimate, KernelRequest, TaskRequest};
use eager_gpu_model::{Access, AllocId, ContextId, Kernel, Location, Op, OpId, Range};
use eager_units::{Bytes, ClientId, DeviceId, Habits, Nanos, TaskId, Terms};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Most launches that wait in CUDA's queue (recalled: about a thousand; specification S-632); and the number of equal
/// launches that enter it at once, so that a gate that closes meanwhile takes effect.
const QUEUE_LAUNCHES: u32 = 1024;
const PIECE_LAUNCHES: u32 = 256;

/// Returns how many of these launches to enqueue at once where a gate may close between them. A diagonal is one walk
/// and is not split.
pub fn piece(launches: u32) -> u32 {
    launches.min(PIECE_LAUNCHES)
}

/// What a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The job has not been submitted, or waits for host memory.
    NotSubmitted,
    Not,
    /// Waits for a core, or works on one until the host phase ends.
    Host {
        since: Nanos,
    },
    /// Waits for the decision on its task, or on its foothold.
    Asked,
    /// Its context is being created.
    Context {
        since: Nanos,
        op: OpId,
    },
    /// Waits for the stream to empty.
    Stream,
    /// Waits for its kernels to end; prefetches may continue.
    Kernels,
    /// Waits for one operation outside the stream.
    Operation(OpId),
    Gate {
        since: Nanos,
        at_gate: AtGate,
    },
    /// Waits for room in the launch queue.
    Queue,
    Ended,
}

/// Description for people, where neither the queue nor a gate gives a reason.
impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Blocked::NotSubmitted => "is not submitted yet, or waits for host memory",
            Blocked::Not => "can go on",
            Blocked::Host { .. } => "waits for a host core, or works on one",
            Blocked::Asked => "waits for a device",
            Blocked::Context { .. } => "waits for its context",
            Blocked::Stream => "waits for its stream",
            Blocked::Kernels => "waits for its kernels",
            Blocked::Operation(_) => "waits for an operation",
            Blocked::Gate { .. } => "is held at its gate",
            Blocked::Queue => "waits for room in its launch queue",
            Blocked::Ended => "has ended",
        })
    }
}

/// One buffer with memory.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// In the program's ledger.
    pub id: BufferId,
    pub alloc: AllocId,
    pub bytes: u64,
}

impl Buffer {
    pub fn part(&self, from: u64, to: u64) -> Part {
        Part { buffer: self.id, span: Span { start: from, bytes: to.saturating_sub(from) } }
    }
}

/// What the simulator keeps with a task.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    /// The core's name for it, once it is requested.
    pub id: Option<TaskId>,
    /// When it was requested, and when it was bound to a device.
    pub asked: Option<Nanos>,
    pub bound: Option<Nanos>,
    /// The terms that a daemon would show since then. The program sees them at its next step.
    pub shown: Option<Terms>,
    /// The largest footprint that its gate admits, in bytes; `None`: the gate is closed.
    pub allowed: Option<u64>,
}

pub type Task = eager_client::task::Task<DeviceId, Work>;

/// An entry of the stream.
#[derive(Debug, Clone)]
pub enum Queued<'a> {
    Op {
        op: Op,
        launches: u32,
    },
    /// Frees the memory of a buffer that nothing uses any more.
    Release(&'a str),
    /// Frees the host memory staged for a buffer, because it has been sent.
    Unstage(u64),
}

/// Operation at the head of the stream, running on the device.
#[derive(Debug, Clone, Copy)]
pub struct InFlight {
    pub op: OpId,
    pub launches: u32,
    pub since: Nanos,
}

/// State of one program.
#[derive(Debug)]
pub struct Client<'a> {
    pub id: ClientId,
    pub job: &'a Job,
    pub steps: Vec<Step<'a>>,
    pub at: usize,
    /// Launches of the row at `at` that are already in the stream.
    pub launched: u32,
    pub blocked: Blocked,
    /// Its tasks, as the shim would keep them.
    pub tasks: eager_client::Client<DeviceId, Work>,
    pub sites: Sites,
    pub wire: Wire,
    /// The core's names for the tasks that it knows, by slot.
    pub ids: Vec<(Slot, TaskId)>,
    /// What the request for the open task has beside numbers.
    pub words: TaskRequest,
    /// Context on the device of its task.
    pub context: Option<ContextId>,
    pub contexts: BTreeMap<DeviceId, ContextId>,
    pub buffers: BTreeMap<&'a str, Buffer>,
    pub lives: Lives<'a>,
    /// Allocations without memory, in the program's ledger.
    pub addresses: BTreeMap<&'a str, BufferId>,
    /// Copies to buffers without memory, staged on the host.
    pub kept: KeptCopies<&'a str>,
    /// Bytes of host memory that staged copies take until they have arrived.
    pub staged: u64,
    /// The copy that the CPU makes, and the piece that it writes.
    pub filling: Option<(Pieces, Option<Part>)>,
    /// Estimates of its tasks, in order; and the number of tasks that have begun.
    pub estimates: Vec<Option<Estimate>>,
    pub tasks_begun: usize,
    pub stream: VecDeque<Queued<'a>>,
    pub in_flight: Option<InFlight>,
    pub result: JobResult,
}

impl<'a> Client<'a> {
    /// Starts the program, with the habits that the scheduler assigned to it.
    pub fn start(&mut self, habits: Habits) {
        self.blocked = Blocked::Not;
        self.tasks.habits = habits;
        // Without these habits buffers keep their memory until they are freed, so lives are not needed.
        if habits.release_dead || habits.live_requirement {
            self.lives = Lives::of(&self.steps, habits.release_dead);
        }
    }

    pub fn new(index: usize, job: &'a Job) -> Client<'a> {
        let mut steps = Vec::new();
        unroll(&job.ops, &mut steps);
        Client {
            id: ClientId(index as u64 + 1),
            job,
            steps,
            at: 0,
            launched: 0,
            blocked: Blocked::NotSubmitted,
            tasks: eager_client::Client::default(),
            sites: Sites::default(),
            wire: Wire::default(),
            ids: Vec::new(),
            words: TaskRequest::default(),
            context: None,
            contexts: BTreeMap::new(),
            buffers: BTreeMap::new(),
            lives: Lives::default(),
            addresses: BTreeMap::new(),
            kept: KeptCopies::default(),
            staged: 0,
            filling: None,
            estimates: Vec::new(),
            tasks_begun: 0,
            stream: VecDeque::new(),
            in_flight: None,
            result: JobResult {
                index,
                name: job.name.clone(),
                class_label: job.class_label,
                ..JobResult::default()
            },
        }
    }

    /// Number of the site at the current step. 0 is no site.
    pub fn site(&self) -> u64 {
        self.at as u64 + 1
    }

    /// The open task.
    pub fn task(&self) -> Option<&Task> {
        self.tasks.innermost_task(&self.sites)
    }

    /// True if the core has bound a task of the program to a device, whether the program has seen it or not.
    pub fn has_device(&self) -> bool {
        self.tasks.tasks().any(|task| task.own.bound.is_some())
    }

    /// The device that the program was given last, whether it has seen it or not.
    pub fn device(&self) -> Option<DeviceId> {
        let bound = self.tasks.tasks().find(|task| task.own.bound.is_some());
        bound.and_then(|task| task.own.shown).map(|terms| terms.device).or(self.tasks.foothold)
    }

    /// True if the core has decided on a request and the program has not seen it.
    pub fn has_news(&self) -> bool {
        let is_news = |task: &Task| matches!(task.phase, Phase::Asked(_)) && task.own.bound.is_some();
        self.tasks.tasks().any(is_news)
    }

    /// Adds the time of a task that has ended to the result.
    pub fn note_end(&mut self, task: &Task, now: Nanos) {
        if let Some(bound) = task.own.bound {
            self.note_released(now);
            self.result.bound.0 += now.0 - bound.0;
        }
    }

    /// Drops all tasks, because the program has ended.
    pub fn drop_tasks(&mut self, now: Nanos) {
        let bound = self.tasks.tasks().find_map(|task| task.own.bound);
        if let Some(bound) = bound {
            self.note_released(now);
            self.result.bound.0 += now.0 - bound.0;
        }
        (self.tasks, self.sites) = (eager_client::Client::default(), Sites::default());
    }

    /// Records that the open task has given all its memory back, unless recorded before.
    pub fn note_release(&mut self, now: Nanos) {
        if self.has_device() {
            self.note_released(now);
        }
    }

    fn note_released(&mut self, now: Nanos) {
        if let Some(task) = self.result.tasks.last_mut() {
            task.released.get_or_insert(now);
        }
    }

    /// True if the program's current context is on the device that its task is bound to.
    pub fn is_in_context(&self) -> bool {
        self.context.is_some()
            && self.device().and_then(|device| self.contexts.get(&device)) == self.context.as_ref()
    }

    /// True if the stream contains a release of memory.
    pub fn releases_pending(&self) -> bool {
        self.stream.iter().any(|queued| matches!(queued, Queued::Release(_)))
    }

    /// Ends a host phase or the creation of a context.
    pub fn host_phase_ended(&mut self, now: Nanos) {
        if let (true, Blocked::Host { since } | Blocked::Context { since, .. }) =
            (self.has_device(), self.blocked)
        {
            self.result.host.0 += now.0 - since.0;
        }
        self.blocked = Blocked::Not;
    }

    /// Number of launches in the stream or on the device.
    pub fn launches_pending(&self) -> u32 {
        let launches = |queued: &Queued<'_>| match queued {
            Queued::Op { launches, .. } => *launches,
            Queued::Release(_) | Queued::Unstage(_) => 0,
        };
        let queued: u32 = self.stream.iter().map(launches).sum();
        queued + self.in_flight.map_or(0, |head| head.launches)
    }

    /// Both blocking on the launch queue and resuming use this test, so that they cannot contradict each other.
    pub fn queue_has_room(&self) -> bool {
        self.launches_pending() + PIECE_LAUNCHES <= QUEUE_LAUNCHES
    }

    pub fn stream_empty(&self) -> bool {
        self.stream.is_empty() && self.in_flight.is_none()
    }

    /// The kernel of the current step, which the gate holds, with its name.
    pub fn named(&self, held: request::Kernel) -> KernelRequest {
        let name = match self.steps.get(self.at) {
            Some(Step::Launch { kernel, .. }) => kernel.name.clone(),
            _ => String::new(),
        };
        let request::Kernel { footprint, static_size, access } = held;
        KernelRequest { name, footprint: Bytes(footprint), static_size: Bytes(static_size), access }
    }

    pub fn gated(&self) -> bool {
        self.task().is_some_and(|task| task.terms.gated)
    }

    /// Operations that move these parts in.
    pub fn prefetches(&self, plan: Vec<Part>) -> Vec<Op> {
        let op = |part: Part| {
            let buffer = self.buffers.values().find(|buffer| buffer.id == part.buffer)?;
            let range = Range { offset: part.span.start, bytes: part.span.bytes };
            Some(Op::Prefetch { alloc: buffer.alloc, range, to: Location::Device })
        };
        plan.into_iter().filter_map(op).collect()
    }

    /// Converts a kernel to the model's form.
    pub fn kernel(&self, kernel: &KernelOp, launches: u32, priority: i32) -> Op {
        let accesses = kernel.accesses.iter().filter_map(|access| {
            let buffer = self.buffers.get(access.buffer.as_str())?;
            let at = |part: f64| (buffer.bytes as f64 * part) as u64;
            let mut ranges: Vec<Range> = access
                .parts
                .iter()
                .map(|p| Range { offset: at(p.from), bytes: at(p.to) - at(p.from) })
                .collect();
            if ranges.is_empty() {
                ranges.push(Range { offset: 0, bytes: buffer.bytes });
            }
            Some(Access {
                alloc: buffer.alloc,
                ranges,
                pattern: access.pattern,
                density: access.density,
                write: access.write,
            })
        });
        Op::Kernel(Kernel {
            priority,
            launches,
            blocks: kernel.blocks,
            threads_per_block: kernel.threads_per_block,
            shared_bytes_per_block: kernel.shared_bytes,
            registers_per_thread: kernel.registers_per_thread,
            dram_bytes: kernel.dram_bytes,
            flops32: kernel.flops32,
            flops64: kernel.flops64,
            accesses: accesses.collect(),
        })
    }

    /// A kernel as the gate judges it; its static size is the sum of its buffers.
    pub fn at_gate(&self, kernel: &KernelOp) -> AtGate {
        let names: BTreeSet<&str> = kernel.accesses.iter().map(|a| a.buffer.as_str()).collect();
        let buffers = names.into_iter().filter_map(|name| self.buffers.get(name));
        let static_size = buffers.map(|buffer| buffer.bytes).sum();
        AtGate::new(request::Kernel { footprint: kernel.footprint, static_size, access: kernel.access_class })
    }
}
