//! Prefetch and advice for managed memory (CUDA 13 signatures, with a location).
//!
//! Trap: managed memory belongs to the device that was current when it was allocated; moving it to another device is
//! not modelled and refused.

use core::ffi::{c_int, c_void};

use eager_gpu_model::{Advice, AllocId, AllocKind, Location, Op, Range};
use eager_vgpu_link::Request;

use super::{open, stream_key};
use crate::memory::Kind;
use crate::runtime::Runtime;
use crate::status::{Code, guard, say};

/// `cudaMemLocation` with the type as a plain number.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemLocation {
    kind: u32,
    id: c_int,
}

impl MemLocation {
    /// Where the location is, for memory that belongs to `device`.
    fn resolve(self, device: u32) -> Result<Location, Code> {
        const DEVICE: u32 = 1;
        const HOST: u32 = 2;
        const HOST_NUMA: u32 = 3;
        const HOST_NUMA_CURRENT: u32 = 4;
        match self.kind {
            DEVICE if u32::try_from(self.id) == Ok(device) => Ok(Location::Device),
            DEVICE => {
                let to = self.id;
                say(format_args!(
                    "managed memory of device {device} cannot move to device {to}: not modelled"
                ));
                Err(Code::cudaErrorNotSupported)
            }
            HOST | HOST_NUMA | HOST_NUMA_CURRENT => Ok(Location::Host),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }
}

struct Managed {
    alloc: AllocId,
    device: u32,
    range: Range,
}

fn managed(runtime: &Runtime, pointer: *const c_void, bytes: usize) -> Result<Managed, Code> {
    let memory = runtime.memory.lock();
    let found = memory.table.find(pointer as u64).ok_or(Code::cudaErrorInvalidValue)?;
    let range = found.range(pointer as u64, bytes as u64).filter(|range| range.bytes > 0);
    match (found.kind, range) {
        (Kind::Modelled { alloc, kind: AllocKind::Managed }, Some(range)) => {
            Ok(Managed { alloc, device: found.device, range })
        }
        _ => Err(Code::cudaErrorInvalidValue),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPrefetchAsync(
    pointer: *const c_void,
    bytes: usize,
    location: MemLocation,
    flags: u32,
    stream: *mut c_void,
) -> Code {
    guard("cudaMemPrefetchAsync", bytes, || {
        let (runtime, current) = open()?;
        let Managed { alloc, device, range } = managed(runtime, pointer, bytes)?;
        if flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        let to = location.resolve(device)?;
        let prefetch = move || runtime.run_op(device, Op::Prefetch { alloc, range, to });
        runtime.enqueue(stream_key(stream, current), Vec::new(), prefetch)?;
        Ok(())
    })
}

/// `ReadMostly` and `AccessedBy` are accepted and have no effect on the model.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemAdvise(
    pointer: *const c_void,
    bytes: usize,
    advice: u32,
    location: MemLocation,
) -> Code {
    const SET_PREFERRED_LOCATION: u32 = 3;
    const UNSET_PREFERRED_LOCATION: u32 = 4;
    guard("cudaMemAdvise", bytes, || {
        let (runtime, _) = open()?;
        let Managed { alloc, device, range } = managed(runtime, pointer, bytes)?;
        let advice = match advice {
            SET_PREFERRED_LOCATION => match location.resolve(device)? {
                Location::Device => Advice::PreferredDevice,
                Location::Host => Advice::PreferredHost,
            },
            UNSET_PREFERRED_LOCATION => Advice::PreferredNone,
            1 | 2 | 5 | 6 => return Ok(()),
            _ => return Err(Code::cudaErrorInvalidValue),
        };
        runtime.call(Request::Advise { alloc, range, advice }).map(drop)
    })
}
