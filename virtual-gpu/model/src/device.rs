//! One device in time: which operations progress at which rate, the fault server, and what happens next.
//!
//! Trap: rates are piecewise constant. Everything that can change one ends in [`Device::settle`], which computes all
//! rates and the next moment anew; nothing else may set them.

use crate::card::Card;
use crate::kernel::{Sweep, Work, moved_part, regions_per_block, work};
use crate::options::Options;
use crate::residency::{BLOCK_BYTES, Evicted, Memory};
use crate::share::{Demand, rates, split};
use crate::transfer::{Engine, Scene, Segment, Transfer, eviction_ns};
use crate::{AllocId, Completion, ContextId, Kernel, ModelError, Moved, Nanos, Op, OpId, OpStats};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Regions of 64 KiB that a batch of scattered faults serves: one fault each, 256 a batch (UM model §1.1).
const BATCH_REGIONS: f64 = 256.0;
/// VA blocks in a batch when the prefetcher is off (UM model §1.8: 10–60).
const BLOCKS_PER_BATCH_UNPREFETCHED: f64 = 20.0;
/// Duplicate faults and replays when the prefetcher is off (UM model §4.5).
const DUPLICATES: f64 = 1.5;
const PAGE_BYTES: f64 = 4096.0;
const FAULTS_PER_BATCH: f64 = 256.0;
/// Dense remote access reaches this part of the link (UM model §4.3: 0.8–0.9).
const REMOTE_EFFICIENCY: f64 = 0.85;
/// Copies keep at least this part of the link beside a fault batch.
const LINK_FLOOR: f64 = 0.1;

/// What a device did since the start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceTotals {
    /// Of all operations, and the evictions that allocations caused.
    pub moved: Moved,
    pub faulted_blocks: u64,
    pub evicted_blocks: u64,
    /// Time with at least one kernel computing.
    pub kernel_busy: Nanos,
    /// Time with a fault batch in service.
    pub paging_busy: Nanos,
    /// Time with a copy or prefetch on the link.
    pub copy_busy: Nanos,
    /// Time with any operation at all.
    pub busy: Nanos,
    pub kernels: u64,
}

#[derive(Debug)]
struct KernelRun {
    priority: i32,
    work: Work,
    /// One launch with all its blocks resident or remote.
    launch_ns: f64,
    launches: u32,
    sweep: Sweep,
    /// Where it faults next; `None`: it runs to its end.
    target: Option<(u32, u32)>,
    faulting: bool,
    /// Steps before this one are paid for, even if their blocks are stolen before they ran.
    paid: (u32, u32),
    /// [`Memory::departures`] when `target` was found.
    departures: u64,
}

impl KernelRun {
    /// Own time from the start of the first launch to the start of a step.
    fn position(&self, at: Option<(u32, u32)>) -> f64 {
        match at {
            None => self.launch_ns * f64::from(self.launches),
            Some((launch, step)) => {
                self.launch_ns * (f64::from(launch) + f64::from(step) / f64::from(self.sweep.steps(launch)))
            }
        }
    }

    /// First step not begun at a position.
    fn step_after(&self, position: f64) -> (u32, u32) {
        let launch = (position / self.launch_ns).floor().clamp(0.0, f64::from(self.launches - 1)) as u32;
        let part = (position / self.launch_ns - f64::from(launch)).max(0.0);
        let steps = self.sweep.steps(launch);
        (launch, (part * f64::from(steps) - 1e-6).ceil().max(0.0) as u32)
    }
}

#[derive(Debug)]
enum Body {
    Kernel(Box<KernelRun>),
    Transfer { transfer: Transfer, segment: Segment },
}

#[derive(Debug)]
struct Running {
    context: ContextId,
    stats: OpStats,
    /// Own time (kernel, ns) or bytes (segment) until its next stop.
    remaining: f64,
    rate: f64,
    stop: Option<u64>,
    body: Body,
}

#[derive(Debug)]
struct Service {
    op: OpId,
    context: ContextId,
    until: u64,
    /// What the batch takes of the link, bytes per ns.
    in_rate: f64,
    out_rate: f64,
}

/// One device.
#[derive(Debug)]
pub struct Device {
    pub card: Card,
    options: Options,
    pub memory: Memory,
    contexts: BTreeMap<ContextId, u64>,
    running: BTreeMap<OpId, Running>,
    fault_queue: VecDeque<OpId>,
    service: Option<Service>,
    now: u64,
    next_at: Option<u64>,
    done: Vec<Completion>,
    totals: DeviceTotals,
}

impl Device {
    pub fn new(card: Card, options: Options) -> Device {
        let memory = Memory::new(card.memory_bytes);
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
        }
    }

    pub fn totals(&self) -> DeviceTotals {
        self.totals
    }

    pub fn busy(&self) -> bool {
        !self.running.is_empty()
    }

    pub fn take_done(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
    }

    /// When something ends or changes; `None`: nothing runs.
    pub fn next_event(&self) -> Option<Nanos> {
        let done = self.done.iter().map(|c| c.at).min();
        done.into_iter().chain(self.next_at.map(Nanos)).min()
    }

    /// Lets time pass.
    pub fn run_to(&mut self, to: Nanos) {
        while let Some(at) = self.next_at.filter(|&at| at <= to.0) {
            self.progress(at);
            self.stops();
            self.settle();
        }
        self.progress(to.0);
    }

    /// # Errors
    /// Out of memory.
    pub fn context_add(&mut self, context: ContextId) -> Result<(), ModelError> {
        let bytes = self.options.context_memory();
        let evicted = self.memory.context_add(bytes)?;
        self.contexts.insert(context, bytes);
        self.written_back(&evicted);
        Ok(())
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

    /// Counts what an allocation pushed out and looks at the kernels whose blocks these were.
    pub fn written_back(&mut self, evicted: &Evicted) {
        self.totals.moved.evicted_bytes += evicted.bytes;
        self.totals.evicted_blocks += u64::from(evicted.blocks);
        self.settle();
    }

    /// # Errors
    /// Unknown allocation or range outside it.
    pub fn submit(&mut self, op: OpId, context: ContextId, what: Op) -> Result<(), ModelError> {
        let transfer = Transfer::new(&what, &self.memory)?;
        let mut running = match (what, transfer) {
            (Op::Kernel(kernel), _) => self.start_kernel(context, &kernel)?,
            (_, Some(transfer)) => Running {
                context,
                stats: OpStats::default(),
                remaining: 0.0,
                rate: 0.0,
                stop: Some(self.now),
                body: Body::Transfer { transfer, segment: IDLE },
            },
            (_, None) => return Err(ModelError::Unknown("operation".to_owned())),
        };
        running.stop = None;
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
        let (mut kernels, mut copies) = (false, false);
        for running in self.running.values_mut() {
            running.remaining -= running.rate * passed as f64;
            match &running.body {
                Body::Kernel(_) => kernels |= running.rate > 0.0,
                Body::Transfer { segment, .. } => {
                    copies |= matches!(segment.engine, Engine::ToDevice | Engine::ToHost);
                }
            }
        }
        let count = |total: &mut Nanos, on: bool| total.0 += if on { passed } else { 0 };
        count(&mut self.totals.kernel_busy, kernels);
        count(&mut self.totals.copy_busy, copies);
        count(&mut self.totals.paging_busy, self.service.is_some());
        count(&mut self.totals.busy, !self.running.is_empty());
        self.now = to;
    }

    /// Handles everything that stops now.
    fn stops(&mut self) {
        if self.service.as_ref().is_some_and(|s| s.until <= self.now) {
            self.end_service();
        }
        let due: Vec<OpId> = self
            .running
            .iter()
            .filter(|(_, r)| r.stop.is_some_and(|at| at <= self.now))
            .map(|(&op, _)| op)
            .collect();
        for op in due {
            let mut running = self.running.remove(&op).expect("just listed");
            running.stop = None;
            let over = match &mut running.body {
                Body::Kernel(run) => match run.target {
                    None => true,
                    Some(target) if run.sweep.misses(&self.memory, target) => {
                        run.faulting = true;
                        self.fault_queue.push_back(op);
                        false
                    }
                    Some((launch, step)) => {
                        let from = run.position(run.target);
                        run.target = run.sweep.next_miss(&self.memory, launch, step);
                        run.departures = self.memory.departures();
                        running.remaining = (run.position(run.target) - from).max(0.0);
                        false
                    }
                },
                Body::Transfer { .. } => !self.next_segment(&mut running),
            };
            if over {
                self.finish(op, running);
            } else {
                self.running.insert(op, running);
            }
        }
    }

    fn next_segment(&mut self, running: &mut Running) -> bool {
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

    fn finish(&mut self, op: OpId, running: Running) {
        if matches!(running.body, Body::Kernel(_)) {
            self.totals.kernels += 1;
        }
        let completion =
            Completion { op, context: running.context, at: Nanos(self.now), stats: running.stats };
        self.done.push(completion);
    }

    /// Takes the next faulting kernel's step into service: memory changes hands now, the time follows.
    fn begin_service(&mut self) {
        let Some(op) = self.fault_queue.pop_front() else { return };
        let Some(running) = self.running.get_mut(&op) else { return };
        let Body::Kernel(run) = &running.body else { return };
        let Some((launch, step)) = run.target else { return };
        let mut batch = Batch::default();
        run.sweep.pieces(launch, step, |piece| {
            let admitted = self.memory.admit(piece.alloc, piece.start, piece.end);
            let here = (admitted.from_host_bytes + admitted.zeroed_bytes) as f64 / BLOCK_BYTES as f64;
            batch.blocks += f64::from(admitted.blocks);
            batch.regions += here * regions_per_block(piece.density, piece.random);
            batch.moved += admitted.from_host_bytes as f64 * moved_part(piece.density, piece.random);
            batch.zeroed += admitted.zeroed_bytes as f64;
            batch.remote += admitted.refused_bytes as f64 * piece.density;
            batch.evicted.blocks += admitted.evicted.blocks;
            batch.evicted.bytes += admitted.evicted.bytes;
            batch.random |= piece.random;
        });
        let ns = batch.ns(&self.card, &self.options);
        let moved = Moved {
            faulted_bytes: batch.moved as u64,
            evicted_bytes: batch.evicted.bytes,
            ..Moved::default()
        };
        running.stats.moved += moved;
        running.stats.faulted_blocks += batch.blocks as u64;
        running.stats.evicted_blocks += u64::from(batch.evicted.blocks);
        running.stats.paging.0 += (ns * (1.0 - self.options.overlap)) as u64;
        running.remaining = -ns * self.options.overlap;
        self.totals.moved += moved;
        self.totals.faulted_blocks += batch.blocks as u64;
        self.totals.evicted_blocks += u64::from(batch.evicted.blocks);
        let span = ns.max(1.0);
        self.service = Some(Service {
            op,
            context: running.context,
            until: self.now + ns.ceil() as u64,
            in_rate: batch.moved / span,
            out_rate: batch.evicted.bytes as f64 / span,
        });
    }

    /// The faulted step goes on whatever happened to its blocks meanwhile, so that tiny memories make progress too.
    fn end_service(&mut self) {
        let Some(service) = self.service.take() else { return };
        let Some(running) = self.running.get_mut(&service.op) else { return };
        let Body::Kernel(run) = &mut running.body else { return };
        let Some((launch, step)) = run.target else { return };
        let from = run.position(run.target);
        run.faulting = false;
        run.paid = (launch, step + 1);
        run.target = run.sweep.next_miss(&self.memory, launch, step + 1);
        run.departures = self.memory.departures();
        // `remaining` holds the (negative) part of the step that ran during the batch.
        running.remaining = (run.position(run.target) - from + running.remaining).max(0.0);
    }

    /// Computes targets, rates and the next moment anew.
    fn settle(&mut self) {
        if self.service.is_none() {
            self.begin_service();
        }
        self.retarget();
        self.rate_transfers();
        self.rate_kernels();
        let now = self.now;
        for running in self.running.values_mut() {
            let waiting = matches!(&running.body, Body::Kernel(run) if run.faulting);
            running.stop = if waiting {
                None
            } else if running.remaining <= 1e-6 {
                Some(now)
            } else if running.rate > 0.0 {
                // Rates are 0 or not tiny, so this is far from the end of time even for a kernel that gets the leavings.
                Some(now.saturating_add((running.remaining / running.rate).ceil() as u64))
            } else {
                None
            };
        }
        let stops = self.running.values().filter_map(|r| r.stop);
        self.next_at = stops.chain(self.service.as_ref().map(|s| s.until)).min();
    }

    /// Kernels that would now fault earlier, because something left the device.
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

    fn rate_transfers(&mut self) {
        let (mut to_device, mut to_host, mut outward) = (Vec::new(), Vec::new(), false);
        for (&op, running) in &self.running {
            let Body::Transfer { segment, .. } = &running.body else { continue };
            outward |= segment.engine == Engine::ToHost || segment.evicts;
            match segment.engine {
                Engine::ToDevice => to_device.push((op, segment.cap)),
                Engine::ToHost => to_host.push((op, segment.cap)),
                Engine::Host | Engine::Dram => {}
            }
        }
        let link = &self.card.link;
        let duplex = if outward { self.options.duplex.unwrap_or(link.duplex_factor) } else { 1.0 };
        let (batch_in, batch_out) = self.service.as_ref().map_or((0.0, 0.0), |s| (s.in_rate, s.out_rate));
        let down = link.copy_to_device_bytes_per_s / 1e9;
        let up = link.copy_to_host_bytes_per_s / 1e9;
        let mut given: BTreeMap<OpId, f64> = BTreeMap::new();
        for (flows, capacity) in [
            (to_device, (down * duplex - batch_in).max(down * LINK_FLOOR)),
            (to_host, (up - batch_out).max(up * LINK_FLOOR)),
        ] {
            let caps: Vec<f64> = flows.iter().map(|f| f.1).collect();
            given.extend(flows.iter().map(|f| f.0).zip(split(capacity, &caps)));
        }
        for (op, running) in &mut self.running {
            if let Body::Transfer { segment, .. } = &running.body {
                running.rate = given.get(op).copied().unwrap_or(segment.cap);
            }
        }
    }

    /// With MPS one pool; without it equal slices of whole contexts, and none but the faulting one while a batch is in
    /// service ("fault and stall", UM model §1.5 and §2.2).
    fn rate_kernels(&mut self) {
        let mut pools: BTreeMap<ContextId, Vec<(OpId, Demand)>> = BTreeMap::new();
        let stalled_by = self.service.as_ref().map(|s| s.context).filter(|_| !self.options.mps);
        for (&op, running) in &mut self.running {
            let Body::Kernel(run) = &running.body else { continue };
            running.rate = 0.0;
            if run.faulting || stalled_by.is_some_and(|context| context != running.context) {
                continue;
            }
            let pool = if self.options.mps { ContextId(0) } else { running.context };
            let demand = Demand { level: run.priority, first: run.work.dram, second: run.work.sm };
            pools.entry(pool).or_default().push((op, demand));
        }
        let slice = self.options.slice.0 as f64;
        let kept = slice / (slice + self.options.slice_switch.0 as f64);
        let part = if pools.len() > 1 { kept / pools.len() as f64 } else { 1.0 };
        for pool in pools.values() {
            let demands: Vec<Demand> = pool.iter().map(|p| p.1).collect();
            for ((op, _), rate) in pool.iter().zip(rates(&demands)) {
                if let Some(running) = self.running.get_mut(op) {
                    running.rate = rate * part;
                }
            }
        }
    }

    /// Frees an allocation. Freeing synchronises in CUDA, so no kernel should be using it; one that does finds nothing
    /// to fault there.
    pub fn release(&mut self, alloc: AllocId) -> bool {
        let known = self.memory.release(alloc);
        self.settle();
        known
    }
}

const IDLE: Segment = Segment { engine: Engine::Host, amount: 0.0, cap: 1.0, evicts: false };

#[derive(Debug, Default)]
struct Batch {
    blocks: f64,
    regions: f64,
    moved: f64,
    zeroed: f64,
    remote: f64,
    evicted: Evicted,
    random: bool,
}

impl Batch {
    /// Time of the batches that serve one step (UM model §4.3).
    fn ns(&self, card: &Card, options: &Options) -> f64 {
        let link = &card.link;
        let remote_ns = self.remote / (link.copy_to_device_bytes_per_s / 1e9 * REMOTE_EFFICIENCY);
        if self.blocks == 0.0 {
            return remote_ns + eviction_ns(card, &self.evicted);
        }
        let batch_ns = link.batch_ns * options.batch_factor;
        let move_ns = self.moved / (link.migrate_bytes_per_s * options.migrate_factor / 1e9);
        let zero_ns = self.zeroed / (0.5 * card.dram_bytes_per_s / 1e9);
        let fetch_ns = if options.prefetcher {
            let by_blocks = self.blocks / f64::from(options.batch_blocks.max(1));
            let batches =
                if self.random { (self.regions / BATCH_REGIONS).max(by_blocks / 4.0) } else { by_blocks };
            batches.ceil() * batch_ns + self.blocks * link.block_ns + move_ns
        } else {
            let pages = self.regions * (BLOCK_BYTES as f64 / 32.0 / PAGE_BYTES);
            let batches = (pages / FAULTS_PER_BATCH).ceil();
            let blocks = BLOCKS_PER_BATCH_UNPREFETCHED.min(self.blocks) * batches;
            DUPLICATES * (batches * batch_ns + blocks * link.block_ns + move_ns + pages * link.page_ns)
        };
        fetch_ns + zero_ns + remote_ns + eviction_ns(card, &self.evicted)
    }
}
