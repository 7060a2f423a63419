//! Allocation and release in stream order, and memory pools.
//!
//! The program has the memory when the call returns, and the server counts it from then on; only the work that may use
//! it is ordered by the stream. Trap: a freed block must stay in the pool until the next synchronisation, as CUDA's
//! release threshold of 0 requires, so `cudaMemGetInfo` does not show it as free at once.

use core::ffi::{c_int, c_void};

use eager_gpu_model::AllocKind;

use super::device::known_device;
use super::managed::{MemLocation, Target};
use super::{open, stream_key};
use crate::command::Command;
use crate::ffi::{In, Out};
use crate::log::log_line;
use crate::memory::{Pool, PoolKey, Pools, Reuse, Reused};
use crate::runtime::{Runtime, invalid_stream};
use crate::status::Code;
use crate::stream::StreamKey;

fn key(pool: *mut c_void) -> PoolKey {
    PoolKey(pool as u64)
}

fn live(pools: &mut Pools, pool: PoolKey) -> Result<&mut Pool, Code> {
    pools.get(pool).ok_or(Code::cudaErrorInvalidValue)
}

/// Takes a block for a stream: a freed one, else a new one, else a freed one that the stream has to wait for.
fn take(
    runtime: &'static Runtime,
    pools: &mut Pools,
    key: PoolKey,
    bytes: u64,
    stream: StreamKey,
) -> Result<u64, Code> {
    let device = live(pools, key)?.device;
    runtime.check_uncaptured(stream)?;
    if bytes == 0 {
        return Ok(0);
    }
    if let Some(reused) = pools.reuse(key, bytes, stream, Reuse::Now) {
        return ordered(runtime, stream, reused);
    }
    runtime.open_context(device)?;
    let grown = grow(runtime, pools, key, device, bytes);
    match (grown, grown.is_err().then(|| pools.reuse(key, bytes, stream, Reuse::AfterWaiting)).flatten()) {
        (_, Some(reused)) => ordered(runtime, stream, reused),
        (grown, None) => grown,
    }
}

fn ordered(runtime: &'static Runtime, stream: StreamKey, reused: Reused) -> Result<u64, Code> {
    if let Some(after) = reused.after {
        runtime.enqueue(stream, vec![after], Command::Nothing)?;
    }
    Ok(reused.address)
}

fn grow(runtime: &Runtime, pools: &mut Pools, key: PoolKey, device: u32, bytes: u64) -> Result<u64, Code> {
    if !live(pools, key)?.may_grow(bytes) {
        return Err(Code::cudaErrorMemoryAllocation);
    }
    let mut allocated = runtime.allocate(device, bytes, AllocKind::Device);
    if allocated == Err(Code::cudaErrorMemoryAllocation) {
        // Unused memory of pools can be released without harm.
        let unused = pools.trim_device(device);
        if !unused.is_empty() {
            unused.into_iter().try_for_each(|address| runtime.release(address))?;
            allocated = runtime.allocate(device, bytes, AllocKind::Device);
        }
    }
    let address = allocated?;
    pools.grown(key, address, bytes);
    Ok(address)
}

/// `cudaMemPoolProps` with enumerations as plain numbers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PoolProps {
    allocation_type: u32,
    handle_types: u32,
    location: MemLocation,
    security: *mut c_void,
    max_bytes: usize,
    usage: u16,
    reserved: [u8; 54],
}

const _: () = assert!(size_of::<PoolProps>() == 88);

/// Memory pinned to the *device*, the only kind of memory in pools.
pub const ALLOCATION_PINNED: u32 = 1;

const FOLLOW_EVENT_DEPENDENCIES: u32 = 1;
const ALLOW_OPPORTUNISTIC: u32 = 2;
const ALLOW_INTERNAL_DEPENDENCIES: u32 = 3;
const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_NOW: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED_NOW: u32 = 7;
const USED_HIGH: u32 = 8;

/// `cudaMemAccessDesc` with enumerations as plain numbers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AccessDesc {
    location: MemLocation,
    flags: u32,
}

const ACCESS_NONE: u32 = 0;
const ACCESS_READ_WRITE: u32 = 3;

/// Makes a pool the current one of the device.
///
/// # Errors
/// `cudaErrorInvalidValue` for a pool of another device.
pub fn set_pool(runtime: &Runtime, device: u32, pool: *mut c_void) -> Result<(), Code> {
    let mut pools = runtime.pools.lock();
    if live(&mut pools, key(pool))?.device != device {
        return Err(Code::cudaErrorInvalidValue);
    }
    pools.set_current(device, key(pool));
    Ok(())
}

api!(
    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMallocAsync(pointer: Out<*mut c_void>, bytes: usize, stream: *mut c_void) -> Result<(), Code> {
        pointer.check()?;
        let (runtime, device) = open()?;
        let stream = stream_key(stream, device);
        let device = runtime.streams.lock().describe(stream).map_err(invalid_stream)?.device;
        let mut pools = runtime.pools.lock();
        let pool = pools.current_of(device);
        pointer.put(take(runtime, &mut pools, pool, bytes as u64, stream)? as *mut c_void)
    }

    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMallocFromPoolAsync(
        pointer: Out<*mut c_void>,
        bytes: usize,
        pool: *mut c_void,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        pointer.check()?;
        let (runtime, device) = open()?;
        let stream = stream_key(stream, device);
        runtime.streams.lock().describe(stream).map_err(invalid_stream)?;
        let mut pools = runtime.pools.lock();
        pointer.put(take(runtime, &mut pools, key(pool), bytes as u64, stream)? as *mut c_void)
    }

    /// Frees memory in stream order, also that of `cudaMalloc`.
    #[per_thread(ptsz)]
    fn cudaFreeAsync(pointer: *mut c_void, stream: *mut c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let stream = stream_key(stream, device);
        runtime.streams.lock().describe(stream).map_err(invalid_stream)?;
        if pointer.is_null() {
            return Ok(());
        }
        let address = pointer as u64;
        let mut pools = runtime.pools.lock();
        if pools.is_block(address) {
            if !pools.is_used(address) {
                return Err(Code::cudaErrorInvalidValue);
            }
            runtime.check_uncaptured(stream)?;
            let reached = runtime.enqueue(stream, Vec::new(), Command::Nothing)?;
            pools.freed(address, stream, reached);
            return Ok(());
        }
        let found = runtime.memory.lock().table.starting_at(address).copied();
        found.filter(|found| !found.is_pinned()).ok_or(Code::cudaErrorInvalidValue)?;
        runtime.submit(stream, Command::Release(address)).map(drop)
    }

    fn cudaMemPoolCreate(pool: Out<*mut c_void>, props: In<PoolProps>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        pool.check()?;
        let props = props.get()?;
        if props.allocation_type != ALLOCATION_PINNED {
            return Err(Code::cudaErrorInvalidValue);
        }
        let device = match props.location.target(runtime)? {
            Target::Device(device) if props.handle_types == 0 => device,
            _ => {
                log_line(format_args!(
                    "memory pools of virtual GPUs are on a device and stay in the process"
                ));
                return Err(Code::cudaErrorNotSupported);
            }
        };
        let max_bytes = (props.max_bytes > 0).then_some(props.max_bytes as u64);
        pool.put(runtime.pools.lock().create(Pool::new(device, max_bytes)).0 as *mut c_void)
    }

    /// Destroys a pool; blocks in use stay until they are freed.
    fn cudaMemPoolDestroy(pool: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open()?;
        runtime.pools.lock().destroy(key(pool)).ok_or(Code::cudaErrorInvalidValue)?;
        runtime.trim_pools()
    }

    fn cudaMemPoolTrimTo(pool: *mut c_void, keep_bytes: usize) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let unused = {
            let mut pools = runtime.pools.lock();
            live(&mut pools, key(pool))?;
            pools.trim(key(pool), keep_bytes as u64)
        };
        unused.into_iter().try_for_each(|address| runtime.release(address))
    }

    /// Sets an attribute; the first three are of type `int`, the others `cuuint64_t`.
    fn cudaMemPoolSetAttribute(pool: *mut c_void, attribute: u32, value: In<c_void>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let mut pools = runtime.pools.lock();
        let pool = live(&mut pools, key(pool))?;
        let switch = || value.cast::<c_int>().get().map(|value| value != 0);
        let bytes = || value.cast::<u64>().get();
        match attribute {
            FOLLOW_EVENT_DEPENDENCIES => pool.policy.follow_event_dependencies = switch()?,
            ALLOW_OPPORTUNISTIC => pool.policy.allow_opportunistic = switch()?,
            ALLOW_INTERNAL_DEPENDENCIES => pool.policy.allow_internal_dependencies = switch()?,
            RELEASE_THRESHOLD => pool.policy.release_threshold = bytes()?,
            // A high-water mark can only be reset.
            RESERVED_HIGH if bytes()? == 0 => pool.reserved.high = pool.reserved.now,
            USED_HIGH if bytes()? == 0 => pool.used.high = pool.used.now,
            _ => return Err(Code::cudaErrorInvalidValue),
        }
        Ok(())
    }

    fn cudaMemPoolGetAttribute(pool: *mut c_void, attribute: u32, value: Out<c_void>) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let mut pools = runtime.pools.lock();
        let pool = live(&mut pools, key(pool))?;
        let switch = |set: bool| value.cast::<c_int>().put(c_int::from(set));
        let bytes = |bytes: u64| value.cast::<u64>().put(bytes);
        match attribute {
            FOLLOW_EVENT_DEPENDENCIES => switch(pool.policy.follow_event_dependencies),
            ALLOW_OPPORTUNISTIC => switch(pool.policy.allow_opportunistic),
            ALLOW_INTERNAL_DEPENDENCIES => switch(pool.policy.allow_internal_dependencies),
            RELEASE_THRESHOLD => bytes(pool.policy.release_threshold),
            RESERVED_NOW => bytes(pool.reserved.now),
            RESERVED_HIGH => bytes(pool.reserved.high),
            USED_NOW => bytes(pool.used.now),
            USED_HIGH => bytes(pool.used.high),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }

    /// Records the access; kernels here can access all memory of the process anyway.
    fn cudaMemPoolSetAccess(pool: *mut c_void, list: In<AccessDesc>, count: usize) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let mut pools = runtime.pools.lock();
        let pool = live(&mut pools, key(pool))?;
        for AccessDesc { location, flags } in list.all(count)? {
            let Target::Device(device) = location.target(runtime)? else {
                return Err(Code::cudaErrorInvalidValue);
            };
            // The pool's own device always has access.
            let allowed = matches!(flags, ACCESS_NONE | ACCESS_READ_WRITE)
                && (device != pool.device || flags == ACCESS_READ_WRITE);
            if !allowed {
                return Err(Code::cudaErrorInvalidValue);
            }
            pool.access.insert(device, flags);
        }
        Ok(())
    }

    fn cudaMemPoolGetAccess(
        flags: Out<u32>,
        pool: *mut c_void,
        location: In<MemLocation>,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let Target::Device(device) = location.get()?.target(runtime)? else {
            return Err(Code::cudaErrorInvalidValue);
        };
        let mut pools = runtime.pools.lock();
        let pool = live(&mut pools, key(pool))?;
        let own = if device == pool.device { ACCESS_READ_WRITE } else { ACCESS_NONE };
        flags.put(pool.access.get(&device).copied().unwrap_or(own))
    }

    fn cudaDeviceGetDefaultMemPool(pool: Out<*mut c_void>, device: c_int) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let device = known_device(runtime, device)?;
        pool.put(runtime.pools.lock().default_of(device).0 as *mut c_void)
    }

    fn cudaDeviceGetMemPool(pool: Out<*mut c_void>, device: c_int) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let device = known_device(runtime, device)?;
        pool.put(runtime.pools.lock().current_of(device).0 as *mut c_void)
    }

    fn cudaDeviceSetMemPool(device: c_int, pool: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let device = known_device(runtime, device)?;
        set_pool(runtime, device, pool)
    }
);
