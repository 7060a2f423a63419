//! `eager run --mem` and `--after`: memory for a program that says nothing of itself, and a start behind another task.
//!
//! Trap: the memory belongs to this process, which becomes the program. The connection stays open over `exec`, and the
//! daemon takes the grant back when the process ends, by pidfd; a child that goes on alone has nothing.

use crate::daemon::DaemonPlace;
use crate::say;
use anyhow::{Context, bail};
use eager_proto::admin::{AdminReply, AdminRequest};
use eager_proto::hello::Hello;
use eager_proto::reply::{STATE_BOUND, STATE_REFUSED};
use eager_proto::request::{BEGIN_WHOLE, RequestBody, Slot};
use eager_proto::size::Size;
use eager_shm::client::{ClientConnection, Wait};
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks whether a task has ended: little work for the daemon, little time for a person.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A daemon that is started again is there within this.
const DAEMON_LOSS_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Only so long that a daemon's end is noticed; the wait itself has no end, as under any queue.
const WAIT_SLICE: Duration = Duration::from_secs(60);

/// Memory on a device, and the connection that holds it.
#[derive(Debug)]
pub struct Reservation {
    pub device: u32,
    connection: ClientConnection,
}

impl Reservation {
    /// Gives the connection to the program that this process becomes.
    pub fn hand_over(self) -> anyhow::Result<()> {
        self.connection.keep_over_exec().context("keeping the reservation over exec")?;
        // Closing it is what must not happen.
        std::mem::forget(self.connection);
        Ok(())
    }
}

/// Waits until the daemon has granted so much on one device; says why while it waits.
pub fn reserve(socket: &Path, label: &str, memory: Size) -> anyhow::Result<Reservation> {
    let connection = ClientConnection::connect(socket, &Hello::new(label), CONNECT_TIMEOUT)?;
    let slot = Slot::new(0).context("a task slot")?;
    let body = RequestBody::TaskBegin {
        requirement: memory.0,
        site: 0,
        blocks: 0,
        threads_per_block: 0,
        // Its memory is its own plain `cudaMalloc`: it cannot run over-subscribed.
        flags: BEGIN_WHOLE,
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
                return Ok(Reservation { device: cell.device, connection });
            }
            STATE_REFUSED if answered => {
                bail!("{memory}: {}", connection.reason(slot).unwrap_or_default());
            }
            _ if cell.reason != said => {
                said = cell.reason;
                say(&format!("{memory}: {}", connection.reason(slot).unwrap_or_default()));
            }
            _ => {}
        }
        if connection.wait_cell(slot, cell.sequence, Instant::now() + WAIT_SLICE) == Wait::DaemonGone {
            bail!("the daemon ended while {memory} was waited for");
        }
    }
}

/// Waits until a task has ended, however it ends.
pub fn wait_for_end(place: &DaemonPlace, task: u64) -> anyhow::Result<()> {
    let mut lost_since = None;
    loop {
        match runs(place, task) {
            Ok(false) => return Ok(()),
            Ok(true) => lost_since = None,
            Err(error) => {
                let since = *lost_since.get_or_insert_with(Instant::now);
                if since.elapsed() > DAEMON_LOSS_MAX {
                    return Err(error);
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Does the task wait or run?
pub fn runs(place: &DaemonPlace, task: u64) -> anyhow::Result<bool> {
    match place.ask(&AdminRequest::Ps)? {
        AdminReply::Ps { tasks, next_task } if task < next_task => {
            Ok(tasks.iter().any(|row| row.task == task))
        }
        AdminReply::Ps { .. } => bail!("there has been no task {task} yet: `eager ps` lists those that run"),
        other => bail!("the daemon answers {other:?}"),
    }
}

/// Programs find only the granted device where their runtime heeds `CUDA_VISIBLE_DEVICES`, which the stand-in one does not.
pub fn check_devices(place: &DaemonPlace) -> anyhow::Result<()> {
    match place.ask(&AdminRequest::Info)? {
        AdminReply::Info { devices, .. } if devices.len() <= 1 => Ok(()),
        _ => bail!(
            "--mem is not possible with several virtual GPUs yet: their runtime does not heed CUDA_VISIBLE_DEVICES"
        ),
    }
}
