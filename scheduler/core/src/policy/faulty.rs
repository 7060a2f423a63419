//! Policies with defects, for tests of the code that must survive them: only with the feature `test-tools`.
//!
//! They decide as CASE does until a task of the function [`STRIKES_AT`] asks, so that there are tasks to lose when they
//! fail.

use super::{Placement, placement};
use crate::model::{Task, View};
use crate::reason::Reason;
use eager_units::{Bytes, DeviceId};
use serde::{Deserialize, Serialize};

/// Name of the function whose task triggers the fault.
pub const STRIKES_AT: &str = "strike";

/// Defect of a faulty policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    Panics,
    /// Never returns a decision.
    Loops,
    /// Lets a task wait although it fits.
    Starves,
    /// Proposes a device that does not exist.
    Nonsense,
}

impl Fault {
    /// Returns the fault with this name in lower case; None if there is none.
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
