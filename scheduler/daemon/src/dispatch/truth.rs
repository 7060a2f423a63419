//! Compares the ledger with what the devices report, and tells the core which process uses what where the two differ.
//!
//! A process is matched to a client by the process id that the kernel gave when the client connected. Ids are reused,
//! but not while the client's process lives, and when it ends the client is removed. A process without a client may be a
//! child of a reservation's ([`super::family`]).

use crate::devices::minutes::Minutes;
use crate::devices::nvml;
use crate::devices::usage::{Fault, Observation, ObserverReport, ProcessUse};
use crate::dispatch::family::Families;
use crate::dispatch::{Client, Dispatch};
use eager_core::action::{Ending, Reason};
use eager_core::event::{ClientUse, Event};
use eager_core::limits::Measure;
use eager_units::{Bytes, ClientId, DeviceId, Nanos};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;

/// An older observation is no evidence of current use (specification S-709).
const STALE_NS: Nanos = Nanos::from_secs(10);

/// Memory in use on one device.
#[derive(Debug, Clone, Default)]
pub struct DeviceUse {
    /// Memory that cannot be evicted, by client.
    pub clients: BTreeMap<ClientId, Bytes>,
    /// Memory that cannot be evicted, of processes that are no clients.
    pub foreign: Bytes,
    /// Managed memory that is on the device, by client.
    managed: BTreeMap<ClientId, Bytes>,
    /// All memory in use on the device.
    pub resident: Bytes,
}

impl DeviceUse {
    pub fn of(&self, client: ClientId) -> Bytes {
        self.clients.get(&client).copied().unwrap_or_default()
    }

    /// Memory of a client on the device, managed memory included.
    pub fn resident_of(&self, client: ClientId) -> Bytes {
        self.of(client).saturating_add(self.managed.get(&client).copied().unwrap_or_default())
    }

    /// Memory on the device that cannot be evicted.
    pub fn pinned(&self) -> Bytes {
        self.clients.values().copied().sum::<Bytes>().saturating_add(self.foreign)
    }
}

/// Result of the last observation.
#[derive(Debug, Default)]
pub struct Truth {
    /// Memory of each device beyond the capacity that may be granted: foreign processes may use it.
    spare: Vec<Bytes>,
    devices: BTreeMap<DeviceId, DeviceUse>,
    paged: BTreeMap<DeviceId, Bytes>,
    utilization: BTreeMap<DeviceId, u32>,
    celsius: BTreeMap<DeviceId, u32>,
    watts: BTreeMap<DeviceId, u32>,
    pub minutes: Minutes,
    seen_at: Option<Nanos>,
    problem: Option<String>,
    /// Failed observations in a row. A single one is not reported, since its device may be ending with the daemon.
    failed_observations: u32,
    /// Since when a client's process has been seen stopped beside an idle device.
    pub(crate) stopped_since: BTreeMap<ClientId, Nanos>,
    /// Processes that reservations have started.
    pub(crate) families: Families,
    /// How often a program used more than it declared.
    pub overruns: u64,
    /// How often a task had its device for longer than permitted.
    pub overstays: u64,
}

impl Truth {
    /// Notes that observation begins. `spare`: memory of each device beyond the capacity that may be granted.
    pub fn begin(&mut self, now: Nanos, spare: Vec<Bytes>) {
        (self.seen_at, self.spare) = (Some(now), spare);
    }

    /// Foreign memory on a device beyond the device's spare memory.
    fn foreign_beyond_spare(&self, device: DeviceId, foreign: Bytes) -> Bytes {
        foreign.saturating_sub(self.spare.get(device.0 as usize).copied().unwrap_or_default())
    }

    /// True if memory of the client's process was seen on any device.
    pub fn uses_anything(&self, client: ClientId) -> bool {
        self.devices.values().any(|device| device.of(client) > Bytes::ZERO)
    }

    /// Memory of each client on all devices, managed memory included.
    fn resident(&self) -> BTreeMap<ClientId, Bytes> {
        let mut sums: BTreeMap<ClientId, Bytes> = BTreeMap::new();
        for device in self.devices.values() {
            for client in device.clients.keys() {
                let sum = sums.entry(*client).or_default();
                *sum = sum.saturating_add(device.resident_of(*client));
            }
        }
        sums
    }

    pub fn on(&self, device: DeviceId) -> Option<&DeviceUse> {
        self.devices.get(&device)
    }

    /// Managed memory that the device moved because it did not fit; none if the device does not report it.
    pub fn paged(&self, device: DeviceId) -> Option<Bytes> {
        self.paged.get(&device).copied()
    }

    /// Share of the time with a kernel on the device, in percent; none if the device does not report it.
    pub fn utilization(&self, device: DeviceId) -> Option<u32> {
        self.utilization.get(&device).copied()
    }

    /// Temperature of a device in degrees Celsius, and its power in watts; none if the device does not report them.
    pub fn temperature_and_power(&self, device: DeviceId) -> (Option<u32>, Option<u32>) {
        (self.celsius.get(&device).copied(), self.watts.get(&device).copied())
    }

    /// What is wrong with the observation, for people.
    pub fn problem(&self, now: Nanos) -> Option<String> {
        if self.problem.is_some() {
            return self.problem.clone();
        }
        let age = now.saturating_sub(self.seen_at?);
        (age > STALE_NS).then(|| format!("the devices have not reported memory use for {age}"))
    }
}

/// Sums up what processes use, by device and client. `owners`: the client of each process that has one.
fn sum_by_device(uses: &[ProcessUse], owners: &BTreeMap<i32, ClientId>) -> BTreeMap<DeviceId, DeviceUse> {
    let mut devices: BTreeMap<DeviceId, DeviceUse> = BTreeMap::new();
    for used in uses {
        let device = devices.entry(used.device).or_default();
        let sum = match owners.get(&used.pid) {
            Some(&client) => device.clients.entry(client).or_default(),
            None => &mut device.foreign,
        };
        *sum = sum.saturating_add(used.pinned);
        if let Some(&client) = owners.get(&used.pid) {
            let sum = device.managed.entry(client).or_default();
            *sum = sum.saturating_add(used.managed);
        }
        device.resident = device.resident.saturating_add(used.pinned).saturating_add(used.managed);
    }
    devices
}

/// The foreign part of memory that the driver attributes to no process. It may be memory of clients: of each as much as
/// it `may_use` and is not seen to use. The rest is foreign.
fn foreign_part(unattributed: Bytes, seen: &DeviceUse, may_use: &BTreeMap<ClientId, Bytes>) -> Bytes {
    let unseen = |(client, most): (&ClientId, &Bytes)| most.saturating_sub(seen.of(*client));
    unattributed.saturating_sub(may_use.iter().map(unseen).sum())
}

impl Dispatch {
    /// Takes in an observation.
    pub fn observe(&mut self, report: ObserverReport) {
        report.faults.into_iter().for_each(|fault| self.handle_fault(fault));
        let Observation {
            uses,
            unattributed,
            total_in_use,
            paged,
            utilization,
            celsius,
            watts,
            lost,
            unreported,
        } = match report.observation {
            Ok(seen) => seen,
            Err(problem) => return self.observation_failed(&problem.to_string()),
        };
        let owners = self.owners(&uses);
        let devices: Vec<DeviceId> = self.core.scheduler.devices().map(|device| device.device).collect();
        let mut seen = sum_by_device(&uses, &owners);
        (self.truth.paged, self.truth.utilization, self.truth.seen_at) =
            (paged, utilization, Some(self.now()));
        (self.truth.celsius, self.truth.watts) = (celsius, watts);
        for device in devices.into_iter().filter(|device| !unreported.contains_key(device)) {
            let mut used = seen.remove(&device).unwrap_or_default();
            if let Some(&unattributed) = unattributed.get(&device) {
                let may_use = |&client: &ClientId| (client, self.core.scheduler.may_use(client, device));
                let strangers =
                    foreign_part(unattributed, &used, &self.clients.keys().map(may_use).collect());
                used.foreign = used.foreign.saturating_add(strangers);
            }
            used.resident = total_in_use.get(&device).copied().unwrap_or(used.resident);
            let (now, busy) = (self.now(), self.truth.utilization(device));
            self.truth.minutes.add(now, device, used.resident, busy);
            self.truth.devices.insert(device, used);
            self.update_lost(device, lost.contains(&device));
            self.compare(device);
        }
        for (client, resident) in self.truth.resident() {
            self.core.ended.seen(client, resident);
        }
        self.look_for_stopped();
        self.look_for_reniced();
        if unreported.is_empty() {
            (self.truth.problem, self.truth.failed_observations) = (None, 0);
        } else {
            let why: Vec<String> =
                unreported.iter().map(|(device, why)| format!("{device}: {why}")).collect();
            self.observation_failed(&why.join("; "));
        }
    }

    /// Notes a failed observation. The last result stays in force: memory in use must not be granted for lack of news.
    fn observation_failed(&mut self, why: &str) {
        self.truth.failed_observations += 1;
        if self.truth.failed_observations < 2 {
            return;
        }
        let problem = format!("memory use on the devices is unknown: {why}");
        if self.truth.problem.as_ref() != Some(&problem) {
            self.log(problem.clone());
        }
        self.truth.problem = Some(problem);
    }

    pub fn update_lost(&mut self, device: DeviceId, is_lost: bool) {
        let was_lost = self.core.scheduler.state().devices.get(&device).is_some_and(|device| device.lost);
        match (was_lost, is_lost) {
            (false, true) => {
                self.log(format!("{device} is lost: nothing starts there until it is back"));
                self.step(Event::DeviceLost { device }, None);
            }
            (true, false) => {
                self.log(format!("{device} is back"));
                self.step(Event::DeviceFound { device }, None);
            }
            _ => {}
        }
    }

    /// Handles an error of a device. An error from which the device does not recover by itself takes it out of service.
    fn handle_fault(&mut self, Fault { device, xid }: Fault) {
        if !nvml::is_fatal(xid) {
            self.log(format!("{device}: Xid error {xid}, caused by one program and limited to it"));
            return;
        }
        self.log(format!("{device}: Xid error {xid}: the device needs a reset"));
        // The device is one of those observed, so this cannot fail.
        let _ = self.drain(device, true);
    }

    fn compare(&mut self, device: DeviceId) {
        let used = self.truth.devices.get(&device).cloned().unwrap_or_default();
        let clients: Vec<ClientUse> =
            used.clients.iter().map(|(&client, &bytes)| ClientUse { client, bytes }).collect();
        let foreign = self.truth.foreign_beyond_spare(device, used.foreign);
        if !self.core.scheduler.is_news(device, foreign, &clients) {
            return;
        }
        let before = self.foreign(device);
        self.step(Event::Observed { device, foreign, clients }, None);
        let after = self.foreign(device);
        match (before, after) {
            (Bytes::ZERO, Bytes::ZERO) => {}
            (Bytes::ZERO, some) => {
                self.log(format!(
                    "{device}: {some} are used by programs that Eager does not schedule, and are not granted"
                ));
            }
            (_, Bytes::ZERO) => self.log(format!("{device} is used by scheduled programs only now")),
            _ => {}
        }
    }

    fn foreign(&self, device: DeviceId) -> Bytes {
        let mut devices = self.core.scheduler.devices();
        devices.find(|view| view.device == device).map_or(Bytes::ZERO, |view| view.foreign)
    }

    /// Acts on a client that uses more than it declared.
    pub fn handle_overrun(&mut self, id: ClientId, measure: Measure, reason: &Reason) {
        self.truth.overruns += 1;
        match measure {
            Measure::Observe => self.log_of_client(id, reason, "other tasks get less"),
            Measure::Throttle => self.log_of_client(id, reason, "its later tasks wait longer"),
            Measure::Kill => self.end(id, Ending::Kill, reason),
        }
    }

    /// Acts on a task that has its device for longer than permitted.
    pub fn handle_overstay(&mut self, id: ClientId, ending: Option<Ending>, reason: &Reason) {
        self.truth.overstays += 1;
        match ending {
            None => self.log_of_client(id, reason, "it keeps the device, and counts against its user"),
            Some(ending) => self.end(id, ending, reason),
        }
    }

    /// Ends a client's process through its pidfd, and so never another process that has its id now.
    fn end(&mut self, id: ClientId, ending: Ending, reason: &Reason) {
        let Some(client) = self.clients.get(&id) else { return };
        let (signal, done) = match ending {
            Ending::Terminate => (Signal::SIGTERM, "it gets SIGTERM"),
            Ending::Kill => (Signal::SIGKILL, "it gets SIGKILL"),
        };
        match eager_shm::process::signal(&client.peer.pidfd, signal) {
            Ok(()) => self.log_of_client(id, reason, done),
            Err(error) => self.log_of_client(id, reason, &format!("it cannot be ended ({error})")),
        }
    }

    pub fn log_of_client(&mut self, id: ClientId, reason: &Reason, consequence: &str) {
        let Some(Client { label, peer, .. }) = self.clients.get(&id) else { return };
        let line = format!("{reason} ({label}, pid {}): {consequence}", peer.pid);
        self.log_of_user(Some(peer.uid), line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_use_is_their_clients_or_foreign() {
        let used = |device, pid, bytes| ProcessUse {
            device: DeviceId(device),
            pid,
            pinned: Bytes(bytes),
            managed: Bytes(100 * bytes),
        };
        let owners = BTreeMap::from([(7, ClientId(1)), (8, ClientId(2))]);
        let uses = [used(0, 7, 5), used(0, 9, 2), used(0, 7, 1), used(1, 8, 3), used(0, 10, 4)];
        let devices = sum_by_device(&uses, &owners);
        let on = |device| &devices[&DeviceId(device)];
        assert_eq!((on(0).clients[&ClientId(1)], on(0).foreign), (Bytes(6), Bytes(6)));
        assert_eq!((on(1).clients[&ClientId(2)], on(1).foreign), (Bytes(3), Bytes::ZERO));
        assert_eq!((on(0).pinned(), on(0).resident), (Bytes(12), Bytes(12 * 101)));
        assert_eq!(on(0).resident_of(ClientId(1)), Bytes(6 * 101));
    }

    #[test]
    fn what_nobody_is_named_for_is_first_that_of_clients_that_are_not_seen() {
        let clients = BTreeMap::from([(ClientId(1), Bytes(6))]);
        let seen = DeviceUse { clients, foreign: Bytes(2), ..DeviceUse::default() };
        let may_use = BTreeMap::from([(ClientId(1), Bytes(10)), (ClientId(2), Bytes(5))]);
        assert_eq!(foreign_part(Bytes(9), &seen, &may_use), Bytes::ZERO);
        assert_eq!(foreign_part(Bytes(12), &seen, &may_use), Bytes(3));
        assert_eq!(foreign_part(Bytes(12), &seen, &BTreeMap::new()), Bytes(12));
    }

    #[test]
    fn what_is_kept_for_others_they_may_use() {
        let mut truth = Truth::default();
        truth.begin(Nanos(0), vec![Bytes(100)]);
        assert_eq!(truth.foreign_beyond_spare(DeviceId(0), Bytes(100)), Bytes::ZERO);
        assert_eq!(truth.foreign_beyond_spare(DeviceId(0), Bytes(130)), Bytes(30));
        assert_eq!(truth.foreign_beyond_spare(DeviceId(1), Bytes(30)), Bytes(30));
    }
}
