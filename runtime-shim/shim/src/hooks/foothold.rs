//! Ensures that a context is made only on a device that the daemon gave, also in a program that has not requested
//! memory yet.
//!
//! Before the first call that would make a context, an empty task is begun and ended: the daemon answers with a
//! device when one has room for a context, and keeps that room in its ledger until the program ends (specification
//! S-120). Trap: CUDA's current device is per host thread, and a new thread starts on the first device. So every such
//! call in every thread must pass through here, not only the program's first.

use crate::hooks::tasks::Look;
use crate::outcome::{Outcome, Why};
use crate::runtime::{DeviceIndex, Runtime};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::Thread;
use eager_client::Step;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// A call that makes a context where there is none, and is otherwise forwarded.
    pub fn on_some_device(&self, thread: &mut Thread) -> Outcome<()> {
        self.served_harmless(|| {
            self.enter_foothold(thread)?;
            Err(Stop::Pass(Why::AsItIs))
        })
    }

    /// A call about an object that the shim does not know.
    pub(crate) fn not_ours(&self, thread: &mut Thread) -> Outcome<()> {
        self.served_harmless(|| self.leave_to_runtime(thread))
    }

    pub(crate) fn leave_to_runtime<T>(&self, thread: &mut Thread) -> Result<T, Stop> {
        self.enter_foothold(thread)?;
        Err(Stop::Pass(Why::NotOurs))
    }

    /// Moves the thread to a device where the program may have a context; waits until the daemon gives one.
    pub(crate) fn enter_foothold(&self, thread: &mut Thread) -> Result<(), Stop> {
        let device = match self.foothold_device(thread) {
            Some(device) => device,
            None => self.ask_foothold(thread)?,
        };
        if self.enter(thread, device).is_ok() {
            return Ok(());
        }
        // The device may be lost since it was given.
        self.state.lock().client.foothold.take_if(|given| *given == device);
        let device = self.ask_foothold(thread)?;
        Ok(self.enter(thread, device)?)
    }

    /// The device for calls that belong to no particular task.
    pub(crate) fn foothold_device(&self, thread: &Thread) -> Option<DeviceIndex> {
        let state = self.state.lock();
        state.own_device(thread).or(state.client.foothold)
    }

    /// Asks for a device in the lazy task's slot, unless the program has one.
    fn ask_foothold(&self, thread: &mut Thread) -> Result<DeviceIndex, Stop> {
        loop {
            let key = self.state.lock().client.lazy();
            let need = |look: Look<'_>| look.client.need_foothold(key, look.cell, &mut self.outbox());
            if let Step::Refused = self.follow(thread, key, need)? {
                return Err(self.out_of_memory());
            }
            let state = self.state.lock();
            let lazy = state.client.lazy_task().filter(|task| task.is_bound());
            if let Some(device) = lazy.map(|task| task.terms.device).or(state.client.foothold) {
                return Ok(device);
            }
        }
    }
}
