//! A CUDA runtime that records its calls.

use crate::pages::Pages;
use crate::runtime::{
    Copy, CudaError, CudaResult, DeviceIndex, HostCopy, How, Launch, Order, Pitched, Priority, Rows, Runtime,
    Setting, Span, StreamFlags, StreamId,
};
use eager_proto::hello::Uuid;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
struct CudaState {
    log: Vec<String>,
    device: i32,
    has_context: bool,
    live: BTreeMap<u64, u64>,
    next_address: u64,
    next_stream: usize,
    busy: BTreeSet<StreamId>,
    /// The stream that each event waits for.
    events: BTreeMap<usize, Option<StreamId>>,
    arguments: Vec<u64>,
    fail_malloc: bool,
    full: bool,
    joined_capture: Option<StreamId>,
    hidden: u64,
    /// Bytes that each launch takes of the device; if below 0, bytes that others free.
    taken_at_launch: i64,
    /// Bytes of the pieces in which the driver takes device memory; 0: it takes what is needed.
    piece: u64,
    /// Bytes that the driver has taken and not used.
    pool: u64,
    /// Managed memory that was moved to the device, by allocation.
    moved: BTreeMap<u64, u64>,
    /// Device memory is not freed when its pages move to the host.
    keeps_moved: bool,
    /// Pages that moved to the device and are not mapped for the CPU; `None`: all stay mapped.
    away: Option<BTreeSet<u64>>,
    /// Any work unmaps all pages.
    unmaps_all: bool,
    touched_at_launch: Vec<Span>,
    granularity: Option<u64>,
    /// Reserved addresses are adjacent.
    touching: bool,
    no_pinned: bool,
    fail_copies: bool,
}

/// UUID of the device with a number.
pub fn uuid(number: i32) -> Uuid {
    u128::from(number.unsigned_abs() + 1).to_be_bytes()
}

const PAGE: u64 = 4096;

fn pages_of(span: Span) -> std::ops::Range<u64> {
    span.start / PAGE..(span.start + span.bytes).div_ceil(PAGE)
}

/// Host memory from this address on is page-locked.
pub const PINNED: u64 = 0x7f00_0000_0000;

impl CudaState {
    fn send(&mut self, span: Span) {
        let whole: Vec<Span> = self.live.iter().map(|(&start, &bytes)| Span { start, bytes }).collect();
        let unmapped = if self.unmaps_all { whole } else { vec![span] };
        self.away.iter_mut().for_each(|away| away.extend(unmapped.iter().copied().flat_map(pages_of)));
    }

    fn take_managed(&mut self, bytes: u64) {
        let missing = bytes.saturating_sub(self.pool);
        let taken = if self.piece == 0 { missing } else { missing.next_multiple_of(self.piece) };
        self.hidden += taken;
        self.pool = self.pool + taken - bytes;
    }
}

/// Work of another thread of the program while a call is under way.
type Meanwhile = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct FakeCuda(Mutex<CudaState>, Mutex<Vec<(String, Meanwhile)>>);

impl std::fmt::Debug for FakeCuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeCuda")
    }
}

impl FakeCuda {
    /// Calls since the last look.
    pub fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().log)
    }

    pub fn set_arguments(&self, arguments: &[u64]) {
        self.0.lock().arguments = arguments.to_vec();
    }

    pub fn fail_malloc(&self, fail: bool) {
        self.0.lock().fail_malloc = fail;
    }

    /// Acts like a library of the program that has called CUDA by itself.
    pub fn make_context(&self) {
        self.0.lock().has_context = true;
    }

    /// Leaves no room for plain memory on any device.
    pub fn fill_up(&self) {
        self.0.lock().full = true;
    }

    /// Makes each launch take this many bytes of the device from now on.
    pub fn take_at_launch(&self, bytes: i64) {
        self.0.lock().taken_at_launch = bytes;
    }

    /// Makes the driver take device memory in pieces of this size, and keep the rest of each.
    pub fn take_in_pieces(&self, bytes: u64) {
        self.0.lock().piece = bytes;
    }

    /// Acts like a real GPU's driver: pages that move to the device are unmapped for the CPU, and memory that the
    /// driver took for them stays taken when they move back.
    pub fn unmap_moved(&self) {
        let mut state = self.0.lock();
        (state.away, state.keeps_moved) = (Some(BTreeSet::new()), true);
    }

    /// Makes work of the device unmap all pages for the CPU.
    pub fn unmap_everything(&self) {
        let mut state = self.0.lock();
        (state.away, state.unmaps_all) = (Some(BTreeSet::new()), true);
    }

    /// Makes moves invisible, both in the pages and in the free memory.
    pub fn keep_moved(&self) {
        self.0.lock().keeps_moved = true;
    }

    /// Makes each launch touch these spans from now on.
    pub fn touch_at_launch(&self, spans: &[Span]) {
        self.0.lock().touched_at_launch = spans.to_vec();
    }

    /// Bytes that libraries hold on the device, which the shim did not allocate.
    pub fn set_hidden(&self, bytes: u64) {
        self.0.lock().hidden = bytes;
    }

    /// Leaves the host no memory to lock.
    pub fn lack_pinned(&self) {
        self.0.lock().no_pinned = true;
    }

    pub fn fail_copies(&self, fail: bool) {
        self.0.lock().fail_copies = fail;
    }

    /// Makes the device map memory, in pieces of this size.
    pub fn map_by(&self, granularity: u64) {
        self.0.lock().granularity = Some(granularity);
    }

    /// Makes reserved addresses adjacent from now on.
    pub fn lay_side_by_side(&self) {
        let mut state = self.0.lock();
        (state.touching, state.next_address) = (true, 0x100_0000_0000);
    }

    /// Adds a line to the log.
    pub fn mark(&self, line: &str) {
        self.note(line.to_owned());
    }

    /// A stream that takes part in a capture without having begun it.
    pub fn join_capture(&self, stream: StreamId) {
        self.0.lock().joined_capture = Some(stream);
    }

    /// Ends all kernels.
    pub fn finish_kernels(&self) {
        let mut state = self.0.lock();
        state.busy.clear();
        state.events.values_mut().for_each(|waits| *waits = None);
    }

    pub fn live_bytes(&self) -> u64 {
        self.0.lock().live.values().sum()
    }

    /// Runs `meanwhile` inside the next call whose line in the log begins so.
    pub fn during(&self, line: &str, meanwhile: impl FnOnce() + Send + 'static) {
        self.1.lock().push((line.to_owned(), Box::new(meanwhile)));
    }

    /// Number of events that are not destroyed.
    pub fn event_count(&self) -> usize {
        self.0.lock().events.len()
    }

    fn note(&self, line: String) {
        let mut waiting = self.1.lock();
        let found = waiting.iter().position(|(wanted, _)| line.starts_with(wanted.as_str()));
        let found = found.map(|index| waiting.remove(index).1);
        drop(waiting);
        self.0.lock().log.push(line);
        found.into_iter().for_each(|meanwhile| meanwhile());
    }

    fn allocate(&self, what: &str, bytes: u64) -> CudaResult<u64> {
        let mut state = self.0.lock();
        if state.fail_malloc {
            return Err(CudaError::MEMORY_ALLOCATION);
        }
        state.next_address += 0x1_0000_0000;
        let address = state.next_address;
        state.live.insert(address, bytes);
        let device = state.device;
        drop(state);
        self.note(format!("{what} {bytes} on {device}"));
        Ok(address)
    }
}

impl Runtime for Arc<FakeCuda> {
    fn device_count(&self) -> CudaResult<i32> {
        Ok(4)
    }

    fn device_uuid(&self, device: DeviceIndex) -> Option<Uuid> {
        Some(uuid(device.0))
    }

    fn has_context(&self) -> bool {
        self.0.lock().has_context
    }

    fn set_device(&self, device: DeviceIndex) -> CudaResult<()> {
        if device == DeviceIndex::NONE {
            return Err(CudaError::INVALID_DEVICE);
        }
        self.make_context();
        self.0.lock().device = device.0;
        self.note(format!("device {}", device.0));
        Ok(())
    }

    fn device_synchronize(&self) -> CudaResult<()> {
        self.finish_kernels();
        self.note("device sync".into());
        Ok(())
    }

    fn device_reset(&self) -> CudaResult<()> {
        self.0.lock().live.clear();
        self.note("device reset".into());
        Ok(())
    }

    fn malloc(&self, bytes: u64) -> CudaResult<Option<u64>> {
        if self.0.lock().full {
            return Ok(None);
        }
        self.allocate("malloc", bytes).map(Some)
    }

    fn malloc_managed(&self, bytes: u64, _flags: u32) -> CudaResult<u64> {
        self.allocate("managed", bytes)
    }

    fn malloc_pitch(&self, width: u64, height: u64) -> CudaResult<Option<Pitched>> {
        let pitch = width.next_multiple_of(256);
        if self.0.lock().full {
            return Ok(None);
        }
        self.allocate("pitched", pitch * height).map(|start| Some(Pitched { start, pitch }))
    }

    fn malloc_async(&self, bytes: u64, stream: StreamId, pool: Option<usize>) -> CudaResult<Option<u64>> {
        if self.0.lock().full {
            return Ok(None);
        }
        let pool = pool.map(|pool| format!(" of pool {pool}")).unwrap_or_default();
        self.allocate(&format!("malloc on stream {}{pool}", stream.0), bytes).map(Some)
    }

    fn free_async(&self, address: u64, stream: StreamId) -> CudaResult<()> {
        let bytes = self.0.lock().live.remove(&address).ok_or(CudaError::INVALID_VALUE)?;
        self.note(format!("free {bytes} on stream {}", stream.0));
        Ok(())
    }

    fn free(&self, address: u64) -> CudaResult<()> {
        let mut state = self.0.lock();
        // The allocation's pieces are freed on the device, not kept in the pool.
        let moved = state.moved.remove(&address).unwrap_or_default();
        state.hidden -= moved;
        let bytes = state.live.remove(&address).ok_or(CudaError::INVALID_VALUE)?;
        let device = state.device;
        drop(state);
        self.note(format!("free {bytes} on {device}"));
        Ok(())
    }

    fn map_granularity(&self, _device: DeviceIndex) -> Option<u64> {
        self.0.lock().granularity
    }

    fn reserve(&self, bytes: u64) -> CudaResult<Span> {
        let mut state = self.0.lock();
        let start = state.next_address + if state.touching { 0 } else { 0x1_0000_0000 };
        state.next_address = if state.touching { start + bytes } else { start };
        state.log.push(format!("reserve {bytes}"));
        Ok(Span { start, bytes })
    }

    fn unreserve(&self, reserved: Span, is_mapped: bool) -> CudaResult<()> {
        if is_mapped {
            self.unmap_memory(reserved)?;
        }
        if self.0.lock().live.contains_key(&reserved.start) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.note(format!("unreserve {}", reserved.bytes));
        Ok(())
    }

    fn map_memory(&self, reserved: Span, device: DeviceIndex) -> CudaResult<Option<()>> {
        if self.0.lock().full {
            return Ok(None);
        }
        self.0.lock().live.insert(reserved.start, reserved.bytes);
        self.note(format!("map {} on {}", reserved.bytes, device.0));
        Ok(Some(()))
    }

    fn unmap_memory(&self, reserved: Span) -> CudaResult<()> {
        self.0.lock().live.remove(&reserved.start).ok_or(CudaError::INVALID_VALUE)?;
        self.note(format!("unmap {}", reserved.bytes));
        Ok(())
    }

    fn prefer_device(&self, span: Span, device: DeviceIndex) -> CudaResult<()> {
        self.note(format!("prefer {} for {}", device.0, span.bytes));
        Ok(())
    }

    fn prefetch(&self, span: Span, device: DeviceIndex, stream: StreamId) -> CudaResult<()> {
        self.note(format!("prefetch {} to {} on stream {}", span.bytes, device.0, stream.0));
        Ok(())
    }

    fn malloc_host(&self, bytes: u64) -> Option<u64> {
        self.note(format!("pinned {bytes}"));
        (!self.0.lock().no_pinned).then_some(PINNED)
    }

    fn free_host(&self, _address: u64) {
        self.note("free pinned".into());
    }

    fn map_host(&self, bytes: u64) -> CudaResult<u64> {
        let mut state = self.0.lock();
        state.next_address += 0x1_0000_0000;
        state.log.push(format!("map {bytes} of the host"));
        Ok(PINNED + state.next_address)
    }

    fn unmap_host(&self, memory: Span) {
        self.note(format!("unmap {} of the host", memory.bytes));
    }

    fn lock_host(&self, memory: Span) -> CudaResult<()> {
        if self.0.lock().no_pinned {
            return Err(CudaError::MEMORY_ALLOCATION);
        }
        self.note(format!("page-lock {}", memory.bytes));
        Ok(())
    }

    fn unlock_host(&self, _start: u64) -> CudaResult<()> {
        self.note("unlock".to_owned());
        Ok(())
    }

    fn is_pageable(&self, address: u64) -> bool {
        address < PINNED
    }

    fn discard(&self, span: Span) -> CudaResult<()> {
        self.note(format!("discard {}", span.bytes));
        Ok(())
    }

    fn move_to_host(&self, span: Span) -> CudaResult<()> {
        let mut state = self.0.lock();
        let owner = state.live.range(..=span.start).next_back().map(|(&start, _)| start);
        if !state.keeps_moved
            && let Some(moved) = owner.and_then(|owner| state.moved.remove(&owner))
        {
            state.hidden -= moved;
        }
        drop(state);
        self.note(format!("to the host {}", span.bytes));
        Ok(())
    }

    fn move_to_device(&self, span: Span) -> CudaResult<()> {
        let mut state = self.0.lock();
        let owner = state.live.range(..=span.start).next_back().map(|(&start, _)| start);
        *state.moved.entry(owner.ok_or(CudaError::INVALID_VALUE)?).or_default() += span.bytes;
        state.send(span);
        state.take_managed(span.bytes);
        Ok(())
    }

    fn read_on_host(&self, span: Span) {
        let mut state = self.0.lock();
        if let Some(away) = &mut state.away {
            away.retain(|page| !pages_of(span).contains(page));
        }
    }

    fn pages(&self, span: Span) -> Option<Pages> {
        let state = self.0.lock();
        let mapped = |page| !state.away.as_ref().is_some_and(|away| away.contains(&page));
        Some(Pages { span, page_bytes: PAGE, mapped: pages_of(span).map(mapped).collect() })
    }

    fn copy(&self, copy: &Copy) -> CudaResult<()> {
        let rows = if copy.rows == Rows::ONE { String::new() } else { format!("{} x ", copy.rows.count) };
        let on = if let Order::On(stream) = copy.order {
            format!(" on stream {}", stream.0)
        } else {
            String::new()
        };
        self.note(format!("copy {rows}{} kind {}{on}", copy.bytes, copy.kind.0));
        if self.0.lock().fail_copies { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
    }

    fn copy_on_host(&self, _dst: u64, _src: u64, bytes: u64) {
        self.note(format!("host copy {bytes}"));
    }

    fn fill_on_host(&self, _dst: u64, value: u8, bytes: u64) {
        self.note(format!("host fill {bytes} with {value}"));
    }

    fn launch(&self, launch: &Launch) -> CudaResult<()> {
        let mut state = self.0.lock();
        state.busy.insert(launch.stream);
        match u64::try_from(state.taken_at_launch) {
            Ok(taken) => state.take_managed(taken),
            Err(_) => state.hidden = state.hidden.saturating_add_signed(state.taken_at_launch),
        }
        state.touched_at_launch.clone().into_iter().for_each(|span| state.send(span));
        drop(state);
        let what = match launch.how {
            How::Plain => "launch".to_owned(),
            how => format!("launch {how:?}"),
        };
        self.note(format!("{what} on stream {}", launch.stream.0));
        Ok(())
    }

    fn argument_words(&self, _args: usize, _sizes: &[u32]) -> Vec<u64> {
        self.0.lock().arguments.clone()
    }

    fn stream_create(&self, _flags: StreamFlags, priority: Priority) -> CudaResult<StreamId> {
        let mut state = self.0.lock();
        state.next_stream += 1;
        let stream = StreamId(0x100 + state.next_stream);
        state.log.push(format!("stream {} {priority:?}", stream.0));
        Ok(stream)
    }

    fn stream_destroy(&self, stream: StreamId) -> CudaResult<()> {
        self.note(format!("destroy stream {}", stream.0));
        Ok(())
    }

    fn stream_synchronize(&self, stream: StreamId) -> CudaResult<()> {
        {
            let mut state = self.0.lock();
            state.busy.remove(&stream);
            state.events.values_mut().filter(|waits| **waits == Some(stream)).for_each(|waits| *waits = None);
        }
        self.note(format!("sync stream {}", stream.0));
        Ok(())
    }

    fn stream_query(&self, stream: StreamId) -> CudaResult<bool> {
        Ok(!self.0.lock().busy.contains(&stream))
    }

    fn stream_is_capturing(&self, stream: StreamId) -> bool {
        self.0.lock().joined_capture == Some(stream)
    }

    fn stream_wait_event(&self, stream: StreamId, event: usize, _flags: u32) -> CudaResult<()> {
        self.note(format!("stream {} waits for event {event}", stream.0));
        Ok(())
    }

    fn apply(&self, setting: Setting) {
        let device = self.0.lock().device;
        self.note(format!("apply {setting:?} on {device}"));
    }

    fn free_bytes(&self) -> CudaResult<u64> {
        let state = self.0.lock();
        Ok((1u64 << 40) - state.hidden - state.live.values().sum::<u64>())
    }

    fn order_streams(&self, earlier: StreamId, later: StreamId) -> CudaResult<()> {
        self.note(format!("order {} before {}", earlier.0, later.0));
        Ok(())
    }

    fn record_event(&self, stream: StreamId) -> CudaResult<usize> {
        let mut state = self.0.lock();
        state.next_stream += 1;
        let event = state.next_stream;
        // The event completes when the work now on the stream has ended.
        let is_busy = state.busy.contains(&stream);
        state.events.insert(event, is_busy.then_some(stream));
        Ok(event)
    }

    fn event_query(&self, event: usize) -> CudaResult<bool> {
        Ok(self.0.lock().events.get(&event).is_some_and(Option::is_none))
    }

    fn event_destroy(&self, event: usize) {
        self.0.lock().events.remove(&event);
    }

    fn keep_source(&self, copy: &Copy) -> Option<HostCopy> {
        let bytes = copy.bytes * copy.rows.count;
        self.note(format!("keep {bytes}"));
        let mut kept = HostCopy::with_room(bytes)?;
        kept.data().resize(bytes as usize, 0);
        Some(kept)
    }

    fn event_synchronize(&self, event: usize) -> CudaResult<()> {
        {
            let mut state = self.0.lock();
            if let Some(Some(stream)) = state.events.insert(event, None) {
                state.busy.remove(&stream);
            }
        }
        self.note("event sync".into());
        Ok(())
    }

    fn provoke_out_of_memory(&self) {
        self.note("provoke out of memory".into());
    }
}
