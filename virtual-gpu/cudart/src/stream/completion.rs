//! The end of one piece of stream work, which others can wait for; it carries the stream's clock at that point.
//!
//! The clock counts modelled device time only. It is a logical clock in Lamport's sense ("Time, Clocks, and the Ordering
//! of Events in a Distributed System", 1978): work starts at the latest clock among those it waited for. Trap: CPU time
//! spent on computing results is not in it, so `cudaEventElapsedTime` says what the modelled GPU would.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Set once by the stream's worker.
#[derive(Debug, Default)]
pub struct Completion {
    clock_ns: Mutex<Option<u64>>,
    ended: Condvar,
}

impl Completion {
    /// The end of something that is over.
    pub fn reached() -> Arc<Completion> {
        let completion = Completion::default();
        completion.end(0);
        Arc::new(completion)
    }

    /// Marks the end at `clock_ns` of modelled device time.
    pub fn end(&self, clock_ns: u64) {
        *self.clock_ns.lock() = Some(clock_ns);
        self.ended.notify_all();
    }

    /// Waits for the end; returns the clock there.
    pub fn wait(&self) -> u64 {
        let mut clock_ns = self.clock_ns.lock();
        loop {
            match *clock_ns {
                Some(at) => return at,
                None => self.ended.wait(&mut clock_ns),
            }
        }
    }

    /// The clock at the end, or `None` while the work is not done.
    pub fn clock_ns(&self) -> Option<u64> {
        *self.clock_ns.lock()
    }
}
