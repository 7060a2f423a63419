//! Ids and units. A function that takes two bare `u64` is a mistake waiting.

use serde::{Deserialize, Serialize};

/// Nanoseconds since the scheduler started (monotonic); a parameter everywhere, never read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Device memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);
    };
}

id!(/** A connected program. */ ClientId(u64));
id!(/** A task; never used twice. */ TaskId(u64));
id!(/** Index of a device. */ DeviceId(u32));
