//! A context only on a device that the daemon gave, also for a program that has asked for no memory yet.
//!
//! Before the first call that would make a context, a task of nothing is begun and ended: the daemon answers with a device
//! when one has room for a context, and keeps that in its ledger until the program ends (specification S-120).
//! Trap: CUDA's current device is per host thread, and the first one for a new thread. So every such call comes through
//! here, in each thread, and not only the program's first.

use crate::outcome::{Outcome, Why};
use crate::runtime::{DeviceIndex, Runtime};
use crate::scheduler::Scheduler;
use crate::shim::{Answer, Shim, Stop};
use crate::state::{State, Thread};
use crate::task::{Phase, TaskKey};
use eager_proto::request::RequestBody;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

/// What a program that has no device yet comes to.
enum Foothold {
    Known(DeviceIndex),
    /// To be asked for in this slot, after the end with this sequence.
    Asked(TaskKey, Option<u32>),
}

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// A call that makes a context where there is none, and else is the program's business.
    pub fn on_some_device(&self, thread: &mut Thread) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        match self.stand(thread) {
            Ok(()) => Outcome::PassThrough(Why::AsItIs),
            Err(stop) => self.stopped(stop),
        }
    }

    /// A call about something that the shim knows nothing of.
    pub(crate) fn not_ours(&self, thread: &mut Thread) -> Outcome<()> {
        match self.on_some_device(thread) {
            Outcome::PassThrough(Why::AsItIs) => Outcome::PassThrough(Why::NotOurs),
            outcome => outcome,
        }
    }

    /// The thread comes to a device where the program may have a context; waits while there is none.
    pub(crate) fn stand(&self, thread: &mut Thread) -> Result<(), Stop> {
        let device = match self.stands_on(thread) {
            Some(device) => device,
            None => self.ask_foothold()?,
        };
        if self.enter(thread, device).is_ok() {
            return Ok(());
        }
        // It may be lost since it was given.
        self.state.lock().foothold.take_if(|given| *given == device);
        let device = self.ask_foothold()?;
        self.enter(thread, device).map_err(Stop::Cuda)
    }

    /// The device that a call which belongs to no task in particular is made on.
    pub(crate) fn stands_on(&self, thread: &Thread) -> Option<DeviceIndex> {
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

    /// From here on others wait for the lazy task, whose slot the request goes through.
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

    /// The lazy task, not being asked for by another thread.
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
