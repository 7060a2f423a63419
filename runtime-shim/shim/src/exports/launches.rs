//! Hooks: kernel launches, kernels' handles and attributes.

use super::layouts::{LaunchConfig, read};
use super::{made, stream_id};
use crate::outcome::{Outcome, Why};
use crate::runtime::{How, Launch, Setting, StreamId};
use cudarc::runtime::sys::{
    cudaFuncAttributes, cudaHostFn_t, cudaKernel_t, cudaLaunchConfig_t, cudaStream_t, dim3,
};
use std::ffi::{c_int, c_uint, c_void};

fn dimensions(size: dim3) -> [u32; 3] {
    [size.x, size.y, size.z]
}

hooks! { declared;
    fn cudaLaunchKernel(
        function: *const c_void,
        grid: dim3,
        block: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| {
        shim.launch(thread, &Launch {
            how: How::Plain,
            stub: function.expose_provenance(),
            grid: dimensions(grid),
            block: dimensions(block),
            args: args.expose_provenance(),
            shared_bytes,
            stream: stream_id(stream),
        })
    };
    fn cudaLaunchCooperativeKernel(
        function: *const c_void,
        grid: dim3,
        block: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        stream: cudaStream_t,
    ) [ptsz stream] = |shim, thread| {
        shim.launch(thread, &Launch {
            how: How::Cooperative,
            stub: function.expose_provenance(),
            grid: dimensions(grid),
            block: dimensions(block),
            args: args.expose_provenance(),
            shared_bytes,
            stream: stream_id(stream),
        })
    };
    fn cudaLaunchHostFunc(stream: cudaStream_t, _function: cudaHostFn_t, _data: *mut c_void) [ptsz stream] =
        |shim, thread| shim.on_own_device(thread);
    fn cudaGetKernel(kernel: *mut cudaKernel_t, stub: *const c_void) = |shim, _thread| {
        // SAFETY: the program's own arguments.
        let got = made(unsafe { real(kernel, stub) }, kernel);
        got.map(|kernel| shim.kernel_has_handle(stub.expose_provenance(), kernel.expose_provenance())).into()
    };
    fn cudaFuncSetAttribute(function: *const c_void, attribute: c_uint, value: c_int) = |shim, thread| {
        shim.set(thread, Setting::Function { stub: function.expose_provenance(), attribute, value })
    };
    fn cudaFuncSetCacheConfig(function: *const c_void, config: c_uint) = |shim, thread| {
        shim.set(thread, Setting::FunctionCache { stub: function.expose_provenance(), config })
    };
    fn cudaFuncGetAttributes(_attributes: *mut cudaFuncAttributes, _function: *const c_void) = |shim, thread| {
        shim.on_some_device(thread)
    };
    fn cudaFuncSetSharedMemConfig(_function: *const c_void, _config: c_uint) = |shim, thread| {
        shim.on_some_device(thread)
    };
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        _blocks: *mut c_int,
        _function: *const c_void,
        _block_size: c_int,
        _shared_bytes: usize,
    ) = |shim, thread| shim.on_some_device(thread);
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        _blocks: *mut c_int,
        _function: *const c_void,
        _block_size: c_int,
        _shared_bytes: usize,
        _flags: c_uint,
    ) = |shim, thread| shim.on_some_device(thread);
    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        _shared_bytes: *mut usize,
        _function: *const c_void,
        _blocks: c_int,
        _block_size: c_int,
    ) = |shim, thread| shim.on_some_device(thread);
    fn cudaOccupancyMaxActiveClusters(
        _clusters: *mut c_int,
        _function: *const c_void,
        _config: *const cudaLaunchConfig_t,
    ) = |shim, thread| shim.on_some_device(thread);
    fn cudaOccupancyMaxPotentialClusterSize(
        _size: *mut c_int,
        _function: *const c_void,
        _config: *const cudaLaunchConfig_t,
    ) = |shim, thread| shim.on_some_device(thread);
}

/// Launches whose stream is not an argument of its own, and calls by host code of nvcc, which no header declares.
pub mod internal {
    use super::*;

    /// Reads a launch from its configuration; `None` if `config` is null.
    ///
    /// # Safety
    /// `config` is null or points to a readable configuration.
    unsafe fn configured(
        config: *const cudaLaunchConfig_t,
        function: *const c_void,
        args: *mut *mut c_void,
    ) -> Option<Launch> {
        // SAFETY: as promised by the caller; the layouts agree.
        let LaunchConfig { grid, block, shared_bytes, stream } = unsafe { read(config) }?;
        Some(Launch {
            how: How::Config(config.expose_provenance()),
            stub: function.expose_provenance(),
            grid,
            block,
            args: args.expose_provenance(),
            shared_bytes,
            stream: StreamId(stream),
        })
    }

    hooks! {
        fn cudaLaunchKernelExC(
            config: *const cudaLaunchConfig_t,
            function: *const c_void,
            args: *mut *mut c_void,
        ) [ptds cudaLaunchKernelExC_ptsz] = |shim, thread| {
            // SAFETY: the program's configuration, given to this call to be read.
            match unsafe { configured(config, function, args) } {
                Some(launch) => shim.launch(thread, &Launch { stream: default_stream(launch.stream, ORDER), ..launch }),
                None => Outcome::PassThrough(Why::AsItIs),
            }
        };
        fn __cudaInitModule(_handle: *mut *mut c_void) = |shim, thread| shim.on_a_device(thread);
        fn __cudaGetKernel(kernel: *mut cudaKernel_t, stub: *const c_void) = |shim, _thread| {
            // SAFETY: the program's own arguments.
            let got = made(unsafe { real(kernel, stub) }, kernel);
            got.map(|kernel| shim.kernel_has_handle(stub.expose_provenance(), kernel.expose_provenance())).into()
        };
        fn __cudaLaunchKernel(
            kernel: cudaKernel_t,
            grid: dim3,
            block: dim3,
            args: *mut *mut c_void,
            shared_bytes: usize,
            stream: cudaStream_t,
        ) [ptsz stream] = |shim, thread| {
            let handle = kernel.expose_provenance();
            shim.launch(thread, &Launch {
                how: How::Handle(handle),
                stub: shim.stub_of(handle),
                grid: dimensions(grid),
                block: dimensions(block),
                args: args.expose_provenance(),
                shared_bytes,
                stream: stream_id(stream),
            })
        };
    }

    /// Replaces stream 0 by the thread's stream in the per-thread variant, as in blocking calls.
    fn default_stream(asked: StreamId, order: crate::runtime::Order) -> StreamId {
        match order {
            crate::runtime::Order::BlockingPerThread if asked.0 == 0 => StreamId::PER_THREAD,
            _ => asked,
        }
    }
}
