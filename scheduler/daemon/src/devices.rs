//! Which devices there are: asked of the virtual GPU server, or read from a file.
//!
//! Trap: sizes are program bytes everywhere here; the server alone knows about its memory scale.

use crate::config::{Clock, DeviceSource, Settings};
use crate::virtual_gpus::{VirtualGpus, VirtualSource};
use anyhow::Context;
use eager_core::event::DeviceProfile;
use eager_core::units::Bytes;
use eager_proto::size::Size;
use eager_vgpu_link::{DaemonLink, DeviceInfo};
use serde::Deserialize;
use std::path::Path;

/// Threads of a warp on every NVIDIA GPU so far.
const WARP_THREADS: u32 = 32;

/// What the daemon schedules on.
#[derive(Debug)]
pub struct Devices {
    pub profiles: Vec<DeviceProfile>,
    /// `virtual` or `file`, as people see it.
    pub kind: &'static str,
    /// What one program's context takes of a device's memory.
    pub context_bytes: Bytes,
    pub server: Option<VirtualGpus>,
    /// Where the time comes from, if the server keeps a virtual clock.
    pub clock: Option<DaemonLink>,
}

/// One entry of a devices file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DeviceInFile {
    name: String,
    memory: Size,
    sms: u32,
    warps_per_sm: u32,
    blocks_per_sm: u32,
    /// As without MPS.
    #[serde(default)]
    faults_stall: bool,
}

impl Devices {
    /// Starts or reads the source. `vgpu_socket` is where a server of virtual GPUs shall listen.
    pub fn open(settings: &Settings, vgpu_socket: &Path) -> anyhow::Result<Devices> {
        let mut devices = match &settings.devices {
            &DeviceSource::Virtual { ref cards, time_scale, memory_scale, clock, host_factor, mps } => {
                let source = VirtualSource { cards, time_scale, memory_scale, clock, host_factor, mps };
                let server = VirtualGpus::start(&source, vgpu_socket)?;
                let infos = eager_vgpu_link::query_devices(vgpu_socket)
                    .context("the virtual GPU server does not tell its devices")?;
                let context = eager_gpu_model::Options::default().context_memory().div_ceil(memory_scale);
                let clock = match clock {
                    Clock::Real => None,
                    Clock::Virtual => Some(
                        DaemonLink::connect(vgpu_socket)
                            .context("the virtual GPU server keeps no clock for the daemon")?,
                    ),
                };
                Devices {
                    profiles: infos.iter().map(profile).collect(),
                    kind: "virtual",
                    context_bytes: Bytes(context),
                    server: Some(server),
                    clock,
                }
            }
            DeviceSource::File { path } => Devices {
                profiles: read_file(path)?,
                kind: "file",
                context_bytes: Bytes::ZERO,
                server: None,
                clock: None,
            },
        };
        if let Some(Size(limit)) = settings.device_memory {
            for profile in &mut devices.profiles {
                profile.capacity = profile.capacity.min(Bytes(limit));
            }
        }
        Ok(devices)
    }

    /// `4 virtual devices`.
    pub fn summary(&self) -> String {
        let count = self.profiles.len();
        format!("{count} {} device{}", self.kind, if count == 1 { "" } else { "s" })
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

fn read_file(path: &Path) -> anyhow::Result<Vec<DeviceProfile>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let devices: Vec<DeviceInFile> = serde_json::from_str(&text).map_err(|error| {
        anyhow::anyhow!("{}:{}:{}: {error}", path.display(), error.line(), error.column())
    })?;
    anyhow::ensure!(!devices.is_empty(), "{}: no devices in it", path.display());
    Ok(devices
        .into_iter()
        .map(|device| DeviceProfile {
            name: device.name,
            capacity: Bytes(device.memory.0),
            sms: device.sms,
            warps_per_sm: device.warps_per_sm,
            blocks_per_sm: device.blocks_per_sm,
            faults_stall: device.faults_stall,
        })
        .collect())
}
