//! The driver's queries of a device (CUDA driver API reference, section 6.5).
#![allow(non_snake_case, reason = "the driver's names")]

use super::guard;
use crate::device::uuid_of;
use crate::ffi::Out;
use crate::runtime::Runtime;
use crate::status::Code;

/// Returns the uuid in the device's properties.
pub extern "C" fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) -> Code {
    guard("cuDeviceGetUuid", 0, || {
        let number = u32::try_from(device).map_err(|_| Code::cudaErrorInvalidDevice)?;
        uuid.put(uuid_of(Runtime::get()?.device(number)?))
    })
}

/// Returns whether the process has a context on the device; does not make one.
pub extern "C" fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, is_active: Out<i32>) -> Code {
    guard("cuDevicePrimaryCtxGetState", 0, || {
        let runtime = Runtime::get()?;
        let number = u32::try_from(device).map_err(|_| Code::cudaErrorInvalidDevice)?;
        runtime.device(number)?;
        flags.put(0)?;
        is_active.put(i32::from(runtime.has_context(number)))
    })
}
