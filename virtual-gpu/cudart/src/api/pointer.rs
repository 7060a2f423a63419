//! Queries about pointers.
//!
//! Host memory that was never registered is not an error since CUDA 11, but has a kind of its own.

use core::ffi::{c_int, c_void};

use cudarc::runtime::sys::cudaMemoryType;
use eager_gpu_model::AllocKind;

use super::open;
use crate::ffi::Out;
use crate::kernel::{copies, variable_at};
use crate::memory::Kind;
use crate::status::Code;

/// Device number of memory that belongs to no device.
const NO_DEVICE: c_int = -2;

/// `cudaPointerAttributes`, which CUDA 13 made longer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PointerAttributes {
    kind: cudaMemoryType,
    device: c_int,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
    #[cfg(not(cuda_12))]
    reserved: [i64; 8],
}

const _: () = assert!(size_of::<PointerAttributes>() == if cfg!(cuda_12) { 24 } else { 88 });

fn memory_type(kind: Kind) -> cudaMemoryType {
    match kind {
        Kind::Pinned { .. } => cudaMemoryType::cudaMemoryTypeHost,
        Kind::Modelled { kind: AllocKind::Device, .. } => cudaMemoryType::cudaMemoryTypeDevice,
        Kind::Modelled { kind: AllocKind::Managed, .. } => cudaMemoryType::cudaMemoryTypeManaged,
    }
}

api!(
    fn cudaPointerGetAttributes(
        attributes: Out<PointerAttributes>,
        pointer: *const c_void,
    ) -> Result<(), Code> {
        let (runtime, current) = open()?;
        let found = runtime.memory.lock().table.find(pointer as u64).copied();
        let (kind, device) = match found {
            Some(found) => (memory_type(found.kind), c_int::try_from(found.device).unwrap_or(c_int::MAX)),
            None if variable_at(pointer as u64).is_some() => {
                let device = copies::home(pointer as u64).map_or(current, |(_, device)| device);
                (cudaMemoryType::cudaMemoryTypeDevice, c_int::try_from(device).unwrap_or(c_int::MAX))
            }
            None => (cudaMemoryType::cudaMemoryTypeUnregistered, NO_DEVICE),
        };
        let (none, same) = (std::ptr::null_mut(), pointer.cast_mut());
        let on_device = kind == cudaMemoryType::cudaMemoryTypeDevice;
        let unregistered = kind == cudaMemoryType::cudaMemoryTypeUnregistered;
        attributes.put(PointerAttributes {
            kind,
            device,
            device_pointer: if unregistered { none } else { same },
            host_pointer: if on_device { none } else { same },
            #[cfg(not(cuda_12))]
            reserved: [0; 8],
        })
    }
);
