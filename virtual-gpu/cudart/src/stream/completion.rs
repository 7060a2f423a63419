//! The end of a piece of stream work, which other work can wait for, with the stream's clock at that point.
//!
//! The clock counts modelled device time only. It is a logical clock in Lamport's sense ("Time, Clocks, and the
//! Ordering of Events in a Distributed System", 1978): work starts at the latest clock among its waits. CPU time spent
//! on computing results is not counted, so `cudaEventElapsedTime` returns the time of the modelled GPU.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::clock::{self, AgentId};

/// Ended once by the stream's worker.
#[derive(Debug, Default)]
pub struct Completion {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    clock_ns: Option<u64>,
    /// Agents of a virtual clock that wait for the end.
    waiters: Vec<AgentId>,
}

impl Completion {
    /// A completion that has ended already.
    pub fn reached() -> Arc<Completion> {
        let completion = Completion::default();
        completion.end(0);
        Arc::new(completion)
    }

    /// Marks the end at `clock_ns` of modelled device time, or of the virtual clock where there is one.
    pub fn end(&self, clock_ns: u64) {
        let mut state = self.state.lock();
        state.clock_ns = Some(clock_ns);
        for waiter in state.waiters.drain(..) {
            clock::resume(waiter, clock_ns);
        }
        drop(state);
        self.ended.notify_all();
    }

    /// Waits for the end; returns the clock there.
    pub fn wait(&self) -> u64 {
        let mut state = self.state.lock();
        if state.clock_ns.is_none() {
            state.waiters.extend(clock::suspend());
        }
        let at_ns = loop {
            match state.clock_ns {
                Some(at_ns) => break at_ns,
                None => self.ended.wait(&mut state),
            }
        };
        clock::set_here_ns(clock::here_ns().max(at_ns));
        at_ns
    }

    /// The clock at the end, or `None` while the work is not done.
    pub fn clock_ns(&self) -> Option<u64> {
        self.state.lock().clock_ns
    }
}
