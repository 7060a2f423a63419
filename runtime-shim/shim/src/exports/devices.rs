//! Hooks: devices.

use super::stored;
use crate::runtime::Setting;
use std::ffi::{c_int, c_uint};

hooks! { declared;
    fn cudaSetDevice(device: c_int) = |shim, thread| shim.set_device(thread, device);
    fn cudaGetDevice(out: *mut c_int) = |shim, thread| stored(out, || shim.get_device(thread));
    fn cudaDeviceSynchronize() = |shim, thread| shim.device_synchronize(thread);
    fn cudaDeviceReset() = |shim, thread| shim.device_reset(thread);
    fn cudaDeviceEnablePeerAccess(_peer: c_int, _flags: c_uint) = |shim, _thread| shim.peer_access();
    fn cudaDeviceDisablePeerAccess(_peer: c_int) = |shim, _thread| shim.peer_access();
    fn cudaDeviceSetLimit(limit: c_uint, value: usize) = |shim, thread| {
        shim.set(thread, Setting::Limit { limit, value })
    };
    fn cudaDeviceSetCacheConfig(config: c_uint) = |shim, thread| shim.set(thread, Setting::Cache { config });
}
