//! Everything that came out of an experiment, for those who draw it.
//!
//! Trap: all of it is made from the samples of whole seeds alone, so that a report can be drawn again without a run.

use super::claims;
use super::interference::Meeting;
use super::summary::Summary;
use super::thresholds;

pub struct Results {
    pub summary: Summary,
    pub claims: Vec<claims::Row>,
    pub meetings: Vec<Meeting>,
    pub thresholds: thresholds::Counts,
}
