//! One device in time: which operations progress at which rate, the fault server, and the next event.
//!
//! Trap: rates are piecewise constant. Every function that can change a rate must end in [`Device::settle`], which
//! recomputes all rates and the time of the next event; no other function may set them.

use crate::card::Card;
use crate::fault::{REMOTE_EFFICIENCY, Service};
use crate::kernel::{Sweep, work};
use crate::options::Options;
use crate::residency::{Evicted, Memory};
use crate::run::KernelRun;
use crate::transfer::{Engine, Scene, Segment, Transfer};
use crate::{AllocId, AllocKind, Completion, ContextId, Kernel, ModelError, Moved, Nanos, Op, OpId, OpStats};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Sums of a device's work since the start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceTotals {
    /// Bytes moved by all operations, including evictions caused by allocations.
    pub moved: Moved,
    pub faulted_blocks: u64,
    pub evicted_blocks: u64,
    /// Time with at least one kernel computing.
    pub kernel_busy: Nanos,
    /// Time with at least one kernel on the device, including time in which all wait for pages: NVML's utilization.
    pub kernel_present: Nanos,
    /// Time with a fault batch in service.
    pub paging_busy: Nanos,
    /// Time with a copy or prefetch on the link.
    pub copy_busy: Nanos,
    /// Time with any operation at all.
    pub busy: Nanos,
    pub kernels: u64,
    /// Most host memory at any time behind its managed allocations.
    pub host_bytes_max: u64,
}

#[derive(Debug)]
pub(crate) enum Body {
    Kernel(Box<KernelRun>),
    Transfer { transfer: Transfer, segment: Segment },
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) context: ContextId,
    pub(crate) stats: OpStats,
    /// Own time (kernel, ns) or bytes (segment) until its next stop.
    pub(crate) remaining: f64,
    pub(crate) rate: f64,
    stop: Option<u64>,
    pub(crate) body: Body,
}

impl Running {
    /// Own time to the end of the launch on the device, if that comes before the next stop.
    fn left_of_launch(&self) -> Option<f64> {
        let Body::Kernel(run) = &self.body else { return None };
        let left = run.left_of_launch(run.position(run.target) - self.remaining);
        (run.launches > 1 && left + 1.0 < self.remaining).then_some(left)
    }

    fn transfer(context: ContextId, transfer: Transfer) -> Running {
        let body = Body::Transfer { transfer, segment: IDLE };
        Running { context, stats: OpStats::default(), remaining: 0.0, rate: 0.0, stop: None, body }
    }
}

/// A GPU with its memory and running operations.
#[derive(Debug)]
pub struct Device {
    pub card: Card,
    pub(crate) options: Options,
    pub memory: Memory,
    contexts: BTreeMap<ContextId, u64>,
    pub(crate) running: BTreeMap<OpId, Running>,
    pub(crate) fault_queue: VecDeque<OpId>,
    pub(crate) service: Option<Service>,
    pub(crate) now: u64,
    next_at: Option<u64>,
    done: Vec<Completion>,
    pub(crate) totals: DeviceTotals,
    /// Most bytes per ns of one host thread's copy, given the other copies' use of the host's memory.
    pub(crate) host_cap: f64,
}

impl Device {
    pub fn new(card: Card, options: Options) -> Device {
        let memory = Memory::new(card.memory_bytes, options.eviction);
        let host_cap = options.host_copy_bytes_per_s / 1e9;
        Device {
            card,
            options,
            memory,
            contexts: BTreeMap::new(),
            running: BTreeMap::new(),
            fault_queue: VecDeque::new(),
            service: None,
            now: 0,
            next_at: None,
            done: Vec::new(),
            totals: DeviceTotals::default(),
            host_cap,
        }
    }

    pub fn totals(&self) -> DeviceTotals {
        DeviceTotals { host_bytes_max: self.memory.host_bytes_max(), ..self.totals }
    }

    pub fn busy(&self) -> bool {
        !self.running.is_empty()
    }

    pub fn take_done(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
    }

    /// Time at which an operation ends or the state changes; `None`: nothing runs.
    pub fn next_event(&self) -> Option<Nanos> {
        let done = self.done.iter().map(|c| c.at).min();
        done.into_iter().chain(self.next_at.map(Nanos)).min()
    }

    /// Time at which the state next changes.
    pub fn next_change(&self) -> Option<u64> {
        self.next_at
    }

    /// Number of host threads that copy for this device now.
    pub fn host_copies(&self) -> usize {
        let copies = |r: &&Running| matches!(&r.body, Body::Transfer { segment, .. } if segment.engine == Engine::Host);
        self.running.values().filter(copies).count()
    }

    /// Sets the rate of each host thread's copy from now on.
    pub fn set_host_cap(&mut self, bytes_per_ns: f64) {
        if self.host_cap != bytes_per_ns {
            self.host_cap = bytes_per_ns;
            self.settle();
        }
    }

    /// Restarts time at 0, if nothing is under way.
    pub fn rewind(&mut self) {
        if self.running.is_empty() && self.next_event().is_none() {
            self.now = 0;
        }
    }

    /// Advances time to `to`.
    pub fn run_to(&mut self, to: Nanos) {
        while let Some(at) = self.next_at.filter(|&at| at <= to.0) {
            self.progress(at);
            self.handle_due_stops();
            self.settle();
        }
        self.progress(to.0);
    }

    /// Adds a context. Returns true if it may be used only when `op` completes, false if at once.
    ///
    /// # Errors
    /// Out of memory.
    pub fn context_add(&mut self, context: ContextId, op: OpId) -> Result<bool, ModelError> {
        self.touch_running();
        let bytes = self.options.context_memory();
        let evicted = self.memory.context_add(bytes)?;
        self.contexts.insert(context, bytes);
        Ok(self.start_make_room(context, op, &evicted, self.options.context_create.0))
    }

    /// Allocates memory. Returns true if it may be used only when `op` completes, false if at once.
    ///
    /// # Errors
    /// Out of memory.
    pub fn allocate(
        &mut self,
        (alloc, bytes, kind): (AllocId, u64, AllocKind),
        context: ContextId,
        op: OpId,
    ) -> Result<bool, ModelError> {
        self.touch_running();
        let evicted = self.memory.allocate(alloc, context, bytes, kind)?;
        Ok(self.start_make_room(context, op, &evicted, 0))
    }

    /// Accounts for a new context or allocation, and starts `op` for the write-back of its victims and the delay.
    fn start_make_room(&mut self, context: ContextId, op: OpId, evicted: &Evicted, delay_ns: u64) -> bool {
        self.totals.moved.evicted_bytes += evicted.bytes;
        self.totals.evicted_blocks += u64::from(evicted.blocks);
        let transfer = Transfer::make_room(&self.card, evicted, delay_ns);
        let waits = transfer.is_some();
        if let Some(transfer) = transfer {
            let moved = Moved { evicted_bytes: evicted.bytes, ..Moved::default() };
            let stats = OpStats { moved, evicted_blocks: u64::from(evicted.blocks), ..OpStats::default() };
            let mut running = Running::transfer(context, transfer);
            self.next_segment(&mut running);
            running.stats = stats;
            self.running.insert(op, running);
        }
        self.settle();
        waits
    }

    /// Bytes of a context and its device allocations.
    pub fn pinned_bytes(&self, context: ContextId) -> u64 {
        self.contexts.get(&context).copied().unwrap_or(0) + self.memory.device_bytes_of(context)
    }

    /// Bytes of a context's managed memory that are on the device.
    pub fn managed_bytes(&self, context: ContextId) -> u64 {
        self.memory.managed_bytes_of(context)
    }

    pub fn context_remove(&mut self, context: ContextId) {
        self.running.retain(|_, r| r.context != context);
        self.fault_queue.retain(|op| self.running.contains_key(op));
        if self.service.as_ref().is_some_and(|s| s.context == context) {
            self.service = None;
        }
        if let Some(bytes) = self.contexts.remove(&context) {
            self.memory.context_remove(context, bytes);
        }
        self.settle();
    }

    /// Call after memory has left the device by other means than an operation: kernels may fault earlier now.
    pub fn memory_left(&mut self) {
        self.settle();
    }

    /// # Errors
    /// Unknown allocation or range outside it.
    pub fn submit(&mut self, op: OpId, context: ContextId, what: Op) -> Result<(), ModelError> {
        let transfer = Transfer::new(&what, &self.memory)?;
        let mut running = match (what, transfer) {
            (Op::Kernel(kernel), _) => self.start_kernel(context, &kernel)?,
            (_, Some(transfer)) => Running::transfer(context, transfer),
            (_, None) => return Err(ModelError::Unknown("operation".to_owned())),
        };
        if matches!(running.body, Body::Transfer { .. }) && !self.next_segment(&mut running) {
            self.finish(op, running);
        } else {
            self.running.insert(op, running);
        }
        self.settle();
        Ok(())
    }

    fn start_kernel(&self, context: ContextId, kernel: &Kernel) -> Result<Running, ModelError> {
        for access in &kernel.accesses {
            for range in &access.ranges {
                crate::transfer::check_range(&self.memory, access.alloc, *range)?;
            }
        }
        let sweep = Sweep::new(kernel, &self.memory, self.options.step_blocks);
        let work = work(&self.card, &self.options, kernel);
        let managed = if sweep.touches_managed() { 1.0 + self.options.managed_overhead } else { 1.0 };
        let remote_ns = sweep.remote_bytes(&self.memory)
            / (self.card.link.copy_to_device_bytes_per_s / 1e9 * REMOTE_EFFICIENCY);
        let launches = kernel.launches.max(1);
        let mut run = KernelRun {
            priority: kernel.priority,
            work,
            launch_ns: work.alone_ns * managed + remote_ns,
            launches,
            target: None,
            faulting: false,
            paid: (0, 0),
            departures: self.memory.departures(),
            sweep,
            arrived: self.now,
            placed: 0.0,
            stops_at_launch: false,
            touched: (0, 0),
        };
        run.target = run.sweep.next_miss(&self.memory, 0, 0);
        let launch_ns = self.options.launch.0 as f64;
        let stats = OpStats {
            work: Nanos((work.alone_ns * f64::from(launches) + launch_ns) as u64),
            paging: Nanos((remote_ns * f64::from(launches)) as u64),
            ..OpStats::default()
        };
        let remaining = launch_ns + run.position(run.target);
        Ok(Running { context, stats, remaining, rate: 0.0, stop: None, body: Body::Kernel(Box::new(run)) })
    }

    fn progress(&mut self, to: u64) {
        let passed = to.saturating_sub(self.now);
        if passed == 0 {
            return;
        }
        let (mut kernels, mut present, mut copies) = (false, false, false);
        for running in self.running.values_mut() {
            running.remaining -= running.rate * passed as f64;
            match &running.body {
                Body::Kernel(_) => (kernels, present) = (kernels | (running.rate > 0.0), true),
                Body::Transfer { segment, .. } => {
                    copies |= matches!(segment.engine, Engine::ToDevice | Engine::ToHost);
                }
            }
        }
        let count =
            |total: &mut Nanos, on: bool| total.0 = total.0.saturating_add(if on { passed } else { 0 });
        count(&mut self.totals.kernel_busy, kernels);
        count(&mut self.totals.kernel_present, present);
        count(&mut self.totals.copy_busy, copies);
        count(&mut self.totals.paging_busy, self.service.is_some());
        count(&mut self.totals.busy, !self.running.is_empty());
        self.now = to;
    }

    /// Handles all stops that are due now.
    fn handle_due_stops(&mut self) {
        if self.service.as_ref().is_some_and(|s| s.until <= self.now) {
            self.end_service();
        }
        let is_due = |running: &Running| running.stop.is_some_and(|at| at <= self.now);
        let due: Vec<OpId> = self.running.iter().filter(|(_, r)| is_due(r)).map(|(&op, _)| op).collect();
        for op in due {
            if self.handle_kernel_stop(op) {
                continue;
            }
            let mut running = self.running.remove(&op).expect("just listed");
            if matches!(running.body, Body::Transfer { .. }) && self.next_segment(&mut running) {
                self.running.insert(op, running);
            } else {
                self.finish(op, running);
            }
        }
    }

    /// Handles a kernel's stop; true if the kernel has not ended.
    fn handle_kernel_stop(&mut self, op: OpId) -> bool {
        let Some(running) = self.running.get_mut(&op) else { return false };
        running.stop = None;
        let Body::Kernel(run) = &mut running.body else { return false };
        if run.stops_at_launch {
            // Its next launch queues behind the kernels that wait.
            (run.arrived, run.placed) = (self.now, 0.0);
            return true;
        }
        let Some(target) = run.target else { return false };
        if run.sweep.misses(&self.memory, target) {
            run.faulting = true;
            self.fault_queue.push_back(op);
        } else {
            let from = run.position(run.target);
            run.target = run.sweep.next_miss(&self.memory, target.0, target.1);
            run.departures = self.memory.departures();
            running.remaining = (run.position(run.target) - from).max(0.0);
        }
        true
    }

    fn next_segment(&mut self, running: &mut Running) -> bool {
        self.touch_running();
        let Body::Transfer { transfer, segment } = &mut running.body else { return false };
        let evicted_before = running.stats.evicted_blocks;
        let moved_before = std::mem::take(&mut running.stats.moved);
        let stats = &mut running.stats;
        let mut scene = Scene { card: &self.card, options: &self.options, memory: &mut self.memory, stats };
        let next = transfer.next_segment(&mut scene);
        self.totals.moved += running.stats.moved;
        self.totals.evicted_blocks += running.stats.evicted_blocks - evicted_before;
        running.stats.moved += moved_before;
        let Some(next) = next else { return false };
        running.remaining = next.amount;
        *segment = next;
        true
    }

    /// Under [`crate::Eviction::Used`]: marks the memory that kernels have used since the last call.
    pub(crate) fn touch_running(&mut self) {
        if !self.memory.follows_use() {
            return;
        }
        for running in self.running.values_mut() {
            if let Body::Kernel(run) = &mut running.body {
                run.touch_up_to(run.position(run.target) - running.remaining.max(0.0), &mut self.memory);
            }
        }
    }

    fn finish(&mut self, op: OpId, mut running: Running) {
        if let Body::Kernel(run) = &mut running.body {
            self.totals.kernels += 1;
            run.touch_up_to(run.position(None), &mut self.memory);
        }
        let completion =
            Completion { op, context: running.context, at: Nanos(self.now), stats: running.stats };
        self.done.push(completion);
    }

    /// Recomputes targets, rates and the time of the next event.
    fn settle(&mut self) {
        if self.service.is_none() {
            self.begin_service();
        }
        self.retarget();
        self.rate_transfers();
        let contended = self.rate_kernels();
        let now = self.now;
        for running in self.running.values_mut() {
            let waiting = matches!(&running.body, Body::Kernel(run) if run.faulting);
            let launch_ends = running.left_of_launch().filter(|_| contended);
            if let Body::Kernel(run) = &mut running.body {
                run.stops_at_launch = launch_ends.is_some();
            }
            running.stop = if waiting {
                None
            } else if let Some(left) = launch_ends {
                (running.rate > 0.0).then(|| now.saturating_add((left / running.rate).ceil() as u64))
            } else if running.remaining <= 1e-6 {
                Some(now)
            } else if running.rate > 0.0 {
                // Rates are 0 or not tiny, so this cannot overflow even for a kernel that gets only the leftover SMs.
                Some(now.saturating_add((running.remaining / running.rate).ceil() as u64))
            } else {
                None
            };
        }
        let stops = self.running.values().filter_map(|r| r.stop);
        self.next_at = stops.chain(self.service.as_ref().map(|s| s.until)).min();
    }

    /// Recomputes the next fault of each kernel if memory has left the device since it was found.
    fn retarget(&mut self) {
        let departures = self.memory.departures();
        for running in self.running.values_mut() {
            let Body::Kernel(run) = &mut running.body else { continue };
            if run.faulting || run.departures == departures {
                continue;
            }
            let position = run.position(run.target) - running.remaining;
            let (launch, step) = run.step_after(position).max(run.paid);
            run.target = run.sweep.next_miss(&self.memory, launch, step);
            run.departures = departures;
            running.remaining = (run.position(run.target) - position).max(0.0);
        }
    }

    /// Frees an allocation. Freeing synchronises in CUDA, so no kernel should be using it; a kernel that does will not
    /// fault there.
    pub fn release(&mut self, alloc: AllocId) -> bool {
        let known = self.memory.release(alloc);
        self.settle();
        known
    }
}

const IDLE: Segment = Segment { engine: Engine::Host, amount: 0.0, cap: 1.0, evicts: false };
