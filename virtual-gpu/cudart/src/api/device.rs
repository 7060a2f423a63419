//! Devices: number, selection, properties, synchronisation, reset.
//!
//! Trap: selecting a device or querying its properties must not make a context on it; the first allocation, copy,
//! launch or stream does.

use core::ffi::c_int;

use eager_vgpu_link::{Reply, Request};

use super::open;
use crate::device::{DeviceProp, attribute, current_device, properties, set_current_device};
use crate::ffi::Out;
use crate::runtime::{Runtime, unexpected};
use crate::status::Code;

/// Priorities of streams: 0 is the default and the lowest, as on NVIDIA's cards since Volta (specification S-518).
pub const PRIORITY_LEAST: c_int = 0;
pub const PRIORITY_GREATEST: c_int = -5;

/// Converts the number of an existing device.
///
/// # Errors
/// `cudaErrorInvalidDevice`.
pub fn known_device(runtime: &Runtime, device: c_int) -> Result<u32, Code> {
    let device = u32::try_from(device).map_err(|_| Code::cudaErrorInvalidDevice)?;
    runtime.device(device).map(|_| device)
}

api!(
    fn cudaGetDeviceCount(count: Out<c_int>) -> Result<(), Code> {
        let devices = c_int::try_from(Runtime::get()?.devices.len()).unwrap_or(c_int::MAX);
        count.put(devices)
    }

    fn cudaSetDevice(device: c_int) -> Result<(), Code> {
        set_current_device(known_device(Runtime::get()?, device)?);
        Ok(())
    }

    fn cudaGetDevice(device: Out<c_int>) -> Result<(), Code> {
        device.put(current_device().cast_signed())
    }

    #[cuda_12(cudaGetDeviceProperties_v2)]
    fn cudaGetDeviceProperties(filled: Out<DeviceProp>, device: c_int) -> Result<(), Code> {
        let runtime = Runtime::get()?;
        let device = runtime.device(known_device(runtime, device)?)?;
        filled.put(properties(device))
    }

    fn cudaDeviceGetAttribute(value: Out<c_int>, number: u32, device: c_int) -> Result<(), Code> {
        let runtime = Runtime::get()?;
        let device = runtime.device(known_device(runtime, device)?)?;
        let found = attribute(device, number).ok_or(Code::cudaErrorInvalidValue)?;
        value.put(found)
    }

    fn cudaDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) -> Result<(), Code> {
        Runtime::get()?;
        least.put_if_wanted(PRIORITY_LEAST);
        greatest.put_if_wanted(PRIORITY_GREATEST);
        Ok(())
    }

    fn cudaDeviceSynchronize() -> Result<(), Code> {
        let (runtime, device) = open()?;
        runtime.check_device_synchronisable(device)?;
        runtime.wait_for_device(device)
    }

    /// Destroys the process's context on the current device with all its memory. A device error persists, as on
    /// NVIDIA's devices.
    fn cudaDeviceReset() -> Result<(), Code> {
        Runtime::get()?.close_context(current_device())
    }

    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) -> Result<(), Code> {
        let (runtime, device) = open()?;
        runtime.report_host_faults(|_, _| true)?;
        runtime.watch_host();
        let info = match runtime.call(Request::MemoryInfo { device })? {
            Reply::MemoryInfo(info) => info,
            other => return Err(unexpected(&other)),
        };
        for (to, bytes) in [(free, info.free), (total, info.total)] {
            to.put_if_wanted(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(())
    }
);
