//! Reports the host's own loads and stores in managed memory to the model, before a device works on that memory again.
//!
//! Trap: reporting waits for the modelled end, so it must precede the locks that a call takes.

use eager_gpu_model::Op;

use crate::memory::{Kind, Memory};
use crate::runtime::Runtime;
use crate::status::Code;

impl Runtime {
    /// Reports the host's accesses to managed memory that the next work may use, as `is_used_now` (address, bytes)
    /// tells.
    ///
    /// # Errors
    /// The code for the program.
    pub fn report_host_faults(&self, is_used_now: impl Fn(u64, u64) -> bool) -> Result<(), Code> {
        let faults = {
            let memory = &mut *self.memory.lock();
            let Memory { host_watch, table, .. } = memory;
            if host_watch.is_empty() {
                return Ok(());
            }
            let fault_op = |(address, range)| {
                let found = table.starting_at(address)?;
                let Kind::Modelled { alloc, .. } = found.kind else { return None };
                Some((found.device, Op::HostFault { alloc, range }))
            };
            host_watch.take(is_used_now).into_iter().filter_map(fault_op).collect()
        };
        self.run_ops(faults).map(drop)
    }

    /// Call after a wait: if no work of the process is left, later accesses to managed memory are the host's.
    pub fn watch_host(&self) {
        if self.memory.lock().host_watch.is_empty() && self.strict_mode.is_none() {
            return;
        }
        // Held until the memory is watched, so that no work is enqueued in between.
        let streams = self.streams.lock();
        if streams.are_idle() {
            if let Some(strict) = &self.strict_mode {
                strict.close(&self.memory);
            }
            self.memory.lock().host_watch.watch();
        }
    }
}
