//! The table of policies: everything that lists, names or describes policies reads it.
//!
//! Trap: journals and records store the names, so a policy must not be renamed. Lists of policies keep the order of the
//! rows.

use super::{MemoryRule, PolicyDef, Traits};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::str::FromStr;

/// Generates [`PolicyName`] from rows `Variant => file`, where the file has a `const POLICY: PolicyDef`.
macro_rules! policies {
    ($($variant:ident => $file:ident,)+) => {
        /// A policy, by its row in the table; [`PolicyName::def`] describes it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PolicyName {
            $(#[doc = concat!("See `policy/", stringify!($file), ".rs`.")] $variant,)+
        }

        impl PolicyName {
            /// Every policy, in the order of the table.
            pub const ALL: [PolicyName; [$(PolicyName::$variant),+].len()] = [$(PolicyName::$variant),+];
            const NAMES: [&str; PolicyName::ALL.len()] = [$(super::$file::POLICY.name),+];

            /// Name, description and rules of the policy.
            pub const fn def(self) -> &'static PolicyDef {
                match self {
                    $(PolicyName::$variant => &super::$file::POLICY,)+
                }
            }
        }
    };
}

// Baselines first.
policies! {
    Case => case,
    CaseFifo => case_fifo,
    CaseAlg2 => case_alg2,
    Sa => sa,
    Cg => cg,
    SchedGpu => schedgpu,
    Quanta => quanta,
    Eager => eager,
    EagerP => eager_p,
    EagerB => eager_b,
    EagerPb => eager_pb,
    EagerOpt => eager_opt,
    EagerLive => eager_live,
    EagerFair => eager_fair,
    Infinite => infinite,
}

/// A name that no policy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{name}`: known are {}", PolicyName::names().join(", "))]
pub struct UnknownPolicy {
    pub name: String,
}

/// The policy is for simulation only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{policy} is for simulation only: it grants more memory than devices have")]
pub struct NotForDevices {
    pub policy: PolicyName,
}

impl PolicyName {
    pub const fn as_str(self) -> &'static str {
        self.def().name
    }

    pub fn names() -> Vec<&'static str> {
        Self::NAMES.to_vec()
    }

    /// Returns the policy itself, if it may be used outside of simulation.
    ///
    /// # Errors
    /// The policy is a bound for simulation.
    pub fn for_devices(self) -> Result<PolicyName, NotForDevices> {
        let is_bound = self.def().traits.memory == MemoryRule::Endless;
        if is_bound { Err(NotForDevices { policy: self }) } else { Ok(self) }
    }

    /// Traits of the policy; shim and simulator need those about priorities and gates.
    pub fn traits(self) -> Traits {
        self.def().traits
    }

    /// Help text of a program: one line for each policy, with where it starts a task.
    pub fn help(policies: &[PolicyName]) -> String {
        policies.iter().fold(String::new(), |mut help, policy| {
            let _ = write!(help, "\n- {policy}: {}", policy.def().about);
            help
        })
    }

    /// The policies that may be used outside of simulation.
    pub fn all_for_devices() -> Vec<PolicyName> {
        Self::ALL.into_iter().filter(|policy| policy.for_devices().is_ok()).collect()
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

impl Serialize for PolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'de, str>::deserialize(deserializer)?;
        name.parse().map_err(|_| D::Error::unknown_variant(&name, &Self::NAMES))
    }
}
