//! Prefetch and advice for managed memory by location (CUDA 13's only form, `_v2` in CUDA 12).
//!
//! Trap: to the model, managed memory belongs to one device: the device that was current at the allocation, until a
//! call here names another as its location. Then the whole allocation must move there ([`Runtime::rehome`]); kernels of
//! other devices can still access it, in no modelled time.

use core::ffi::{c_int, c_void};

use eager_gpu_model::{Advice, AllocId, AllocKind, Location, Op, Range};
use eager_vgpu_link::Request;

use super::{open, stream_key};
use crate::command::Command;
use crate::memory::{Advised, Kind, Side};
use crate::runtime::Runtime;
use crate::status::Code;
use crate::stream::StreamKey;

/// `cudaMemLocation` with the type as a plain number.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemLocation {
    kind: u32,
    id: c_int,
}

const DEVICE: u32 = 1;
const HOST: u32 = 2;
const HOST_NUMA: u32 = 3;
const HOST_NUMA_CURRENT: u32 = 4;

/// Location to which managed memory is sent.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    Host,
    Device(u32),
}

impl MemLocation {
    /// Location from CUDA 12's device number; -1 is the host.
    #[cfg(cuda_12)]
    pub fn of_number(device: c_int) -> MemLocation {
        const CPU: c_int = -1;
        match device {
            CPU => MemLocation { kind: HOST, id: 0 },
            id => MemLocation { kind: DEVICE, id },
        }
    }

    /// # Errors
    /// `cudaErrorInvalidValue` for a kind of location that CUDA lacks, `cudaErrorInvalidDevice`.
    pub fn target(self, runtime: &Runtime) -> Result<Target, Code> {
        match self.kind {
            DEVICE => {
                let device = u32::try_from(self.id).map_err(|_| Code::cudaErrorInvalidDevice)?;
                runtime.device(device).map(|_| Target::Device(device))
            }
            HOST | HOST_NUMA | HOST_NUMA_CURRENT => Ok(Target::Host),
            _ => Err(Code::cudaErrorInvalidValue),
        }
    }
}

impl Target {
    fn side(self) -> Side {
        match self {
            Target::Host => Side::Host,
            Target::Device(device) => Side::Device(device),
        }
    }
}

/// Part of a managed allocation.
#[derive(Debug)]
pub struct Managed {
    pub alloc: AllocId,
    pub device: u32,
    pub range: Range,
}

impl Managed {
    /// # Errors
    /// `cudaErrorInvalidValue` if the range is not managed memory, or not within one allocation.
    pub fn find(runtime: &Runtime, pointer: *const c_void, bytes: usize) -> Result<Managed, Code> {
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

    /// Moves the whole allocation to the target's device if necessary; returns it with the location there.
    ///
    /// # Errors
    /// Those of the move.
    pub fn at(self, runtime: &Runtime, target: Target) -> Result<(Managed, Location), Code> {
        match target {
            Target::Host => Ok((self, Location::Host)),
            Target::Device(device) if device == self.device => Ok((self, Location::Device)),
            Target::Device(device) => {
                let alloc = runtime.rehome(self.alloc, device)?;
                Ok((Managed { alloc, device, ..self }, Location::Device))
            }
        }
    }
}

/// Prefetches managed memory in the order of a stream.
///
/// # Errors
/// `cudaErrorInvalidValue` for other memory, and those of the location.
pub fn prefetch(
    runtime: &'static Runtime,
    stream: StreamKey,
    pointer: *const c_void,
    bytes: usize,
    place: MemLocation,
) -> Result<(), Code> {
    let managed = Managed::find(runtime, pointer, bytes)?;
    let target = place.target(runtime)?;
    let (Managed { alloc, device, range }, to) = managed.at(runtime, target)?;
    runtime.submit(stream, Command::Prefetch(device, Op::Prefetch { alloc, range, to }))?;
    let side = Some(target.side());
    runtime.memory.lock().advice.change(pointer as u64, bytes as u64, |said| said.prefetched = side);
    Ok(())
}

api!(
    #[cuda_12(cudaMemPrefetchAsync_v2)]
    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMemPrefetchAsync(
        pointer: *const c_void,
        bytes: usize,
        location: MemLocation,
        flags: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        let (runtime, current) = open()?;
        if flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        prefetch(runtime, stream_key(stream, current), pointer, bytes, location)
    }

    /// Applies advice; `ReadMostly` and `AccessedBy` have no effect on the model.
    #[cuda_12(cudaMemAdvise_v2)]
    #[bytes(bytes)]
    fn cudaMemAdvise(
        pointer: *const c_void,
        bytes: usize,
        advice: u32,
        location: MemLocation,
    ) -> Result<(), Code> {
        const SET_READ_MOSTLY: u32 = 1;
        const UNSET_READ_MOSTLY: u32 = 2;
        const SET_PREFERRED_LOCATION: u32 = 3;
        const UNSET_PREFERRED_LOCATION: u32 = 4;
        const SET_ACCESSED_BY: u32 = 5;
        const UNSET_ACCESSED_BY: u32 = 6;
        let (runtime, _) = open()?;
        let managed = Managed::find(runtime, pointer, bytes)?;
        let change = |change: &dyn Fn(&mut Advised)| {
            runtime.memory.lock().advice.change(pointer as u64, bytes as u64, change);
        };
        let (Managed { alloc, range, .. }, model) = match advice {
            SET_PREFERRED_LOCATION => match managed.at(runtime, location.target(runtime)?)? {
                (managed, Location::Device) => (managed, Advice::PreferredDevice),
                (managed, Location::Host) => (managed, Advice::PreferredHost),
            },
            UNSET_PREFERRED_LOCATION => (managed, Advice::PreferredNone),
            SET_READ_MOSTLY | UNSET_READ_MOSTLY => {
                change(&|said| said.read_mostly = advice == SET_READ_MOSTLY);
                return Ok(());
            }
            SET_ACCESSED_BY | UNSET_ACCESSED_BY => {
                let side = location.target(runtime)?.side();
                change(&|said| match advice {
                    SET_ACCESSED_BY => drop(said.accessed_by.insert(side)),
                    _ => drop(said.accessed_by.remove(&side)),
                });
                return Ok(());
            }
            _ => return Err(Code::cudaErrorInvalidValue),
        };
        runtime.call(Request::Advise { alloc, range, advice: model })?;
        let side = match model {
            Advice::PreferredNone => None,
            _ => Some(location.target(runtime)?.side()),
        };
        change(&|said| said.preferred = side);
        Ok(())
    }
);
