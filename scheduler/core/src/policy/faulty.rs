//! Policies that do what none may, for tests of those who must survive one.
//!
//! Trap: they decide as CASE does until a task of the function [`STRIKES_AT`] asks, so that there is something to lose
//! when they break.

use super::{Placement, placement};
use crate::model::{Task, View};
use crate::reason::Reason;
use eager_units::{Bytes, DeviceId};
use serde::{Deserialize, Serialize};

/// Name of the function whose task brings the fault out.
pub const STRIKES_AT: &str = "strike";

/// What a faulty policy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    Panics,
    /// Never comes to a decision.
    Loops,
    /// Lets a task wait that fits.
    Starves,
    /// Proposes a device that there is not.
    Nonsense,
}

impl Fault {
    /// By its name in small letters.
    pub fn named(name: &str) -> Option<Fault> {
        Some(match name {
            "panics" => Fault::Panics,
            "loops" => Fault::Loops,
            "starves" => Fault::Starves,
            "nonsense" => Fault::Nonsense,
            _ => return None,
        })
    }
}

pub(super) fn place(fault: Fault, view: View<'_>, task: &Task) -> Placement {
    if task.request.function != STRIKES_AT {
        return placement::whole_or_wait(view, task);
    }
    match fault {
        Fault::Panics => panic!("a faulty policy, for a test"),
        Fault::Loops => loop {
            std::hint::spin_loop();
        },
        Fault::Starves => Placement::Wait(Reason::NoDevice),
        Fault::Nonsense => {
            let (device, grant) = (DeviceId(u32::MAX), Bytes(u64::MAX));
            Placement::Bind { device, grant, reason: Reason::NoDevice }
        }
    }
}
