//! The process-wide state behind the calls: made at the first call that needs a device, kept until the process ends.
//!
//! Trap: locks must be taken in the order of the fields of [`Runtime`] and never be held while waiting for a stream. An
//! error of asynchronous work has no caller; it is kept and returned by every later call, as on a real device.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use eager_gpu_model::{self as model, AllocId, AllocKind, Op, Range};
use eager_vgpu_link::{Backend, DeviceInfo, LinkError, Refusal, Reply, Request};
use eager_vgpud::{Embedded, EmbeddedConfig};
use parking_lot::Mutex;

use crate::clock;
use crate::command::{Command, Discarded, in_host_function};
use crate::config::{Config, Devices};
use crate::ending;
use crate::event::Event;
use crate::forked;
use crate::graph::{self, Graphs};
use crate::kernel::copies;
use crate::kernel::{BlockSizes, Compute, Profile, TimeLimits, forget_managed, managed_at, variable_at};
use crate::log::log_line;
use crate::memory::{
    Advice, Allocation, Arena, Array, HostWatch, Images, Kind, Memory, Pools, Table, VirtualMemory,
};
use crate::server;
use crate::status::{Code, code_of};
use crate::stream::{Completion, NoStream, StreamKey, Streams, Unqueued, Work};
use crate::strict_mode::StrictMode;
use crate::trace;
use crate::transfer::{DeviceOp, Direction, Extent, Place, Region, copy_ops};
use crate::visible;

/// Size of the model's blocks of managed memory.
const MODEL_BLOCK_BYTES: u64 = 2 << 20;
const PAGE_BYTES: u64 = 4 << 10;
/// Addresses in the arena as a multiple of all devices' memory, because managed memory may exceed it (specification
/// S-636).
const ARENA_OVERSUBSCRIPTION: u64 = 8;
const ARENA_BYTES_MIN: u64 = 16 << 30;
const ARENA_BYTES_MAX: u64 = 4 << 40;

#[derive(Debug)]
pub struct Runtime {
    backend: Arc<dyn Backend>,
    /// Devices that the program sees, by its numbers, as at the start; `free_bytes` is out of date.
    pub devices: Vec<DeviceInfo>,
    /// Devices on which the process has a context.
    contexts: Mutex<BTreeSet<u32>>,
    pub pools: Mutex<Pools>,
    /// Arrays by handle.
    pub arrays: Mutex<BTreeMap<u64, Array>>,
    /// Texture and surface objects.
    pub images: Images,
    pub events: Mutex<BTreeMap<u64, Event>>,
    pub graphs: Mutex<Graphs>,
    pub streams: Mutex<Streams>,
    pub compute: Mutex<Compute>,
    pub memory: Mutex<Memory>,
    /// (device, peer) pairs whose access the program has enabled.
    pub peers: Mutex<BTreeSet<(u32, u32)>>,
    pub profile: Option<Mutex<Profile>>,
    /// `Some` in strict mode.
    pub strict_mode: Option<StrictMode>,
    profile_path: Option<PathBuf>,
    /// True if the devices support virtual memory management.
    pub maps_memory: bool,
    failure: Mutex<Option<Code>>,
}

static RUNTIME: OnceLock<Result<Runtime, Code>> = OnceLock::new();

impl Runtime {
    /// Returns the runtime; makes it at the first call.
    ///
    /// # Errors
    /// The reason why it could not be made, the error of earlier asynchronous work, or `cudaErrorNotPermitted` inside a
    /// function called by a stream.
    pub fn get() -> Result<&'static Runtime, Code> {
        if forked::is_child() {
            return Err(Code::cudaErrorInitializationError);
        }
        if in_host_function() {
            return Err(Code::cudaErrorNotPermitted);
        }
        let runtime = RUNTIME.get_or_init(Runtime::start).as_ref().map_err(|code| *code)?;
        match *runtime.failure.lock() {
            Some(code) => Err(code),
            None => Ok(runtime),
        }
    }

    /// Returns the runtime if it exists and belongs to this process.
    pub fn started() -> Option<&'static Runtime> {
        if forked::is_child() {
            return None;
        }
        RUNTIME.get()?.as_ref().ok()
    }

    /// Error of earlier asynchronous work; does not make a runtime.
    pub fn failure() -> Option<Code> {
        Runtime::started().and_then(|runtime| *runtime.failure.lock())
    }

    fn start() -> Result<Runtime, Code> {
        let config = Config::from_environment().ok_or(Code::cudaErrorInitializationError)?;
        forked::watch();
        let backend = connect(&config.devices)?;
        clock::join(&backend, config.seat, config.host_times).map_err(|e| code_of(&e))?;
        let devices = match backend.call(Request::Devices).map_err(|e| code_of(&e))? {
            Reply::Devices(devices) if !devices.is_empty() => devices,
            other => return Err(unexpected(&other)),
        };
        let devices = visible::visible(devices, config.visible.as_deref()).map_err(|missing| {
            log_line(format_args!("{}: there is no virtual GPU {missing}", crate::config::VISIBLE_VARIABLE));
            Code::cudaErrorNoDevice
        })?;
        copies::set_devices(devices.len());
        let block_shift = block_shift(devices[0].memory_scale);
        let touch_shift = if config.profile.is_some() { PAGE_BYTES.ilog2() } else { block_shift };
        let arena = Arena::reserve(arena_bytes(&devices), 1 << block_shift).map_err(|e| {
            log_line(format_args!(
                "cannot reserve addresses for device memory: {e}; the address space may be limited (ulimit -v)"
            ));
            Code::cudaErrorInitializationError
        })?;
        let workers = config.workers.unwrap_or_else(|| available_parallelism().unwrap_or(NonZeroUsize::MIN));
        let limits = TimeLimits { most: config.kernel_time_max, slow_after: config.kernel_slow_after };
        let blocks = BlockSizes { modelled: block_shift, touched: touch_shift };
        let compute = Compute::new(workers, arena.addresses(), blocks, limits).map_err(|e| {
            log_line(format_args!("cannot start threads for kernels: {e}"));
            Code::cudaErrorInitializationError
        })?;
        eager_exec::report_host_faults(arena.addresses());
        if let Some(status) = config.fault_status {
            ending::set_failure_status(status);
        }
        ending::report_strict_totals(config.strict_status);
        if config.profile.is_some() {
            // SAFETY: the handler is a plain function of this library, which stays loaded: nothing unloads a runtime
            // that the program is linked with.
            unsafe { libc::atexit(write_profile_at_exit) };
        }
        Ok(Runtime {
            backend,
            devices,
            contexts: Mutex::default(),
            pools: Mutex::default(),
            arrays: Mutex::default(),
            images: Images::default(),
            events: Mutex::default(),
            graphs: Mutex::default(),
            streams: Mutex::new(Streams::new()),
            compute: Mutex::new(compute),
            memory: Mutex::new(Memory {
                arena,
                table: Table::default(),
                virtual_memory: VirtualMemory::new(1 << block_shift),
                advice: Advice::default(),
                host_watch: HostWatch::new(1 << block_shift),
                pinned: BTreeMap::new(),
            }),
            peers: Mutex::default(),
            profile: config.profile.is_some().then(|| Mutex::new(Profile::new())),
            profile_path: config.profile,
            strict_mode: StrictMode::new(config.strict, config.races),
            maps_memory: config.virtual_memory,
            failure: Mutex::new(None),
        })
    }

    /// The device with its properties at the start.
    ///
    /// # Errors
    /// `cudaErrorInvalidDevice`.
    pub fn device(&self, device: u32) -> Result<&DeviceInfo, Code> {
        self.devices.get(device as usize).ok_or(Code::cudaErrorInvalidDevice)
    }

    /// Sends a request to the server or the embedded service. After the connection is lost, every later call fails too,
    /// without another log line.
    ///
    /// # Errors
    /// The code for the program.
    pub fn call(&self, request: Request) -> Result<Reply, Code> {
        self.ask(request).map_err(|error| self.code_of(&error))
    }

    fn ask(&self, request: Request) -> Result<Reply, LinkError> {
        let change = trace::change_of(&request);
        let request = visible::for_server(request, &self.devices);
        let reply = clock::call(&*self.backend, request)?;
        if let Some(change) = change {
            trace::changed(change, &reply);
        }
        Ok(reply)
    }

    /// Code for the program; a lost server is logged once.
    fn code_of(&self, error: &LinkError) -> Code {
        let mut failure = self.failure.lock();
        if let Some(code) = *failure {
            return code;
        }
        let code = code_of(error);
        if error.refusal().is_none() {
            *failure = Some(code);
        }
        code
    }

    /// Creates the process's context on the device unless it exists.
    ///
    /// # Errors
    /// `cudaErrorMemoryAllocation` when the device has no room for it.
    pub fn open_context(&self, device: u32) -> Result<(), Code> {
        let mut contexts = self.contexts.lock();
        if !contexts.contains(&device) {
            self.call(Request::OpenContext { device })?;
            contexts.insert(device);
        }
        Ok(())
    }

    pub fn has_context(&self, device: u32) -> bool {
        self.contexts.lock().contains(&device)
    }

    /// Destroys the context on the device with all its memory, after all its work; streams and events stay valid.
    ///
    /// # Errors
    /// The code for the program.
    pub fn close_context(&self, device: u32) -> Result<(), Code> {
        self.wait_for_device(device)?;
        if self.contexts.lock().remove(&device) {
            self.call(Request::CloseContext { device })?;
        }
        self.pools.lock().forget_device(device);
        self.arrays.lock().retain(|_, array| array.device != device);
        self.images.forget_device(device);
        copies::forget_device(device);
        let memory = &mut *self.memory.lock();
        memory.virtual_memory.forget_device(&mut memory.table, device);
        let gone: Vec<Allocation> = memory.table.iter().filter(|a| a.device == device).copied().collect();
        for allocation in gone {
            memory.forget(&allocation);
            forget_managed(allocation.address);
        }
        Ok(())
    }

    /// Submits an operation and waits for its modelled end; returns the modelled duration in nanoseconds.
    ///
    /// # Errors
    /// The code for the program.
    pub fn run_op(&self, device: u32, op: Op) -> Result<u64, Code> {
        match self.call(Request::Run { device, op })? {
            Reply::Ran(report) => Ok(report.duration_ns),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs a prefetch like [`Runtime::run_op`]. Another thread may have freed the memory since the call that enqueued
    /// the prefetch: then there is nothing to move, and the stream goes on.
    ///
    /// # Errors
    /// The code for the program.
    pub fn prefetch(&self, device: u32, op: Op) -> Result<u64, Code> {
        match self.ask(Request::Run { device, op }) {
            Ok(Reply::Ran(report)) => Ok(report.duration_ns),
            Ok(other) => Err(unexpected(&other)),
            Err(error) if matches!(error.refusal(), Some(Refusal::NotOwned(_))) => Ok(0),
            Err(error) => Err(self.code_of(&error)),
        }
    }

    /// Runs operations one after the other, as [`Runtime::run_op`]; returns the sum of the durations.
    ///
    /// # Errors
    /// The code for the program.
    pub fn run_ops(&self, ops: Vec<DeviceOp>) -> Result<u64, Code> {
        ops.into_iter().try_fold(0, |sum_ns, (device, op)| Ok(sum_ns + self.run_op(device, op)?))
    }

    /// Models that the host has copied into or out of managed memory; returns at the modelled end.
    ///
    /// # Errors
    /// The code for the program.
    pub fn copied_by_host(&self, address: u64, bytes: u64) -> Result<(), Code> {
        let place = self.place(Region::line(address), Extent::line(bytes))?;
        self.run_ops(copy_ops(place, Place::PAGEABLE, Direction::HostToHost)?).map(drop)
    }

    /// Finds the memory at a block of addresses.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if the block begins inside an allocation or device variable and ends outside.
    pub fn place(&self, region: Region, extent: Extent) -> Result<Place, Code> {
        if let Some(allocation) = self.memory.lock().table.find(region.address) {
            return Place::inside(allocation, region, extent);
        }
        let Some(variable) = variable_at(region.address) else { return Ok(Place::PAGEABLE) };
        let end = region.span(extent).and_then(|span| region.address.checked_add(span));
        let inside = end.is_some_and(|end| end <= variable.address + variable.bytes);
        if inside { Ok(Place::Variable) } else { Err(Code::cudaErrorInvalidValue) }
    }

    /// Enqueues asynchronous work after `waits`, even during capture; its error is returned by all later calls.
    ///
    /// # Errors
    /// `cudaErrorInvalidResourceHandle` if there is no such stream.
    pub fn enqueue(
        &'static self,
        stream: StreamKey,
        waits: Vec<Arc<Completion>>,
        command: impl Into<Arc<Command>>,
    ) -> Result<Arc<Completion>, Code> {
        let command: Arc<Command> = command.into();
        self.report_host_faults(|address, bytes| command.may_use(address, bytes))?;
        let work: Work = Box::new(move || {
            let failure = *self.failure.lock();
            if let Some(code) = failure {
                command.run_after_failure(code);
                return 0;
            }
            self.open_memory();
            command.run(self).unwrap_or_else(|code| {
                self.failure.lock().get_or_insert(code);
                0
            })
        });
        self.streams.lock().enqueue(stream, waits, work).map_err(|why| match why {
            Unqueued::NoStream => invalid_stream(NoStream),
            Unqueued::NoThread => {
                log_line(format_args!(
                    "no thread can be started for a stream: the number of processes or the memory is limited \
                     (ulimit -u, -v, -l)"
                ));
                Code::cudaErrorMemoryAllocation
            }
        })
    }

    /// Submits asynchronous work to a stream: it runs in stream order or, during capture, becomes a node.
    ///
    /// # Errors
    /// Those of [`Runtime::enqueue`], and those of the rules of capture.
    pub fn submit(
        &'static self,
        stream: StreamKey,
        command: impl Into<Arc<Command>>,
    ) -> Result<Submitted, Code> {
        let command: Arc<Command> = command.into();
        {
            let mut graphs = self.graphs.lock();
            if let Some(seen) = graphs.capture_of(stream) {
                if !command.may_be_captured() {
                    graphs.invalidate(seen.id);
                    return Err(Code::cudaErrorStreamCaptureUnsupported);
                }
                graphs.capture(stream, graph::Work::Run(command))?;
                return Ok(Submitted::Captured);
            }
            self.check_default_stream(&mut graphs, stream)?;
        }
        self.enqueue(stream, Vec::new(), command).map(Submitted::Enqueued)
    }

    /// Waits for work; the host's later work starts after its end.
    ///
    /// # Errors
    /// Error of any asynchronous work until then.
    pub fn wait(&self, work: &[Arc<Completion>]) -> Result<(), Code> {
        let reached_ns = work.iter().map(|completion| completion.wait()).max().unwrap_or(0);
        self.streams.lock().host_reached(reached_ns);
        if let Some(code) = *self.failure.lock() {
            return Err(code);
        }
        self.watch_host();
        self.trim_pools()
    }

    /// Waits for all work on the device.
    ///
    /// # Errors
    /// Those of [`Runtime::wait`].
    pub fn wait_for_device(&self, device: u32) -> Result<(), Code> {
        let work = self.streams.lock().last_of_device(device);
        self.wait(&work)
    }

    /// Waits for all work on all devices.
    ///
    /// # Errors
    /// Those of [`Runtime::wait`].
    pub fn wait_for_all_devices(&self) -> Result<(), Code> {
        (0..).zip(&self.devices).try_for_each(|(device, _)| self.wait_for_device(device))
    }

    /// Moves a managed allocation to another device's model; returns its new id there. Nothing of it is resident
    /// afterwards. The move takes no modelled time: it happens when a task is bound, before any of its kernels has run.
    /// Waits for all devices first, because enqueued work refers to the old id.
    ///
    /// # Errors
    /// The code for the program.
    pub fn rehome(&self, alloc: AllocId, device: u32) -> Result<AllocId, Code> {
        self.wait_for_all_devices()?;
        self.open_context(device)?;
        let is_it = |kind| matches!(kind, Kind::Modelled { alloc: other, .. } if other == alloc);
        let found = self.memory.lock().table.iter().find(|allocation| is_it(allocation.kind)).copied();
        let Allocation { address, bytes, .. } = found.ok_or(Code::cudaErrorInvalidValue)?;
        let kind = AllocKind::Managed;
        let fresh = match self.call(Request::Allocate { device, bytes, kind })? {
            Reply::Allocated(fresh) => fresh,
            other => return Err(unexpected(&other)),
        };
        self.call(Request::Free { alloc })?;
        let mut memory = self.memory.lock();
        memory.table.remove(address);
        let kind = Kind::Modelled { alloc: fresh, kind };
        memory.table.insert(Allocation { address, bytes, device, kind });
        Ok(fresh)
    }

    /// Allocates memory of a device; returns address 0 for no bytes.
    ///
    /// # Errors
    /// `cudaErrorMemoryAllocation`.
    pub fn allocate(&self, device: u32, bytes: u64, kind: AllocKind) -> Result<u64, Code> {
        if bytes == 0 {
            return Ok(0);
        }
        let alloc = match self.call(Request::Allocate { device, bytes, kind })? {
            Reply::Allocated(alloc) => alloc,
            other => return Err(unexpected(&other)),
        };
        let mut memory = self.memory.lock();
        let Some(address) = memory.arena.allocate(bytes) else {
            drop(memory);
            self.call(Request::Free { alloc })?;
            return Err(Code::cudaErrorMemoryAllocation);
        };
        let address = address.as_ptr() as u64;
        if kind == AllocKind::Managed {
            memory.host_watch.add(address, bytes);
        }
        memory.table.insert(Allocation { address, bytes, device, kind: Kind::Modelled { alloc, kind } });
        Ok(address)
    }

    /// Frees the memory that starts at `address`. Nothing may use it any more.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue` if no device or managed memory allocated by the program starts there.
    pub fn release(&self, address: u64) -> Result<(), Code> {
        self.open_memory();
        let found = {
            let memory = self.memory.lock();
            memory.table.starting_at(address).filter(|_| !memory.virtual_memory.is_mapped(address)).copied()
        };
        let allocation =
            found.filter(|_| managed_at(address).is_none()).ok_or(Code::cudaErrorInvalidValue)?;
        let Kind::Modelled { alloc, .. } = allocation.kind else { return Err(Code::cudaErrorInvalidValue) };
        self.call(Request::Free { alloc })?;
        self.memory.lock().forget(&allocation);
        Ok(())
    }

    fn open_memory(&self) {
        if let Some(strict) = &self.strict_mode {
            strict.open();
        }
    }

    /// Drops the contents of managed memory: it reads as zero until it is written again, and none of it is on a device.
    ///
    /// # Errors
    /// The code for the program.
    pub fn discard(&self, discarded: Discarded) -> Result<(), Code> {
        let Discarded { alloc, address, bytes } = discarded;
        let range = Range { offset: 0, bytes };
        self.call(Request::Advise { alloc, range, advice: model::Advice::Discard })?;
        self.memory.lock().arena.wipe(address, bytes);
        Ok(())
    }

    /// Releases the memory of pools beyond their thresholds.
    ///
    /// # Errors
    /// The code for the program.
    pub fn trim_pools(&self) -> Result<(), Code> {
        let unused = self.pools.lock().trim_to_thresholds();
        unused.into_iter().try_for_each(|address| self.release(address))
    }

    fn write_profile(&self) {
        let (Some(profile), Some(path)) = (&self.profile, &self.profile_path) else { return };
        if let Err(e) = write_json(path, &profile.lock()) {
            log_line(format_args!("cannot write the profile to {}: {e}", path.display()));
        }
    }
}

fn write_json(path: &Path, profile: &Profile) -> std::io::Result<()> {
    let mut text = serde_json::to_string(profile).map_err(std::io::Error::other)?;
    text.push('\n');
    fs::write(path, text)
}

extern "C" fn write_profile_at_exit() {
    if let Some(runtime) = Runtime::started() {
        // A panic must not cross into `exit`; its message is on standard error.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.write_profile()));
    }
}

/// Result of submitting work to a stream.
#[derive(Debug)]
pub enum Submitted {
    /// The work runs, and this completion shows its end.
    Enqueued(Arc<Completion>),
    /// The work is a node of a graph.
    Captured,
}

/// Code for a stream that does not exist.
pub fn invalid_stream(_: NoStream) -> Code {
    Code::cudaErrorInvalidResourceHandle
}

/// Reports a reply that does not match the request, which is a fault of the server.
pub fn unexpected(reply: &Reply) -> Code {
    log_line(format_args!("the virtual GPU server sent a reply that does not match the request: {reply:?}"));
    Code::cudaErrorUnknown
}

fn connect(devices: &Devices) -> Result<Arc<dyn Backend>, Code> {
    match devices {
        Devices::Shared(path) => {
            let socket = server::connect(path).map_err(|e| code_of(&e))?;
            forked::close_in_children(socket.descriptors());
            Ok(Arc::new(socket))
        }
        Devices::Own { cards, time_scale, memory_scale, clock } => {
            let config =
                EmbeddedConfig { cards, time_scale: *time_scale, memory_scale: *memory_scale, clock: *clock };
            let embedded = Embedded::new(&config).map_err(|e| {
                log_line(format_args!("{}={cards}: {e}", crate::config::CARDS_VARIABLE));
                Code::cudaErrorInitializationError
            })?;
            Ok(Arc::new(embedded))
        }
    }
}

/// Granularity, as log2 of bytes, in which touched memory is recorded: one block of the model, but at least a page.
fn block_shift(memory_scale: u64) -> u32 {
    (MODEL_BLOCK_BYTES / memory_scale.max(1)).max(PAGE_BYTES).ilog2()
}

fn arena_bytes(devices: &[DeviceInfo]) -> u64 {
    let capacity_bytes = devices.iter().map(|device| device.capacity_bytes).fold(0, u64::saturating_add);
    let wanted_bytes =
        capacity_bytes.saturating_mul(ARENA_OVERSUBSCRIPTION).clamp(ARENA_BYTES_MIN, ARENA_BYTES_MAX);
    wanted_bytes.next_multiple_of(MODEL_BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_pieces_stand_for_a_model_block_but_are_pages_at_least() {
        assert_eq!([1, 64, 1000, 1 << 20].map(block_shift), [21, 15, 12, 12]);
    }
}
