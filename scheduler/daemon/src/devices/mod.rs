//! The devices to schedule on: NVIDIA's GPUs, those of the virtual GPU server, or those that a file describes.
//!
//! Trap: all sizes here are program bytes; only the server knows its memory scale.

pub mod file;
pub mod minutes;
pub mod numbering;
pub mod nvml;
pub mod selection;
pub mod usage;
pub mod virtual_gpus;

use crate::devices::numbering::{DeviceStatus, Numbered};
use crate::devices::selection::{Chosen, Gpu, Selection};
use crate::devices::virtual_gpus::{VirtualGpus, VirtualSource};
use crate::persistence::state_file::{Kept, KeptDevice};
use crate::process::exit::Unservable;
use crate::settings::config::{Clock, DeviceSource, Settings};
use anyhow::Context;
use eager_core::event::DeviceProfile;
use eager_proto::hello::Uuid;
use eager_proto::mps;
use eager_units::{Bytes, Size};
use eager_vgpu_link::{DaemonLink, DeviceInfo};
use nvml_wrapper::Nvml;
use std::path::Path;

/// Threads of a warp on every NVIDIA GPU so far.
const WARP_THREADS: u32 = 32;

/// Memory that one program's context is assumed to take on a real GPU until an observation shows the real size: some
/// hundred MiB since Ampere, with the libraries that programs load (not measured here; specification S-712).
const CONTEXT_BYTES: Bytes = Bytes(512 << 20);

/// The devices that the daemon schedules on.
pub struct Devices {
    pub profiles: Vec<DeviceProfile>,
    /// Memory of each device beyond the capacity that may be granted.
    pub spare: Vec<Bytes>,
    /// `cuda`, `virtual` or `file`, as people see it.
    pub kind: &'static str,
    /// Memory that one program's context takes on a device.
    pub context_bytes: Bytes,
    pub server: Option<VirtualGpus>,
    /// Source of the time, if the server keeps a virtual clock.
    pub clock: Option<DaemonLink>,
    /// NVIDIA's GPUs, by the daemon's numbers.
    pub gpus: Vec<Gpu>,
    /// Status of each of these GPUs in this daemon.
    pub statuses: Vec<DeviceStatus>,
    /// Why some GPUs of the machine are not served.
    pub left_out: Vec<String>,
    /// NVML, which reports on these GPUs.
    pub nvml: Option<&'static Nvml>,
}

impl Devices {
    /// Opens the source of devices, starting the virtual GPU server if needed. `vgpu_socket` is where that server
    /// listens. `old` is the state that an earlier daemon left; its drains are renumbered to this daemon's devices.
    pub fn open(settings: &Settings, vgpu_socket: &Path, old: &mut Kept) -> anyhow::Result<Devices> {
        if !matches!(settings.devices, DeviceSource::Virtual { .. }) {
            virtual_gpus::ensure_no_server(vgpu_socket)?;
        }
        let mut devices = match &settings.devices {
            &DeviceSource::Virtual { ref cards, time_scale, memory_scale, clock, host_factor, mps } => {
                let cards = cards.clone();
                let source = VirtualSource { cards, time_scale, memory_scale, clock, host_factor, mps };
                let server = VirtualGpus::open(source, vgpu_socket)?;
                let infos = eager_vgpu_link::query_devices(vgpu_socket)
                    .context("the virtual GPU server does not report its devices")?;
                let context = eager_gpu_model::Options::default().context_memory().div_ceil(memory_scale);
                let clock = match clock {
                    Clock::Real => None,
                    Clock::Virtual => Some(
                        DaemonLink::connect(vgpu_socket)
                            .context("the virtual GPU server has no clock for the daemon")?,
                    ),
                };
                Devices {
                    profiles: infos.iter().map(profile).collect(),
                    context_bytes: Bytes(context),
                    server: Some(server),
                    clock,
                    ..Devices::none("virtual")
                }
            }
            DeviceSource::File { path } => Devices { profiles: file::read(path)?, ..Devices::none("file") },
            DeviceSource::Gpus { gpus } => Devices::of_machine(gpus, old)?,
        };
        let limit = settings.device_memory.map_or(Bytes(u64::MAX), |Size(limit)| Bytes(limit));
        check_device_memory(settings.device_memory, &devices.profiles)?;
        for profile in &mut devices.profiles {
            devices.spare.push(profile.capacity.saturating_sub(limit));
            profile.capacity = profile.capacity.min(limit);
        }
        Ok(devices)
    }

    fn none(kind: &'static str) -> Devices {
        Devices {
            profiles: Vec::new(),
            spare: Vec::new(),
            kind,
            context_bytes: Bytes::ZERO,
            server: None,
            clock: None,
            gpus: Vec::new(),
            statuses: Vec::new(),
            left_out: Vec::new(),
            nvml: None,
        }
    }

    /// Opens the GPUs of the machine.
    fn of_machine(selection: &Selection, old: &mut Kept) -> anyhow::Result<Devices> {
        let nvml = nvml::load().map_err(|error| {
            anyhow::anyhow!(
                "no GPU to serve: {error}. Without one, `--virtual 4xV100-16GB` serves virtual GPUs"
            )
        })?;
        let faults_stall = mps::control_pid(&mps::folder()).is_none();
        let chosen: Chosen = selection
            .choose(nvml::gpus(nvml, faults_stall)?)
            .map_err(|error| Unservable(format!("gpus: {error}")))?;
        let why = chosen.left_out.join("; ");
        anyhow::ensure!(
            !chosen.gpus.is_empty(),
            "no GPU to serve: {}",
            if why.is_empty() { "there is none" } else { &why }
        );
        // Without clients of the earlier daemon no program knows the old numbers, so they need not be kept.
        let known = if old.clients.is_empty() { &[] } else { old.devices.as_slice() };
        let Numbered { gpus, statuses, left_out } = numbering::keep_numbers(known, chosen);
        if !old.devices.is_empty() {
            old.drained = numbering::renumber_drains(&old.drained, &old.devices, &gpus);
        }
        let profiles = gpus.iter().map(|gpu| gpu.profile.clone()).collect();
        let context_bytes = CONTEXT_BYTES;
        let nvml = Some(nvml);
        Ok(Devices { profiles, context_bytes, gpus, statuses, left_out, nvml, ..Devices::none("cuda") })
    }

    /// Meaning of the device numbers, as the next daemon needs it.
    pub fn kept(&self) -> Vec<KeptDevice> {
        let kept = |(gpu, profile): (&Gpu, &DeviceProfile)| KeptDevice {
            uuid: gpu.uuid.clone(),
            profile: profile.clone(),
        };
        self.gpus.iter().zip(&self.profiles).map(kept).collect()
    }

    pub fn uuids(&self) -> Vec<Uuid> {
        self.gpus.iter().map(|gpu| gpu.bytes).collect()
    }

    /// For the ready line, such as `4 virtual devices`.
    pub fn summary(&self) -> String {
        let count = self.profiles.len();
        format!("{count} {} device{}", self.kind, if count == 1 { "" } else { "s" })
    }
}

/// Rejects a limit above the capacity of every device as a mistake. A device that is smaller than the limit grants all
/// it has.
fn check_device_memory(limit: Option<Size>, profiles: &[DeviceProfile]) -> anyhow::Result<()> {
    let largest = profiles.iter().map(|profile| profile.capacity).max();
    match (limit.map(|Size(bytes)| Bytes(bytes)), largest) {
        (Some(limit), Some(largest)) if limit > largest => Err(Unservable(format!(
            "device-memory is {limit}, and the largest device has {largest}: leave it out to grant all of each device"
        ))
        .into()),
        _ => Ok(()),
    }
}

fn profile(info: &DeviceInfo) -> DeviceProfile {
    DeviceProfile {
        name: info.name.clone(),
        capacity: Bytes(info.capacity_bytes),
        sms: info.sms,
        warps_per_sm: info.threads_per_sm / WARP_THREADS,
        blocks_per_sm: info.blocks_per_sm,
        faults_stall: info.faults_stall,
    }
}
