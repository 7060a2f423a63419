//! Kernel launches.
//!
//! A launch returns before the kernel has run; only errors in the call itself are returned here.

use core::ffi::{c_int, c_void};

use cudarc::runtime::sys::dim3;

use super::function::active_blocks_per_sm;
use super::{open, stream_key};
use crate::command::Command;
use crate::ffi::{In, KernelArgs, Out};
use crate::kernel::{
    CapturedArgs, CpuKernel, Launch, Limits, SHARED_BYTES_PER_BLOCK, Shape, allows_non_portable_clusters,
    cluster, is_registered, kernel, shared_opt_in_bytes,
};
use crate::log::log_line;
use crate::runtime::{Runtime, invalid_stream};
use crate::status::Code;
use crate::stream::StreamKey;

use super::device::{PRIORITY_GREATEST, PRIORITY_LEAST};

/// A launch as described by the program.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub stub: *const c_void,
    pub shape: Shape,
    pub args: KernelArgs,
    /// All blocks must be able to run at once.
    pub cooperative: bool,
    /// Overrides the stream's priority.
    pub priority: Option<i32>,
    /// Blocks of a cluster in x, y, z.
    pub cluster: Option<[u32; 3]>,
}

/// True if a device supports clusters of blocks.
///
/// # Errors
/// There is no such device.
pub fn has_clusters(runtime: &Runtime, device: u32) -> Result<bool, Code> {
    Ok(runtime.device(device)?.compute_capability >= cluster::CAPABILITY)
}

/// Shape from CUDA's structures. CUDA uses the lower 32 bits of the size, and so accepts every multiple of 4 GiB.
pub fn shape(grid: dim3, block: dim3, dynamic_shared_bytes: usize) -> Shape {
    Shape {
        grid: [grid.x, grid.y, grid.z],
        block: [block.x, block.y, block.z],
        dynamic_shared_bytes: u64::from(dynamic_shared_bytes as u32),
    }
}

impl Asked {
    pub fn plain(stub: *const c_void, shape: Shape, args: KernelArgs) -> Asked {
        Asked { stub, shape, args, cooperative: false, priority: None, cluster: None }
    }

    /// Checks the launch for a device and copies its arguments.
    ///
    /// # Errors
    /// `cudaErrorInvalidDeviceFunction`, `cudaErrorInvalidResourceHandle` (not a kernel), those of [`Shape::check`],
    /// `cudaErrorInvalidValue` (no arguments), `cudaErrorCooperativeLaunchTooLarge`.
    pub fn prepare(&self, runtime: &Runtime, device: u32, stream_priority: i32) -> Result<Launch, Code> {
        let kernel =
            kernel(self.stub).map_err(|code| match is_registered(self.stub) || self.stub.is_null() {
                true => code,
                false => Code::cudaErrorInvalidResourceHandle,
            })?;
        self.shape.check(&Limits {
            threads_max: kernel.threads_max(),
            static_shared_bytes: kernel.entry.static_shared_bytes,
            shared_bytes_max: SHARED_BYTES_PER_BLOCK.max(shared_opt_in_bytes(self.stub)),
            is_cooperative: self.cooperative,
        })?;
        let cluster = self.cluster(runtime, device, &kernel)?;
        if self.cooperative {
            let info = runtime.device(device)?;
            let threads = u32::try_from(self.shape.threads_per_block()).unwrap_or(u32::MAX);
            let blocks = active_blocks_per_sm(info, &kernel, threads, self.shape.dynamic_shared_bytes);
            if self.shape.blocks() > u64::from(blocks) * u64::from(info.sms) {
                return Err(Code::cudaErrorCooperativeLaunchTooLarge);
            }
        }
        let params = kernel.params();
        if self.args.is_null() && !params.is_empty() {
            return Err(Code::cudaErrorInvalidValue);
        }
        // SAFETY: the program passes one pointer per parameter of the kernel, as CUDA demands.
        let args = unsafe { CapturedArgs::capture(params, self.args.pointers()) };
        let priority = self.priority.unwrap_or(stream_priority);
        Ok(Launch {
            stub: self.stub as usize,
            kernel,
            shape: self.shape,
            args,
            device,
            priority,
            cooperative: self.cooperative,
            cluster,
        })
    }

    /// Blocks of a cluster in x, y, z.
    ///
    /// # Errors
    /// `cudaErrorInvalidClusterSize`; `cudaErrorNotSupported`, with a log line, for a card without clusters.
    pub fn cluster(&self, runtime: &Runtime, device: u32, kernel: &CpuKernel) -> Result<[u32; 3], Code> {
        let asked = cluster::ClusterRequest {
            by_kernel: kernel.entry.cluster,
            by_launch: self.cluster,
            grid: self.shape.grid,
            non_portable: allows_non_portable_clusters(self.stub),
            has_clusters: has_clusters(runtime, device)?,
        };
        asked.cluster().inspect_err(|code| {
            if *code == Code::cudaErrorNotSupported {
                log_line(format_args!(
                    "this GPU has no clusters of blocks, which compute capability 9.0 brought: launch without one, or take \
                     another card"
                ));
            }
        })
    }

    fn submit(&self, stream: *mut c_void) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let key: StreamKey = stream_key(stream, device);
        let properties = runtime.streams.lock().describe(key).map_err(invalid_stream)?;
        if properties.device != device {
            return Err(Code::cudaErrorInvalidResourceHandle);
        }
        let launch = self.prepare(runtime, device, properties.priority)?;
        runtime.submit(key, Command::Kernel(launch)).map(drop)
    }
}

/// `cudaLaunchConfig_t` with attributes as plain numbers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchConfig {
    grid: dim3,
    block: dim3,
    dynamic_shared_bytes: usize,
    stream: *mut c_void,
    attributes: In<LaunchAttribute>,
    attribute_count: u32,
}

/// `cudaLaunchAttribute`: the value is a union of 64 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<LaunchAttribute>() == 72);

impl LaunchConfig {
    /// The launch that it describes, without arguments.
    ///
    /// # Errors
    /// `cudaErrorInvalidValue`, `cudaErrorNotSupported`.
    pub fn asked(&self, stub: *const c_void) -> Result<Asked, Code> {
        let shape = shape(self.grid, self.block, self.dynamic_shared_bytes);
        let mut asked = Asked::plain(stub, shape, KernelArgs::none());
        for attribute in self.attributes.all(self.attribute_count as usize)? {
            attribute.apply(&mut asked)?;
        }
        Ok(asked)
    }
}

impl LaunchAttribute {
    /// Applies one attribute. Hints about order and caches have no effect, since work of a stream never overlaps.
    fn apply(&self, asked: &mut Asked) -> Result<(), Code> {
        const COOPERATIVE: u32 = 2;
        const CLUSTER_DIMENSION: u32 = 4;
        const PROGRAMMATIC_EVENT: u32 = 7;
        const PRIORITY: u32 = 8;
        const LAUNCH_COMPLETION_EVENT: u32 = 12;
        const DEVICE_UPDATABLE_NODE: u32 = 13;
        const LAST_KNOWN: u32 = 16;
        match self.id {
            COOPERATIVE => asked.cooperative = self.value[0] != 0,
            PRIORITY => {
                let priority = self.value[0].cast_signed() as c_int;
                asked.priority = Some(priority.clamp(PRIORITY_GREATEST, PRIORITY_LEAST));
            }
            CLUSTER_DIMENSION => asked.cluster = Some([self.value[0], self.value[1], self.value[2]]),
            PROGRAMMATIC_EVENT | LAUNCH_COMPLETION_EVENT | DEVICE_UPDATABLE_NODE => {
                log_line(format_args!("launch attribute {} is not supported on virtual GPUs", self.id));
                return Err(Code::cudaErrorNotSupported);
            }
            0..=LAST_KNOWN => {}
            _ => return Err(Code::cudaErrorInvalidValue),
        }
        Ok(())
    }
}

api!(
    #[per_thread(ptsz)]
    fn cudaLaunchKernel(
        stub: *const c_void,
        grid: dim3,
        block: dim3,
        args: KernelArgs,
        dynamic_shared_bytes: usize,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        Asked::plain(stub, shape(grid, block, dynamic_shared_bytes), args).submit(stream)
    }

    /// Returns a handle, which is the stub: newer host code of nvcc queries it once and launches by it.
    fn __cudaGetKernel(handle: Out<*const c_void>, stub: *const c_void) -> Result<(), Code> {
        handle.put(stub)
    }

    #[per_thread(ptsz)]
    extern "C" fn __cudaLaunchKernel(
        handle: *const c_void,
        grid: dim3,
        block: dim3,
        args: KernelArgs,
        dynamic_shared_bytes: usize,
        stream: *mut c_void,
    ) -> Code {
        cudaLaunchKernel(handle, grid, block, args, dynamic_shared_bytes, stream)
    }

    /// Launches a kernel whose blocks may wait for each other: each has its own memory, and they take turns on one
    /// thread.
    #[per_thread(ptsz)]
    fn cudaLaunchCooperativeKernel(
        stub: *const c_void,
        grid: dim3,
        block: dim3,
        args: KernelArgs,
        dynamic_shared_bytes: usize,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        let plain = Asked::plain(stub, shape(grid, block, dynamic_shared_bytes), args);
        Asked { cooperative: true, ..plain }.submit(stream)
    }

    #[per_thread(ptsz)]
    fn cudaLaunchKernelExC(
        config: In<LaunchConfig>,
        stub: *const c_void,
        args: KernelArgs,
    ) -> Result<(), Code> {
        let config = config.get()?;
        Asked { args, ..config.asked(stub)? }.submit(config.stream)
    }
);
