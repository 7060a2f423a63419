//! Hooks: memory.

use super::layouts::{ChannelBits, Extent, array_bytes, mipmapped_bytes, read};
use super::{made, number, pointer, stored, stream_id};
use crate::outcome::{Outcome, Why};
use crate::runtime::CudaError;
use cudarc::runtime::sys::{
    cudaArray_t, cudaChannelFormatDesc, cudaEvent_t, cudaExtent, cudaIpcEventHandle_t, cudaIpcMemHandle_t,
    cudaMemPool_t, cudaMemPoolProps, cudaMipmappedArray_t, cudaPitchedPtr, cudaResourceDesc,
    cudaResourceViewDesc, cudaStream_t, cudaSurfaceObject_t, cudaTextureDesc, cudaTextureObject_t,
};
use std::ffi::{c_int, c_uint, c_void};

/// Format of an array's elements, as the program describes it.
///
/// # Safety
/// `desc` is null or points to a readable description, as CUDA demands.
unsafe fn channel(desc: *const cudaChannelFormatDesc) -> Option<ChannelBits> {
    // SAFETY: as promised by the caller; the layouts agree.
    unsafe { read(desc) }
}

fn extent(given: cudaExtent) -> Extent {
    Extent { width: given.width, height: given.height, depth: given.depth }
}

fn check(status: u32) -> Result<(), CudaError> {
    CudaError::check(status)
}

hooks! { declared;
    fn cudaMalloc(out: *mut *mut c_void, bytes: usize) = |shim, thread| {
        stored(out, || shim.malloc(thread, bytes as u64).map(pointer))
    };
    fn cudaMallocManaged(out: *mut *mut c_void, bytes: usize, flags: c_uint) = |shim, thread| {
        stored(out, || shim.malloc_managed(thread, bytes as u64, flags).map(pointer))
    };
    fn cudaMallocPitch(out: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) = |shim, thread| {
        stored(out, || {
            if pitch.is_null() {
                return Outcome::PassThrough(Why::AsItIs);
            }
            shim.malloc_pitch(thread, width as u64, height as u64).map(|made| {
                // SAFETY: not null, and the program gave it to this CUDA call to be written.
                unsafe { pitch.write(made.pitch as usize) };
                pointer(made.start)
            })
        })
    };
    fn cudaMalloc3D(out: *mut cudaPitchedPtr, extent: cudaExtent) = |shim, thread| {
        stored(out, || {
            let rows = (extent.height as u64).saturating_mul(extent.depth as u64);
            shim.malloc_pitch(thread, extent.width as u64, rows).map(|made| cudaPitchedPtr {
                ptr: pointer(made.start),
                pitch: made.pitch as usize,
                xsize: extent.width,
                ysize: extent.height,
            })
        })
    };
    fn cudaMallocArray(
        array: *mut cudaArray_t,
        desc: *const cudaChannelFormatDesc,
        width: usize,
        height: usize,
        flags: c_uint,
    ) = |shim, thread| {
        // SAFETY: the program's description, given to this call to be read.
        let bits = unsafe { channel(desc) };
        let bytes = bits.map_or(0, |bits| array_bytes(bits, Extent { width, height, depth: 0 }));
        // SAFETY: the program's own arguments.
        let real = || made(unsafe { real(array, desc, width, height, flags) }, array);
        shim.malloc_array(thread, bytes, || real().map(|array| number(array.cast())))
    };
    fn cudaMalloc3DArray(
        array: *mut cudaArray_t,
        desc: *const cudaChannelFormatDesc,
        size: cudaExtent,
        flags: c_uint,
    ) = |shim, thread| {
        // SAFETY: the program's description, given to this call to be read.
        let bytes = unsafe { channel(desc) }.map_or(0, |bits| array_bytes(bits, extent(size)));
        // SAFETY: the program's own arguments.
        let real = || made(unsafe { real(array, desc, size, flags) }, array);
        shim.malloc_array(thread, bytes, || real().map(|array| number(array.cast())))
    };
    fn cudaMallocMipmappedArray(
        array: *mut cudaMipmappedArray_t,
        desc: *const cudaChannelFormatDesc,
        size: cudaExtent,
        levels: c_uint,
        flags: c_uint,
    ) = |shim, thread| {
        // SAFETY: the program's description, given to this call to be read.
        let bits = unsafe { channel(desc) };
        let bytes = bits.map_or(0, |bits| mipmapped_bytes(bits, extent(size), levels));
        // SAFETY: the program's own arguments.
        let real = || made(unsafe { real(array, desc, size, levels, flags) }, array);
        shim.malloc_array(thread, bytes, || real().map(|array| number(array.cast())))
    };
    fn cudaMallocAsync(out: *mut *mut c_void, bytes: usize, stream: cudaStream_t) [ptsz stream] = |shim, thread| {
        stored(out, || shim.malloc_async(thread, bytes as u64, stream_id(stream), None).map(pointer))
    };
    fn cudaMallocFromPoolAsync(
        out: *mut *mut c_void,
        bytes: usize,
        pool: cudaMemPool_t,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| {
        let from = Some(pool.expose_provenance());
        stored(out, || shim.malloc_async(thread, bytes as u64, stream_id(stream), from).map(pointer))
    };
    fn cudaFree(address: *mut c_void) = |shim, thread| shim.free(thread, number(address));
    fn cudaMallocHost(out: *mut *mut c_void, bytes: usize) = |shim, thread| {
        stored(out, || shim.malloc_host(thread, bytes as u64, 0).map(pointer))
    };
    fn cudaHostAlloc(out: *mut *mut c_void, bytes: usize, flags: c_uint) = |shim, thread| {
        stored(out, || shim.malloc_host(thread, bytes as u64, flags).map(pointer))
    };
    fn cudaFreeHost(address: *mut c_void) = |shim, _thread| shim.free_host(number(address));
    fn cudaHostGetDevicePointer(_device: *mut *mut c_void, host: *mut c_void, _flags: c_uint) = |shim, thread| {
        shim.about_host_memory(thread, number(host))
    };
    fn cudaHostGetFlags(_flags: *mut c_uint, host: *mut c_void) = |shim, thread| {
        shim.about_host_memory(thread, number(host))
    };
    fn cudaHostRegister(_host: *mut c_void, _bytes: usize, _flags: c_uint) = |shim, thread| {
        shim.on_some_device(thread)
    };
    fn cudaHostUnregister(_host: *mut c_void) = |shim, thread| shim.on_some_device(thread);
    fn cudaIpcOpenMemHandle(_address: *mut *mut c_void, _handle: cudaIpcMemHandle_t, _flags: c_uint) =
        |shim, thread| shim.on_some_device(thread);
    fn cudaIpcOpenEventHandle(_event: *mut cudaEvent_t, _handle: cudaIpcEventHandle_t) = |shim, thread| {
        shim.on_some_device(thread)
    };
    fn cudaGetSymbolSize(_bytes: *mut usize, _symbol: *const c_void) = |shim, thread| shim.on_some_device(thread);
    fn cudaFreeAsync(address: *mut c_void, stream: cudaStream_t) [ptsz stream] = |shim, thread| {
        shim.free_async(thread, number(address), stream_id(stream))
    };
    fn cudaFreeArray(array: cudaArray_t) = |shim, thread| {
        // SAFETY: the program's own argument.
        shim.free_array(thread, number(array.cast()), || check(unsafe { real(array) }))
    };
    fn cudaFreeMipmappedArray(array: cudaMipmappedArray_t) = |shim, thread| {
        // SAFETY: the program's own argument.
        shim.free_array(thread, number(array.cast()), || check(unsafe { real(array) }))
    };
    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) = |shim, thread| {
        let outcome = shim.on_own_device(thread);
        if outcome != Outcome::PassThrough(Why::AsItIs) || free.is_null() || !shim.has_declared_size() {
            return outcome;
        }
        // SAFETY: the program's own arguments.
        let told = made(unsafe { real(free, total) }, free);
        // SAFETY: not null, and the call that succeeded has just written it.
        told.map(|bytes| unsafe { free.write(shim.free_for_program(bytes as u64) as usize) }).into()
    };
    fn cudaMemPoolCreate(_pool: *mut cudaMemPool_t, _properties: *const cudaMemPoolProps) = |shim, thread| {
        shim.on_a_device(thread)
    };
    fn cudaDeviceGetDefaultMemPool(_pool: *mut cudaMemPool_t, device: c_int) = |shim, thread| {
        shim.translate_device(thread, &mut device)
    };
    fn cudaDeviceGetMemPool(_pool: *mut cudaMemPool_t, device: c_int) = |shim, thread| {
        shim.translate_device(thread, &mut device)
    };
    fn cudaDeviceSetMemPool(device: c_int, _pool: cudaMemPool_t) = |shim, thread| {
        shim.translate_device(thread, &mut device)
    };
    fn cudaPointerGetAttributes(_attributes: *mut c_void, address: *const c_void) =
        |shim, thread| shim.about_address(thread, address.expose_provenance() as u64);
    // Hooked only so that the program's table shows that it makes this call: see `Program::shares_memory`.
    fn cudaIpcGetMemHandle(_handle: *mut c_void, address: *mut c_void) =
        |shim, thread| shim.about_address(thread, address.expose_provenance() as u64);
    fn cudaGetSymbolAddress(_address: *mut *mut c_void, _symbol: *const c_void) =
        |shim, thread| shim.on_variable(thread, None);
    fn cudaCreateTextureObject(
        _texture: *mut cudaTextureObject_t,
        _resource: *const cudaResourceDesc,
        _description: *const cudaTextureDesc,
        _view: *const cudaResourceViewDesc,
    ) = |shim, thread| shim.on_a_device(thread);
    fn cudaCreateSurfaceObject(_surface: *mut cudaSurfaceObject_t, _resource: *const cudaResourceDesc) =
        |shim, thread| shim.on_a_device(thread);
}

/// Calls whose arguments differ between CUDA 12 and 13. All arguments are passed in registers, so that one function
/// can take both forms as plain 64-bit words (System V calling convention) and pass them on unchanged.
pub mod changed {
    use super::super::number;
    use crate::hooks::unusual::Hint;
    use crate::library::runtime_is_13;
    use crate::outcome::{Outcome, Why};
    use std::ffi::{c_int, c_void};

    /// `cudaMemLocationTypeDevice`.
    const DEVICE: u32 = 1;

    /// Puts the daemon's device into a location. In CUDA 13 the word holds type and number; in CUDA 12 the number
    /// alone, which is below 0 for the host. A location that is not a device is returned unchanged.
    fn translated(location: u64, thirteen: bool, hint: impl FnOnce() -> Hint) -> (u64, Outcome<()>) {
        let as_it_is = Outcome::PassThrough(Why::AsItIs);
        let [low, high] = [location as u32, (location >> 32) as u32];
        let is_device = if thirteen { low == DEVICE } else { low.cast_signed() >= 0 };
        if !is_device {
            return (location, as_it_is);
        }
        match hint() {
            Hint::Drop => (location, Outcome::Handled(())),
            Hint::AsItIs => (location, as_it_is),
            Hint::On(device) if thirteen => {
                (u64::from(low) | u64::from(device.0.cast_unsigned()) << 32, as_it_is)
            }
            Hint::On(device) => (u64::from(high) << 32 | u64::from(device.0.cast_unsigned()), as_it_is),
        }
    }

    hooks! {
        fn cudaMemAdvise(address: *const c_void, bytes: usize, _advice: c_int, location: u64) = |shim, thread| {
            let hint = || shim.placement_hint(thread, number(address), bytes as u64);
            let (own, outcome) = translated(location, runtime_is_13(), hint);
            location = own;
            shim.advised(outcome)
        };
        fn cudaMemAdvise_v2(address: *const c_void, bytes: usize, _advice: c_int, location: u64) = |shim, thread| {
            let (own, outcome) = translated(location, true, || shim.placement_hint(thread, number(address), bytes as u64));
            location = own;
            shim.advised(outcome)
        };
        // CUDA 13: flags and stream; CUDA 12: the stream, and no further argument.
        fn cudaMemPrefetchAsync(
            address: *const c_void,
            bytes: usize,
            location: u64,
            _flags_or_stream: u64,
            _stream: u64,
        ) [ptds cudaMemPrefetchAsync_ptsz] = |shim, thread| {
            let hint = || shim.placement_hint(thread, number(address), bytes as u64);
            let (own, outcome) = translated(location, runtime_is_13(), hint);
            location = own;
            outcome
        };
        fn cudaMemPrefetchAsync_v2(
            address: *const c_void,
            bytes: usize,
            location: u64,
            _flags: u64,
            _stream: u64,
        ) [ptds cudaMemPrefetchAsync_v2_ptsz] = |shim, thread| {
            let (own, outcome) = translated(location, true, || shim.placement_hint(thread, number(address), bytes as u64));
            location = own;
            outcome
        };
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::runtime::DeviceIndex;

        #[test]
        fn a_device_becomes_the_daemons_and_the_host_stays() {
            let on_three = || Hint::On(DeviceIndex(3));
            let of = |location, thirteen| translated(location, thirteen, on_three).0;
            assert_eq!(of(u64::from(DEVICE), true), 3 << 32 | u64::from(DEVICE));
            assert_eq!(of(2, true), 2, "the host");
            assert_eq!(of(0, false), 3);
            assert_eq!(of(u64::from(u32::MAX), false), u64::from(u32::MAX), "the host");
        }

        #[test]
        fn a_dropped_hint_is_a_success() {
            assert_eq!(translated(0, false, || Hint::Drop).1, Outcome::Handled(()));
        }
    }
}
