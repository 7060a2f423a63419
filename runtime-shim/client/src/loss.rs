//! What a program does without a daemon: how long one may be silent, how long its place is looked at after it is gone, and
//! how the program goes on when it counts as lost.
//!
//! Trap: nothing is undone after a loss. Tasks keep their devices and their memory, and the program is never scheduled
//! again.

use crate::Client;
use crate::ledger::{Backing, BufferId};
use std::time::Duration;

/// How long a request may stay untaken before the daemon counts as lost, unless `wait:S` is set. Long enough
/// for a loaded machine, short enough that a stopped daemon does not look like a hung program (specification S-701).
const UNHEARD_MAX: Duration = Duration::from_secs(10);
/// How long a program that was scheduled waits for a killed daemon to be started again, unless `wait:S` is set
/// (specification S-702).
const RESUME_MAX: Duration = Duration::from_secs(5);

/// Behaviour when there is no daemon, or the daemon is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoss {
    /// Run as plain CUDA.
    Open,
    /// CUDA calls that take memory or start work fail.
    Closed,
    /// Wait this long for a daemon, or for its answer; then run as plain CUDA.
    Wait(Duration),
}

/// What the program's user wants where there is no daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    pub on_loss: OnLoss,
    /// A program that was never bound is treated like one that starts without a daemon: its calls fail if this is set.
    pub is_closed_at_start: bool,
    /// How long a program waits for a daemon at its start where one is expected.
    pub connect_max: Duration,
}

/// How calls go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Scheduled,
    /// As plain CUDA.
    Plain,
    /// What takes memory or starts work fails.
    Closed,
}

/// Result of looking for a daemon in place of one that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// The program goes on: grants are kept, and unanswered requests were sent again.
    Done,
    /// No daemon now. The old one was killed, and may be restarted.
    NotYet,
    /// No daemon now, and none is to be expected: its place is empty.
    Left,
    /// The daemon does not know this program, or the connection is not this process's.
    Never,
}

impl Loss {
    /// How calls go on without a daemon. `was_bound`: a task of the program was.
    pub fn standing(&self, was_bound: bool) -> Standing {
        let is_closed = if was_bound { self.on_loss == OnLoss::Closed } else { self.is_closed_at_start };
        if is_closed { Standing::Closed } else { Standing::Plain }
    }

    /// How long a program waits for a daemon at its start. `is_expected`: one is or was there.
    pub fn connect_wait(&self, is_expected: bool) -> Duration {
        match self.on_loss {
            OnLoss::Wait(limit) => limit,
            OnLoss::Open | OnLoss::Closed if is_expected => self.connect_max,
            OnLoss::Open | OnLoss::Closed => Duration::ZERO,
        }
    }

    /// How long a request may stay untaken before the daemon counts as lost.
    pub fn unheard_max(&self) -> Duration {
        match self.on_loss {
            OnLoss::Wait(limit) => limit,
            OnLoss::Open | OnLoss::Closed => UNHEARD_MAX,
        }
    }

    /// True if the program looks for a daemon again, having waited this long since the last one was gone.
    pub fn looks_again(&self, resumed: Resumed, waited: Duration, was_bound: bool) -> bool {
        let limit = match (self.on_loss, resumed) {
            (_, Resumed::Done | Resumed::Never) | (OnLoss::Open | OnLoss::Closed, Resumed::Left) => {
                return false;
            }
            (OnLoss::Wait(limit), Resumed::NotYet | Resumed::Left) => limit,
            (OnLoss::Open | OnLoss::Closed, Resumed::NotYet) if was_bound => RESUME_MAX,
            (OnLoss::Open | OnLoss::Closed, Resumed::NotYet) => RESUME_MAX.max(self.connect_max),
        };
        waited < limit
    }
}

impl<D: Default + Copy + PartialEq, W: Default> Client<D, W> {
    /// Addresses that wait for memory, and the device on which they get it if there is no daemon any more.
    pub fn awaiting(&self) -> Vec<(BufferId, D)> {
        let awaited =
            self.ledger.absent().filter(|(_, found)| found.origin.backing() == Some(Backing::Awaited));
        let device = |owner| self.task(owner).map_or(D::default(), |task| task.terms.device);
        awaited.map(|(buffer, found)| (buffer, device(found.owner))).collect()
    }
}
