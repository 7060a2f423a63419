//! Clusters of blocks: blocks that run at the same time, wait for each other, and reach each other's shared memory.
//!
//! The blocks of a cluster take turns on one thread, each in its own worker. A thread arrives at the cluster's barrier
//! and waits there in two steps (PTX ISA 9.0, "barrier.cluster"); the barrier opens when every thread of the cluster
//! that has not exited has arrived. Trap: the clusters of a grid run one after the other on each thread, so a cluster
//! may wait for another only in kernels whose blocks the compiler saw wait for each other; all clusters of such a grid
//! take turns.

use core::cell::Cell;
use core::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::abi::{ClusterView, Wait};
use crate::fault::Fault;
use crate::schedule::{Round, WaitKind};
use crate::worker::{Grid, Worker};

/// State of a thread at its cluster's barrier: the last phase in which it arrived, counted from 1.
pub(crate) type Arrived = u32;

/// State shared by the blocks of a cluster.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Phase of the barrier that is open now, from 1: it rises by one with each opening.
    pub phase: Cell<Arrived>,
    /// Something happened at the barrier that may let a block continue.
    pub moved: Cell<bool>,
}

/// Performs the barrier steps of a block's threads, called when no warp can continue by itself. True if some thread can
/// now.
pub(crate) fn step(waits: &mut [Wait], arrived: &mut [Arrived], shared: &Shared) -> bool {
    let phase = shared.phase.get();
    let mut released = false;
    for (wait, arrived) in waits.iter_mut().zip(arrived) {
        match WaitKind::from_number(wait.kind) {
            WaitKind::ClusterArrive => *arrived = phase,
            WaitKind::ClusterWait if *arrived < phase => {}
            _ => continue,
        }
        wait.kind = WaitKind::Nothing as u32;
        released = true;
    }
    shared.moved.set(shared.moved.get() || released);
    released
}

/// True if some thread of a block waits at the cluster's barrier.
pub(crate) fn awaits(waits: &[Wait]) -> bool {
    waits.iter().any(|wait| wait.kind == WaitKind::ClusterWait as u32)
}

/// Clusters that run on one thread together.
pub(crate) struct Clusters<'a> {
    pub grid: &'a Grid,
    pub args: &'a [*const c_void],
    /// Returns a worker that is prepared for blocks of the grid.
    pub prepared: &'a dyn Fn() -> Box<Worker>,
    /// Index of the next cluster that has not started.
    pub next: &'a AtomicU64,
    /// True when another thread found that the launch has failed.
    pub failed: &'a dyn Fn() -> bool,
    /// Workers without a block.
    #[expect(clippy::vec_box, reason = "the threads of a worker's block know its address")]
    pub free: Vec<Box<Worker>>,
}

/// A cluster under way.
struct Cluster {
    shared: Box<Shared>,
    blocks: Vec<Block>,
    /// Every block's shared memory, by rank; the blocks' views point here.
    _memory: Vec<*mut u8>,
    _views: Vec<ClusterView>,
}

struct Block {
    index: u64,
    worker: Box<Worker>,
    begun: bool,
    ended: bool,
}

impl Clusters<'_> {
    /// # Errors
    /// The kernel faulted, or its threads wait for each other.
    ///
    /// # Safety
    /// As for [`Worker::run`].
    pub unsafe fn run(&mut self) -> Result<(), Fault> {
        let [x, y, z] = self.grid.clusters();
        let count = u64::from(x) * u64::from(y) * u64::from(z);
        loop {
            let mut together = Vec::new();
            while let Some(number) = Some(self.next.fetch_add(1, Relaxed)).filter(|&number| number < count) {
                together.push(self.cluster(number));
                if !self.grid.blocks_may_wait {
                    break;
                }
            }
            if together.is_empty() || (self.failed)() {
                return Ok(());
            }
            // SAFETY: the caller's promise.
            let run = unsafe { self.turns(&mut together) };
            self.free
                .extend(together.into_iter().flat_map(|cluster| cluster.blocks).map(|block| block.worker));
            run?;
        }
    }

    fn cluster(&mut self, number: u64) -> Cluster {
        let sizes = self.grid.cluster;
        let [cx, cy, _] = self.grid.clusters();
        let at = |number: u64, x: u32, y: u32| {
            let (x, y) = (u64::from(x), u64::from(y));
            [(number % x) as u32, (number / x % y) as u32, (number / (x * y)) as u32]
        };
        let cluster = at(number, cx, cy);
        let count: u32 = sizes.iter().product();
        let shared = Box::new(Shared { phase: Cell::new(1), moved: Cell::new(false) });
        let workers: Vec<Box<Worker>> =
            (0..count).map(|_| self.free.pop().unwrap_or_else(|| (self.prepared)())).collect();
        let memory: Vec<*mut u8> = workers.iter().map(|worker| worker.shared_memory()).collect();
        let view = |rank: u32| ClusterView {
            shared: memory.as_ptr(),
            rank,
            count,
            block: at(rank.into(), sizes[0], sizes[1]),
            sizes,
            cluster,
            clusters: self.grid.clusters(),
        };
        let views: Vec<ClusterView> = (0..count).map(view).collect();
        let mut blocks = Vec::new();
        for (view, mut worker) in views.iter().zip(workers) {
            worker.join(view, &shared);
            let [x, y, z] = [0, 1, 2].map(|axis| u64::from(cluster[axis] * sizes[axis] + view.block[axis]));
            let [gx, gy, _] = self.grid.grid.map(u64::from);
            blocks.push(Block { index: (z * gy + y) * gx + x, worker, begun: false, ended: false });
        }
        Cluster { shared, blocks, _memory: memory, _views: views }
    }

    /// Runs clusters until all have ended.
    ///
    /// # Safety
    /// As for [`Worker::run`].
    unsafe fn turns(&self, clusters: &mut [Cluster]) -> Result<(), Fault> {
        loop {
            let (mut all_ended, mut moved, mut polls) = (true, false, false);
            for cluster in clusters.iter_mut() {
                for block in cluster.blocks.iter_mut().filter(|block| !block.ended) {
                    // SAFETY: the caller's promise; the block resumes in the worker that it began in.
                    let round = unsafe { block.worker.run(self.grid, block.index, self.args, block.begun)? };
                    moved |= !block.begun;
                    block.begun = true;
                    block.ended = round != Round::Yielded;
                    moved |= block.ended;
                    all_ended &= block.ended;
                    polls |= block.worker.polls();
                }
                moved |= cluster.shared.moved.replace(false);
                let phase = cluster.shared.phase.get();
                let waits = cluster.blocks.iter().any(|block| !block.ended);
                if waits && cluster.blocks.iter().all(|block| block.worker.has_arrived(phase)) {
                    cluster.shared.phase.set(phase + 1);
                    moved = true;
                }
            }
            if all_ended || (self.failed)() {
                return Ok(());
            }
            if !moved && !polls {
                return Err(Fault::Stuck(None));
            }
        }
    }
}
