//! The part of NVIDIA's management library that `eagerd` uses; a file ([`machine`]) gives the answers instead of a
//! driver. The daemon loads it as it loads NVIDIA's; nothing links it.
//!
//! Trap: a handle is the number of a GPU plus one, because callers take a null handle for an error.

mod machine;

use machine::{Gpu, Machine};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t, nvmlMemory_v2_t, nvmlProcessInfo_t, nvmlReturn_t,
    nvmlUtilization_t,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SUCCESS: nvmlReturn_t = 0;
const INVALID_ARGUMENT: nvmlReturn_t = 2;
const NOT_SUPPORTED: nvmlReturn_t = 3;
const NOT_FOUND: nvmlReturn_t = 6;
const INSUFFICIENT_SIZE: nvmlReturn_t = 7;
const DRIVER_NOT_LOADED: nvmlReturn_t = 9;
const TIMEOUT: nvmlReturn_t = 10;
const GPU_IS_LOST: nvmlReturn_t = 15;

/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: u64 = u64::MAX;
/// `nvmlMemory_v2`: the size of the structure and its version.
const MEMORY_V2: c_uint = size_of::<nvmlMemory_v2_t>() as c_uint | 2 << 24;
const XID_CRITICAL: u64 = 8;
/// Pause between checks of the file for new errors.
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// Number of errors that were delivered.
static DELIVERED: AtomicUsize = AtomicUsize::new(0);

fn handle(number: usize) -> nvmlDevice_t {
    ptr::without_provenance_mut::<c_void>(number + 1).cast()
}

/// Answers a query about a device by `ask`, unless the file says that the query fails.
fn about(function: &str, device: nvmlDevice_t, ask: impl FnOnce(&Gpu) -> nvmlReturn_t) -> nvmlReturn_t {
    let Some(machine) = machine::machine() else { return DRIVER_NOT_LOADED };
    let number = device.addr().wrapping_sub(1);
    match machine.gpus.get(number) {
        None => INVALID_ARGUMENT,
        Some(gpu) => {
            std::thread::sleep(Duration::from_millis(gpu.hang_ms));
            match gpu.fails.get(function) {
                Some(&code) => code,
                None if gpu.lost => GPU_IS_LOST,
                None => ask(gpu),
            }
        }
    }
}

/// Writes an answer to the caller's pointer; a null pointer is an invalid argument.
fn put<T>(place: *mut T, value: T) -> nvmlReturn_t {
    if place.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: every function here has NVML's signature, so a pointer that is not null leads to a `T` of the caller.
    unsafe { place.write(value) };
    SUCCESS
}

/// Copies a text of the caller; `None` for a null pointer.
fn text(place: *const c_char) -> Option<String> {
    // SAFETY: by NVML's signature the pointer is null or leads to a text that ends in a zero byte.
    (!place.is_null()).then(|| unsafe { CStr::from_ptr(place) }.to_string_lossy().into_owned())
}

fn put_text(place: *mut c_char, length: c_uint, text: &str) -> nvmlReturn_t {
    if place.is_null() || text.len() >= length as usize {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: by NVML's signature `place` has `length` bytes, and the text with its zero byte is not longer.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), text.len());
        place.add(text.len()).write(0);
    }
    SUCCESS
}

fn put_processes(gpu: &Gpu, count: *mut c_uint, infos: *mut nvmlProcessInfo_t) -> nvmlReturn_t {
    if count.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: by NVML's signature `count` holds the number of entries that `infos` has room for.
    let room = unsafe { count.read() } as usize;
    let there = gpu.processes.len();
    put(count, u32::try_from(there).unwrap_or(u32::MAX));
    if there > room {
        return INSUFFICIENT_SIZE;
    }
    for (at, process) in gpu.processes.iter().enumerate() {
        let info = nvmlProcessInfo_t {
            pid: process.pid,
            usedGpuMemory: process.bytes.unwrap_or(NOT_AVAILABLE),
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        // SAFETY: there are at most as many processes as `infos` has room for.
        unsafe { infos.add(at).write(info) };
    }
    SUCCESS
}

/// Declares functions with NVML's names; a body reads its name as `FUNCTION` (items of a macro are not hygienic).
macro_rules! nvml {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $body:block)*) => {
        $(
            // SAFETY: the name is NVML's, and no program that loads this library has another function of that name.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $kind),*) -> nvmlReturn_t {
                const FUNCTION: &str = stringify!($name);
                if let Some(code) = machine::machine().and_then(|machine| machine.fails.get(FUNCTION).copied()) {
                    return code;
                }
                $body
            }
        )*
    };
}

nvml! {
    fn nvmlInit_v2() {
        machine::machine().map_or(DRIVER_NOT_LOADED, |machine| machine.init)
    }
    fn nvmlShutdown() { SUCCESS }
    fn nvmlSystemGetDriverVersion(text: *mut c_char, length: c_uint) { put_text(text, length, "580.00") }
    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        let Some(Machine { gpus, .. }) = machine::machine() else { return DRIVER_NOT_LOADED };
        put(count, u32::try_from(gpus.len()).unwrap_or(u32::MAX))
    }
    fn nvmlDeviceGetHandleByIndex_v2(number: c_uint, device: *mut nvmlDevice_t) {
        let found = handle(number as usize);
        match about(FUNCTION, found, |_| SUCCESS) {
            SUCCESS => put(device, found),
            error => error,
        }
    }
    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut nvmlDevice_t) {
        let Some(wanted) = text(uuid) else { return INVALID_ARGUMENT };
        let Some(Machine { gpus, .. }) = machine::machine() else { return DRIVER_NOT_LOADED };
        let Some(number) = gpus.iter().position(|gpu| gpu.uuid == wanted) else { return NOT_FOUND };
        match about(FUNCTION, handle(number), |_| SUCCESS) {
            SUCCESS => put(device, handle(number)),
            error => error,
        }
    }
    fn nvmlDeviceGetUUID(device: nvmlDevice_t, text: *mut c_char, length: c_uint) {
        about(FUNCTION, device, |gpu| put_text(text, length, &gpu.uuid))
    }
    fn nvmlDeviceGetName(device: nvmlDevice_t, text: *mut c_char, length: c_uint) {
        about(FUNCTION, device, |gpu| put_text(text, length, &gpu.name))
    }
    fn nvmlDeviceGetMigMode(device: nvmlDevice_t, current: *mut c_uint, pending: *mut c_uint) {
        about(FUNCTION, device, |gpu| {
            if gpu.compute[0] < 8 {
                return NOT_SUPPORTED;
            }
            put(current, u32::from(gpu.mig));
            put(pending, u32::from(gpu.mig))
        })
    }
    fn nvmlDeviceGetCudaComputeCapability(device: nvmlDevice_t, major: *mut c_int, minor: *mut c_int) {
        about(FUNCTION, device, |gpu| {
            put(major, gpu.compute[0]);
            put(minor, gpu.compute[1])
        })
    }
    fn nvmlDeviceGetNumGpuCores(device: nvmlDevice_t, cores: *mut c_uint) {
        about(FUNCTION, device, |gpu| put(cores, gpu.cores))
    }
    fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, memory: *mut nvmlMemory_v2_t) {
        about(FUNCTION, device, |gpu| {
            let &Gpu { total, reserved, used, .. } = gpu;
            let free = total.saturating_sub(reserved).saturating_sub(used);
            put(memory, nvmlMemory_v2_t { version: MEMORY_V2, total, reserved, free, used })
        })
    }
    fn nvmlDeviceGetComputeRunningProcesses_v3(
        device: nvmlDevice_t,
        count: *mut c_uint,
        infos: *mut nvmlProcessInfo_t
    ) {
        about(FUNCTION, device, |gpu| put_processes(gpu, count, infos))
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        device: nvmlDevice_t,
        _count: *mut c_uint,
        _infos: *mut nvmlProcessInfo_t
    ) {
        about(FUNCTION, device, |_| NOT_SUPPORTED)
    }
    fn nvmlDeviceGetUtilizationRates(device: nvmlDevice_t, rates: *mut nvmlUtilization_t) {
        about(FUNCTION, device, |gpu| match gpu.utilization {
            None => NOT_SUPPORTED,
            Some(percent) => put(rates, nvmlUtilization_t { gpu: percent, memory: 0 }),
        })
    }
    fn nvmlDeviceGetTemperature(device: nvmlDevice_t, _sensor: c_uint, celsius: *mut c_uint) {
        about(FUNCTION, device, |gpu| gpu.temperature.map_or(NOT_SUPPORTED, |value| put(celsius, value)))
    }
    fn nvmlDeviceGetPowerUsage(device: nvmlDevice_t, milliwatts: *mut c_uint) {
        about(FUNCTION, device, |gpu| gpu.power.map_or(NOT_SUPPORTED, |value| put(milliwatts, value)))
    }
    fn nvmlEventSetCreate(set: *mut nvmlEventSet_t) {
        put(set, ptr::without_provenance_mut::<c_void>(1).cast())
    }
    fn nvmlEventSetFree(_set: nvmlEventSet_t) { SUCCESS }
    fn nvmlDeviceRegisterEvents(device: nvmlDevice_t, _events: c_ulonglong, _set: nvmlEventSet_t) {
        about(FUNCTION, device, |_| SUCCESS)
    }
    fn nvmlEventSetWait_v2(_set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout_ms: c_uint) {
        let until = Instant::now() + Duration::from_millis(u64::from(timeout_ms));
        loop {
            let xids = machine::machine().map_or_else(Vec::new, |machine| machine.xids);
            if let Some(xid) = xids.get(DELIVERED.load(Ordering::Relaxed)) {
                DELIVERED.fetch_add(1, Ordering::Relaxed);
                return put(data, nvmlEventData_t {
                    device: handle(xid.gpu),
                    eventType: XID_CRITICAL,
                    eventData: xid.number,
                    gpuInstanceId: u32::MAX,
                    computeInstanceId: u32::MAX,
                });
            }
            if Instant::now() >= until {
                return TIMEOUT;
            }
            std::thread::sleep(POLL_PAUSE);
        }
    }
}
