//! Allocation and release of device and managed memory.
//!
//! Trap: out of memory must leave the context usable, so that a later, smaller request may succeed.

use core::ffi::c_void;

use cudarc::runtime::sys::{cudaExtent, cudaPitchedPtr};
use eager_gpu_model::AllocKind;

use super::open_uncaptured;
use crate::ffi::Out;
use crate::memory::Kind;
use crate::status::Code;
use crate::stream::{Completion, StreamKey};

/// Rows of pitched memory start at multiples of this many bytes, as on NVIDIA's cards (specification S-518).
pub const PITCH_BYTES: u64 = 512;

/// Allocates device memory for rows of `width` bytes; returns its start and the distance between two rows.
fn allocate_rows(width: usize, rows: usize) -> Result<(*mut c_void, usize), Code> {
    let (runtime, device) = open_uncaptured()?;
    let out_of_memory = Code::cudaErrorMemoryAllocation;
    let pitch = (width as u64).checked_next_multiple_of(PITCH_BYTES).ok_or(out_of_memory)?;
    let bytes = pitch.checked_mul(rows as u64).ok_or(out_of_memory)?;
    let address = runtime.allocate(device, bytes, AllocKind::Device)?;
    Ok((address as *mut c_void, usize::try_from(pitch).map_err(|_| out_of_memory)?))
}

api!(
    #[bytes(bytes)]
    fn cudaMalloc(pointer: Out<*mut c_void>, bytes: usize) -> Result<(), Code> {
        pointer.check()?;
        let (runtime, device) = open_uncaptured()?;
        pointer.put(runtime.allocate(device, bytes as u64, AllocKind::Device)? as *mut c_void)
    }

    /// Treats memory attached to one stream (`cudaMemAttachSingle`) as attached to all.
    #[bytes(bytes)]
    fn cudaMallocManaged(pointer: Out<*mut c_void>, bytes: usize, flags: u32) -> Result<(), Code> {
        const ATTACH_GLOBAL: u32 = 1;
        const ATTACH_HOST: u32 = 2;
        pointer.check()?;
        if bytes == 0 || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
            return Err(Code::cudaErrorInvalidValue);
        }
        let (runtime, device) = open_uncaptured()?;
        pointer.put(runtime.allocate(device, bytes as u64, AllocKind::Managed)? as *mut c_void)
    }

    #[bytes(width.saturating_mul(height))]
    fn cudaMallocPitch(
        pointer: Out<*mut c_void>,
        pitch: Out<usize>,
        width: usize,
        height: usize,
    ) -> Result<(), Code> {
        pointer.check()?;
        pitch.check()?;
        let (address, row_bytes) = allocate_rows(width, height)?;
        pitch.put(row_bytes)?;
        pointer.put(address)
    }

    #[bytes(extent.width.saturating_mul(extent.height).saturating_mul(extent.depth))]
    fn cudaMalloc3D(pitched: Out<cudaPitchedPtr>, extent: cudaExtent) -> Result<(), Code> {
        let rows = extent.height.saturating_mul(extent.depth);
        pitched.check()?;
        let (ptr, pitch) = allocate_rows(extent.width, rows)?;
        pitched.put(cudaPitchedPtr { ptr, pitch, xsize: extent.width, ysize: extent.height })
    }

    /// Waits first, as CUDA does: for the memory's device, or for all devices if any may use it.
    fn cudaFree(pointer: *mut c_void) -> Result<(), Code> {
        let (runtime, _) = open_uncaptured()?;
        if pointer.is_null() {
            return Ok(());
        }
        let address = pointer as u64;
        let found = runtime.memory.lock().table.starting_at(address).copied();
        let allocation = found.ok_or(Code::cudaErrorInvalidValue)?;
        let of_pool = {
            let pools = runtime.pools.lock();
            if pools.is_block(address) && !pools.is_used(address) {
                return Err(Code::cudaErrorInvalidValue);
            }
            pools.is_block(address)
        };
        match allocation.kind {
            Kind::Pinned { .. } => return Err(Code::cudaErrorInvalidValue),
            Kind::Modelled { kind: AllocKind::Device, .. } => runtime.wait_for_device(allocation.device)?,
            Kind::Modelled { kind: AllocKind::Managed, .. } => runtime.wait_for_all_devices()?,
        }
        if of_pool {
            let stream = StreamKey::Default { device: allocation.device };
            runtime.pools.lock().freed(address, stream, Completion::reached());
            return runtime.trim_pools();
        }
        runtime.release(address)
    }
);
