//! Addresses whose memory comes after them and goes before them, in one of two ways: the driver maps device memory to them
//! (as fast as any), or, where a device cannot, they are managed memory, which takes the device's memory when it is moved
//! there.
//!
//! Traps: the way is one for the whole process, since addresses are given out before their device is known; and managed
//! memory keeps its addresses usable when its contents are gone, so that a use that nobody saw is no fault there.

use crate::driver::{Driver, driver};
use crate::library::{MemoryHints, Status};
use crate::runtime::{CudaError, CudaResult, DeviceIndex};
use cudarc::runtime::sys::{cudaMemLocation, cudaMemLocationType, cudaMemoryAdvise, cudaStream_t};
use std::ffi::{c_int, c_void};

/// `cudaDevAttrConcurrentManagedAccess`: managed memory takes the device's memory page by page, not from its allocation on.
const CONCURRENT_MANAGED_ACCESS: c_int = 89;
/// Managed memory moves in blocks of this size at most; smaller multiples would share one with a neighbour.
pub const MANAGED_GRANULARITY: u64 = 2 << 20;

/// How memory comes behind addresses.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Mapped(&'static Driver),
    Managed,
}

impl Way {
    /// The best way that all devices can go; `None`: memory is allocated as ever.
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
    // SAFETY: a function with these arguments (see `MemoryHints`); it writes to a local that outlives the call.
    let status = unsafe { ask(&mut value, CONCURRENT_MANAGED_ACCESS, device) };
    status == 0 && value != 0
}

/// The host as a place of managed memory.
pub const HOST: cudaMemLocation =
    cudaMemLocation { type_: cudaMemLocationType::cudaMemLocationTypeHost, id: 0 };

/// Takes a managed allocation's memory off the device, in the order of a stream. Its contents are dropped, or where the
/// runtime cannot drop them (before CUDA 13), moved to the host.
pub fn drop_managed(
    hints: &MemoryHints,
    start: *mut c_void,
    bytes: usize,
    stream: cudaStream_t,
) -> CudaResult<()> {
    let check = |status: Status| CudaError::check(status);
    if let Some(discard) = hints.discard {
        let (mut start, mut bytes, mut host, mut first) = (start, bytes, HOST, 0);
        // SAFETY: a function with these arguments (see `MemoryHints`), arrays of one element that live through the call;
        // the runtime checks the range.
        return check(unsafe { discard(&mut start, &mut bytes, 1, &mut host, &mut first, 1, 0, stream) });
    }
    let (Some(advise), Some(prefetch)) = (hints.advise, hints.prefetch) else {
        return Err(CudaError::INITIALIZATION);
    };
    let advice = cudaMemoryAdvise::cudaMemAdviseSetPreferredLocation;
    // SAFETY: functions with these arguments (see `MemoryHints`); the runtime checks the range.
    unsafe {
        check(advise(start, bytes, advice, HOST))?;
        check(prefetch(start, bytes, HOST, 0, stream))
    }
}
