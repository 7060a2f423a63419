//! Ensures that a context is made only on a device that the daemon gave, also in a program that has not requested
//! memory yet.
//!
//! Before the first call that would make a context, an empty task is begun and ended: the daemon answers with a
//! device when one has room for a context, and keeps that room in its ledger until the program ends (specification
//! S-120). Trap: CUDA's current device is per host thread, and a new thread starts on the first device. So every such
//! call in every thread must pass through here, not only the program's first.

use crate::outcome::{Outcome, Why};
use crate::runtime::{DeviceIndex, Runtime};
use crate::scheduler::Scheduler;
use crate::shim::{Answer, Shim, Stop};
use crate::state::{State, Thread};
use crate::task::{Phase, TaskKey};
use eager_proto::request::RequestBody;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

/// Next step of a call that needs a foothold.
enum Foothold {
    Known(DeviceIndex),
    /// To be requested in this slot, after the answer to the end with this sequence number.
    Asked(TaskKey, Option<u32>),
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// A call that makes a context where there is none, and is otherwise forwarded.
    pub fn on_some_device(&self, thread: &mut Thread) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        match self.enter_foothold(thread) {
            Ok(()) => Outcome::PassThrough(Why::AsItIs),
            Err(stop) => self.stopped(stop),
        }
    }

    /// A call about an object that the shim does not know.
    pub(crate) fn not_ours(&self, thread: &mut Thread) -> Outcome<()> {
        match self.on_some_device(thread) {
            Outcome::PassThrough(Why::AsItIs) => Outcome::PassThrough(Why::NotOurs),
            outcome => outcome,
        }
    }

    /// Moves the thread to a device where the program may have a context; waits until the daemon gives one.
    pub(crate) fn enter_foothold(&self, thread: &mut Thread) -> Result<(), Stop> {
        let device = match self.foothold_device(thread) {
            Some(device) => device,
            None => self.ask_foothold()?,
        };
        if self.enter(thread, device).is_ok() {
            return Ok(());
        }
        // The device may be lost since it was given.
        self.state.lock().foothold.take_if(|given| *given == device);
        let device = self.ask_foothold()?;
        self.enter(thread, device).map_err(Stop::Cuda)
    }

    /// The device for calls that belong to no particular task.
    pub(crate) fn foothold_device(&self, thread: &Thread) -> Option<DeviceIndex> {
        let state = self.state.lock();
        state.own_device(thread).or(state.foothold)
    }

    fn ask_foothold(&self) -> Result<DeviceIndex, Stop> {
        let (key, ended) = match self.claim_foothold()? {
            Foothold::Known(device) => return Ok(device),
            Foothold::Asked(key, ended) => (key, ended),
        };
        let awaited = ended.map_or(Ok(()), |end| self.await_answer(key.slot, end));
        let answer = awaited.and_then(|()| self.ask(key.slot, &RequestBody::lazy_begin(0)));
        let refused = matches!(answer, Ok(Answer::Refused(_)));
        let device = match answer {
            Ok(Answer::Bound(terms)) => {
                self.ever_bound.store(true, Ordering::Relaxed);
                let mut state = self.state.lock();
                if let Ok(end) = self.send(key.slot, &RequestBody::TaskEnd) {
                    state.set_ended(key.slot, end);
                }
                state.foothold = Some(terms.device);
                Ok(terms.device)
            }
            Ok(Answer::Refused(refusal)) => {
                self.lazy_refused(key, 0, &refusal.why);
                Err(self.out_of_memory())
            }
            Err(stop) => Err(stop),
        };
        if let Some(task) = self.state.lock().task_mut(key).filter(|_| !refused) {
            task.phase = Phase::Unbound;
        }
        self.notify_settled();
        device
    }

    /// Claims the request for a foothold. Other threads then wait for the lazy task, whose slot the request uses.
    fn claim_foothold(&self) -> Result<Foothold, Stop> {
        let (key, mut state) = self.lock_lazy();
        let Some(task) = state.task_mut(key) else { return Err(Stop::Lost) };
        match task.phase {
            Phase::Bound => return Ok(Foothold::Known(task.terms.device)),
            Phase::Refused => {
                drop(state);
                return Err(self.out_of_memory());
            }
            _ => {}
        }
        if let Some(device) = state.foothold {
            return Ok(Foothold::Known(device));
        }
        if let Some(task) = state.task_mut(key) {
            task.phase = Phase::Asking;
        }
        let ended = state.take_ended(key.slot);
        Ok(Foothold::Asked(key, ended))
    }

    /// Locks the state with the lazy task not being requested by another thread.
    fn lock_lazy(&self) -> (TaskKey, MutexGuard<'_, State>) {
        loop {
            let key = self.state.lock().lazy();
            let mut state = self.lock_settled(key);
            if state.lazy() == key {
                return (key, state);
            }
        }
    }
}
