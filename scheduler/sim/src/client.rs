//! One program as the runtime shim runs it: where it stands, its buffers, its stream.
//!
//! Trap: launches and prefetches are asynchronous, everything else the program calls waits for the stream. What is in
//! the stream starts in order, one at a time.

use crate::job::{Job, KernelOp};
use crate::lives::Lives;
use crate::result::{JobResult, Outcome};
use crate::steps::{Step, unroll};
use eager_client::account::{Account, Announced, FrameId};
use eager_core::action::Gate;
use eager_core::event::{Estimate, TaskRequest};
use eager_gpu_model::{Access, AllocId, AllocKind, ContextId, Kernel, Moved, Op, OpId, Range};
use eager_units::{AccessClass, Bytes, Class, ClientId, DeviceId, Habits, Nanos, TaskId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Launches that wait in CUDA's queue at most (recalled: about a thousand; specification S-632), and the pieces in which a
/// row of equal launches goes there, so that a gate that closes under way is seen.
const QUEUE_LAUNCHES: u32 = 1024;
const PIECE_LAUNCHES: u32 = 256;

/// Splits a row of launches where a gate may close between them. A diagonal is one walk and stays whole.
pub fn piece(launches: u32) -> u32 {
    launches.min(PIECE_LAUNCHES)
}

/// What a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The job has not come yet, or waits for host memory.
    NotSubmitted,
    Not,
    /// A core, or its host phase's end.
    Host {
        since: Nanos,
    },
    Binding,
    /// Its context is being created.
    Context {
        since: Nanos,
        op: OpId,
    },
    /// The stream to empty.
    Stream,
    /// Its kernels to end; prefetches may go on.
    Kernels,
    /// One operation outside the stream.
    Operation(OpId),
    Gate {
        since: Nanos,
    },
    /// Room in the launch queue.
    Queue,
    Ended,
}

/// For people, where neither the queue nor a gate has a reason of its own.
impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Blocked::NotSubmitted => "has not come, or waits for host memory",
            Blocked::Not => "can go on",
            Blocked::Host { .. } => "waits for a host core, or works on one",
            Blocked::Binding => "waits for a device",
            Blocked::Context { .. } => "waits for its context",
            Blocked::Stream => "waits for its stream",
            Blocked::Kernels => "waits for its kernels",
            Blocked::Operation(_) => "waits for an operation",
            Blocked::Gate { .. } => "stands at its gate",
            Blocked::Queue => "waits for room in its launch queue",
            Blocked::Ended => "has ended",
        })
    }
}

/// One buffer.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    pub alloc: AllocId,
    pub bytes: u64,
    pub kind: AllocKind,
    /// Leading bytes that have been prefetched.
    pub prefetched: u64,
}

/// Its open task.
#[derive(Debug, Clone)]
pub struct Open {
    pub task: TaskId,
    pub class: Class,
    pub grant: Bytes,
    pub managed: bool,
    pub gate: Gate,
    pub watched: bool,
    /// As last told while watched.
    pub told_busy: Option<bool>,
    /// The class of the last kernel that the gate was asked for.
    pub asked_for: Option<AccessClass>,
    /// Since when it has a device.
    pub bound: Option<Nanos>,
    pub all_launched: bool,
    pub books: Books,
    pub request: TaskRequest,
}

/// A task that has not asked yet: it will at its first use of the device.
#[derive(Debug, Clone)]
pub struct Wish {
    pub request: TaskRequest,
    pub books: Books,
}

/// The bytes of a task with one site.
#[derive(Debug, Clone, Default)]
pub struct Books {
    pub account: Account,
    /// That site's; none: it announced nothing.
    pub frame: Option<FrameId>,
    /// What was asked for.
    pub asked: u64,
    /// What the task turned out not to need while it waited, and has not given back.
    pub unneeded: u64,
}

impl Books {
    /// Of a task whose site announces `bytes`, of which `live_bytes` are in use at once.
    pub fn of(bytes: u64, live_bytes: u64, reuses: bool) -> Books {
        let mut account = Account::default();
        let frame = account.open(Announced { site: 0, bytes, reuses });
        account.ask_for(live_bytes);
        Books { account, frame: Some(frame), asked: 0, unneeded: 0 }
    }

    /// The task is bound: until now it could not give anything back.
    pub fn bound(&mut self) {
        self.unneeded = self.asked.saturating_sub(self.account.reserved());
    }

    /// Would an allocation without memory go beyond what its site announced?
    pub fn is_beyond(&self, bytes: u64) -> bool {
        self.account.clone().expect(self.frame, bytes) > 0
    }
}

/// An allocation without memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Address {
    pub bytes: u64,
    /// Its open task has counted it as what may come.
    pub is_counted: bool,
    /// Leading bytes that wait in pinned host memory for the buffer to get some.
    pub staged: u64,
}

/// What waits in the stream.
#[derive(Debug, Clone)]
pub enum Queued<'a> {
    Op {
        op: Op,
        launches: u32,
    },
    /// A buffer that nothing uses any more gives its memory back.
    Release(&'a str),
    /// What was staged for a buffer has been sent: that host memory is free.
    Unstage(u64),
}

/// The head of the stream, on the device.
#[derive(Debug, Clone, Copy)]
pub struct InFlight {
    pub op: OpId,
    pub launches: u32,
    pub since: Nanos,
}

/// One program.
#[derive(Debug)]
pub struct Client<'a> {
    pub id: ClientId,
    pub job: &'a Job,
    /// What it does of the policy's habits.
    pub habits: Habits,
    pub steps: Vec<Step<'a>>,
    pub at: usize,
    /// Of the row of launches at `at`, how many are in the stream.
    pub launched: u32,
    pub blocked: Blocked,
    pub open: Option<Open>,
    pub device: Option<DeviceId>,
    /// Since when its open task is one of nothing: it asks where it may have its first context.
    pub foothold: Option<Nanos>,
    /// On `device`.
    pub context: Option<ContextId>,
    pub contexts: BTreeMap<DeviceId, ContextId>,
    pub buffers: BTreeMap<&'a str, Buffer>,
    pub lives: Lives<'a>,
    pub wish: Option<Wish>,
    pub addresses: BTreeMap<&'a str, Address>,
    /// Host memory that its staged copies take.
    pub staged: u64,
    /// The buffer that what was staged for it is being filled into.
    pub filling: Option<(&'a str, u64)>,
    /// Expected of its tasks, in order, and how many of them have begun.
    pub estimates: Vec<Option<Estimate>>,
    pub tasks_begun: usize,
    pub stream: VecDeque<Queued<'a>>,
    pub in_flight: Option<InFlight>,
    /// Promoted, and the scheduler does not know yet that its data has moved in.
    pub moving_in: bool,
    /// Prefetches of a promoted task, beside the stream.
    pub late: BTreeSet<OpId>,
    pub result: JobResult,
}

impl<'a> Client<'a> {
    /// It starts, and has been told what to do.
    pub fn come(&mut self, habits: Habits) {
        self.blocked = Blocked::Not;
        self.habits = habits;
        // The lives of the buffers of a program that keeps them to its end are never looked at.
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
            habits: Habits::PLAIN,
            steps,
            at: 0,
            launched: 0,
            blocked: Blocked::NotSubmitted,
            open: None,
            device: None,
            foothold: None,
            context: None,
            contexts: BTreeMap::new(),
            buffers: BTreeMap::new(),
            lives: Lives::default(),
            wish: None,
            addresses: BTreeMap::new(),
            staged: 0,
            filling: None,
            estimates: Vec::new(),
            tasks_begun: 0,
            stream: VecDeque::new(),
            in_flight: None,
            moving_in: false,
            late: BTreeSet::new(),
            result: JobResult {
                index,
                name: job.name.clone(),
                class_label: job.class_label,
                outcome: Outcome::Done,
                submit: Nanos(0),
                ask: None,
                bind: None,
                start: None,
                end: Nanos(0),
                wait: Nanos(0),
                held: Nanos(0),
                bound: Nanos(0),
                host: Nanos(0),
                device: None,
                classes: Vec::new(),
                requirement_bytes: 0,
                grant_bytes: 0,
                grant_bytes_max: 0,
                kernels: Nanos(0),
                kernels_alone: Nanos(0),
                tasks: Vec::new(),
                moved: Moved::default(),
                kernel_spans: Vec::new(),
                held_spans: Vec::new(),
            },
        }
    }

    /// Its open task, if any, is over; its time goes into the account.
    pub fn close_task(&mut self, now: Nanos) {
        self.note_release(now);
        if let Some(bound) = self.open.take().and_then(|open| open.bound) {
            self.result.bound.0 += now.0 - bound.0;
        }
    }

    /// Its open task has given all its memory back, now if not before.
    pub fn note_release(&mut self, now: Nanos) {
        if self.open.as_ref().is_some_and(|open| open.bound.is_some())
            && let Some(task) = self.result.tasks.last_mut()
        {
            task.released.get_or_insert(now);
        }
    }

    /// It is in a context on the device that its task is bound to.
    pub fn is_in_context(&self) -> bool {
        self.context.is_some()
            && self.device.and_then(|device| self.contexts.get(&device)) == self.context.as_ref()
    }

    /// Something waits in its stream that will give memory back.
    pub fn releases_pending(&self) -> bool {
        self.stream.iter().any(|queued| matches!(queued, Queued::Release(_)))
    }

    /// A host phase or the making of a context is over.
    pub fn host_phase_ended(&mut self, now: Nanos) {
        let bound = self.open.as_ref().is_some_and(|open| open.bound.is_some());
        if let (true, Blocked::Host { since } | Blocked::Context { since, .. }) = (bound, self.blocked) {
            self.result.host.0 += now.0 - since.0;
        }
        self.blocked = Blocked::Not;
    }

    /// Launches in the stream or on the device.
    pub fn launches_pending(&self) -> u32 {
        let launches = |queued: &Queued<'_>| match queued {
            Queued::Op { launches, .. } => *launches,
            Queued::Release(_) | Queued::Unstage(_) => 0,
        };
        let queued: u32 = self.stream.iter().map(launches).sum();
        queued + self.in_flight.map_or(0, |head| head.launches)
    }

    /// The one test both for blocking on the launch queue and for going on, so that neither can undo the other.
    pub fn queue_has_room(&self) -> bool {
        self.launches_pending() + PIECE_LAUNCHES <= QUEUE_LAUNCHES
    }

    pub fn stream_empty(&self) -> bool {
        self.stream.is_empty() && self.in_flight.is_none()
    }

    /// May a kernel of this footprint start?
    pub fn admits(&self, kernel: &KernelOp) -> bool {
        match self.open.as_ref().map(|open| open.gate) {
            Some(Gate::Hold) => false,
            Some(Gate::Go { allowed: Some(allowed) }) => kernel.footprint <= allowed.0,
            _ => true,
        }
    }

    /// Was the gate last opened for a kernel that may over-subscribe more than this one? The gate has no class, so what
    /// it allows then says nothing of this kernel and it is asked again, as the shim does.
    pub fn was_opened_for_less(&self, kernel: &KernelOp) -> bool {
        let streams = |class: AccessClass| matches!(class, AccessClass::OnePass | AccessClass::Sparse);
        let asked_for = self.open.as_ref().and_then(|open| open.asked_for);
        self.gated() && !streams(kernel.access_class) && asked_for.is_some_and(streams)
    }

    pub fn gated(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.gate != Gate::Ungated)
    }

    /// Of `wanted` leading bytes of a buffer, those that may be prefetched: all for a task that has its whole
    /// requirement, else what its grant leaves (specification S-202).
    pub fn prefetch_budget(&self, buffer: &str, wanted: u64) -> u64 {
        let Some(open) = &self.open else { return 0 };
        if open.class != Class::Eager {
            return wanted;
        }
        let others = self.buffers.iter().filter(|(name, _)| **name != buffer);
        let used: u64 = others.map(|(_, other)| other.prefetched).sum();
        wanted.min(open.grant.0.saturating_sub(used))
    }

    /// The model's form of a kernel.
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

    /// Sum of its buffers, for a kernel's static size.
    pub fn static_size(&self, kernel: &KernelOp) -> u64 {
        let names: BTreeSet<&str> = kernel.accesses.iter().map(|a| a.buffer.as_str()).collect();
        names.into_iter().filter_map(|name| self.buffers.get(name)).map(|buffer| buffer.bytes).sum()
    }
}
