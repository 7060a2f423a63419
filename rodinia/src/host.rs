//! Durations of the host parts of a program, and the time of its allocations.
//!
//! Trap: these affect results more than any scheduling rule does (in the published workloads most jobs are bound by
//! host work and copies), and they are estimates within a factor of two either way; so they must stay parameters of
//! every descriptor.

use crate::expression::ExpressionError;
use std::collections::BTreeMap;

/// The phase during which output is written while device memory is still held.
pub const OUTPUT_PHASE: &str = "output";

/// Variations of the host's part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostTimes {
    /// Factor on all phases but output.
    pub scale: f64,
    /// Factor on the output phases: 0 models programs whose output costs nothing.
    pub output_scale: f64,
    /// Device memory is allocated before the host's first phase, as in most programs outside Rodinia.
    pub allocate_first: bool,
}

impl Default for HostTimes {
    fn default() -> Self {
        Self { scale: 1.0, output_scale: 1.0, allocate_first: false }
    }
}

/// Seconds of the phases that a trace names.
#[derive(Debug)]
pub(crate) enum HostPhases<'a> {
    /// Only sizes are computed: no host work.
    Ignored,
    Known {
        seconds: &'a BTreeMap<String, f64>,
        times: HostTimes,
    },
}

impl HostPhases<'_> {
    /// Seconds of a phase; `None` where host phases are ignored.
    pub(crate) fn seconds(&self, phase: &str) -> Result<Option<f64>, ExpressionError> {
        let Self::Known { seconds, times } = self else { return Ok(None) };
        let base = seconds.get(phase).ok_or_else(|| ExpressionError::Name {
            text: phase.to_owned(),
            why: "the configuration gives no seconds for this host phase".to_owned(),
        })?;
        let scaled = base * if phase == OUTPUT_PHASE { times.output_scale } else { times.scale };
        Ok(if scaled > 0.0 { Some(scaled) } else { None })
    }
}
