//! Hooks: devices.

use super::stored;
use crate::outcome::Outcome;
use crate::runtime::{CudaError, Setting};
use std::ffi::{c_int, c_uint};

/// The program's device list; `None` if the pointer is null although `count` is not 0.
///
/// # Safety
/// `devices` is null or has `count` readable numbers.
unsafe fn listed(devices: *const c_int, count: c_int) -> Option<Vec<c_int>> {
    let count = usize::try_from(count).ok()?;
    if devices.is_null() && count > 0 {
        return None;
    }
    // SAFETY: not null where a number is read, and `count` numbers are readable, as the caller promises; the program
    // need not align them.
    Some((0..count).map(|number| unsafe { devices.add(number).read_unaligned() }).collect())
}

hooks! { declared;
    fn cudaSetDevice(device: c_int) = |shim, thread| shim.set_device(thread, device);
    fn cudaSetValidDevices(devices: *mut c_int, count: c_int) = |shim, thread| {
        // SAFETY: the program's own arguments.
        unsafe { listed(devices, count) }.map_or(Outcome::Fail(CudaError::INVALID_VALUE), |listed| {
            shim.set_valid_devices(thread, &listed)
        })
    };
    fn cudaInitDevice(device: c_int, _device_flags: c_uint, _flags: c_uint) = |shim, _thread| {
        shim.init_device(device)
    };
    fn cudaGetDevice(out: *mut c_int) = |shim, thread| stored(out, || shim.get_device(thread));
    fn cudaDeviceSynchronize() = |shim, thread| shim.device_synchronize(thread);
    fn cudaDeviceReset() = |shim, thread| shim.device_reset(thread);
    fn cudaDeviceEnablePeerAccess(_peer: c_int, _flags: c_uint) = |shim, _thread| shim.peer_access();
    fn cudaDeviceDisablePeerAccess(_peer: c_int) = |shim, _thread| shim.peer_access();
    fn cudaDeviceSetLimit(limit: c_uint, value: usize) = |shim, thread| {
        shim.set(thread, Setting::Limit { limit, value })
    };
    fn cudaDeviceSetCacheConfig(config: c_uint) = |shim, thread| shim.set(thread, Setting::Cache { config });
    fn cudaDeviceGetLimit(_value: *mut usize, _limit: c_uint) = |shim, thread| shim.on_some_device(thread);
    fn cudaDeviceGetCacheConfig(_config: *mut c_uint) = |shim, thread| shim.on_some_device(thread);
    fn cudaDeviceGetSharedMemConfig(_config: *mut c_uint) = |shim, thread| shim.on_some_device(thread);
    fn cudaDeviceSetSharedMemConfig(_config: c_uint) = |shim, thread| shim.on_some_device(thread);
    fn cudaDeviceGetStreamPriorityRange(_least: *mut c_int, _greatest: *mut c_int) = |shim, thread| {
        shim.on_some_device(thread)
    };
    fn cudaCtxResetPersistingL2Cache() = |shim, thread| shim.on_some_device(thread);
}
