//! The record of a run, in pieces: each a header, then one line per step. The daemon writes it, replay reads it.
//!
//! Trap: a piece replays to the same decisions only from its first line. Its header therefore has all that the scheduler knew
//! at that moment ([`Image`]), and of two pieces that follow each other the second must begin as the first ended.

use crate::action::Action;
use crate::event::Event;
use crate::options::Options;
use crate::policy::PolicyName;
use crate::scheduler::{Image, NoImage, Scheduler};
use eager_units::Nanos;
use serde::{Deserialize, Serialize};

/// Version of the journal written by this crate. 1: a header had no image, and a journal was one file. Those are read too.
pub const JOURNAL_VERSION: u32 = 2;

/// First line of a piece.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// [`JOURNAL_VERSION`] of its writer; also marks the file as a journal.
    pub journal: u32,
    /// What tells the runs of daemons apart.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub run: u64,
    /// Steps of the run before this piece, those that could not be recorded included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u64,
    pub policy: PolicyName,
    pub options: Options,
    /// What the scheduler knew before the first line; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Box<Image>>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
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
    #[error("journal version {found} is not one of 1 to {JOURNAL_VERSION}, which this program reads")]
    Version { found: u32 },
    #[error("its header's image is none: {0}")]
    Image(#[from] NoImage),
    /// `step` counts from 1, without the header.
    #[error("step {step} decides differently: recorded {recorded:?}, now {replayed:?}")]
    Diverged { step: u64, recorded: Vec<Action>, replayed: Vec<Action> },
    #[error("it begins with another state than the piece before it ends with")]
    Torn,
}

impl JournalHeader {
    /// Of a piece that begins now.
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

    /// Does it go on where a piece with this header and so many lines ended?
    pub fn follows(&self, before: &JournalHeader, lines: u64) -> bool {
        self.run == before.run && self.run != 0 && self.steps == before.steps.saturating_add(lines)
    }

    /// The scheduler as it was when the piece began.
    ///
    /// # Errors
    /// Another version's header, or an image that is none.
    pub fn raise(self) -> Result<Scheduler, ReplayError> {
        if !(1..=JOURNAL_VERSION).contains(&self.journal) {
            return Err(ReplayError::Version { found: self.journal });
        }
        Ok(match self.image {
            None => Scheduler::new(self.policy, self.options),
            Some(image) => Scheduler::from_image(self.policy, self.options, *image)?,
        })
    }
}

/// Runs the recorded events of a piece again and compares each step. Gives the scheduler as it stands after the last line.
pub fn replay(
    header: JournalHeader,
    lines: impl IntoIterator<Item = JournalLine>,
) -> Result<Scheduler, ReplayError> {
    let mut scheduler = header.raise()?;
    for (index, line) in lines.into_iter().enumerate() {
        let mut replayed = Vec::new();
        scheduler.step(line.now, line.event, &mut replayed);
        if replayed != line.actions {
            return Err(ReplayError::Diverged { step: index as u64 + 1, recorded: line.actions, replayed });
        }
    }
    Ok(scheduler)
}

/// Must a piece that follows another begin as this scheduler, replayed to the end of the other, stands?
pub fn meets(scheduler: &Scheduler, next: &JournalHeader) -> Result<(), ReplayError> {
    let raised = next.clone().raise()?;
    let (before, after) = (JournalHeader::of(scheduler), JournalHeader::of(&raised));
    let is_same =
        (before.policy, &before.options, &before.image) == (after.policy, &after.options, &after.image);
    if is_same { Ok(()) } else { Err(ReplayError::Torn) }
}
