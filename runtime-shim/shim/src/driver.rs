//! The few calls of the CUDA driver that the shim makes: mapping memory to addresses that persist (CUDA driver API
//! reference, section 6.14). The runtime has no such calls, but returns the addresses of the driver's.
//!
//! Trap: a program's runtime may be too old to return them, or its driver or device may not support them; then there
//! is no table, and memory is allocated without mapping.

use crate::library::{Status, function};
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Span};
use eager_proto::hello::Uuid;
use std::ffi::{CStr, c_char, c_uint, c_ulonglong, c_void};
use std::ptr;
use std::sync::OnceLock;

/// Version of the calls that is requested: CUDA 12.0, whose signatures later versions keep.
const VERSION: c_uint = 12_000;
const LOCATION_DEVICE: c_uint = 1;
const ALLOCATION_PINNED: c_uint = 1;
const ACCESS_READ_WRITE: c_uint = 3;
const GRANULARITY_MINIMUM: c_uint = 0;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Location {
    kind: c_uint,
    id: i32,
}

/// `CUmemAllocationProp`, for memory that is not shared with other processes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AllocationProp {
    kind: c_uint,
    handle_types: c_uint,
    location: Location,
    win32_meta: usize,
    flags: u64,
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AccessDesc {
    location: Location,
    flags: c_uint,
}

const _: () = assert!(size_of::<AllocationProp>() == 32 && size_of::<AccessDesc>() == 12);

type ByVersionFn =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_uint, c_ulonglong, *mut c_uint) -> Status;
type EntryPointFn = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_ulonglong, *mut c_uint) -> Status;

/// Declares the table of driver functions.
macro_rules! driver_table {
    ($($field:ident = $name:literal($($kind:ty),* $(,)?);)*) => {
        #[derive(Debug, Clone, Copy)]
        pub struct Driver {
            $($field: unsafe extern "C" fn($($kind),*) -> Status,)*
        }

        impl Driver {
            fn load() -> Option<Driver> {
                // SAFETY: each name is that of the driver function with these arguments (CUDA driver API reference
                // section 6.14), in the requested version.
                Some(unsafe { Driver { $($field: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> Status>(entry_point($name)?),)* } })
            }
        }
    };
}

driver_table! {
    granularity = c"cuMemGetAllocationGranularity"(*mut usize, *const AllocationProp, c_uint);
    address_reserve = c"cuMemAddressReserve"(*mut u64, usize, usize, u64, c_ulonglong);
    address_free = c"cuMemAddressFree"(u64, usize);
    create = c"cuMemCreate"(*mut u64, usize, *const AllocationProp, c_ulonglong);
    release = c"cuMemRelease"(u64);
    map = c"cuMemMap"(u64, usize, usize, u64, c_ulonglong);
    unmap = c"cuMemUnmap"(u64, usize);
    set_access = c"cuMemSetAccess"(u64, usize, *const AccessDesc, usize);
}

type DeviceUuidFn = unsafe extern "C" fn(*mut Uuid, i32) -> Status;

/// Returns a device's UUID, whatever else the driver supports; `None` if the driver cannot return it.
pub fn device_uuid(device: DeviceIndex) -> Option<Uuid> {
    let mut uuid = Uuid::default();
    let found = entry_point(c"cuDeviceGetUuid")?;
    // SAFETY: the driver function of that name has this signature (CUDA driver API reference, section 6.5), and
    // writes the 16 bytes of a `CUuuid` to a local that outlives the call.
    let code = unsafe { std::mem::transmute::<*mut c_void, DeviceUuidFn>(found)(&raw mut uuid, device.0) };
    (code == 0).then_some(uuid)
}

type ContextStateFn = unsafe extern "C" fn(i32, *mut c_uint, *mut i32) -> Status;

/// True if the device's primary context exists; the query creates none. `None`: the driver cannot tell.
pub fn has_context(device: DeviceIndex) -> Option<bool> {
    let (mut flags, mut is_active) = (0, 0);
    let found = entry_point(c"cuDevicePrimaryCtxGetState")?;
    // SAFETY: the driver function of that name has this signature (CUDA driver API reference, section 6.7); it writes
    // two numbers to locals that outlive the call.
    let code = unsafe {
        std::mem::transmute::<*mut c_void, ContextStateFn>(found)(
            device.0,
            &raw mut flags,
            &raw mut is_active,
        )
    };
    (code == 0).then_some(is_active != 0)
}

/// Returns the address of a driver function, never null; `None` if the driver lacks it.
fn entry_point(name: &CStr) -> Option<*mut c_void> {
    let (mut found, mut status) = (ptr::null_mut(), c_uint::MAX);
    // SAFETY: the runtime's functions of these names, with arguments as its header declares them; the locals that
    // they write to outlive the calls.
    let code = unsafe {
        match function::<ByVersionFn>("cudaGetDriverEntryPointByVersion") {
            Some(ask) => ask(name.as_ptr(), &mut found, VERSION, 0, &mut status),
            None => function::<EntryPointFn>("cudaGetDriverEntryPoint")?(
                name.as_ptr(),
                &mut found,
                0,
                &mut status,
            ),
        }
    };
    (code == 0 && status == 0 && !found.is_null()).then_some(found)
}

/// The driver's memory management, loaded once; `None`: it has none.
pub fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(Driver::load).as_ref()
}

fn location(device: DeviceIndex) -> Location {
    Location { kind: LOCATION_DEVICE, id: device.0 }
}

fn prop(device: DeviceIndex) -> AllocationProp {
    AllocationProp {
        kind: ALLOCATION_PINNED,
        handle_types: 0,
        location: location(device),
        win32_meta: 0,
        flags: 0,
    }
}

/// Calls a driver function; driver and runtime number their codes alike.
macro_rules! call {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        // SAFETY: the arguments have the declared types; pointers are to locals that outlive the call, and the driver
        // checks addresses and handles, which it returned itself.
        CudaError::check(unsafe { ($self.$name)($($argument),*) })
    };
}

impl Driver {
    /// Bytes that sizes must be a multiple of; `None`: this device does not map memory.
    pub fn granularity(&self, device: DeviceIndex) -> Option<u64> {
        let mut bytes = 0;
        call!(self.granularity(&mut bytes, &prop(device), GRANULARITY_MINIMUM)).ok()?;
        Some(bytes as u64).filter(|&bytes| bytes > 0)
    }

    /// Reserves addresses without memory.
    pub fn reserve(&self, bytes: u64) -> CudaResult<Span> {
        let mut start = 0;
        call!(self.address_reserve(&mut start, bytes as usize, 0, 0, 0))?;
        Ok(Span { start, bytes })
    }

    pub fn unreserve(&self, reserved: Span) -> CudaResult<()> {
        call!(self.address_free(reserved.start, reserved.bytes as usize))
    }

    /// Maps memory of the device to reserved addresses. The handle is released at once: the memory lives until it is
    /// unmapped.
    pub fn map_memory(&self, reserved: Span, device: DeviceIndex) -> CudaResult<()> {
        let (mut handle, bytes) = (0, reserved.bytes as usize);
        call!(self.create(&mut handle, bytes, &prop(device), 0))?;
        let mapped = call!(self.map(reserved.start, bytes, 0, handle, 0));
        let _ = call!(self.release(handle));
        mapped?;
        let access = AccessDesc { location: location(device), flags: ACCESS_READ_WRITE };
        call!(self.set_access(reserved.start, bytes, &access, 1)).inspect_err(|_| {
            let _ = self.unmap_memory(reserved);
        })
    }

    /// Unmaps and frees the memory, with its contents. Nothing may use it any more.
    pub fn unmap_memory(&self, reserved: Span) -> CudaResult<()> {
        call!(self.unmap(reserved.start, reserved.bytes as usize))
    }
}
