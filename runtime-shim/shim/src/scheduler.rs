//! The daemon as the shim uses it, as a trait, and the connection, which is its only real implementation.
//!
//! Trap: the daemon may be dead, stopped or slow at every call. Nothing here may wait for longer than the caller
//! allows.

use crate::nvtx;
use crate::trace;
use crate::virtual_clock;
use eager_client::loss::Resumed;
use eager_proto::hello::{self, Uuid};
use eager_proto::reply::TaskCell;
use eager_proto::request::{RequestBody, Slot};
use eager_shm::client::{ClientConnection, ConnectError, SendError, Wait};
use eager_units::Habits;
use std::time::{Duration, Instant};

/// Reason why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// The ring is full: the daemon has not taken earlier requests yet.
    Full,
    Gone,
}

/// Result of a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    Changed,
    TimedOut,
    Gone,
}

pub trait Scheduler {
    /// What the daemon's policy wants of clients. The terms of each task tell whether dead memory is to be returned.
    fn habits(&self) -> Habits;
    /// The largest grant that a task can ever get, in bytes; `None`: not known.
    fn grant_max(&self) -> Option<u64>;
    /// UUIDs of the daemon's devices, by its numbers; empty where the program uses the same numbers.
    fn devices(&self) -> Vec<Uuid> {
        Vec::new()
    }
    /// Continues with the daemon that took the place of one that is gone; returns at once when none is gone.
    fn resume(&self) -> Resumed {
        Resumed::Never
    }
    /// Publishes a request; returns its sequence.
    fn send(&self, slot: Slot, body: RequestBody) -> Result<u32, Unsent>;
    /// The slot's current cell; `None`: the daemon is gone.
    fn cell(&self, slot: Slot) -> Option<TaskCell>;
    /// True if the daemon is gone, as seen at most 100 ms ago.
    fn is_gone(&self) -> bool;
    /// Sequence of the slot's current cell, odd while it is being written. Costs one load.
    fn sequence(&self, slot: Slot) -> u32;
    /// The reason for the slot's state, in words; empty if unknown.
    fn reason(&self, slot: Slot) -> String;
    /// The slot's gate word. Costs one load.
    fn gate(&self, slot: Slot) -> u64;
    /// The slot's flags. Costs one load.
    fn flags(&self, slot: Slot) -> u32;
    /// Sleeps until the cell is no longer the one with `sequence`.
    fn wait(&self, slot: Slot, sequence: u32, timeout: Duration) -> Wake;
    /// True if the daemon has taken every request so far. If it stays false, the daemon is stopped or stuck.
    fn heard(&self) -> bool;
    fn add_launched(&self, slot: Slot, launches: u64);
    fn add_retired(&self, slot: Slot, launches: u64);
}

/// Bound on each step of reconnecting to a daemon (specification S-702).
const RESUME_STEP_MAX: Duration = Duration::from_secs(2);

impl Scheduler for ClientConnection {
    fn habits(&self) -> Habits {
        let is_wanted = |feature: u64| self.features() & feature != 0;
        Habits {
            late_reservation: is_wanted(hello::FEATURE_LATE_RESERVATION),
            early_copies: is_wanted(hello::FEATURE_EARLY_COPIES),
            live_requirement: is_wanted(hello::FEATURE_LIVE_REQUIREMENT),
            fast_copies: is_wanted(hello::FEATURE_FAST_COPIES),
            release_dead: false,
        }
    }

    fn grant_max(&self) -> Option<u64> {
        ClientConnection::grant_max(self)
    }

    fn devices(&self) -> Vec<Uuid> {
        ClientConnection::devices(self)
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

    fn is_gone(&self) -> bool {
        self.looks_gone()
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
