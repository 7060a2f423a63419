//! Device variables (`__device__`, `__constant__`), of which a program has one copy on each real device.
//!
//! Trap: the daemon may place two of the program's devices on one GPU, whose single copy they then share. The shim
//! cannot keep two, so it says once that values may be mixed up.

use crate::outcome::{Outcome, Why};
use crate::runtime::Runtime;
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::state::Thread;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// A call that reads, writes or finds a device variable; `address` is the other side of a copy.
    pub fn on_variable(&self, thread: &mut Thread, address: Option<u64>) -> Outcome<()> {
        let outcome = self.on_a_device_with(thread, address.as_slice());
        if outcome != Outcome::PassThrough(Why::AsItIs) {
            return outcome;
        }
        let own = thread.program_device;
        let earlier = thread.real_device.and_then(|real| self.state.lock().use_variables(own, real));
        if let Some(earlier) = earlier {
            let (a, b) = (earlier.min(own), earlier.max(own));
            self.reporter.report_once("variables", || {
                format!(
                    "devices {a} and {b} of this program are the same GPU here and share its __device__ and \
                     __constant__ variables, so that its results are wrong if the devices need different values: \
                     reserve a GPU for each (eager run --mem SIZE -n 2)"
                )
            });
        }
        outcome
    }
}
