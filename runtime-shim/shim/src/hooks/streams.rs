//! Streams and events of the program. Streams are made on the task's device with the priority of its class; waiting
//! on a stream shows which kernels have ended.

use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, DeviceIndex, Priority, Runtime, StreamFlags, StreamId};
use crate::scheduler::Scheduler;
use crate::shim::{Shim, Stop};
use crate::state::{Mark, ProgramStream, Thread};
use crate::task::{NO_TERMS, Terms};

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `cudaStreamCreate`, `…WithFlags`, `…WithPriority` (`asked`). Streams of eager tasks get the lowest priority;
    /// streams of high-priority tasks the highest, or the one that the program requested.
    pub fn stream_create(
        &self,
        thread: &mut Thread,
        flags: StreamFlags,
        asked: Option<i32>,
    ) -> Outcome<StreamId> {
        self.served(|| {
            let key = self.need_device(thread)?;
            let (terms, first_blocking) = {
                let state = self.state.lock();
                let terms = state.client.task(key).map_or(NO_TERMS, |task| task.terms);
                (terms, flags.is_blocking() && !state.has_blocking_streams())
            };
            if first_blocking {
                self.join_default_streams()?;
            }
            let stream = self.runtime.stream_create(flags, priority(&terms, asked))?;
            let stream_of = ProgramStream { flags, device: terms.device, set_device: thread.program_device };
            self.state.lock().streams.insert(stream, stream_of);
            Ok(stream)
        })
    }

    /// Waits for the shim's streams before the program's first blocking stream is made. From then on default-stream
    /// launches stay on the legacy stream, and the new stream would not wait for earlier launches on the shim's.
    fn join_default_streams(&self) -> CudaResult<()> {
        let last = self.state.lock().last_default.take();
        last.map_or(Ok(()), |stream| self.runtime.stream_synchronize(stream))
    }

    /// `cudaStreamDestroy`.
    pub fn stream_destroy(&self, thread: &mut Thread, stream: StreamId) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        self.sync_with_daemon(thread);
        {
            let mut state = self.state.lock();
            // Destroying the stream ends a capture that was never ended.
            state.captures.remove(&stream);
            if state.streams.remove(&stream).is_none() {
                return Outcome::PassThrough(Why::NotOurs);
            }
        }
        // Later the end of its kernels cannot be queried; CUDA itself lets them finish.
        let marks: Vec<Mark> = {
            let state = self.state.lock();
            state.marks().into_iter().filter(|mark| mark.lane.stream == stream).collect()
        };
        if !marks.is_empty() && self.runtime.stream_synchronize(stream).is_ok() {
            self.retire(&marks);
            self.send_activity();
        }
        Outcome::PassThrough(Why::AsItIs)
    }

    /// `cudaStreamSynchronize`. For the default stream it also waits for the shim's own streams, which run the
    /// default stream's kernels.
    pub fn stream_synchronize(&self, thread: &mut Thread, stream: StreamId) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        self.sync_with_daemon(thread);
        let (marks, own): (Vec<Mark>, Vec<(Terms, Option<StreamId>)>) = {
            let state = self.state.lock();
            let own =
                state.client.bound().map(|task| (task.terms, task.own.stream.map(|own| own.id))).collect();
            (state.marks(), own)
        };
        if own.is_empty() {
            let nothing_yet = self.foothold_device(thread).is_none()
                && (stream.is_legacy() || stream == StreamId::PER_THREAD);
            return if nothing_yet { Outcome::Handled(()) } else { self.not_ours(thread) };
        }
        let mut waited = vec![stream];
        let result = if stream.is_legacy() {
            own.into_iter().try_for_each(|(terms, own)| {
                self.enter(thread, terms.device)?;
                waited.extend(own);
                own.map_or(Ok(()), |own| self.runtime.stream_synchronize(own))?;
                self.runtime.stream_synchronize(StreamId::LEGACY)
            })
        } else {
            self.runtime.stream_synchronize(stream)
        };
        if result.is_ok() {
            let is_waited =
                |mark: &Mark| waited.contains(&mark.lane.stream) && mark.lane.is_seen_by(thread.number);
            let ended: Vec<Mark> = marks.into_iter().filter(is_waited).collect();
            self.retire(&ended);
            self.send_activity();
        }
        result.into()
    }

    /// `cudaStreamQuery`. The default stream is idle when the shim's own streams are.
    pub fn stream_query(&self, thread: &mut Thread, stream: StreamId) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        let own = self.own_streams(stream);
        for (device, own) in own {
            match self.enter(thread, device).and_then(|()| self.runtime.stream_query(own)) {
                Ok(true) => {}
                Ok(false) => return Outcome::Fail(CudaError::NOT_READY),
                Err(error) => return Outcome::Fail(error),
            }
        }
        self.on_own_device(thread)
    }

    /// `cudaStreamWaitEvent`: for the default stream the shim's own streams wait too, since they run its later work.
    pub fn stream_wait_event(
        &self,
        thread: &mut Thread,
        stream: StreamId,
        event: usize,
        flags: u32,
    ) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        for (device, own) in self.own_streams(stream) {
            let waits = self.enter(thread, device);
            if let Err(error) = waits.and_then(|()| self.runtime.stream_wait_event(own, event, flags)) {
                return Outcome::Fail(error);
            }
        }
        self.on_own_device(thread)
    }

    /// The shim's streams that replace the legacy default stream, with their devices; none for another stream, or
    /// while a graph is recorded.
    fn own_streams(&self, stream: StreamId) -> Vec<(DeviceIndex, StreamId)> {
        let state = self.state.lock();
        if !stream.is_legacy() || !state.captures.is_empty() {
            return Vec::new();
        }
        state.client.bound().filter_map(|task| Some((task.terms.device, task.own.stream?.id))).collect()
    }

    /// A call that makes or uses an object of one device, so that the lazy task is bound first: events, device
    /// variables (one copy per device), arrays, graphs, textures, pools.
    pub fn on_a_device(&self, thread: &mut Thread) -> Outcome<()> {
        self.served(|| {
            self.need_device(thread)?;
            self.state.lock().unsynchronized = true;
            Err(Stop::Pass(Why::AsItIs))
        })
    }

    /// `cudaEventSynchronize`: which kernels have ended depends on where the event was recorded, which the shim does
    /// not see; so the streams of watched tasks are queried.
    pub fn event_synchronize(&self, thread: &mut Thread, event: usize) -> Outcome<()> {
        if let Some(bypass) = self.bypass_harmless() {
            return bypass;
        }
        let result = self.runtime.event_synchronize(event);
        self.sync_with_daemon(thread);
        result.into()
    }
}

fn priority(terms: &Terms, asked: Option<i32>) -> Priority {
    match asked {
        _ if terms.is_eager() || !terms.high_priority && asked.is_none() => Priority::Lowest,
        Some(asked) => Priority::Exact(asked),
        None => Priority::Highest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_units::Class;

    #[test]
    fn priority_follows_the_class() {
        let (mut eager, mut normal) = (NO_TERMS, NO_TERMS);
        eager.terms.class = Class::Eager;
        normal.terms.high_priority = true;
        assert_eq!(priority(&eager, Some(-5)), Priority::Lowest);
        assert_eq!(priority(&eager, None), Priority::Lowest);
        assert_eq!(priority(&normal, None), Priority::Highest);
        assert_eq!(priority(&normal, Some(-1)), Priority::Exact(-1));
    }
}
