//! Names of the policies, as users write them.
//!
//! Trap: names are stored in journals and records; renaming one makes old ones unreadable.

use super::Traits;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// CASE, backfilling: every waiter is retried at each release, largest first.
    Case,
    /// CASE's other placement: blocks and warps must find slots on the SMs.
    CaseAlg2,
    /// CASE with a queue whose head blocks all behind it.
    CaseFifo,
    /// `EL`.
    Eager,
    /// `EL_p`: with stream priorities.
    EagerP,
    /// `EL_b`: with a barrier before the first kernel.
    EagerB,
    /// `EL_p_b`: both.
    EagerPb,
    /// `EL_opt`: priorities, and each kernel judged by OS-ratio and idleness.
    EagerOpt,
    /// Memory is held only while the device needs it; eager launch is the last resort.
    EagerLive,
    /// What fits, the longest first, in turns of the users; over-subscribed only who came first.
    EagerFair,
    /// One task per device.
    Sa,
    /// A fixed number of tasks per device, memory not counted.
    Cg,
    /// Memory alone decides; the first device with room.
    #[serde(rename = "schedgpu")]
    SchedGpu,
    /// All start; one task per device at a time may launch kernels.
    Quanta,
    /// As if memory had no end.
    Infinite,
}

/// Not the name of a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{name}`: known are {}", PolicyName::names().join(", "))]
pub struct UnknownPolicy {
    pub name: String,
}

/// It may not decide for devices that are there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{policy} is for simulation only: it grants more memory than devices have")]
pub struct NotForDevices {
    pub policy: PolicyName,
}

impl PolicyName {
    /// Baselines first.
    pub const ALL: [PolicyName; 15] = [
        PolicyName::Case,
        PolicyName::CaseFifo,
        PolicyName::CaseAlg2,
        PolicyName::Sa,
        PolicyName::Cg,
        PolicyName::SchedGpu,
        PolicyName::Quanta,
        PolicyName::Eager,
        PolicyName::EagerP,
        PolicyName::EagerB,
        PolicyName::EagerPb,
        PolicyName::EagerOpt,
        PolicyName::EagerLive,
        PolicyName::EagerFair,
        PolicyName::Infinite,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyName::Case => "case",
            PolicyName::CaseFifo => "case-fifo",
            PolicyName::CaseAlg2 => "case-alg2",
            PolicyName::Eager => "eager",
            PolicyName::EagerP => "eager-p",
            PolicyName::EagerB => "eager-b",
            PolicyName::EagerPb => "eager-pb",
            PolicyName::EagerOpt => "eager-opt",
            PolicyName::EagerLive => "eager-live",
            PolicyName::EagerFair => "eager-fair",
            PolicyName::Sa => "sa",
            PolicyName::Cg => "cg",
            PolicyName::SchedGpu => "schedgpu",
            PolicyName::Quanta => "quanta",
            PolicyName::Infinite => "infinite",
        }
    }

    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|policy| policy.as_str()).collect()
    }

    /// Itself, if it may decide for devices that are there.
    ///
    /// # Errors
    /// It is a bound for simulation.
    pub fn for_devices(self) -> Result<PolicyName, NotForDevices> {
        if self == PolicyName::Infinite { Err(NotForDevices { policy: self }) } else { Ok(self) }
    }

    /// What besides placement the policy does; shim and simulator need to know about priorities and gates.
    pub fn traits(self) -> Traits {
        super::of(self).traits()
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.as_str() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}
