//! NVIDIA's GPUs as their management library reports them: which there are, how much each process uses, and their
//! errors.
//!
//! Traps: NVML numbers GPUs by their place on the PCI bus, CUDA by speed unless told otherwise, so programs must get
//! uuids, never numbers. A call may hang when a GPU has fallen off the bus, so after the start only the observer thread
//! may call NVML.

use crate::devices::selection::{COMPUTE_MAJOR_MIN, NotServed, ReportedGpu};
use crate::devices::usage::{Fault, Observation, ObserveError, ProcessUse, UsageSource};
use anyhow::Context;
use eager_core::event::DeviceProfile;
use eager_units::{Bytes, DeviceId};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Names another library in place of NVIDIA's, for tests and for drivers in unusual places.
pub const ENV_LIBRARY: &str = "EAGER_NVML";
const LIBRARY: &str = "libnvidia-ml.so.1";

const WARP_THREADS: u32 = 32;
/// Memory that may be in use by no program at all: less than a program's context takes (specification S-712).
const DRIVERS_BYTES: Bytes = Bytes(256 << 20);

/// Why NVML cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{} cannot be loaded: is NVIDIA's driver installed?", path.display())]
    NoLibrary { path: PathBuf, source: NvmlError },
    #[error(transparent)]
    Nvml(NvmlError),
}

/// Loads the library for the rest of the process, since the observer's event set borrows it.
pub fn load() -> Result<&'static Nvml, LoadError> {
    let named = std::env::var_os(ENV_LIBRARY).filter(|path| !path.is_empty());
    let path = named.unwrap_or_else(|| OsString::from(LIBRARY));
    let nvml = Nvml::builder().lib_path(&path).init().map_err(|error| match error {
        source @ NvmlError::LibloadingError(_) => LoadError::NoLibrary { path: path.into(), source },
        error => LoadError::Nvml(error),
    })?;
    Ok(Box::leak(Box::new(nvml)))
}

/// What NVML reports of each GPU, or why it reports nothing.
pub fn gpus(nvml: &Nvml, faults_stall: bool) -> anyhow::Result<Vec<ReportedGpu>> {
    let count = nvml.device_count().context("NVML does not report the number of GPUs")?;
    Ok((0..count).map(|number| report_of(nvml, number, faults_stall)).collect())
}

fn report_of(nvml: &Nvml, number: u32, faults_stall: bool) -> ReportedGpu {
    let identity = nvml.device_by_index(number).and_then(|device| Ok((device.uuid()?, device)));
    match identity {
        Ok((uuid, device)) => {
            let profile = profile(&device, faults_stall);
            ReportedGpu { number, uuid: Some(uuid), profile }
        }
        Err(error) => ReportedGpu { number, uuid: None, profile: Err(error.into()) },
    }
}

fn profile(device: &Device<'_>, faults_stall: bool) -> Result<DeviceProfile, NotServed> {
    // A GPU without MIG reports that MIG is not supported.
    if device.mig_mode().is_ok_and(|mode| mode.current != 0) {
        return Err(NotServed::Divided);
    }
    let compute = device.cuda_compute_capability()?;
    if compute.major < COMPUTE_MAJOR_MIN {
        return Err(NotServed::TooOld { major: compute.major, minor: compute.minor });
    }
    let memory = device.memory_info()?;
    let units = Units::of(compute.major, compute.minor);
    Ok(DeviceProfile {
        name: device.name()?,
        capacity: Bytes(memory.total.saturating_sub(memory.reserved)),
        sms: (device.num_cores()? / units.cores).max(1),
        warps_per_sm: units.threads / WARP_THREADS,
        blocks_per_sm: units.blocks,
        faults_stall,
    })
}

/// Resources of one SM (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; cores:
/// "Arithmetic Instructions", results of 32-bit additions per cycle; specification S-517).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Units {
    cores: u32,
    threads: u32,
    blocks: u32,
}

impl Units {
    /// Anything newer than this table counts as Hopper.
    fn of(major: i32, minor: i32) -> Units {
        let (cores, threads, blocks) = match (major, minor) {
            (6, 0) => (64, 2048, 32),
            (6, _) => (128, 2048, 32),
            (7, 5) => (64, 1024, 16),
            (7, _) => (64, 2048, 32),
            (8, 0) => (64, 2048, 32),
            (8, 9) => (128, 1536, 24),
            (8, _) => (128, 1536, 16),
            (12, _) => (128, 1536, 24),
            _ => (128, 2048, 32),
        };
        Units { cores, threads, blocks }
    }
}

/// Observes the served GPUs, by their numbers in the daemon.
pub struct NvmlUsage {
    nvml: &'static Nvml,
    uuids: Vec<String>,
    /// Source of Xid errors; `None`: the GPUs or the user's rights do not allow it.
    events: Option<EventSet<'static>>,
}

impl NvmlUsage {
    pub fn new(nvml: &'static Nvml, uuids: Vec<String>) -> NvmlUsage {
        let events = registered(nvml, uuids.iter().map(String::as_str).collect());
        NvmlUsage { nvml, uuids, events }
    }

    fn number_of(&self, device: &Device<'_>) -> Option<DeviceId> {
        let uuid = device.uuid().ok()?;
        (0..).map(DeviceId).zip(&self.uuids).find(|(_, known)| **known == uuid).map(|(number, _)| number)
    }
}

/// Registers for errors of all GPUs that report them. A failed registration consumes the set, so it is repeated without
/// that GPU.
fn registered(nvml: &'static Nvml, mut uuids: Vec<&str>) -> Option<EventSet<'static>> {
    while !uuids.is_empty() {
        let register = |events: EventSet<'static>, (at, uuid): (usize, &&str)| {
            // A GPU that is gone keeps its number, and must not hide the errors of the others.
            let Ok(device) = nvml.device_by_uuid(*uuid) else { return Ok(events) };
            device.register_events(EventTypes::CRITICAL_XID_ERROR, events).map_err(|_| at)
        };
        let events = nvml.create_event_set().ok()?;
        match uuids.iter().enumerate().try_fold(events, register) {
            Ok(events) => return Some(events),
            Err(at) => drop(uuids.remove(at)),
        }
    }
    None
}

impl UsageSource for NvmlUsage {
    fn observe(&mut self) -> Result<Observation, ObserveError> {
        // NVML does not report how much was paged.
        let mut seen = Observation::default();
        for (number, uuid) in (0..).map(DeviceId).zip(&self.uuids) {
            let reported = self.nvml.device_by_uuid(uuid.as_str()).and_then(|device| {
                let used = used_on(number, &device)?;
                // Some GPUs do not report these; no decision depends on them.
                let celsius = device.temperature(TemperatureSensor::Gpu).ok();
                let watts = device.power_usage().ok().map(|milliwatts| (milliwatts + 500) / 1000);
                Ok((used, device.utilization_rates().ok(), celsius, watts))
            });
            match reported {
                Ok((UsedOn { uses, total_in_use, unattributed }, rates, celsius, watts)) => {
                    seen.celsius.extend(celsius.map(|celsius| (number, celsius)));
                    seen.watts.extend(watts.map(|watts| (number, watts)));
                    seen.uses.extend(uses);
                    seen.total_in_use.insert(number, total_in_use);
                    seen.unattributed.extend(unattributed.map(|bytes| (number, bytes)));
                    seen.utilization.extend(rates.map(|rates| (number, rates.gpu.min(100))));
                }
                Err(NvmlError::GpuLost | NvmlError::NotFound) => drop(seen.lost.insert(number)),
                Err(error) => drop(seen.unreported.insert(number, error.to_string())),
            }
        }
        Ok(seen)
    }

    fn wait(&mut self, interval: Duration) -> Vec<Fault> {
        let Some(events) = &self.events else {
            std::thread::sleep(interval);
            return Vec::new();
        };
        let until = std::time::Instant::now() + interval;
        let mut faults = Vec::new();
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let Ok(event) = events.wait(u32::try_from(left.as_millis()).unwrap_or(u32::MAX)) else {
                // Usually the time is over. With a lost GPU the wait fails at once, and the loop must not spin.
                std::thread::sleep(until.saturating_duration_since(std::time::Instant::now()));
                return faults;
            };
            let Some(device) = self.number_of(&event.device) else { continue };
            let xid = match event.event_data {
                Some(XidError::Value(xid)) => xid,
                Some(XidError::Unknown) => 0,
                None => continue,
            };
            faults.push(Fault { device, xid });
        }
    }
}

/// Memory in use on a device.
struct UsedOn {
    /// Use by process. NVML does not report how much of it is managed.
    uses: Vec<ProcessUse>,
    /// All memory in use, the driver's own included.
    total_in_use: Bytes,
    /// Memory of processes that NVML does not name, because it may not, or because they are in another container.
    unattributed: Option<Bytes>,
}

fn used_on(device: DeviceId, handle: &Device<'_>) -> Result<UsedOn, NvmlError> {
    let total_in_use = Bytes(handle.memory_info()?.used);
    let mut uses = Vec::new();
    let mut is_hidden = false;
    let compute = handle.running_compute_processes()?;
    // A GPU without a display may not support this query.
    let graphics = handle.running_graphics_processes().unwrap_or_default();
    for process in compute.into_iter().chain(graphics) {
        match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => {
                let pid = i32::try_from(process.pid).unwrap_or(0);
                uses.push(ProcessUse { device, pid, pinned: Bytes(bytes), managed: Bytes::ZERO });
            }
            UsedGpuMemory::Unavailable => is_hidden = true,
        }
    }
    let unattributed = total_in_use.saturating_sub(uses.iter().map(|used| used.pinned).sum());
    Ok(UsedOn {
        uses,
        total_in_use,
        unattributed: (is_hidden || unattributed > DRIVERS_BYTES).then_some(unattributed),
    })
}

/// True for errors after which a GPU does no more work until it is reset (NVIDIA, "XID Errors": those whose immediate
/// action is a reset, drain or repair). The other errors are a program's own, or are contained in it.
pub fn is_fatal(xid: u64) -> bool {
    matches!(xid, 46 | 48 | 62 | 64 | 79 | 95 | 109 | 119 | 120 | 140 | 143)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sms_follow_from_cores() {
        // GPUs whose cores and SMs are both published: V100, T4, A100, L40S, H100 SXM, RTX 5090.
        for ((major, minor), cores, sms) in [
            ((7, 0), 5120, 80),
            ((7, 5), 2560, 40),
            ((8, 0), 6912, 108),
            ((8, 9), 18176, 142),
            ((9, 0), 16896, 132),
            ((12, 0), 21760, 170),
        ] {
            assert_eq!(cores / Units::of(major, minor).cores, sms, "{major}.{minor}");
        }
    }

    #[test]
    fn a_programs_own_errors_do_not_cost_the_gpu() {
        assert!([13, 31, 43, 45, 94].iter().all(|&xid| !is_fatal(xid)));
        assert!([48, 79, 119].iter().all(|&xid| is_fatal(xid)));
    }
}
