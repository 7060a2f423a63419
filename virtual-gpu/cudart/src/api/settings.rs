//! Settings of a device, and queries about its environment: limits, flags, PCI address, profiler, driver.
//!
//! Nothing here has an effect; the calls store settings and return what CUDA documents. Trap: limits and flags belong
//! to a device and must outlive its context.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::collections::BTreeMap;

use eager_vgpu_link::DeviceInfo;
use parking_lot::Mutex;

use super::device::known_device;
use super::open;
use crate::device::{DeviceProp, current_device, set_current_device};
use crate::driver;
use crate::ffi::{In, Out};
use crate::runtime::Runtime;
use crate::status::Code;

/// Defaults of NVIDIA's driver, by the number of the limit: stack of a thread, `printf` buffer, heap of `malloc`, depth
/// and count of launches from kernels, L2 fetch granularity, persisting part of L2; sizes in bytes.
const LIMITS: [usize; 7] = [1 << 10, 1 << 20, 8 << 20, 2, 2048, 64, 0];

/// Limits set by the program, by (device, limit), and flags by device.
#[derive(Debug)]
struct Settings {
    limits: BTreeMap<(u32, u32), usize>,
    flags: BTreeMap<u32, u32>,
}

static SETTINGS: Mutex<Settings> = Mutex::new(Settings { limits: BTreeMap::new(), flags: BTreeMap::new() });

/// Flags: wait policy, mapped host memory, stack resizing, synchronous copies.
const DEVICE_FLAGS: u32 = 0x9f;
/// Mapped host memory is always supported.
const DEVICE_MAP_HOST: u32 = 8;

fn set_flags(device: u32, flags: u32) -> Result<(), Code> {
    let waits = flags & 7;
    if flags & !DEVICE_FLAGS != 0 || !(waits == 0 || waits.is_power_of_two()) {
        return Err(Code::cudaErrorInvalidValue);
    }
    SETTINGS.lock().flags.insert(device, flags);
    Ok(())
}

/// PCI address `domain:bus:device.function`, with the bus number of the properties.
fn pci_bus_id(device: &DeviceInfo) -> String {
    format!("0000:{:02X}:00.0", device.index + 1)
}

/// Returns one of the few driver calls here; every other symbol is not found.
fn entry_point(symbol: *const c_char, function: Out<*mut c_void>, status: Out<u32>) -> Result<(), Code> {
    const SUCCESS: u32 = 0;
    const SYMBOL_NOT_FOUND: u32 = 1;
    if symbol.is_null() {
        return Err(Code::cudaErrorInvalidValue);
    }
    // SAFETY: not null, so it is a C string by CUDA's documentation.
    let found = unsafe { CStr::from_ptr(symbol) }.to_str().ok().and_then(driver::entry_point);
    function.put(found.unwrap_or(std::ptr::null_mut()))?;
    status.put_if_wanted(if found.is_some() { SUCCESS } else { SYMBOL_NOT_FOUND });
    if found.is_none() && status.is_null() { Err(Code::cudaErrorSymbolNotFound) } else { Ok(()) }
}

api!(
    fn cudaDeviceSetLimit(limit: u32, value: usize) -> Result<(), Code> {
        let (_, device) = open()?;
        LIMITS.get(limit as usize).ok_or(Code::cudaErrorInvalidValue)?;
        SETTINGS.lock().limits.insert((device, limit), value);
        Ok(())
    }

    fn cudaDeviceGetLimit(value: Out<usize>, limit: u32) -> Result<(), Code> {
        let (_, device) = open()?;
        let default = LIMITS.get(limit as usize).ok_or(Code::cudaErrorInvalidValue)?;
        let set = SETTINGS.lock().limits.get(&(device, limit)).copied();
        value.put(set.unwrap_or(*default))
    }

    fn cudaSetDeviceFlags(flags: u32) -> Result<(), Code> {
        set_flags(current_device(), flags)
    }

    fn cudaGetDeviceFlags(flags: Out<u32>) -> Result<(), Code> {
        Runtime::get()?;
        let set = SETTINGS.lock().flags.get(&current_device()).copied().unwrap_or(0);
        flags.put(set | DEVICE_MAP_HOST)
    }

    /// Makes the context now, without selecting the device.
    fn cudaInitDevice(device: c_int, device_flags: u32, flags: u32) -> Result<(), Code> {
        const FLAGS_ARE_VALID: u32 = 1;
        let runtime = Runtime::get()?;
        let device = known_device(runtime, device)?;
        if flags & FLAGS_ARE_VALID != 0 {
            set_flags(device, device_flags)?;
        }
        runtime.open_context(device)
    }

    /// Returns the device with the smallest memory of at least the wanted size, else the device with the largest.
    fn cudaChooseDevice(chosen: Out<c_int>, wanted: In<DeviceProp>) -> Result<(), Code> {
        let runtime = Runtime::get()?;
        let bytes = wanted.get()?.totalGlobalMem as u64;
        let numbered = || (0..).zip(runtime.devices.iter().map(|device| device.capacity_bytes));
        let nearest =
            numbered().filter(|(_, capacity)| *capacity >= bytes).min_by_key(|(_, capacity)| *capacity);
        let largest = numbered().max_by_key(|(_, capacity)| *capacity);
        let (best, _) = nearest.or(largest).ok_or(Code::cudaErrorInvalidValue)?;
        chosen.put(best)
    }

    /// Selects the first device of the list for the thread.
    fn cudaSetValidDevices(devices: In<c_int>, count: c_int) -> Result<(), Code> {
        let runtime = Runtime::get()?;
        let count = usize::try_from(count).map_err(|_| Code::cudaErrorInvalidValue)?;
        let devices: Result<Vec<u32>, Code> =
            devices.all(count)?.into_iter().map(|device| known_device(runtime, device)).collect();
        if let Some(&first) = devices?.first() {
            set_current_device(first);
        }
        Ok(())
    }

    fn cudaDeviceGetPCIBusId(text: Out<c_char>, room: c_int, device: c_int) -> Result<(), Code> {
        text.check()?;
        let runtime = Runtime::get()?;
        let id = pci_bus_id(runtime.device(known_device(runtime, device)?)?);
        let room = usize::try_from(room).unwrap_or(0);
        if room <= id.len() {
            return Err(Code::cudaErrorInvalidValue);
        }
        let characters = id.bytes().chain([0]).map(|byte| c_char::from_ne_bytes([byte]));
        text.put_all(characters, room);
        Ok(())
    }

    /// # Safety
    /// `text` is null or a NUL-terminated string.
    unsafe fn cudaDeviceGetByPCIBusId(device: Out<c_int>, text: *const c_char) -> Result<(), Code> {
        let runtime = Runtime::get()?;
        if text.is_null() {
            return Err(Code::cudaErrorInvalidValue);
        }
        // SAFETY: not null, and then a C string by this function's contract.
        let wanted = unsafe { CStr::from_ptr(text) }.to_string_lossy().to_uppercase();
        // The domain is optional.
        let is_it = |device: &DeviceInfo| {
            let id = pci_bus_id(device);
            id == wanted || id.strip_prefix("0000:") == Some(wanted.as_str())
        };
        let found = runtime.devices.iter().position(is_it).ok_or(Code::cudaErrorInvalidDevice)?;
        device.put(c_int::try_from(found).map_err(|_| Code::cudaErrorInvalidDevice)?)
    }

    /// No effect: caches are not modelled.
    fn cudaDeviceSetCacheConfig(_config: u32) -> Result<(), Code> {
        open().map(drop)
    }

    fn cudaDeviceGetCacheConfig(config: Out<u32>) -> Result<(), Code> {
        const PREFER_NONE: u32 = 0;
        config.put(PREFER_NONE)
    }

    /// No effect: caches are not modelled, so nothing persists in them.
    fn cudaCtxResetPersistingL2Cache() -> Result<(), Code> {
        open().map(drop)
    }

    /// No effect: there is no profiler.
    fn cudaProfilerStart() -> Result<(), Code> {
        open().map(drop)
    }

    fn cudaProfilerStop() -> Result<(), Code> {
        open().map(drop)
    }

    /// No effect: banks of shared memory have one width on every card since Maxwell.
    fn cudaDeviceSetSharedMemConfig(_config: u32) -> Result<(), Code> {
        open().map(drop)
    }

    fn cudaDeviceGetSharedMemConfig(config: Out<u32>) -> Result<(), Code> {
        const FOUR_BYTES: u32 = 1;
        config.put(FOUR_BYTES)
    }

    #[per_thread(ptsz)]
    fn cudaGetDriverEntryPoint(
        symbol: *const c_char,
        function: Out<*mut c_void>,
        _flags: u64,
        status: Out<u32>,
    ) -> Result<(), Code> {
        entry_point(symbol, function, status)
    }

    #[per_thread(ptsz)]
    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char,
        function: Out<*mut c_void>,
        _version: u32,
        _flags: u64,
        status: Out<u32>,
    ) -> Result<(), Code> {
        entry_point(symbol, function, status)
    }
);
