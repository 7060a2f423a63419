//! Calls that only CUDA 13 has: pools by location instead of by device, and discards of managed memory.
//!
//! Devices are the only locations with pools here.

use core::ffi::c_void;

use super::batch::{Batch, CopyAttributes, Runs};
use super::managed::{Managed, MemLocation, Target, prefetch};
use super::pool::{ALLOCATION_PINNED, set_pool};
use super::{open, open_uncaptured, stream_key};
use crate::command::{Command, Discarded};
use crate::ffi::{In, Out};
use crate::runtime::Runtime;
use crate::status::Code;
use crate::stream::StreamKey;

/// Device given by a location and a kind of memory.
fn pool_device(runtime: &Runtime, location: In<MemLocation>, allocation_type: u32) -> Result<u32, Code> {
    match (location.get()?.target(runtime)?, allocation_type) {
        (Target::Device(device), ALLOCATION_PINNED) => Ok(device),
        _ => Err(Code::cudaErrorNotSupported),
    }
}

/// Discards contents in the order of a stream. Drops those of a whole allocation ([`Runtime::discard`]) and keeps those
/// of a part of one, as CUDA allows.
fn discard(
    runtime: &'static Runtime,
    stream: StreamKey,
    pointer: *mut c_void,
    bytes: usize,
) -> Result<(), Code> {
    let Managed { alloc, range, .. } = Managed::find(runtime, pointer, bytes)?;
    let address = pointer as u64;
    let whole = runtime.memory.lock().table.starting_at(address).map(|found| found.bytes);
    if whole != Some(range.bytes) {
        return Ok(());
    }
    let discarded = Discarded { alloc, address, bytes: range.bytes };
    runtime.submit(stream, Command::Discard(discarded)).map(drop)
}

api!(
    fn cudaMemGetDefaultMemPool(
        pool: Out<*mut c_void>,
        location: In<MemLocation>,
        allocation_type: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let device = pool_device(runtime, location, allocation_type)?;
        pool.put(runtime.pools.lock().default_of(device).0 as *mut c_void)
    }

    fn cudaMemGetMemPool(
        pool: Out<*mut c_void>,
        location: In<MemLocation>,
        allocation_type: u32,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let device = pool_device(runtime, location, allocation_type)?;
        pool.put(runtime.pools.lock().current_of(device).0 as *mut c_void)
    }

    fn cudaMemSetMemPool(
        location: In<MemLocation>,
        allocation_type: u32,
        pool: *mut c_void,
    ) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let device = pool_device(runtime, location, allocation_type)?;
        set_pool(runtime, device, pool)
    }

    #[per_thread(ptsz)]
    fn cudaMemDiscardBatchAsync(
        pointers: In<*mut c_void>,
        sizes: In<usize>,
        count: usize,
        flags: u64,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        let (runtime, current) = open_uncaptured()?;
        if flags != 0 || count == 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        let (pointers, sizes) = (pointers.all(count)?, sizes.all(count)?);
        let stream = stream_key(stream, current);
        pointers.iter().zip(sizes).try_for_each(|(pointer, bytes)| discard(runtime, stream, *pointer, bytes))
    }

    /// Discards each range, then prefetches it to its location; a location applies from its start index on.
    #[per_thread(ptsz)]
    fn cudaMemDiscardAndPrefetchBatchAsync(
        pointers: In<*mut c_void>,
        sizes: In<usize>,
        count: usize,
        places: In<MemLocation>,
        first_indices: In<usize>,
        place_count: usize,
        flags: u64,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        let (runtime, current) = open_uncaptured()?;
        if flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        let (pointers, sizes) = (pointers.all(count)?, sizes.all(count)?);
        let runs = Runs::read(first_indices, place_count, count)?;
        let places = places.all(place_count)?;
        let stream = stream_key(stream, current);
        for (index, (pointer, bytes)) in pointers.into_iter().zip(sizes).enumerate() {
            discard(runtime, stream, pointer, bytes)?;
            prefetch(runtime, stream, pointer, bytes, places[runs.of(index)])?;
        }
        Ok(())
    }

    /// Prefetches each range to its location; a location applies from its start index on.
    #[per_thread(ptsz)]
    fn cudaMemPrefetchBatchAsync(
        pointers: In<*mut c_void>,
        sizes: In<usize>,
        count: usize,
        places: In<MemLocation>,
        first_indices: In<usize>,
        place_count: usize,
        flags: u64,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        let (runtime, current) = open_uncaptured()?;
        if flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        let (pointers, sizes) = (pointers.all(count)?, sizes.all(count)?);
        let runs = Runs::read(first_indices, place_count, count)?;
        let places = places.all(place_count)?;
        let stream = stream_key(stream, current);
        pointers.into_iter().zip(sizes).enumerate().try_for_each(|(index, (pointer, bytes))| {
            prefetch(runtime, stream, pointer, bytes, places[runs.of(index)])
        })
    }

    #[per_thread(ptsz)]
    fn cudaMemcpyBatchAsync(
        to: In<*mut c_void>,
        from: In<*const c_void>,
        sizes: In<usize>,
        count: usize,
        attributes: In<CopyAttributes>,
        first_indices: In<usize>,
        attribute_count: usize,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        let runs = Runs::read(first_indices, attribute_count, count)?;
        let attributes = attributes.all(attribute_count)?;
        let batch = Batch { to: to.all(count)?, from: from.all(count)?, sizes: sizes.all(count)? };
        batch.copy(&attributes, &runs, stream, |_| ())
    }
);
