//! Limits of what one user may take, and measures against a program that takes more than it declared.
//!
//! Trap: unlike all other options, limits may change while the scheduler runs ([`crate::event::Event::LimitsSet`]), so
//! a journal's header alone does not give the limits of a later step.

use eager_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Measure against a program that uses more than it declared. Its use is counted in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// It is reported, nothing more.
    #[default]
    Observe,
    /// Its further tasks are considered only after they have waited for [`Limits::overrun_wait_ns`].
    Throttle,
    /// Its process is ended.
    Kill,
}

/// No measure has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no measure `{name}`; known: {known}")]
pub struct UnknownMeasure {
    pub name: String,
    known: &'static str,
}

impl std::str::FromStr for Measure {
    type Err = UnknownMeasure;

    fn from_str(name: &str) -> Result<Measure, UnknownMeasure> {
        let known = [Measure::Observe, Measure::Throttle, Measure::Kill];
        known
            .into_iter()
            .find(|measure| measure.to_string() == name)
            .ok_or_else(|| UnknownMeasure { name: name.to_owned(), known: "observe, throttle, kill" })
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Measure::Observe => "observe",
            Measure::Throttle => "throttle",
            Measure::Kill => "kill",
        })
    }
}

/// Measure against a task that has had its device for longer than [`Limits::task_ns_max`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overstay {
    /// It is reported, nothing more.
    #[default]
    Observe,
    /// Its process is asked to end, and killed [`Limits::overstay_grace_ns`] later.
    End,
}

impl std::str::FromStr for Overstay {
    type Err = UnknownMeasure;

    fn from_str(name: &str) -> Result<Overstay, UnknownMeasure> {
        match name {
            "observe" => Ok(Overstay::Observe),
            "end" => Ok(Overstay::End),
            _ => Err(UnknownMeasure { name: name.to_owned(), known: "observe, end" }),
        }
    }
}

/// Limits of users and of their programs. The defaults refuse nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Measure against a program that uses more than it declared: `observe`, `throttle` or `kill`.
    pub overrun: Measure,
    /// Under `throttle`: how long each further task of the program waits before it is considered. The wait ends in any
    /// case, so that no task waits for ever.
    pub overrun_wait_ns: Nanos,
    /// How much more than it declared a program may use, in percent of that; beyond this and a context's memory it
    /// overruns. 10: what drivers and libraries add (specification S-710).
    pub overrun_percent: u32,
    /// Most that the tasks of one user may require in sum while they wait or run, with the contexts of their programs;
    /// a task beyond that waits.
    pub user_bytes_max: Option<Bytes>,
    /// Tasks of one user that may wait; a further one is refused.
    pub user_waiting_max: Option<u32>,
    /// Tasks of one user in the queue at once; further ones wait behind it, so that decisions for other users do not
    /// look at them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_queued_max: Option<u32>,
    /// A task that has its device for longer than this overstays.
    pub task_ns_max: Option<Nanos>,
    /// Measure against a task that overstays: `observe` or `end`.
    pub overstay: Overstay,
    /// Under `end`: the time that a program has to save its results (specification S-711).
    pub overstay_grace_ns: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            overrun: Measure::Observe,
            overrun_wait_ns: Nanos::from_secs(10),
            overrun_percent: 10,
            user_bytes_max: None,
            user_waiting_max: None,
            user_queued_max: None,
            task_ns_max: None,
            overstay: Overstay::Observe,
            overstay_grace_ns: Nanos::from_secs(10),
        }
    }
}

impl Limits {
    /// True for the default limits, which serde leaves out: journals of earlier versions have none.
    pub(crate) fn is_default(&self) -> bool {
        *self == Limits::default()
    }
}
