//! Several devices behind one clock: the only interface for the simulator and the virtual GPU server.
//!
//! Time never goes back: a call with an earlier `now` than the last counts as made at the last.

use crate::card::Card;
use crate::device::{Device, DeviceTotals};
use crate::options::Options;
use crate::residency::{BLOCK_BYTES, Preferred};
use crate::transfer::check_range;
use crate::{
    AllocId, AllocKind, Completion, ContextId, Made, MemoryInfo, ModelError, Nanos, Op, OpId, Range,
};
use std::collections::BTreeMap;

/// Advice on managed memory: that of `cudaMemAdvise`, and `cudaMemDiscardBatchAsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Advice {
    PreferredDevice,
    /// Kernels access it over the link and never migrate it.
    PreferredHost,
    PreferredNone,
    /// The content is dead: blocks leave the device without write-back.
    Discard,
}

/// The modelled GPUs.
#[derive(Debug)]
pub struct Model {
    devices: Vec<Device>,
    options: Options,
    contexts: BTreeMap<ContextId, usize>,
    allocs: BTreeMap<AllocId, (usize, ContextId)>,
    id_next: u64,
    now: Nanos,
}

impl Model {
    pub fn new(cards: Vec<Card>, options: Options) -> Model {
        let devices = cards.into_iter().map(|card| Device::new(card, options.clone())).collect();
        Model {
            devices,
            options,
            contexts: BTreeMap::new(),
            allocs: BTreeMap::new(),
            id_next: 1,
            now: Nanos(0),
        }
    }

    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// # Panics
    /// When the device does not exist.
    pub fn card(&self, device: usize) -> &Card {
        &self.devices[device].card
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Takes the context's memory at once; the context is ready after [`Options::context_create`].
    ///
    /// # Errors
    /// No such device; out of memory.
    pub fn context_create(&mut self, now: Nanos, device: usize) -> Result<Made<ContextId>, ModelError> {
        self.run_to(now);
        let (context, op) = (ContextId(self.id()), OpId(self.id()));
        let unknown = || ModelError::Unknown(format!("device {device}"));
        let waits = self.devices.get_mut(device).ok_or_else(unknown)?.context_add(context, op)?;
        self.contexts.insert(context, device);
        Ok(Made { id: context, ready: waits.then_some(op) })
    }

    /// Frees everything that the context holds; its operations never complete.
    ///
    /// # Errors
    /// No such context.
    pub fn context_destroy(&mut self, now: Nanos, context: ContextId) -> Result<(), ModelError> {
        self.run_to(now);
        let device = self.device_of(context)?;
        self.contexts.remove(&context);
        self.allocs.retain(|_, (_, owner)| *owner != context);
        self.devices[device].context_remove(context);
        self.share_host();
        Ok(())
    }

    /// Allocates memory. Device memory is resident from now on and may evict managed blocks of any process, which takes
    /// the time of writing them back; managed memory takes no device memory yet.
    ///
    /// # Errors
    /// No such context; out of memory.
    pub fn alloc(
        &mut self,
        now: Nanos,
        context: ContextId,
        bytes: u64,
        kind: AllocKind,
    ) -> Result<Made<AllocId>, ModelError> {
        self.run_to(now);
        let device = self.device_of(context)?;
        let (alloc, op) = (AllocId(self.id()), OpId(self.id()));
        let waits = self.devices[device].allocate((alloc, bytes, kind), context, op)?;
        self.allocs.insert(alloc, (device, context));
        Ok(Made { id: alloc, ready: waits.then_some(op) })
    }

    /// # Errors
    /// No such allocation.
    pub fn free(&mut self, now: Nanos, alloc: AllocId) -> Result<(), ModelError> {
        self.run_to(now);
        let (device, _) = self.home_of(alloc)?;
        self.allocs.remove(&alloc);
        self.devices[device].release(alloc);
        Ok(())
    }

    /// Applies advice to managed memory; no effect on device memory. Moves nothing by itself.
    ///
    /// # Errors
    /// No such allocation; range outside it.
    pub fn advise(
        &mut self,
        now: Nanos,
        alloc: AllocId,
        range: Range,
        advice: Advice,
    ) -> Result<(), ModelError> {
        self.run_to(now);
        let (device, _) = self.home_of(alloc)?;
        let device = &mut self.devices[device];
        let kind = check_range(&device.memory, alloc, range)?.kind;
        if kind == AllocKind::Device || range.bytes == 0 {
            return Ok(());
        }
        let start = (range.offset / BLOCK_BYTES) as u32;
        let end = (range.offset + range.bytes).div_ceil(BLOCK_BYTES) as u32;
        let preferred = match advice {
            Advice::PreferredDevice => Preferred::Device,
            Advice::PreferredHost => Preferred::Host,
            Advice::PreferredNone => Preferred::Nowhere,
            Advice::Discard => {
                device.memory.demote(alloc, start, end, false);
                device.memory_left();
                return Ok(());
            }
        };
        device.memory.prefer(alloc, start, end, preferred);
        Ok(())
    }

    /// # Errors
    /// No such device.
    pub fn memory_info(&self, device: usize) -> Result<MemoryInfo, ModelError> {
        let unknown = || ModelError::Unknown(format!("device {device}"));
        Ok(self.devices.get(device).ok_or_else(unknown)?.memory.info())
    }

    /// Device memory that a context holds and that is never evicted: the context's own and its device allocations.
    ///
    /// # Errors
    /// No such context.
    pub fn pinned_bytes(&self, context: ContextId) -> Result<u64, ModelError> {
        Ok(self.devices[self.device_of(context)?].pinned_bytes(context))
    }

    /// Managed memory of a context that is on its device, in bytes.
    ///
    /// # Errors
    /// No such context.
    pub fn managed_bytes(&self, context: ContextId) -> Result<u64, ModelError> {
        Ok(self.devices[self.device_of(context)?].managed_bytes(context))
    }

    /// Bytes of an allocation that are on its device.
    ///
    /// # Errors
    /// No such allocation.
    pub fn resident_bytes(&self, alloc: AllocId) -> Result<u64, ModelError> {
        let (device, _) = self.home_of(alloc)?;
        Ok(self.devices[device].memory.resident_bytes(alloc))
    }

    /// Starts an operation now. The caller keeps the order within a stream.
    ///
    /// # Errors
    /// No such context or allocation; an allocation of another device; range outside it.
    pub fn submit(&mut self, now: Nanos, context: ContextId, op: Op) -> Result<OpId, ModelError> {
        self.run_to(now);
        let device = self.device_of(context)?;
        let id = OpId(self.id());
        self.devices[device].submit(id, context, op)?;
        self.share_host();
        Ok(id)
    }

    /// Time at which the state next changes by itself; `None`: nothing is under way. Not every event is a completion.
    pub fn next_event(&self) -> Option<Nanos> {
        self.devices.iter().filter_map(Device::next_event).min()
    }

    /// Advances time to `now` and appends the completions, in order of time.
    pub fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.run_to(now);
        let first = out.len();
        for device in &mut self.devices {
            device.take_done(out);
        }
        out[first..].sort_by_key(|done| (done.at, done.op));
    }

    /// Restarts time at 0 if nothing is under way, and returns whether it did. Totals of the devices are kept.
    pub fn rewind(&mut self) -> bool {
        let is_idle = self.devices.iter().all(|device| !device.busy() && device.next_event().is_none());
        if is_idle {
            self.now = Nanos(0);
            self.devices.iter_mut().for_each(Device::rewind);
        }
        is_idle
    }

    /// True if any operation is under way on the device.
    pub fn busy(&self, device: usize) -> bool {
        self.devices.get(device).is_some_and(Device::busy)
    }

    /// Totals of the device until now, including operations under way.
    ///
    /// # Errors
    /// No such device.
    pub fn totals(&mut self, now: Nanos, device: usize) -> Result<DeviceTotals, ModelError> {
        self.run_to(now);
        let unknown = || ModelError::Unknown(format!("device {device}"));
        Ok(self.devices.get(device).ok_or_else(unknown)?.totals())
    }

    /// Recomputes all sums from the extents; for tests.
    ///
    /// # Panics
    /// When a sum is wrong.
    pub fn check(&self) {
        for device in &self.devices {
            device.memory.check();
        }
    }

    fn id(&mut self) -> u64 {
        self.id_next += 1;
        self.id_next - 1
    }

    fn run_to(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        // Devices are independent, unless copies share the host's memory.
        while self.options.host_memory_bytes_per_s.is_some() {
            let next = self.devices.iter().filter_map(Device::next_change).min();
            let Some(next) = next.filter(|&next| next <= self.now.0) else { break };
            for device in &mut self.devices {
                device.run_to(Nanos(next));
            }
            self.share_host();
        }
        for device in &mut self.devices {
            device.run_to(self.now);
        }
    }

    /// Gives each host thread's copy its rate, so that all together do not exceed the host's memory.
    fn share_host(&mut self) {
        let Some(all) = self.options.host_memory_bytes_per_s else { return };
        let copies: usize = self.devices.iter().map(Device::host_copies).sum();
        let cap = self.options.host_copy_bytes_per_s.min(all / copies.max(1) as f64) / 1e9;
        for device in &mut self.devices {
            device.set_host_cap(cap);
        }
    }

    fn device_of(&self, context: ContextId) -> Result<usize, ModelError> {
        let unknown = || ModelError::Unknown(format!("context {}", context.0));
        self.contexts.get(&context).copied().ok_or_else(unknown)
    }

    fn home_of(&self, alloc: AllocId) -> Result<(usize, ContextId), ModelError> {
        let unknown = || ModelError::Unknown(format!("allocation {}", alloc.0));
        self.allocs.get(&alloc).copied().ok_or_else(unknown)
    }
}
