//! What one user may take, and what becomes of a program that takes more than it declared.
//!
//! Trap: these may change while the scheduler runs ([`crate::event::Event::LimitsSet`]), unlike all other options; a
//! journal therefore holds the change and not only the header.

use eager_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// What is done about a program that uses more than it declared. What it uses is counted in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Nothing but to say so.
    #[default]
    Observe,
    /// Its further tasks are not looked at before they have waited for [`Limits::overrun_wait_ns`].
    Throttle,
    /// It is ended.
    Kill,
}

impl std::str::FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Measure, String> {
        let known = [Measure::Observe, Measure::Throttle, Measure::Kill];
        known
            .into_iter()
            .find(|measure| measure.to_string() == name)
            .ok_or_else(|| format!("no measure `{name}`; known: observe, throttle, kill"))
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

/// What is done about a task that has had its device for longer than [`Limits::task_ns_max`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overstay {
    /// Nothing but to say so.
    #[default]
    Observe,
    /// Its process is asked to end, and ended [`Limits::overstay_grace_ns`] later.
    End,
}

impl std::str::FromStr for Overstay {
    type Err = String;

    fn from_str(name: &str) -> Result<Overstay, String> {
        match name {
            "observe" => Ok(Overstay::Observe),
            "end" => Ok(Overstay::End),
            _ => Err(format!("no measure `{name}`; known: observe, end")),
        }
    }
}

/// See the module. Without limits nothing is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub overrun: Measure,
    /// Under [`Measure::Throttle`]: how much longer each of its tasks waits. Bounded, so that nobody waits for ever.
    pub overrun_wait_ns: Nanos,
    /// More than this above what was declared (and a context's memory) is an overrun, in percent of it. 10: what drivers
    /// and libraries add (specification S-710).
    pub overrun_percent: u32,
    /// What the tasks of one user may require in sum while they wait or run; who asks for more waits.
    pub user_bytes_max: Option<Bytes>,
    /// Tasks of one user that may wait; one more is refused.
    pub user_waiting_max: Option<u32>,
    /// Tasks of one user that stand in the queue at once; more stand behind it, so that decisions for others do not look at them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_queued_max: Option<u32>,
    /// A task that has its device for longer overstays.
    pub task_ns_max: Option<Nanos>,
    pub overstay: Overstay,
    /// Under [`Overstay::End`]: what a program has to put its results away (specification S-711).
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
    /// For [`serde`]: journals written before there were limits have none.
    pub(crate) fn is_default(&self) -> bool {
        *self == Limits::default()
    }
}
