//! Describes the machine and its GPU, as NVML and the kernel report them.
//!
//! Trap: the stand-in for NVML reports what a file says, so memory in use never changes there.

use crate::root;
use eager_measure::Stamp;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;
use std::ffi::OsString;

/// Variable that names a library to load instead of NVIDIA's, as for `eagerd`.
pub const ENV_LIBRARY: &str = "EAGER_NVML";
const LIBRARY: &str = "libnvidia-ml.so.1";
const MIB: u64 = 1 << 20;

/// Description of the machine in the record. A fact that cannot be determined is left out, or is "unknown".
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    pub gpu: String,
    pub driver: String,
    /// Newest CUDA that the driver supports, as 1000 times the major version plus 10 times the minor.
    pub cuda: Option<i32>,
    pub compute: String,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub processes: usize,
    pub kernel: String,
    /// Its commit is "unknown" outside a checkout; use the bundle's commit.
    pub host: Stamp,
}

impl Machine {
    /// Describes the machine in one line.
    pub fn line(&self) -> String {
        format!(
            "{}, compute {}, {} MiB, {} free; driver {}; {} on {} cores; kernel {}",
            self.gpu,
            self.compute,
            self.total_bytes / MIB,
            self.free_bytes / MIB,
            self.driver,
            self.host.cpu,
            self.host.cores,
            self.kernel
        )
    }
}

/// One GPU of the machine.
#[derive(Debug)]
pub struct Gpu {
    nvml: &'static Nvml,
    pub number: u32,
    pub uuid: String,
    pub compute: (i32, i32),
}

/// Reason why no check can run, in one line.
#[derive(Debug, PartialEq, Eq)]
pub enum Absent {
    /// This machine has no usable GPU.
    Gpu(String),
    /// This machine has GPUs, but not the one that was named.
    Chosen(String),
}

impl Gpu {
    /// Opens GPU `number`, as NVML counts.
    ///
    /// # Errors
    /// There is no driver or no such GPU, or the GPU does not report what it is.
    pub fn open(number: u32) -> Result<Gpu, Absent> {
        let named = std::env::var_os(ENV_LIBRARY).filter(|path| !path.is_empty());
        let path = named.unwrap_or_else(|| OsString::from(LIBRARY));
        let nvml = Nvml::builder().lib_path(&path).init();
        let nvml = nvml.map_err(|error| Absent::Gpu(format!("no NVML: {error}")))?;
        // Leaked, because threads query it for the rest of the process.
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let nvml_error = |error| Absent::Gpu(format!("GPU {number}: {error}"));
        let count = nvml.device_count().map_err(nvml_error)?;
        if count == 0 {
            return Err(Absent::Gpu("NVML reports no GPU".to_owned()));
        }
        if number >= count {
            return Err(Absent::Chosen(format!(
                "there is no GPU {number}: this machine has {count}, from 0 on"
            )));
        }
        let device = nvml.device_by_index(number).map_err(nvml_error)?;
        let compute = device.cuda_compute_capability().map_err(nvml_error)?;
        let uuid = device.uuid().map_err(nvml_error)?;
        Ok(Gpu { nvml, number, uuid, compute: (compute.major, compute.minor) })
    }

    fn device(&self) -> Result<Device<'_>, String> {
        self.nvml.device_by_index(self.number).map_err(|error| error.to_string())
    }

    /// Bytes in use by all processes, without the driver's own.
    pub fn used(&self) -> Result<u64, String> {
        self.device()?.memory_info().map(|memory| memory.used).map_err(|error| error.to_string())
    }

    pub fn free(&self) -> Result<u64, String> {
        self.device()?.memory_info().map(|memory| memory.free).map_err(|error| error.to_string())
    }

    /// Returns the ids of processes that compute on the GPU.
    pub fn processes(&self) -> Result<Vec<u32>, String> {
        let found = self.device()?.running_compute_processes().map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|process| process.pid).collect())
    }

    pub fn machine(&self) -> Result<Machine, String> {
        let device = self.device()?;
        let memory = device.memory_info().map_err(|error| error.to_string())?;
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        Ok(Machine {
            gpu: device.name().unwrap_or_else(|_| "unknown".to_owned()),
            driver: self.nvml.sys_driver_version().unwrap_or_else(|_| "unknown".to_owned()),
            cuda: self.nvml.sys_cuda_driver_version().ok(),
            compute: format!("{}.{}", self.compute.0, self.compute.1),
            total_bytes: memory.total,
            free_bytes: memory.free,
            processes: self.processes().map_or(0, |found| found.len()),
            kernel: kernel.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
            host: Stamp::now(&root()),
        })
    }
}
