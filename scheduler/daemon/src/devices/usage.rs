//! Observes how much memory each process really uses on each device, at intervals, in a thread of its own.
//!
//! Trap: a driver may hang (NVML does when a device falls off the bus). Then there are no new observations, and the
//! daemon goes on with the last one and reports its age; nothing here may wait for the thread.

use crate::settings::file;
use eager_units::{Bytes, DeviceId, Size};
use eager_vgpu_link::{Activity, Backend, LinkError, Reply, Request, Socket};
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Memory of one process on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUse {
    pub device: DeviceId,
    pub pid: i32,
    /// Memory that cannot be evicted for others. Where the driver does not tell managed memory apart, all that it
    /// reports.
    pub pinned: Bytes,
    /// Managed memory that is on the device.
    pub managed: Bytes,
}

/// Result of one observation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    pub uses: Vec<ProcessUse>,
    /// Memory in use on each device that the driver attributes to no process; only for devices where programs may hold
    /// it.
    pub unattributed: BTreeMap<DeviceId, Bytes>,
    /// All memory in use on each device; if the driver does not report it, the sum over processes counts.
    pub total_in_use: BTreeMap<DeviceId, Bytes>,
    /// Managed memory that each device has ever moved because it did not fit; only for devices that report it.
    pub paged: BTreeMap<DeviceId, Bytes>,
    /// Share of the time, in percent, in which at least one kernel ran on each device, stalled ones included: of the
    /// driver's last sample period, or since the last observation. Only for devices that report it.
    pub utilization: BTreeMap<DeviceId, u32>,
    /// Temperature and power of each device; only for devices that report them.
    pub celsius: BTreeMap<DeviceId, u32>,
    pub watts: BTreeMap<DeviceId, u32>,
    /// Devices that the driver does not have any more.
    pub lost: BTreeSet<DeviceId>,
    /// Devices that the driver did not report this time, and why.
    pub unreported: BTreeMap<DeviceId, String>,
}

/// An error of a device, by its number (NVIDIA, "XID Errors"; 0: an unknown error).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub device: DeviceId,
    pub xid: u64,
}

/// Why there is no observation.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The virtual GPU server does not answer.
    #[error(transparent)]
    Server(#[from] LinkError),
    #[error("unexpected answer to a request for {asked}: {reply:?}")]
    Answer { asked: &'static str, reply: Reply },
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{}:{}:{}: {error}", path.display(), error.line(), error.column())]
    Malformed { path: PathBuf, error: serde_json::Error },
}

/// A source of observations: the virtual GPU server, NVML, or a file.
pub trait UsageSource: Send {
    /// Observes what every process uses now.
    fn observe(&mut self) -> Result<Observation, ObserveError>;

    /// Waits for `interval`, and returns the errors of devices meanwhile.
    fn wait(&mut self, interval: Duration) -> Vec<Fault> {
        std::thread::sleep(interval);
        Vec::new()
    }
}

/// The virtual GPU server, connected at the first observation and again after a lost connection.
#[derive(Debug)]
pub struct VirtualUsage {
    socket: PathBuf,
    link: Option<Socket>,
    /// Activity of the devices at the last observation.
    before: Option<Activity>,
}

impl VirtualUsage {
    pub fn new(socket: PathBuf) -> VirtualUsage {
        VirtualUsage { socket, link: None, before: None }
    }
}

/// Share of each device between two observations, in percent. Empty if no time has passed, as after a change of server.
fn utilization(before: Option<&Activity>, now: &Activity) -> BTreeMap<DeviceId, u32> {
    let Some(before) = before else { return BTreeMap::new() };
    let passed = now.now.0.saturating_sub(before.now.0) as f64;
    let ran =
        before.devices.iter().zip(&now.devices).map(|(b, n)| n.kernels.0.saturating_sub(b.kernels.0) as f64);
    let share = |ran: f64| (passed > 0.0).then(|| (100.0 * ran / passed).round().min(100.0) as u32);
    (0..).map(DeviceId).zip(ran).filter_map(|(device, ran)| Some((device, share(ran)?))).collect()
}

impl UsageSource for VirtualUsage {
    fn observe(&mut self) -> Result<Observation, ObserveError> {
        let link = match self.link.take() {
            Some(link) => link,
            None => Socket::connect(&self.socket)?,
        };
        let uses = match link.call(Request::Uses)? {
            Reply::Uses(uses) => uses,
            reply => return Err(ObserveError::Answer { asked: "memory use", reply }),
        };
        let now = match link.call(Request::Activity)? {
            Reply::Activity(now) => now,
            reply => return Err(ObserveError::Answer { asked: "activity", reply }),
        };
        self.link = Some(link);
        let usage = |used: &eager_vgpu_link::ProcessUse| {
            let pid = i32::try_from(used.pid).unwrap_or(0);
            let (device, pinned, managed) = (DeviceId(used.device), Bytes(used.pinned), Bytes(used.managed));
            ProcessUse { device, pid, pinned, managed }
        };
        let paged =
            (0..).map(DeviceId).zip(now.devices.iter().map(|device| Bytes(device.paged_bytes))).collect();
        let utilization = utilization(self.before.as_ref(), &now);
        self.before = Some(now);
        Ok(Observation {
            uses: uses.iter().map(usage).collect(),
            paged,
            utilization,
            ..Observation::default()
        })
    }
}

/// A file that tells what is in use, read at each observation: for devices that are only described (dry runs and
/// tests).
#[derive(Debug)]
pub struct FileUsage(pub PathBuf);

/// A line of the file: what a process uses, how much a device is used, or that a device is lost.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum InFile {
    Use { device: u32, pid: i32, memory: Size, managed: Option<Size> },
    Share { device: u32, utilization: u32 },
    Lost { lost: u32 },
}

impl UsageSource for FileUsage {
    fn observe(&mut self) -> Result<Observation, ObserveError> {
        let path = || self.0.clone();
        let text = file::text(&self.0).map_err(|error| ObserveError::Unreadable { path: path(), error })?;
        let lines: Vec<InFile> =
            serde_json::from_str(&text).map_err(|error| ObserveError::Malformed { path: path(), error })?;
        let mut seen = Observation::default();
        for line in lines {
            match line {
                InFile::Use { device, pid, memory, managed } => {
                    let (device, pinned) = (DeviceId(device), Bytes(memory.0));
                    let managed = Bytes(managed.map_or(0, |size| size.0));
                    seen.uses.push(ProcessUse { device, pid, pinned, managed });
                }
                InFile::Share { device, utilization } => {
                    seen.utilization.insert(DeviceId(device), utilization);
                }
                InFile::Lost { lost } => drop(seen.lost.insert(DeviceId(lost))),
            }
        }
        Ok(seen)
    }
}

/// The last observation, and all device errors since the last one that was taken.
#[derive(Debug)]
pub struct ObserverReport {
    pub observation: Result<Observation, ObserveError>,
    pub faults: Vec<Fault>,
}

/// The loop's end of the observer thread.
#[derive(Debug)]
pub struct Observer {
    latest: Arc<Mutex<Option<ObserverReport>>>,
    news: Arc<EventFd>,
}

impl Observer {
    /// Starts the thread. It ends with the process.
    pub fn start(mut usage: Box<dyn UsageSource>, interval: Duration) -> std::io::Result<Observer> {
        let news = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let latest: Arc<Mutex<Option<ObserverReport>>> = Arc::default();
        let (its_news, its_latest) = (Arc::clone(&news), Arc::clone(&latest));
        let observe = move || {
            let mut faults = Vec::new();
            loop {
                let observation = usage.observe();
                // Nothing that holds the lock can panic half-way.
                let mut latest = its_latest.lock().unwrap_or_else(PoisonError::into_inner);
                let untaken = latest.take().map_or_else(Vec::new, |report| report.faults);
                faults = [untaken, faults].concat();
                *latest = Some(ObserverReport { observation, faults });
                drop(latest);
                // Fails only if the loop has not read for 2^64 observations.
                let _ = its_news.write(1);
                faults = usage.wait(interval);
            }
        };
        std::thread::Builder::new().name("observer".into()).spawn(observe)?;
        Ok(Observer { latest, news })
    }

    /// The latest observation, if there is one since the last call.
    pub fn take(&self) -> Option<ObserverReport> {
        // Nothing to read means that there is no new observation.
        let _ = self.news.read();
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Readable when there is a new observation.
impl AsFd for Observer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_vgpu_link::DeviceActivity;

    fn activity(now: u64, kernels: [u64; 2]) -> Activity {
        let device = |kernels| DeviceActivity { paged_bytes: 0, kernels: eager_gpu_model::Nanos(kernels) };
        Activity { now: eager_gpu_model::Nanos(now), devices: kernels.map(device).into() }
    }

    #[test]
    fn a_device_is_in_use_while_a_kernel_is_there() {
        let before = activity(1000, [500, 0]);
        let shares = |now| utilization(Some(&before), &now).into_values().collect::<Vec<u32>>();
        assert_eq!(shares(activity(3000, [1500, 0])), [50, 0]);
        assert_eq!(shares(activity(1003, [501, 3])), [33, 100]);
        assert!(utilization(None, &before).is_empty(), "one look says nothing of a share");
        assert!(shares(activity(1000, [500, 0])).is_empty(), "no time has passed");
        assert!(shares(activity(10, [10, 0])).is_empty(), "another server");
    }
}
