//! `eager run --mem`, `--gpus` and `--after`: memory for a program that says nothing of itself, and a start behind another task.
//!
//! Trap: the memory belongs to this process, which becomes the program. The connection stays open over `exec`, and the
//! daemon takes the grant back when the process ends, by pidfd; a child that goes on alone has nothing.

use super::choice::Choice;
use crate::daemon::{DaemonPlace, connect_max};
use crate::say;
use anyhow::{Context, bail};
use eager_proto::admin::{AdminReply, AdminRequest, DeviceRow};
use eager_proto::hello::{Hello, Uuid};
use eager_proto::reply::{STATE_BOUND, STATE_REFUSED};
use eager_proto::request::{BeginFlags, RequestBody, Slot};
use eager_shm::client::{ClientConnection, Wait};
use eager_units::Size;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks whether a task has ended: little work for the daemon, little time for a person.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A daemon that is started again is there within this.
const DAEMON_LOSS_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Only so long that a daemon's end is noticed; the wait itself has no end, as under any queue.
const WAIT_SLICE: Duration = Duration::from_secs(60);

/// Memory on devices, and the connection that holds it.
#[derive(Debug)]
pub struct Reservation {
    /// The daemon's numbers, ascending.
    pub devices: Vec<u32>,
    connection: ClientConnection,
}

impl Reservation {
    /// The devices as NVIDIA's runtime knows them: it counts in another order than the daemon.
    pub fn cuda_names(&self) -> String {
        let uuids = self.connection.devices();
        let name = |device: &u32| uuids.get(*device as usize).map_or(device.to_string(), uuid_text);
        self.devices.iter().map(name).collect::<Vec<_>>().join(",")
    }

    /// Gives the connection to the program that this process becomes.
    pub fn hand_over(self) -> anyhow::Result<()> {
        self.connection.keep_over_exec().context("keeping the reservation over exec")?;
        // Closing it is what must not happen.
        std::mem::forget(self.connection);
        Ok(())
    }
}

/// `GPU-01000000-0000-0000-0000-000000000000`
fn uuid_text(uuid: &Uuid) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]];
    format!("GPU-{}", parts.map(hex).join("-"))
}

/// Waits until the daemon has granted so much on each of so many devices; says why while it waits.
pub fn reserve(
    place: &DaemonPlace,
    socket: &Path,
    hello: &Hello,
    memory: Size,
    count: usize,
) -> anyhow::Result<Reservation> {
    let choice = match count {
        1 => Choice::ONE,
        _ => Choice::among(&device_rows(place)?, memory, count)?,
    };
    let connect = || ClientConnection::connect(socket, hello, CONNECT_TIMEOUT);
    let connection = ClientConnection::connect_within(connect_max()?, |_, _| {}, connect)?;
    let mut devices = Vec::with_capacity(count);
    for index in 0..count {
        let slot = Slot::new(index).context("a task slot")?;
        let flags = BeginFlags { barred: choice.barred(&devices), ..BeginFlags::WHOLE };
        let what =
            if count == 1 { memory.to_string() } else { format!("{memory}, GPU {} of {count}", index + 1) };
        devices.push(reserve_one(&connection, slot, memory, flags, &what)?);
    }
    Ok(Reservation { devices, connection })
}

/// The number of the device on which it was granted.
fn reserve_one(
    connection: &ClientConnection,
    slot: Slot,
    memory: Size,
    flags: BeginFlags,
    what: &str,
) -> anyhow::Result<u32> {
    // Its memory is its own plain `cudaMalloc`: it cannot run over-subscribed.
    let body = RequestBody::TaskBegin {
        requirement: memory.0,
        site: 0,
        blocks: 0,
        threads_per_block: 0,
        flags,
        function: String::new(),
    };
    let asked = connection.send(body, slot)?;
    let mut said = 0;
    loop {
        let cell = connection.cell(slot).context("the daemon stopped in the middle of an answer")?;
        let answered = cell.answers(asked);
        match cell.state {
            STATE_BOUND if answered => {
                // Nobody sees its kernels, so nobody is told to wait for them; its memory goes on counting.
                connection.send(RequestBody::AllLaunched, slot)?;
                return Ok(cell.device);
            }
            STATE_REFUSED if answered => {
                bail!("{what}: {}", connection.reason(slot).unwrap_or_default());
            }
            _ if cell.reason != said => {
                said = cell.reason;
                say(&format!("{what}: {}", connection.reason(slot).unwrap_or_default()));
            }
            _ => {}
        }
        if connection.wait_cell(slot, cell.sequence, Instant::now() + WAIT_SLICE) == Wait::DaemonGone {
            let lost = || format!("the daemon ended while {what} was waited for");
            // The next daemon is asked the same again.
            let come_back = || connection.resume(CONNECT_TIMEOUT);
            ClientConnection::connect_within(connect_max()?, |_, _| {}, come_back).with_context(lost)?;
        }
    }
}

/// Waits until a task has ended, however it ends; the daemon lists the program meanwhile.
///
/// # Errors
/// There has been no such task, or no daemon answers for a while.
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
