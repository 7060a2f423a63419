//! Who really uses how much of which device: looked at now and then by a thread of its own.
//!
//! Trap: a driver may hang (NVML does when a device falls off the bus). Then no look comes any more, the daemon goes on with
//! the last one, and says how old it is; nothing here ever waits for the thread.

use eager_core::units::{Bytes, DeviceId};
use eager_proto::size::Size;
use eager_vgpu_link::{Backend, Reply, Request, Socket};
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What one process holds of one device and what cannot be evicted for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUse {
    pub device: DeviceId,
    pub pid: i32,
    pub bytes: Bytes,
}

/// What one look saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub uses: Vec<ProcessUse>,
    /// In use on each device by nobody that the driver names; only of those where programs may be behind it.
    pub unnamed: BTreeMap<DeviceId, Bytes>,
    /// Managed memory that each device moved because it did not fit, ever; only of those that tell.
    pub paged: BTreeMap<DeviceId, Bytes>,
    /// Devices that the driver does not have any more.
    pub lost: BTreeSet<DeviceId>,
    /// Devices of which the driver did not tell this time, and why.
    pub silent: BTreeMap<DeviceId, String>,
}

/// Something that befell a device: an error of this number (NVIDIA, "XID Errors"; 0: of an unknown one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub device: DeviceId,
    pub xid: u64,
}

/// A driver that can be asked: the virtual GPUs' server, or NVML.
pub trait Usage: Send {
    /// What every process uses now; the error in words.
    fn look(&mut self) -> Result<Seen, String>;

    /// Lets so much time go by; what befell the devices meanwhile.
    fn rest(&mut self, interval: Duration) -> Vec<Fault> {
        std::thread::sleep(interval);
        Vec::new()
    }
}

/// The virtual GPUs' server, connected at the first look and again after it was lost.
#[derive(Debug)]
pub struct VirtualUsage {
    pub socket: PathBuf,
    pub link: Option<Socket>,
}

impl Usage for VirtualUsage {
    fn look(&mut self) -> Result<Seen, String> {
        let link = match self.link.take() {
            Some(link) => link,
            None => Socket::connect(&self.socket).map_err(|error| error.to_string())?,
        };
        let reply = link.call(Request::Uses).map_err(|error| error.to_string())?;
        let Reply::Uses(uses) = reply else { return Err(format!("{reply:?} for uses")) };
        let reply = link.call(Request::Paged).map_err(|error| error.to_string())?;
        let Reply::Paged(paged) = reply else { return Err(format!("{reply:?} for what was paged")) };
        self.link = Some(link);
        let usage = |used: &eager_vgpu_link::ProcessUse| {
            let pid = i32::try_from(used.pid).unwrap_or(0);
            ProcessUse { device: DeviceId(used.device), pid, bytes: Bytes(used.bytes) }
        };
        let paged = (0..).map(DeviceId).zip(paged.into_iter().map(Bytes)).collect();
        Ok(Seen { uses: uses.iter().map(usage).collect(), paged, ..Seen::default() })
    }
}

/// A file that says so, read at each look: for devices that are only described (dry runs and tests).
#[derive(Debug)]
pub struct FileUsage(pub PathBuf);

/// A line of it: what a process uses, or that a device is lost.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum InFile {
    Use { device: u32, pid: i32, memory: Size },
    Lost { lost: u32 },
}

impl Usage for FileUsage {
    fn look(&mut self) -> Result<Seen, String> {
        let shown = self.0.display();
        let text = std::fs::read_to_string(&self.0).map_err(|error| format!("{shown}: {error}"))?;
        let lines: Vec<InFile> = serde_json::from_str(&text)
            .map_err(|error| format!("{shown}:{}:{}: {error}", error.line(), error.column()))?;
        let mut seen = Seen::default();
        for line in lines {
            match line {
                InFile::Use { device, pid, memory } => {
                    let (device, bytes) = (DeviceId(device), Bytes(memory.0));
                    seen.uses.push(ProcessUse { device, pid, bytes });
                }
                InFile::Lost { lost } => drop(seen.lost.insert(DeviceId(lost))),
            }
        }
        Ok(seen)
    }
}

/// What the thread saw last, and all that befell the devices since the look before it that was taken.
#[derive(Debug)]
pub struct Look {
    pub seen: Result<Seen, String>,
    pub faults: Vec<Fault>,
}

/// The thread's other end.
#[derive(Debug)]
pub struct Observer {
    latest: Arc<Mutex<Option<Look>>>,
    news: Arc<EventFd>,
}

impl Observer {
    /// Starts the thread. It ends with the process.
    pub fn start(mut usage: Box<dyn Usage>, interval: Duration) -> std::io::Result<Observer> {
        let news = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let latest: Arc<Mutex<Option<Look>>> = Arc::default();
        let (its_news, its_latest) = (Arc::clone(&news), Arc::clone(&latest));
        let look = move || {
            let mut faults = Vec::new();
            loop {
                let seen = usage.look();
                // Nothing that holds the lock can panic half-way.
                let mut latest = its_latest.lock().unwrap_or_else(PoisonError::into_inner);
                let untaken = latest.take().map_or_else(Vec::new, |look| look.faults);
                faults = [untaken, faults].concat();
                *latest = Some(Look { seen, faults });
                drop(latest);
                // It fails only when nobody has read for 2^64 looks.
                let _ = its_news.write(1);
                faults = usage.rest(interval);
            }
        };
        std::thread::Builder::new().name("observer".into()).spawn(look)?;
        Ok(Observer { latest, news })
    }

    /// What came since the last call.
    pub fn take(&self) -> Option<Look> {
        // Nothing to read means that nothing came.
        let _ = self.news.read();
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Readable when there is a new look.
impl AsFd for Observer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}
