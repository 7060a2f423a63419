//! `eager run --mem`, `--gpus` and `--after`: reserves memory for a program that does not do so itself, and delays a
//! start until another task has ended.
//!
//! Trap: the memory belongs to this process, which becomes the program. The daemon frees the grant by pidfd when the
//! process ends, also if the program closes the connection. A child that outlives the process has no reservation. (The
//! connection stays open over `exec` for a daemon of an earlier release, which frees what a closed connection held.)

use super::choice::Choice;
use crate::daemon::{DaemonPlace, connect_max};
use crate::say;
use anyhow::{Context, bail};
use eager_proto::admin::{AdminReply, AdminRequest, DeviceRow};
use eager_proto::hello::{Hello, Uuid};
use eager_proto::reply::{STATE_BOUND, STATE_REFUSED};
use eager_proto::request::{BeginFlags, RequestBody, Slot};
use eager_shm::client::{ClientConnection, SendError, Wait};
use eager_units::Size;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval at which to check whether a task has ended: little work for the daemon, a short delay for a person.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A daemon that is restarted is back within this time.
const DAEMON_LOSS_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which to check that the daemon is alive. The wait itself has no limit, as in any queue.
const WAIT_SLICE: Duration = Duration::from_secs(60);

/// A shorter wait is not worth a line; the shim's waits follow the same rule.
const SAY_AFTER: Duration = Duration::from_secs(1);

/// What a program reserves.
#[derive(Debug)]
pub struct Wanted {
    /// Bytes on each device; 0: only the device.
    pub memory: Size,
    pub count: usize,
    /// Print nothing while the reservation waits.
    pub is_quiet: bool,
}

impl Wanted {
    /// Names the reservation on the device of an index, for messages.
    fn name(&self, index: usize) -> String {
        match self.count {
            _ if self.memory == Size(0) => "the program's device".to_owned(),
            1 => self.memory.to_string(),
            count => format!("{}, GPU {} of {count}", self.memory, index + 1),
        }
    }
}

/// Reserved memory on devices, and the connection that holds it.
#[derive(Debug)]
pub struct Reservation {
    /// Device numbers of the daemon, ascending.
    pub devices: Vec<u32>,
    connection: ClientConnection,
}

impl Reservation {
    /// Returns the devices' UUIDs for NVIDIA's runtime, which numbers devices in another order than the daemon.
    pub fn cuda_names(&self) -> anyhow::Result<String> {
        let uuids = self.connection.devices();
        let name = |device: &u32| match uuids.get(*device as usize) {
            Some(uuid) => Ok(uuid_text(uuid)),
            // The program sees the devices under the daemon's numbers.
            None if uuids.is_empty() => Ok(device.to_string()),
            None => bail!("the daemon gave GPU {device}, and has not said which GPU of the machine that is"),
        };
        Ok(self.devices.iter().map(name).collect::<anyhow::Result<Vec<_>>>()?.join(","))
    }

    /// Hands the connection over to the program that this process becomes.
    pub fn hand_over(self) -> anyhow::Result<()> {
        self.connection.keep_over_exec().context("keeping the reservation over exec")?;
        // Dropping the connection would close it.
        std::mem::forget(self.connection);
        Ok(())
    }
}

/// Formats a UUID as `GPU-01000000-0000-0000-0000-000000000000`.
fn uuid_text(uuid: &Uuid) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]];
    format!("GPU-{}", parts.map(hex).join("-"))
}

/// Waits until the daemon has granted the memory on each device; prints the reasons meanwhile, unless it is to be
/// quiet.
pub fn reserve(
    place: &DaemonPlace,
    socket: &Path,
    hello: &Hello,
    wanted: &Wanted,
) -> anyhow::Result<Reservation> {
    let choice = match wanted.count {
        1 => Choice::ONE,
        count => Choice::among(&device_rows(place)?, wanted.memory, count)?,
    };
    let connect = || ClientConnection::connect(socket, hello, CONNECT_TIMEOUT);
    let connection = ClientConnection::connect_within(connect_max()?, |_, _| {}, connect)?;
    let mut devices = Vec::with_capacity(wanted.count);
    for index in 0..wanted.count {
        let slot = Slot::new(index).context("a task slot")?;
        let flags = BeginFlags { barred: choice.barred(&devices), ..BeginFlags::WHOLE };
        devices.push(reserve_one(&connection, slot, flags, wanted, &wanted.name(index))?);
    }
    Ok(Reservation { devices, connection })
}

/// Reserves memory on one device, and returns the device's number.
fn reserve_one(
    connection: &ClientConnection,
    slot: Slot,
    flags: BeginFlags,
    wanted: &Wanted,
    what: &str,
) -> anyhow::Result<u32> {
    // The program uses plain `cudaMalloc`, so it cannot run over-subscribed.
    let body = RequestBody::TaskBegin {
        requirement: wanted.memory.0,
        site: 0,
        blocks: 0,
        threads_per_block: 0,
        flags,
        function: String::new(),
    };
    let asked = send(connection, slot, &body, what)?;
    let say_from = Instant::now() + SAY_AFTER;
    let mut said = 0;
    loop {
        let Some(cell) = connection.cell(slot) else {
            // The daemon ended, or was stopped, while it wrote the answer.
            reconnect(connection, what)?;
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        let answered = cell.answers(asked);
        // A daemon that was just started has no reason yet.
        let reason = connection.reason(slot).unwrap_or_default();
        let has_news = cell.reason != said && !reason.is_empty() && !wanted.is_quiet;
        match cell.state {
            STATE_BOUND if answered => {
                // The daemon does not see the program's kernels, so no task shall wait for them; the memory stays
                // reserved.
                send(connection, slot, &RequestBody::AllLaunched, what)?;
                return Ok(cell.device);
            }
            STATE_REFUSED if answered => {
                bail!("{what}: {reason}");
            }
            _ if has_news && Instant::now() >= say_from => {
                said = cell.reason;
                say(&format!("{what}: {reason}"));
            }
            _ => {}
        }
        let until = if has_news { say_from } else { Instant::now() + WAIT_SLICE };
        if connection.wait_cell(slot, cell.sequence, until) == Wait::DaemonGone {
            reconnect(connection, what)?;
        }
    }
}

/// Sends a request, to the next daemon if this one has ended. Returns the request's sequence.
fn send(connection: &ClientConnection, slot: Slot, body: &RequestBody, what: &str) -> anyhow::Result<u32> {
    loop {
        match connection.send(body.clone(), slot) {
            Err(SendError::DaemonGone) => reconnect(connection, what)?,
            sent => return Ok(sent?),
        }
    }
}

/// Waits for the daemon that follows one that has ended. It gets the requests that have no answer yet.
fn reconnect(connection: &ClientConnection, what: &str) -> anyhow::Result<()> {
    let lost = || format!("the daemon ended while {what} was waited for");
    let come_back = || connection.resume(CONNECT_TIMEOUT);
    ClientConnection::connect_within(connect_max()?, |_, _| {}, come_back).with_context(lost)?;
    Ok(())
}

/// Waits until a task has ended, however it ends. The daemon lists the program meanwhile.
///
/// # Errors
/// The task never existed, or no daemon answers for a while.
pub fn wait_for_end(place: &DaemonPlace, task: u64, label: &str) -> anyhow::Result<()> {
    let mut waits = !has_ended(place, task, label)?;
    let mut lost_since = None;
    while waits {
        std::thread::sleep(LOOK_EVERY);
        match has_ended(place, task, label) {
            Ok(over) => (waits, lost_since) = (!over, None),
            Err(error) => {
                let since = *lost_since.get_or_insert_with(Instant::now);
                if since.elapsed() > DAEMON_LOSS_MAX {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

fn has_ended(place: &DaemonPlace, task: u64, label: &str) -> anyhow::Result<bool> {
    match place.ask_patiently(&AdminRequest::After { task, label: label.to_owned() })? {
        AdminReply::After { has_ended } => Ok(has_ended),
        other => bail!("the daemon answers {other:?}"),
    }
}

fn device_rows(place: &DaemonPlace) -> anyhow::Result<Vec<DeviceRow>> {
    match place.ask_patiently(&AdminRequest::Info)? {
        AdminReply::Info { devices, .. } => Ok(devices),
        other => bail!("the daemon answers {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_nvidia_does() {
        let uuid = [0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        assert_eq!(uuid_text(&uuid), "GPU-ab010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
