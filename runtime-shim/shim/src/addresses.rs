//! Addresses that get memory after they are allocated and lose it before they are freed. There are two ways: the
//! driver maps device memory to them (as fast as any), or, on devices that cannot map, they are managed memory, which
//! takes device memory when it is moved there.
//!
//! Traps: the whole process uses one way, since addresses are handed out before their device is known; and managed
//! memory keeps its addresses usable after its contents are dropped, so that a use that the shim did not see does not
//! fault there.

use crate::driver::{Driver, driver};
use crate::library::{MemoryHints, Status};
use crate::runtime::{CudaError, CudaResult, DeviceIndex};
use cudarc::runtime::sys::{cudaMemLocation, cudaMemLocationType, cudaMemoryAdvise, cudaStream_t};
use std::ffi::{c_int, c_void};

/// `cudaDevAttrConcurrentManagedAccess`: managed memory takes device memory page by page, not at its allocation.
const CONCURRENT_MANAGED_ACCESS: c_int = 89;
/// Largest block in which managed memory moves; with a smaller granularity neighbours would share a block.
pub const MANAGED_GRANULARITY: u64 = 2 << 20;

/// How addresses get memory.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Mapped(&'static Driver),
    Managed,
}

impl Way {
    /// The best way that all devices support; `None`: memory is allocated without the shim's addresses.
    pub fn choose(devices: CudaResult<c_int>, hints: &MemoryHints) -> Option<Way> {
        let devices = devices.ok().filter(|count| *count > 0)?;
        let all = |can: &dyn Fn(c_int) -> bool| (0..devices).all(can);
        let mapped =
            driver().filter(|driver| all(&|device| driver.granularity(DeviceIndex(device)).is_some()));
        let managed = || {
            hints.advise.is_some() && hints.prefetch.is_some() && all(&|device| is_concurrent(hints, device))
        };
        mapped.map(Way::Mapped).or_else(|| managed().then_some(Way::Managed))
    }
}

fn is_concurrent(hints: &MemoryHints, device: c_int) -> bool {
    let Some(ask) = hints.device_attribute else { return false };
    let mut value = 0;
    // SAFETY: the function takes these arguments (see `MemoryHints`); it writes to a local that outlives the call.
    let status = unsafe { ask(&mut value, CONCURRENT_MANAGED_ACCESS, device) };
    status == 0 && value != 0
}

/// The host as a location of managed memory.
pub const HOST: cudaMemLocation =
    cudaMemLocation { type_: cudaMemLocationType::cudaMemLocationTypeHost, id: 0 };

/// Removes a managed allocation's memory from the device, in stream order. Its contents are dropped, or moved to the
/// host where the runtime cannot drop them (before CUDA 13).
pub fn drop_managed(
    hints: &MemoryHints,
    start: *mut c_void,
    bytes: usize,
    stream: cudaStream_t,
) -> CudaResult<()> {
    let check = |status: Status| CudaError::check(status);
    if let Some(discard) = hints.discard {
        let (mut start, mut bytes, mut host, mut first) = (start, bytes, HOST, 0);
        // SAFETY: the function takes these arguments (see `MemoryHints`), arrays of one element that outlive the
        // call; the runtime checks the range.
        return check(unsafe { discard(&mut start, &mut bytes, 1, &mut host, &mut first, 1, 0, stream) });
    }
    let (Some(advise), Some(prefetch)) = (hints.advise, hints.prefetch) else {
        return Err(CudaError::INITIALIZATION);
    };
    let advice = cudaMemoryAdvise::cudaMemAdviseSetPreferredLocation;
    // SAFETY: the functions take these arguments (see `MemoryHints`); the runtime checks the range.
    unsafe {
        check(advise(start, bytes, advice, HOST))?;
        check(prefetch(start, bytes, HOST, 0, stream))
    }
}
