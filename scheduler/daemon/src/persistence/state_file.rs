//! The state that survives the daemon: its clients, and what each of their task slots holds.
//!
//! One JSON line per change, written before any program sees the change. Traps: the page cache keeps the file over a
//! `kill -9`, not over a crash of the machine, after which there are no clients either. A file that cannot be read to
//! its end must be used up to there, because an extra grant goes when its process ends, and a missing grant is never
//! repaired. A full disk costs the promise of a restart, never a program its device.

use crate::persistence::whole_file;
use eager_core::event::{DeviceProfile, Restored};
use eager_proto::request::Slot;
use eager_units::{ClientId, DeviceId, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Version of the lines below.
const VERSION: u32 = 1;
/// A file that has grown by this much, and by four times its length when it was last rewritten, is rewritten.
const REWRITE_BYTES: u64 = 1 << 20;
/// A longer file is rejected: this is far more than a thousand clients with all their slots.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Time after a failed write until the next try.
const RETRY: Nanos = Nanos::from_secs(10);

/// A program that was welcomed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptClient {
    pub pid: i32,
    /// See [`crate::clients::identity::started`].
    pub started: u64,
    pub uid: u32,
    pub label: String,
    /// See [`eager_core::event::Event::ClientConnected`]. Files of earlier releases lack it.
    #[serde(default)]
    pub informed: bool,
    /// Priority of its tasks among those of its user. Files of earlier releases lack it.
    #[serde(default)]
    pub priority: i8,
    /// What it holds belongs to its process, with or without a connection. Files of earlier releases lack it.
    #[serde(default)]
    pub held_by_process: bool,
    #[serde(skip)]
    pub slots: BTreeMap<u8, KeptSlot>,
}

/// A task slot that was used. `task` is set if it holds a bound task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptSlot {
    /// Sequence of the last request that has had its effect.
    pub answered: u32,
    pub task: Option<Restored>,
    /// Uid that holds back the task that waits in the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<u32>,
    /// Devices on which its program had a context when this was noted; it keeps them until it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<DeviceId>,
}

/// A device; its number is its place in the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptDevice {
    pub uuid: String,
    pub profile: DeviceProfile,
}

/// Damage of a file that an earlier daemon left.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Damage {
    #[error("from another release (version {0}, this one reads {VERSION}); what programs hold is not known")]
    Version(u32),
    #[error("damaged: {0}; the lines before are used")]
    Line(String),
    #[error("not readable: {0}")]
    Unreadable(String),
}

/// The whole state after the last line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    pub boot: String,
    pub next_client: u64,
    pub next_task: u64,
    pub clients: BTreeMap<u64, KeptClient>,
    /// Drained devices, and when each was drained, in ns of the kernel's monotonic clock.
    pub drained: BTreeMap<u32, u64>,
    /// Devices by number; empty where the numbers mean the same in every daemon.
    pub devices: Vec<KeptDevice>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line {
    /// First line of the file.
    Header {
        version: u32,
        boot: String,
        next_client: u64,
        next_task: u64,
    },
    Client {
        client: u64,
        #[serde(flatten)]
        kept: KeptClient,
    },
    Slot {
        client: u64,
        slot: u8,
        #[serde(flatten)]
        kept: KeptSlot,
    },
    Gone {
        client: u64,
    },
    Drained {
        device: u32,
        at_ns: u64,
    },
    Undrained {
        device: u32,
    },
    Devices {
        devices: Vec<KeptDevice>,
    },
}

impl Kept {
    /// The first client before this one that is of the same process and whose grants belong to it; none where `/proc`
    /// does not tell processes apart.
    pub fn earlier_of_process(&self, id: ClientId, own: &KeptClient) -> Option<ClientId> {
        let is_same =
            |kept: &KeptClient| kept.held_by_process && (kept.pid, kept.started) == (own.pid, own.started);
        let mut clients = self.clients.range(..id.0).filter(|_| own.started != 0);
        clients.find(|(_, kept)| is_same(kept)).map(|(&id, _)| ClientId(id))
    }

    /// Clients with the devices on which they have contexts, each pair once.
    pub fn contexts(&self) -> impl Iterator<Item = (ClientId, DeviceId)> + '_ {
        self.clients.iter().flat_map(|(&id, client)| {
            let noted = client.slots.values().flat_map(|slot| slot.contexts.iter().copied());
            noted.collect::<BTreeSet<_>>().into_iter().map(move |device| (ClientId(id), device))
        })
    }

    fn apply(&mut self, line: Line) {
        match line {
            Line::Header { boot, next_client, next_task, .. } => {
                *self = Kept { boot, next_client, next_task, ..Kept::default() };
            }
            Line::Client { client, kept } => {
                self.next_client = self.next_client.max(client.saturating_add(1));
                self.clients.insert(client, kept);
            }
            Line::Slot { client, slot, kept } => {
                if let Some(task) = &kept.task {
                    self.next_task = self.next_task.max(task.task.0.saturating_add(1));
                }
                if let Some(found) = self.clients.get_mut(&client) {
                    found.slots.insert(slot, kept);
                }
            }
            Line::Gone { client } => drop(self.clients.remove(&client)),
            Line::Drained { device, at_ns } => drop(self.drained.insert(device, at_ns)),
            Line::Undrained { device } => drop(self.drained.remove(&device)),
            Line::Devices { devices } => self.devices = devices,
        }
    }

    fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        let (boot, next_client, next_task) = (self.boot.clone(), self.next_client, self.next_task);
        let header = Line::Header { version: VERSION, boot, next_client, next_task };
        let clients = self.clients.iter().flat_map(|(&client, kept)| {
            let slots =
                kept.slots.iter().map(move |(&slot, kept)| Line::Slot { client, slot, kept: kept.clone() });
            std::iter::once(Line::Client { client, kept: kept.clone() }).chain(slots)
        });
        let drained = self.drained.iter().map(|(&device, &at_ns)| Line::Drained { device, at_ns });
        let devices = Some(self.devices.clone()).filter(|devices| !devices.is_empty());
        let devices = devices.map(|devices| Line::Devices { devices });
        // Devices come last: a daemon that does not know this line uses what comes before.
        std::iter::once(header).chain(clients).chain(drained).chain(devices)
    }
}

/// Parses the state that a daemon left. The second value is the damage, if any; the lines before it are used.
pub fn load(bytes: &[u8]) -> (Kept, Option<Damage>) {
    let mut kept = Kept::default();
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let place = index + 1;
        let cut = line.last() != Some(&b'\n');
        match serde_json::from_slice(line) {
            Ok(Line::Header { version, .. }) if version != VERSION => {
                return (Kept::default(), Some(Damage::Version(version)));
            }
            Ok(line @ Line::Header { .. }) if index == 0 => kept.apply(line),
            Ok(line) if index > 0 && !cut => kept.apply(line),
            // The daemon died while it wrote this line, so no program saw the change.
            _ if cut && index > 0 => return (kept, None),
            Ok(_) => {
                let why = format!("line {place}: the header is missing or in the wrong place");
                return (kept, Some(Damage::Line(why)));
            }
            Err(error) => return (kept, Some(Damage::Line(format!("line {place}: {error}")))),
        }
    }
    (kept, None)
}

/// The file, and the state in it.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    file: Option<File>,
    kept: Kept,
    /// Lines that are not written yet.
    pending: Vec<u8>,
    appended: u64,
    whole: u64,
    retry_at: Option<Nanos>,
    /// Why the file cannot be written now.
    problem: Option<String>,
}

impl StateFile {
    /// Reads the state that an earlier daemon of the same boot left at `path`. The last value names the damage and
    /// where the damaged file is kept, since the file itself is about to be replaced.
    pub fn open(path: &Path, boot: String) -> (StateFile, Kept, Option<String>) {
        let (kept, damage) = match whole_file::read(path, FILE_BYTES_MAX) {
            Ok(bytes) => load(&bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Kept::default(), None),
            Err(error) => (Kept::default(), Some(Damage::Unreadable(error.to_string()))),
        };
        let damage = damage.map(|damage| format!("{damage}; {}", whole_file::keep_beside(path)));
        let old = if kept.boot == boot { kept } else { Kept::default() };
        let (next_client, next_task) = (old.next_client.max(1), old.next_task.max(1));
        let fresh = Kept { boot, next_client, next_task, ..Kept::default() };
        let file = StateFile {
            path: path.into(),
            file: None,
            kept: fresh,
            pending: Vec::new(),
            appended: 0,
            whole: 0,
            retry_at: None,
            problem: None,
        };
        (file, old, damage)
    }

    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// True if the last change was written; otherwise a restart would not know of it.
    pub fn is_whole(&self) -> bool {
        self.file.is_some()
    }

    /// Why a restart would not know what is granted.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// When to retry after a failure.
    pub fn next_try(&self) -> Option<Nanos> {
        self.retry_at
    }

    /// Writes the whole file before any program is served, so that a full disk is known by then.
    pub fn begin(&mut self, now: Nanos) -> std::io::Result<()> {
        self.write(now, Vec::new(), true)
    }

    /// Retries a failed file, if it is time. The failure has been reported already.
    pub fn retry_if_due(&mut self, now: Nanos) {
        if self.retry_at.is_some_and(|at| at <= now) {
            let _ = self.write(now, Vec::new(), true);
        }
    }

    pub fn client(&mut self, client: u64, kept: KeptClient) {
        self.change(Line::Client { client, kept });
    }

    pub fn gone(&mut self, client: u64) {
        self.change(Line::Gone { client });
    }

    pub fn devices(&mut self, devices: Vec<KeptDevice>) {
        self.change(Line::Devices { devices });
    }

    pub fn drained(&mut self, device: u32, at_ns: u64) {
        self.change(Line::Drained { device, at_ns });
    }

    pub fn undrained(&mut self, device: u32) {
        self.change(Line::Undrained { device });
    }

    /// Notes a slot if the task in it has changed, or with `awaited` if anything in it has.
    pub fn slot(&mut self, client: u64, slot: Slot, kept: KeptSlot, awaited: bool) {
        let index = slot.index() as u8;
        let known = self.kept.clients.get(&client).and_then(|client| client.slots.get(&index));
        let (same_task, same) =
            known.map_or((kept.task.is_none(), false), |known| (known.task == kept.task, *known == kept));
        if !same_task || (awaited && !same) {
            self.change(Line::Slot { client, slot: index, kept });
        }
    }

    fn change(&mut self, line: Line) {
        // Lines are plain data; writing them to memory cannot fail.
        let _ = write_line(&mut self.pending, &line);
        self.kept.apply(line);
    }

    /// Writes the pending changes. `Err` once for a file that fails; the whole file is retried later.
    pub fn flush(&mut self, now: Nanos) -> std::io::Result<()> {
        if self.pending.is_empty() || self.retry_at.is_some_and(|at| now < at) {
            self.pending.clear();
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let has_grown = self.appended > REWRITE_BYTES && self.appended > 4 * self.whole;
        self.write(now, pending, has_grown)
    }

    fn write(&mut self, now: Nanos, pending: Vec<u8>, whole: bool) -> std::io::Result<()> {
        let was_failing = self.retry_at.take().is_some();
        let done = match &mut self.file {
            Some(file) if !whole => {
                self.appended += pending.len() as u64;
                file.write_all(&pending)
            }
            _ => self.rewrite(),
        };
        self.problem = done.as_ref().err().map(std::io::Error::to_string);
        done.or_else(|error| {
            self.file = None;
            self.retry_at = Some(Nanos(now.0.saturating_add(RETRY.0)));
            if was_failing { Ok(()) } else { Err(error) }
        })
    }

    /// Writes everything to a new file, and renames it over the old one.
    fn rewrite(&mut self) -> std::io::Result<()> {
        let mut text = Vec::new();
        for line in self.kept.lines() {
            write_line(&mut text, &line)?;
        }
        let file = whole_file::replace(&self.path, &text)?;
        (self.file, self.whole, self.appended) = (Some(file), text.len() as u64, 0);
        Ok(())
    }
}

fn write_line(text: &mut Vec<u8>, line: &Line) -> std::io::Result<()> {
    serde_json::to_writer(&mut *text, line)?;
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::event::TaskRequest;
    use eager_units::{Bytes, Class, TaskId};

    fn client(pid: i32) -> KeptClient {
        KeptClient {
            pid,
            started: 7,
            uid: 1000,
            label: "prog\u{e9}".into(),
            informed: true,
            priority: -3,
            held_by_process: true,
            slots: BTreeMap::new(),
        }
    }

    fn holding(client: u64, task: u64, mib: u64) -> KeptSlot {
        let bytes = Bytes(mib << 20);
        let request = TaskRequest {
            requirement: bytes,
            blocks: 1,
            threads_per_block: 256,
            function: "main".into(),
            ..TaskRequest::default()
        };
        let task = Restored {
            task: TaskId(task),
            client: ClientId(client),
            request,
            device: DeviceId(0),
            class: Class::Normal,
            grant: bytes,
            requirement: bytes,
            managed: false,
            all_launched: false,
            promotion_done: false,
        };
        KeptSlot { answered: 5, task: Some(task), held_by: None, contexts: Vec::new() }
    }

    fn slot(index: usize) -> Slot {
        Slot::new(index).expect("slot in range")
    }

    /// Two clients, one of which goes; one task that ends, and one that does not.
    fn story(file: &mut StateFile) {
        file.client(1, client(10));
        file.client(2, client(20));
        file.slot(1, slot(0), holding(1, 1, 100), true);
        file.slot(1, slot(3), holding(1, 2, 200), true);
        file.slot(
            1,
            slot(0),
            KeptSlot { answered: 6, task: None, held_by: None, contexts: Vec::new() },
            true,
        );
        file.gone(2);
        file.flush(Nanos(0)).expect("written");
    }

    /// See `tests/releases/0.1.0/README.txt`.
    #[test]
    fn what_release_0_1_0_left_is_read_whole() {
        let (kept, damage) = load(include_bytes!("../../tests/releases/0.1.0/eagerd.state"));
        assert_eq!(damage, None);
        assert_eq!((kept.next_client, kept.next_task), (6, 5));
        let mib = |bytes: Bytes| bytes.0 >> 20;
        let held: Vec<(u64, Class, u32, u64, u64)> = kept
            .clients
            .iter()
            .flat_map(|(&client, kept)| kept.slots.values().map(move |slot| (client, slot)))
            .filter_map(|(client, slot)| Some((client, slot.task.as_ref()?)))
            .map(|(client, task)| (client, task.class, task.device.0, mib(task.grant), mib(task.requirement)))
            .collect();
        let expected = [
            (2, Class::Normal, 1, 800, 800),
            (3, Class::Promoted, 0, 600, 600),
            (4, Class::Eager, 1, 224, 700),
        ];
        assert_eq!(held, expected);
        assert_eq!(kept.clients[&5].slots[&0].held_by, Some(0), "it waits, and is held");
        assert_eq!(kept.drained.keys().copied().collect::<Vec<u32>>(), [1]);
        assert_eq!(kept.contexts().count(), 0, "none were noted then");
    }

    #[test]
    fn what_was_noted_is_read_again_in_the_same_boot_only() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("state");
        let (mut file, old, damage) = StateFile::open(&path, "boot".into());
        assert_eq!((old, damage), (Kept::default(), None));
        story(&mut file);
        let (_, old, damage) = StateFile::open(&path, "boot".into());
        assert_eq!((&old, damage), (file.kept(), None));
        assert_eq!((old.next_client, old.next_task, old.clients.len()), (3, 3, 1));
        assert_eq!(old.clients[&1].slots[&3], holding(1, 2, 200));
        let (_, old, _) = StateFile::open(&path, "another boot".into());
        assert!(old.clients.is_empty(), "nobody lives through a boot");
    }

    #[test]
    fn hints_that_change_nothing_are_not_written() {
        let dir = tempfile::tempdir().expect("folder");
        let (mut file, ..) = StateFile::open(&dir.path().join("state"), "boot".into());
        story(&mut file);
        let hint = KeptSlot { answered: 99, ..holding(1, 2, 200) };
        file.slot(1, slot(3), hint.clone(), false);
        assert!(file.pending.is_empty());
        file.slot(1, slot(3), hint, true);
        assert!(!file.pending.is_empty());
    }

    #[test]
    fn a_file_that_grows_is_written_anew() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("state");
        let (mut file, ..) = StateFile::open(&path, "boot".into());
        story(&mut file);
        for answered in 0..20_000 {
            file.slot(
                1,
                slot(0),
                KeptSlot { answered, task: None, held_by: None, contexts: Vec::new() },
                true,
            );
            file.flush(Nanos(0)).expect("written");
        }
        let bytes = std::fs::metadata(&path).expect("the file").len();
        assert!(bytes < 2 * REWRITE_BYTES, "{bytes} bytes");
        assert_eq!(StateFile::open(&path, "boot".into()).1, *file.kept());
    }

    /// Bytes are changed, cut and doubled at places drawn from a fixed seed; no damage may break the loading or make up
    /// clients.
    #[test]
    fn any_damage_to_a_state_file_is_survived() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("state");
        let (mut file, ..) = StateFile::open(&path, "boot".into());
        story(&mut file);
        let good = std::fs::read(&path).expect("the file");
        let mut state = 0x1234_5678_9abc_def1_u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize % limit.max(1)
        };
        let mut whole = 0;
        for _ in 0..5000 {
            let mut bytes = good.clone();
            for _ in 0..=below(3) {
                match below(4) {
                    0 => bytes.truncate(below(bytes.len())),
                    1 => bytes.extend_from_within(below(bytes.len())..),
                    _ if bytes.is_empty() => {}
                    2 => drop(bytes.remove(below(bytes.len()))),
                    _ => {
                        let place = below(bytes.len());
                        bytes[place] = below(256) as u8;
                    }
                }
            }
            let (kept, damage) = load(&bytes);
            whole += usize::from(damage.is_none());
            assert!(kept.clients.len() <= 4, "{kept:?}");
        }
        assert!((1..5000).contains(&whole), "{whole} of 5000 were read to their end");
    }
}
