//! The record of a run: one header, then one line per step. The daemon writes it, replay reads it.
//!
//! Trap: a journal replays to the same decisions only from its first line; a file cut at the front is of no use.

use crate::action::Action;
use crate::event::Event;
use crate::options::Options;
use crate::policy::PolicyName;
use crate::scheduler::Scheduler;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Version of the journal written by this crate.
pub const JOURNAL_VERSION: u32 = 1;

/// First line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// Always [`JOURNAL_VERSION`]; also marks the file as a journal.
    pub journal: u32,
    pub policy: PolicyName,
    pub options: Options,
}

/// Every further line: one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    pub now: Nanos,
    pub event: Event,
    pub actions: Vec<Action>,
}

/// The journal and this core disagree.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplayError {
    #[error("journal version {found} is not {JOURNAL_VERSION}, the one this program reads")]
    Version { found: u32 },
    /// `step` counts from 1, without the header.
    #[error("step {step} decides differently: recorded {recorded:?}, now {replayed:?}")]
    Diverged { step: u64, recorded: Vec<Action>, replayed: Vec<Action> },
}

impl JournalHeader {
    pub fn of(scheduler: &Scheduler) -> JournalHeader {
        JournalHeader {
            journal: JOURNAL_VERSION,
            policy: scheduler.policy(),
            options: scheduler.options().clone(),
        }
    }
}

/// Runs the recorded events again and compares each step. Gives the scheduler as it stands after the last line.
pub fn replay(
    header: JournalHeader,
    lines: impl IntoIterator<Item = JournalLine>,
) -> Result<Scheduler, ReplayError> {
    if header.journal != JOURNAL_VERSION {
        return Err(ReplayError::Version { found: header.journal });
    }
    let mut scheduler = Scheduler::new(header.policy, header.options);
    for (index, line) in lines.into_iter().enumerate() {
        let mut replayed = Vec::new();
        scheduler.step(line.now, line.event, &mut replayed);
        if replayed != line.actions {
            return Err(ReplayError::Diverged { step: index as u64 + 1, recorded: line.actions, replayed });
        }
    }
    Ok(scheduler)
}
