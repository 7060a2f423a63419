//! What the shim asks of the daemon, as a trait, and the connection that is its one real implementation.
//!
//! Trap: the daemon may be dead, stopped or slow at every call. Nothing here waits for longer than it was told to.

use crate::nvtx;
use crate::trace;
use crate::virtual_clock;
use eager_proto::hello::{self, Uuid};
use eager_proto::reply::TaskCell;
use eager_proto::request::{RequestBody, Slot};
use eager_shm::client::{ClientConnection, ConnectError, SendError, Wait};
use std::time::{Duration, Instant};

/// Why a request did not go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// The ring is full: the daemon has not taken earlier requests yet.
    Full,
    Gone,
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    Changed,
    TimedOut,
    Gone,
}

/// What the daemon's policy wants of clients, so that memory is held only while the device needs it (specification
/// S-303 to S-306).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Habits {
    /// A task asks at its first use of a device.
    pub late_reservation: bool,
    /// What is copied to the device before that waits in host memory.
    pub early_copies: bool,
    /// A task asks for what is in use at once.
    pub live_requirement: bool,
    /// Copies from and to pageable memory go through a pinned ring.
    pub fast_copies: bool,
    /// The most that a task can ever be granted; `None`: not known.
    pub grant_max: Option<u64>,
}

/// Is there a daemon in the place of one that is gone?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// Everything goes on: grants stand, and what was not answered was asked again.
    Done,
    /// Not now. It was killed, and may be started again.
    NotYet,
    /// Not now, and nothing says that one will come: its place is empty.
    Left,
    /// There is one that does not know this program, or the connection is not this process's.
    Never,
}

pub trait Scheduler {
    fn habits(&self) -> Habits;
    /// Uuids of the daemon's devices, by its numbers; none where the program's numbers are the same.
    fn devices(&self) -> Vec<Uuid> {
        Vec::new()
    }
    /// Goes on with the daemon that took the place of one that is gone; at once when none is gone.
    fn resume(&self) -> Resumed {
        Resumed::Never
    }
    /// Publishes a request; returns its sequence.
    fn send(&self, slot: Slot, body: RequestBody) -> Result<u32, Unsent>;
    /// What holds for a slot now; `None`: the daemon is gone.
    fn cell(&self, slot: Slot) -> Option<TaskCell>;
    /// Sequence of the slot's cell as it is now, odd while it is being written: one load.
    fn sequence(&self, slot: Slot) -> u32;
    /// Why the slot stands as it does, in words; empty if nothing is known.
    fn reason(&self, slot: Slot) -> String;
    /// The gate word of a slot: one load.
    fn gate(&self, slot: Slot) -> u64;
    /// The flags of a slot: one load.
    fn flags(&self, slot: Slot) -> u32;
    /// Sleeps until the cell is no longer the one with `sequence`.
    fn wait(&self, slot: Slot, sequence: u32, timeout: Duration) -> Wake;
    /// Has the daemon taken every request so far? False for long: it is stopped or stuck.
    fn heard(&self) -> bool;
    fn add_launched(&self, slot: Slot, launches: u64);
    fn add_retired(&self, slot: Slot, launches: u64);
}

/// Bound on each step of coming back to a daemon (specification S-702).
const RESUME_STEP_MAX: Duration = Duration::from_secs(2);

impl Scheduler for ClientConnection {
    fn habits(&self) -> Habits {
        let is_wanted = |feature: u64| self.features() & feature != 0;
        Habits {
            late_reservation: is_wanted(hello::FEATURE_LATE_RESERVATION),
            early_copies: is_wanted(hello::FEATURE_EARLY_COPIES),
            live_requirement: is_wanted(hello::FEATURE_LIVE_REQUIREMENT),
            fast_copies: is_wanted(hello::FEATURE_FAST_COPIES),
            grant_max: self.grant_max(),
        }
    }

    fn devices(&self) -> Vec<Uuid> {
        ClientConnection::devices(self).to_vec()
    }

    fn resume(&self) -> Resumed {
        match ClientConnection::resume(self, RESUME_STEP_MAX) {
            Ok(()) => Resumed::Done,
            Err(ConnectError::NoDaemon { .. }) if self.place_is_empty() => Resumed::Left,
            Err(error) if error.is_passing() => Resumed::NotYet,
            Err(_) => Resumed::Never,
        }
    }

    fn send(&self, slot: Slot, body: RequestBody) -> Result<u32, Unsent> {
        virtual_clock::turn();
        let told = (trace::is_on() || nvtx::is_on()).then(|| body.clone());
        let sent = ClientConnection::send(self, body, slot).map_err(|error| match error {
            SendError::RingFull => Unsent::Full,
            SendError::DaemonGone | SendError::Forked => Unsent::Gone,
        });
        if let (Ok(_), Some(body)) = (&sent, told) {
            trace::record(slot, &body);
            nvtx::record(slot, &body);
        }
        sent
    }

    fn cell(&self, slot: Slot) -> Option<TaskCell> {
        ClientConnection::cell(self, slot)
    }

    fn sequence(&self, slot: Slot) -> u32 {
        ClientConnection::sequence(self, slot)
    }

    fn reason(&self, slot: Slot) -> String {
        ClientConnection::reason(self, slot).unwrap_or_default()
    }

    fn gate(&self, slot: Slot) -> u64 {
        virtual_clock::turn();
        ClientConnection::gate(self, slot)
    }

    fn flags(&self, slot: Slot) -> u32 {
        ClientConnection::flags(self, slot)
    }

    fn wait(&self, slot: Slot, sequence: u32, timeout: Duration) -> Wake {
        let sleep = || self.wait_cell(slot, sequence, Instant::now() + timeout);
        match virtual_clock::asleep(slot.index() as u32, sequence, sleep) {
            Wait::Changed => Wake::Changed,
            Wait::TimedOut => Wake::TimedOut,
            Wait::DaemonGone => Wake::Gone,
        }
    }

    fn heard(&self) -> bool {
        self.all_taken()
    }

    fn add_launched(&self, slot: Slot, launches: u64) {
        ClientConnection::add_launched(self, slot, launches);
    }

    fn add_retired(&self, slot: Slot, launches: u64) {
        ClientConnection::add_retired(self, slot, launches);
    }
}
