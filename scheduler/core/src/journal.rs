//! The record of a run, in pieces: each a header, then one line per step. The daemon writes it, replay reads it.
//!
//! Trap: a piece replays to the same decisions only from its first line. Its header therefore has the whole state of
//! the scheduler at that moment ([`Image`]), and where two pieces follow each other, the second must begin as the first
//! ended.

use crate::action::Action;
use crate::event::{Event, is_default};
use crate::options::Options;
use crate::policy::PolicyName;
use crate::scheduler::{Image, InvalidImage, Scheduler};
use eager_units::Nanos;
use serde::{Deserialize, Serialize};

/// Version of the journal that this crate writes. Version 1 had no image in the header and was a single file; it can be
/// read too.
pub const JOURNAL_VERSION: u32 = 2;

/// First line of a piece.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// [`JOURNAL_VERSION`] of its writer; also marks the file as a journal.
    pub journal: u32,
    /// Number that tells the runs of daemons apart.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run: u64,
    /// Steps of the run before this piece, including those that could not be recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: u64,
    pub policy: PolicyName,
    pub options: Options,
    /// State of the scheduler before the first line; None if nothing had happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Box<Image>>,
}

/// Every further line of a piece: one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    pub now: Nanos,
    pub event: Event,
    pub actions: Vec<Action>,
}

/// Why a journal does not replay with this core.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplayError {
    #[error("journal version {found} is not one of 1 to {JOURNAL_VERSION}, which this program reads")]
    Version { found: u32 },
    #[error("the scheduler's state in its header is invalid: {0}")]
    Image(#[from] InvalidImage),
    /// `step` counts from 1, without the header.
    #[error("step {step} decides differently: recorded {recorded:?}, now {replayed:?}")]
    Diverged { step: u64, recorded: Vec<Action>, replayed: Vec<Action> },
    #[error("it does not begin with the state in which the piece before it ends")]
    Torn,
}

impl JournalHeader {
    /// The header of a piece that begins now.
    pub fn of(scheduler: &Scheduler) -> JournalHeader {
        JournalHeader {
            journal: JOURNAL_VERSION,
            run: 0,
            steps: 0,
            policy: scheduler.policy(),
            options: scheduler.options().clone(),
            image: Image::of(scheduler).map(Box::new),
        }
    }

    /// True if this piece continues the one with the header `before` and `lines` lines.
    pub fn follows(&self, before: &JournalHeader, lines: u64) -> bool {
        self.run == before.run && self.run != 0 && self.steps == before.steps.saturating_add(lines)
    }

    /// Returns the scheduler as it was when the piece began.
    ///
    /// # Errors
    /// The header has an unknown version, or its image is not one of a scheduler.
    pub fn restore(self) -> Result<Scheduler, ReplayError> {
        if !(1..=JOURNAL_VERSION).contains(&self.journal) {
            return Err(ReplayError::Version { found: self.journal });
        }
        Ok(match self.image {
            None => Scheduler::new(self.policy, self.options),
            Some(image) => Scheduler::from_image(self.policy, self.options, *image)?,
        })
    }
}

/// Replays the events of a piece and compares the actions of each step. Returns the scheduler after the last line.
pub fn replay(
    header: JournalHeader,
    lines: impl IntoIterator<Item = JournalLine>,
) -> Result<Scheduler, ReplayError> {
    let mut scheduler = header.restore()?;
    for (index, line) in lines.into_iter().enumerate() {
        let mut replayed = Vec::new();
        scheduler.step(line.now, line.event, &mut replayed);
        if replayed != line.actions {
            return Err(ReplayError::Diverged { step: index as u64 + 1, recorded: line.actions, replayed });
        }
    }
    Ok(scheduler)
}

/// Checks that a piece begins with the state of `scheduler`, which was replayed to the end of the piece before it.
pub fn check_continues(scheduler: &Scheduler, next: &JournalHeader) -> Result<(), ReplayError> {
    let raised = next.clone().restore()?;
    let (before, after) = (JournalHeader::of(scheduler), JournalHeader::of(&raised));
    let is_same =
        (before.policy, &before.options, &before.image) == (after.policy, &after.options, &after.image);
    if is_same { Ok(()) } else { Err(ReplayError::Torn) }
}
