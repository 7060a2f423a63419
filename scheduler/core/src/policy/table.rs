//! The table of policies: everything that lists or names policies reads it.
//!
//! Traps: journals and records store the names, so a policy must not be renamed. Lists of policies keep the order of the
//! rows. Events name policies, so nothing here may use what policies are made of: `mod.rs` leads from a name to it.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Generates [`PolicyName`] from rows `Variant "name" => file`, and for `mod.rs` a function that leads from a policy to
/// the `const POLICY: PolicyDef` in its file.
macro_rules! policies {
    ($($variant:ident $name:literal => $file:ident,)+) => {
        /// A policy, by its row in the table; [`PolicyName::def`] describes it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PolicyName {
            $(#[doc = concat!("See `policy/", stringify!($file), ".rs`.")] $variant,)+
        }

        impl PolicyName {
            /// Every policy, in the order of the table.
            pub const ALL: [PolicyName; [$(PolicyName::$variant),+].len()] = [$(PolicyName::$variant),+];
            const NAMES: [&str; PolicyName::ALL.len()] = [$($name),+];

            /// Name for users, journals and records.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(PolicyName::$variant => $name,)+
                }
            }
        }

        macro_rules! definitions {
            () => {
                const fn definition(policy: PolicyName) -> &'static PolicyDef {
                    match policy {
                        $(PolicyName::$variant => &$file::POLICY,)+
                    }
                }
            };
        }
    };
}

// Baselines first.
policies! {
    Case "case" => case,
    CaseFifo "case-fifo" => case_fifo,
    CaseAlg2 "case-alg2" => case_alg2,
    Sa "sa" => sa,
    Cg "cg" => cg,
    SchedGpu "schedgpu" => schedgpu,
    Quanta "quanta" => quanta,
    Scatter "scatter" => scatter,
    Spread "spread" => spread,
    Gcfs "gcfs" => gcfs,
    Contention "contention" => contention,
    Eager "eager" => eager,
    EagerP "eager-p" => eager_p,
    EagerB "eager-b" => eager_b,
    EagerPb "eager-pb" => eager_pb,
    EagerOpt "eager-opt" => eager_opt,
    EagerLive "eager-live" => eager_live,
    EagerFair "eager-fair" => eager_fair,
    Fair "fair" => fair,
    Infinite "infinite" => infinite,
}

pub(super) use definitions;

/// A name that no policy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{name}`: known are {}", PolicyName::names().join(", "))]
pub struct UnknownPolicy {
    pub name: String,
}

impl PolicyName {
    pub fn names() -> Vec<&'static str> {
        Self::NAMES.to_vec()
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
