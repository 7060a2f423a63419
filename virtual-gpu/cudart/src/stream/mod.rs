//! Streams: order of work, and CUDA's rules about the default stream.
//!
//! Work on a device's default stream waits for all earlier work on its blocking streams, and work on a blocking stream
//! waits for all earlier work on the default stream; streams made with `cudaStreamNonBlocking` stand apart (CUDA C++
//! programming guide, "Default Stream"). Trap: enqueueing happens under one lock, so that "earlier" has one meaning.

mod completion;
mod worker;

pub use completion::Completion;
pub use worker::Work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use worker::Job;

/// Names a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamKey {
    /// The default stream of a device.
    Default { device: u32 },
    /// What `cudaStreamCreate…` gave out.
    Created(u64),
}

#[derive(Debug)]
struct Stream {
    device: u32,
    priority: i32,
    blocking: bool,
    /// Its work still counts for whoever waits for the device; no more may be added.
    destroyed: bool,
    /// Started with the first job.
    jobs: Option<Sender<Job>>,
    last: Option<Arc<Completion>>,
}

/// All streams of the process.
#[derive(Debug)]
pub struct Streams {
    streams: BTreeMap<StreamKey, Stream>,
    next_created: u64,
    /// Latest clock that the host has waited for.
    host_clock_ns: u64,
}

/// Handles below this are CUDA's own names for default streams.
const FIRST_CREATED: u64 = 16;

/// The stream does not exist (any more).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoStream;

impl Streams {
    pub fn new() -> Streams {
        Streams { streams: BTreeMap::new(), next_created: FIRST_CREATED, host_clock_ns: 0 }
    }

    pub fn create(&mut self, device: u32, priority: i32, blocking: bool) -> StreamKey {
        let key = StreamKey::Created(self.next_created);
        self.next_created += 1;
        self.streams
            .insert(key, Stream { device, priority, blocking, destroyed: false, jobs: None, last: None });
        key
    }

    /// Ends the stream; what is enqueued still runs.
    pub fn destroy(&mut self, key: StreamKey) -> Result<(), NoStream> {
        let stream = self.live_mut(key)?;
        stream.destroyed = true;
        // The worker ends after its last job.
        stream.jobs = None;
        self.streams.retain(|_, stream| {
            let has_work = stream.last.as_ref().is_some_and(|last| last.clock_ns().is_none());
            !stream.destroyed || has_work
        });
        Ok(())
    }

    fn live_mut(&mut self, key: StreamKey) -> Result<&mut Stream, NoStream> {
        self.streams.get_mut(&key).filter(|stream| !stream.destroyed).ok_or(NoStream)
    }

    /// Device and priority of a stream.
    pub fn describe(&self, key: StreamKey) -> Result<(u32, i32), NoStream> {
        match (key, self.streams.get(&key)) {
            (_, Some(stream)) if !stream.destroyed => Ok((stream.device, stream.priority)),
            (StreamKey::Default { device }, _) => Ok((device, 0)),
            (StreamKey::Created(_), _) => Err(NoStream),
        }
    }

    /// Adds work behind everything it must follow: earlier work of the stream, `waits`, and what the rules of the
    /// default stream say.
    pub fn enqueue(
        &mut self,
        key: StreamKey,
        mut waits: Vec<Arc<Completion>>,
        work: Work,
    ) -> Result<Arc<Completion>, NoStream> {
        if let StreamKey::Default { device } = key {
            self.streams.entry(key).or_insert(Stream {
                device,
                priority: 0,
                blocking: true,
                destroyed: false,
                jobs: None,
                last: None,
            });
        }
        let &mut Stream { blocking, device, .. } = self.live_mut(key)?;
        if blocking {
            waits.extend(self.implied_waits(key, device));
        }
        let completion = Arc::new(Completion::default());
        let job = Job { waits, not_before_ns: self.host_clock_ns, work, completion: Arc::clone(&completion) };
        let stream = self.streams.get_mut(&key).expect("looked up above");
        let jobs = stream.jobs.get_or_insert_with(|| {
            worker::start(format!("vgpu-stream-{key:?}")).expect("the system has a thread for each stream")
        });
        jobs.send(job).expect("a worker lives as long as its sender");
        stream.last = Some(Arc::clone(&completion));
        Ok(completion)
    }

    fn implied_waits(&self, key: StreamKey, device: u32) -> Vec<Arc<Completion>> {
        let is_default = matches!(key, StreamKey::Default { .. });
        self.streams
            .iter()
            .filter(|(other, stream)| stream.device == device && stream.blocking && **other != key)
            .filter(|(other, _)| is_default || matches!(other, StreamKey::Default { .. }))
            .filter_map(|(_, stream)| stream.last.clone())
            .filter(|last| last.clock_ns().is_none_or(|ended_ns| ended_ns > self.host_clock_ns))
            .collect()
    }

    /// The last work of the stream, if it ever had any.
    pub fn last(&self, key: StreamKey) -> Result<Option<Arc<Completion>>, NoStream> {
        self.describe(key)?;
        Ok(self.streams.get(&key).and_then(|stream| stream.last.clone()))
    }

    /// The last work of every stream of a device.
    pub fn last_of_device(&self, device: u32) -> Vec<Arc<Completion>> {
        self.streams
            .values()
            .filter(|stream| stream.device == device)
            .filter_map(|stream| stream.last.clone())
            .collect()
    }

    /// The host has waited until `clock_ns`: what it enqueues from now on starts later.
    pub fn host_reached(&mut self, clock_ns: u64) {
        self.host_clock_ns = self.host_clock_ns.max(clock_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Work that ends when told, so that order is forced and never slept for.
    fn held() -> (Work, Sender<u64>) {
        let (release, held) = channel();
        (Box::new(move || held.recv().unwrap()), release)
    }

    fn takes(duration_ns: u64) -> Work {
        Box::new(move || duration_ns)
    }

    const DEFAULT: StreamKey = StreamKey::Default { device: 0 };

    #[test]
    fn the_default_stream_joins_blocking_streams_both_ways() {
        let mut streams = Streams::new();
        let blocking = streams.create(0, 0, true);
        let apart = streams.create(0, 0, false);
        let (work, release) = held();
        let first = streams.enqueue(blocking, vec![], work).unwrap();
        let middle = streams.enqueue(DEFAULT, vec![], takes(10)).unwrap();
        let last = streams.enqueue(blocking, vec![], takes(5)).unwrap();
        let independent = streams.enqueue(apart, vec![], takes(1)).unwrap();
        assert_eq!(independent.wait(), 1, "a non-blocking stream does not wait for the held work");
        assert_eq!((first.clock_ns(), middle.clock_ns(), last.clock_ns()), (None, None, None));
        release.send(100).unwrap();
        assert_eq!((last.wait(), middle.wait(), first.wait()), (115, 110, 100));
    }

    #[test]
    fn destroyed_streams_finish_their_work_and_are_gone() {
        let mut streams = Streams::new();
        let key = streams.create(0, 0, true);
        let (work, release) = held();
        let done = streams.enqueue(key, vec![], work).unwrap();
        streams.destroy(key).unwrap();
        assert_eq!(streams.enqueue(key, vec![], takes(1)).unwrap_err(), NoStream);
        release.send(3).unwrap();
        assert_eq!(done.wait(), 3);
    }

    #[test]
    fn work_enqueued_after_the_host_waited_starts_later() {
        let mut streams = Streams::new();
        let (one, other) = (streams.create(0, 0, false), streams.create(0, 0, false));
        let reached = streams.enqueue(one, vec![], takes(50)).unwrap().wait();
        streams.host_reached(reached);
        assert_eq!(streams.enqueue(other, vec![], takes(7)).unwrap().wait(), 57);
    }
}
