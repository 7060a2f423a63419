//! The fault server of a device: one batch at a time, in the order in which kernels faulted (specification S-502).
//!
//! Residency changes when a batch begins, before its time has passed.

use crate::card::Card;
use crate::device::{Body, Device};
use crate::kernel::{moved_part, regions_per_block};
use crate::options::Options;
use crate::residency::{BLOCK_BYTES, Evicted};
use crate::transfer::eviction_ns;
use crate::{ContextId, Moved, OpId};

/// Regions of 64 KiB that a batch of scattered faults serves: one fault each, 256 per batch (specification S-502,
/// S-611).
const BATCH_REGIONS: f64 = 256.0;
/// VA blocks in a batch when the prefetcher is off (10–60: specification S-612).
const BLOCKS_PER_BATCH_UNPREFETCHED: f64 = 20.0;
/// Duplicate faults and replays when the prefetcher is off (specification S-612).
const DUPLICATES: f64 = 1.5;
const PAGE_BYTES: f64 = 4096.0;
const FAULTS_PER_BATCH: f64 = 256.0;
/// Part of the link's rate that dense remote access reaches (0.8–0.9: specification S-614).
pub const REMOTE_EFFICIENCY: f64 = 0.85;

#[derive(Debug)]
pub struct Service {
    pub op: OpId,
    pub context: ContextId,
    pub until: u64,
    /// Link rate that the batch takes, in bytes per ns.
    pub in_rate: f64,
    pub out_rate: f64,
}

impl Device {
    /// Takes the next faulting kernel's step into service. Residency changes now, the time follows.
    pub(crate) fn begin_service(&mut self) {
        let Some(op) = self.fault_queue.pop_front() else { return };
        self.touch_running();
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
            until: self.now.saturating_add(ns.ceil() as u64),
            in_rate: batch.moved / span,
            out_rate: batch.evicted.bytes as f64 / span,
        });
    }

    /// Ends the batch in service. The faulted step proceeds even if its blocks were evicted meanwhile, so that kernels
    /// make progress in tiny memories too.
    pub(crate) fn end_service(&mut self) {
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
}

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
    /// Time of the batches that serve one step (specification S-610 to S-613).
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
        options.fault_factor * (fetch_ns + zero_ns + remote_ns + eviction_ns(card, &self.evicted))
    }
}
