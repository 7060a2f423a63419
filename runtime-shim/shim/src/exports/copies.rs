//! Hooks: copies and memsets.

use super::layouts::{Copy3D, Copy3DPeer, Extent, Side, read, slices};
use super::{number, stream_id};
use crate::outcome::Outcome;
use crate::process::LiveShim;
use crate::runtime::{Copy, CopyKind, Fill, Order, Rows};
use crate::state::Thread;
use cudarc::runtime::sys::{
    cudaArray_const_t, cudaArray_t, cudaExtent, cudaMemcpy3DParms, cudaMemcpy3DPeerParms, cudaPitchedPtr,
    cudaStream_t,
};
use std::ffi::{c_int, c_uint, c_void};

fn copy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint, order: Order) -> Copy {
    let (dst, src, bytes) = (number(dst), number(src), bytes as u64);
    Copy { dst, src, bytes, rows: Rows::ONE, kind: CopyKind(kind), order }
}

fn fill(address: *mut c_void, value: c_int, bytes: usize) -> Fill {
    Fill { dst: number(address), value, bytes: bytes as u64, rows: 1, pitch: 0 }
}

fn rows(height: usize, dst_pitch: usize, src_pitch: usize) -> Rows {
    Rows { count: height as u64, dst_pitch: dst_pitch as u64, src_pitch: src_pitch as u64 }
}

fn peer(dst: *mut c_void, src: *const c_void, bytes: usize, order: Order) -> [Copy; 1] {
    [copy(dst, src, bytes, CopyKind::DEVICE_TO_DEVICE.0, order)]
}

/// `cudaMemcpy3D`, `…Async`. A copy from or to an array is forwarded to the runtime, on the task's device.
///
/// # Safety
/// `given` is null or points to readable parameters.
unsafe fn copy_3d(
    shim: &LiveShim,
    thread: &mut Thread,
    given: *const cudaMemcpy3DParms,
    order: Order,
) -> Outcome<()> {
    // SAFETY: as promised by the caller; the layouts agree.
    let found = unsafe { read::<Copy3D, _>(given) };
    let linear = found.filter(|copy| copy.src_array == 0 && copy.dst_array == 0).and_then(|copy| {
        let (dst, src) = (Side::new(copy.dst, copy.dst_position)?, Side::new(copy.src, copy.src_position)?);
        Some(slices(dst, src, copy.extent, CopyKind(copy.kind), order))
    });
    match linear {
        Some(slices) => shim.copy_slices(thread, &slices),
        None => shim.on_a_device(thread),
    }
}

/// `cudaMemcpy3DPeer`, `…Async`, handled like `cudaMemcpy3D`.
///
/// # Safety
/// `given` is null or points to readable parameters.
unsafe fn copy_3d_peer(
    shim: &LiveShim,
    thread: &mut Thread,
    given: *const cudaMemcpy3DPeerParms,
    order: Order,
) -> Outcome<()> {
    // SAFETY: as promised by the caller; the layouts agree.
    let found = unsafe { read::<Copy3DPeer, _>(given) };
    let linear = found.filter(|copy| copy.src_array == 0 && copy.dst_array == 0).and_then(|copy| {
        let (dst, src) = (Side::new(copy.dst, copy.dst_position)?, Side::new(copy.src, copy.src_position)?);
        Some(slices(dst, src, copy.extent, CopyKind::DEVICE_TO_DEVICE, order))
    });
    match linear {
        Some(slices) => shim.copy_peer(thread, &slices),
        None => shim.on_a_device(thread),
    }
}

/// `cudaMemset3D`, `…Async`: a fill of rows, if the slices follow each other without a gap.
fn fill_3d(
    shim: &LiveShim,
    thread: &mut Thread,
    to: cudaPitchedPtr,
    value: c_int,
    size: cudaExtent,
) -> Outcome<()> {
    let Extent { width, height, depth } =
        Extent { width: size.width, height: size.height, depth: size.depth };
    if depth != 1 && to.ysize != height {
        return shim.on_a_device(thread);
    }
    let (rows, pitch) = ((height as u64).saturating_mul(depth as u64), to.pitch as u64);
    shim.fill(thread, &Fill { rows, pitch, ..fill(to.ptr, value, width) })
}

hooks! { declared;
    fn cudaMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint) [ptds cudaMemcpy_ptds] =
        |shim, thread| shim.copy(thread, &copy(dst, src, bytes, kind, ORDER));
    fn cudaMemcpyAsync(
        dst: *mut c_void,
        src: *const c_void,
        bytes: usize,
        kind: c_uint,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| {
        shim.copy(thread, &copy(dst, src, bytes, kind, Order::On(stream_id(stream))))
    };
    fn cudaMemcpy2D(
        dst: *mut c_void,
        dst_pitch: usize,
        src: *const c_void,
        src_pitch: usize,
        width: usize,
        height: usize,
        kind: c_uint,
    ) [ptds cudaMemcpy2D_ptds] = |shim, thread| {
        let rows = rows(height, dst_pitch, src_pitch);
        shim.copy(thread, &Copy { rows, ..copy(dst, src, width, kind, ORDER) })
    };
    fn cudaMemcpy2DAsync(
        dst: *mut c_void,
        dst_pitch: usize,
        src: *const c_void,
        src_pitch: usize,
        width: usize,
        height: usize,
        kind: c_uint,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| {
        let (rows, order) = (rows(height, dst_pitch, src_pitch), Order::On(stream_id(stream)));
        shim.copy(thread, &Copy { rows, ..copy(dst, src, width, kind, order) })
    };
    fn cudaMemcpy3D(parameters: *const cudaMemcpy3DParms) [ptds cudaMemcpy3D_ptds] = |shim, thread| {
        // SAFETY: the program's parameters, given to this call to be read.
        unsafe { copy_3d(shim, thread, parameters, ORDER) }
    };
    fn cudaMemcpy3DAsync(parameters: *const cudaMemcpy3DParms, stream: cudaStream_t) [ptsz stream] =
        |shim, thread| {
            // SAFETY: the program's parameters, given to this call to be read.
            unsafe { copy_3d(shim, thread, parameters, Order::On(stream_id(stream))) }
        };
    fn cudaMemcpyPeer(
        dst: *mut c_void,
        _dst_device: c_int,
        src: *const c_void,
        _src_device: c_int,
        bytes: usize,
    ) = |shim, thread| shim.copy_peer(thread, &peer(dst, src, bytes, Order::Blocking));
    fn cudaMemcpyPeerAsync(
        dst: *mut c_void,
        _dst_device: c_int,
        src: *const c_void,
        _src_device: c_int,
        bytes: usize,
        stream: cudaStream_t,
    ) = |shim, thread| shim.copy_peer(thread, &peer(dst, src, bytes, Order::On(stream_id(stream))));
    fn cudaMemcpy3DPeer(parameters: *const cudaMemcpy3DPeerParms) [ptds cudaMemcpy3DPeer_ptds] = |shim, thread| {
        // SAFETY: the program's parameters, given to this call to be read.
        unsafe { copy_3d_peer(shim, thread, parameters, ORDER) }
    };
    fn cudaMemcpy3DPeerAsync(parameters: *const cudaMemcpy3DPeerParms, stream: cudaStream_t) [ptsz stream] =
        |shim, thread| {
            // SAFETY: the program's parameters, given to this call to be read.
            unsafe { copy_3d_peer(shim, thread, parameters, Order::On(stream_id(stream))) }
        };

    // A device variable has one copy per device.
    fn cudaMemcpyToSymbol(
        _symbol: *const c_void,
        src: *const c_void,
        _bytes: usize,
        _offset: usize,
        _kind: c_uint,
    ) [ptds cudaMemcpyToSymbol_ptds] = |shim, thread| shim.on_variable(thread, Some(src.expose_provenance() as u64));
    fn cudaMemcpyToSymbolAsync(
        _symbol: *const c_void,
        src: *const c_void,
        _bytes: usize,
        _offset: usize,
        _kind: c_uint,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| shim.on_variable(thread, Some(src.expose_provenance() as u64));
    fn cudaMemcpyFromSymbol(
        dst: *mut c_void,
        _symbol: *const c_void,
        _bytes: usize,
        _offset: usize,
        _kind: c_uint,
    ) [ptds cudaMemcpyFromSymbol_ptds] = |shim, thread| shim.on_variable(thread, Some(dst.expose_provenance() as u64));
    fn cudaMemcpyFromSymbolAsync(
        dst: *mut c_void,
        _symbol: *const c_void,
        _bytes: usize,
        _offset: usize,
        _kind: c_uint,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| shim.on_variable(thread, Some(dst.expose_provenance() as u64));

    // Arrays are on the device that their task had when they were made.
    fn cudaMemcpy2DToArray(
        _dst: cudaArray_t,
        _x: usize,
        _y: usize,
        src: *const c_void,
        _src_pitch: usize,
        _width: usize,
        _height: usize,
        _kind: c_uint,
    ) [ptds cudaMemcpy2DToArray_ptds] = |shim, thread| shim.on_a_device_with(thread, &[src.expose_provenance() as u64]);
    fn cudaMemcpy2DToArrayAsync(
        _dst: cudaArray_t,
        _x: usize,
        _y: usize,
        src: *const c_void,
        _src_pitch: usize,
        _width: usize,
        _height: usize,
        _kind: c_uint,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| shim.on_a_device_with(thread, &[src.expose_provenance() as u64]);
    fn cudaMemcpy2DFromArray(
        dst: *mut c_void,
        _dst_pitch: usize,
        _src: cudaArray_const_t,
        _x: usize,
        _y: usize,
        _width: usize,
        _height: usize,
        _kind: c_uint,
    ) [ptds cudaMemcpy2DFromArray_ptds] = |shim, thread| shim.on_a_device_with(thread, &[dst.expose_provenance() as u64]);
    fn cudaMemcpy2DFromArrayAsync(
        dst: *mut c_void,
        _dst_pitch: usize,
        _src: cudaArray_const_t,
        _x: usize,
        _y: usize,
        _width: usize,
        _height: usize,
        _kind: c_uint,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| shim.on_a_device_with(thread, &[dst.expose_provenance() as u64]);
    fn cudaMemcpy2DArrayToArray(
        _dst: cudaArray_t,
        _dst_x: usize,
        _dst_y: usize,
        _src: cudaArray_const_t,
        _src_x: usize,
        _src_y: usize,
        _width: usize,
        _height: usize,
        _kind: c_uint,
    ) [ptds cudaMemcpy2DArrayToArray_ptds] = |shim, thread| shim.on_a_device(thread);
    fn cudaMemcpyToArray(
        _dst: cudaArray_t,
        _x: usize,
        _y: usize,
        src: *const c_void,
        _bytes: usize,
        _kind: c_uint,
    ) [ptds cudaMemcpyToArray_ptds] = |shim, thread| shim.on_a_device_with(thread, &[src.expose_provenance() as u64]);
    fn cudaMemcpyToArrayAsync(
        _dst: cudaArray_t,
        _x: usize,
        _y: usize,
        src: *const c_void,
        _bytes: usize,
        _kind: c_uint,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| shim.on_a_device_with(thread, &[src.expose_provenance() as u64]);
    fn cudaMemcpyFromArray(
        dst: *mut c_void,
        _src: cudaArray_const_t,
        _x: usize,
        _y: usize,
        _bytes: usize,
        _kind: c_uint,
    ) [ptds cudaMemcpyFromArray_ptds] = |shim, thread| shim.on_a_device_with(thread, &[dst.expose_provenance() as u64]);
    fn cudaMemcpyFromArrayAsync(
        dst: *mut c_void,
        _src: cudaArray_const_t,
        _x: usize,
        _y: usize,
        _bytes: usize,
        _kind: c_uint,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| shim.on_a_device_with(thread, &[dst.expose_provenance() as u64]);
    fn cudaMemcpyArrayToArray(
        _dst: cudaArray_t,
        _dst_x: usize,
        _dst_y: usize,
        _src: cudaArray_const_t,
        _src_x: usize,
        _src_y: usize,
        _bytes: usize,
        _kind: c_uint,
    ) [ptds cudaMemcpyArrayToArray_ptds] = |shim, thread| shim.on_a_device(thread);

    fn cudaMemset(address: *mut c_void, value: c_int, bytes: usize) [ptds cudaMemset_ptds] =
        |shim, thread| shim.fill(thread, &fill(address, value, bytes));
    fn cudaMemsetAsync(address: *mut c_void, value: c_int, bytes: usize, stream: cudaStream_t) [ptsz stream] =
        |shim, thread| shim.fill(thread, &fill(address, value, bytes));
    fn cudaMemset2D(address: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize)
        [ptds cudaMemset2D_ptds] = |shim, thread| {
            let (rows, pitch) = (height as u64, pitch as u64);
            shim.fill(thread, &Fill { rows, pitch, ..fill(address, value, width) })
        };
    fn cudaMemset2DAsync(
        address: *mut c_void,
        pitch: usize,
        value: c_int,
        width: usize,
        height: usize,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| {
        let (rows, pitch) = (height as u64, pitch as u64);
        shim.fill(thread, &Fill { rows, pitch, ..fill(address, value, width) })
    };
    fn cudaMemset3D(to: cudaPitchedPtr, value: c_int, size: cudaExtent) [ptds cudaMemset3D_ptds] =
        |shim, thread| fill_3d(shim, thread, to, value, size);
    fn cudaMemset3DAsync(to: cudaPitchedPtr, value: c_int, size: cudaExtent, stream: cudaStream_t) [ptsz stream] =
        |shim, thread| fill_3d(shim, thread, to, value, size);
}
