//! Streams: order of work, and CUDA's rules for the default stream.
//!
//! Work on a device's default stream waits for all earlier work on its blocking streams, and work on a blocking stream
//! waits for all earlier work on the default stream; streams made with `cudaStreamNonBlocking` are independent (CUDA
//! C++ programming guide, "Default Stream"). A per-thread default stream is a blocking stream. Trap: work must be
//! enqueued under one lock, so that "earlier" is well defined.

mod completion;
mod thread;
mod worker;

pub use completion::Completion;
pub use thread::{default_stream, own_default_stream, thread_number, with_own_default_stream};
pub use worker::Work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use worker::Job;

use crate::clock::{self, AgentId};

/// Identifies a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamKey {
    /// The default stream of a device.
    Default { device: u32 },
    /// The default stream of one thread on a device.
    PerThread { device: u32, thread: u64 },
    /// A stream made by `cudaStreamCreate…`.
    Created(u64),
    /// A branch of an executable graph, parallel to the stream that the graph is launched into.
    Branch { device: u32, exec: u64, lane: u32 },
}

impl StreamKey {
    /// A number for the stream, unique among all streams that programs can name.
    pub fn id(self) -> u64 {
        const DEFAULT_IDS: u64 = 1 << 62;
        const PER_THREAD_IDS: u64 = 1 << 63;
        match self {
            StreamKey::Created(handle) => handle,
            StreamKey::Branch { exec, .. } => exec,
            StreamKey::Default { device } => DEFAULT_IDS | u64::from(device),
            StreamKey::PerThread { device, thread } => PER_THREAD_IDS | thread << 16 | u64::from(device),
        }
    }

    /// Properties of a stream that exists without being created, before it has any work.
    fn implied(self) -> Option<Properties> {
        match self {
            StreamKey::Default { device } | StreamKey::PerThread { device, .. } => {
                Some(Properties { device, priority: 0, blocking: true })
            }
            // The default stream waits for it through the stream that the graph was launched into.
            StreamKey::Branch { device, .. } => Some(Properties { device, priority: 0, blocking: false }),
            StreamKey::Created(_) => None,
        }
    }
}

/// Properties given at a stream's creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    pub device: u32,
    pub priority: i32,
    /// Synchronises with the device's default stream.
    pub blocking: bool,
}

#[derive(Debug)]
struct Stream {
    properties: Properties,
    /// Its remaining work still counts in waits for the device, but no more can be added.
    destroyed: bool,
    /// Sends jobs to the worker, which is started with the first job.
    jobs: Option<Sender<Job>>,
    /// On a virtual clock: the stream's agent.
    agent: Option<AgentId>,
    last: Option<Arc<Completion>>,
}

impl Stream {
    fn new(properties: Properties) -> Stream {
        Stream { properties, destroyed: false, jobs: None, agent: None, last: None }
    }

    /// Lets the worker end after its last job.
    fn end(&mut self) {
        self.destroyed = true;
        self.jobs = None;
    }
}

impl Properties {
    fn joins(&self, device: u32) -> bool {
        self.blocking && self.device == device
    }
}

/// All streams of the process.
#[derive(Debug)]
pub struct Streams {
    streams: BTreeMap<StreamKey, Stream>,
    next_created: u64,
    /// Latest clock that the host has waited for.
    host_clock_ns: u64,
}

/// Smaller handles are CUDA's own names for default streams.
const FIRST_CREATED: u64 = 16;

/// The stream does not exist (any more).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoStream;

/// Why work was not enqueued in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unqueued {
    NoStream,
    /// The system has no thread left for the stream's work.
    NoThread,
}

impl Streams {
    pub fn new() -> Streams {
        Streams { streams: BTreeMap::new(), next_created: FIRST_CREATED, host_clock_ns: 0 }
    }

    /// Makes a stream; returns its handle.
    pub fn create(&mut self, properties: Properties) -> u64 {
        let handle = self.next_created;
        self.next_created += 1;
        self.streams.insert(StreamKey::Created(handle), Stream::new(properties));
        handle
    }

    /// Destroys a created stream; its enqueued work still runs.
    pub fn destroy(&mut self, key: StreamKey) -> Result<(), NoStream> {
        let stream = self.live_mut(key)?;
        if key.implied().is_some() {
            return Err(NoStream);
        }
        stream.end();
        self.forget_ended();
        Ok(())
    }

    /// Destroys the default streams of a thread.
    pub fn end_thread(&mut self, ended: u64) {
        self.end_those(|key| matches!(key, StreamKey::PerThread { thread, .. } if thread == ended));
    }

    /// Destroys the branches of an executable graph.
    pub fn end_graph(&mut self, ended: u64) {
        self.end_those(|key| matches!(key, StreamKey::Branch { exec, .. } if exec == ended));
    }

    fn end_those(&mut self, which: impl Fn(StreamKey) -> bool) {
        self.streams.iter_mut().filter(|(key, _)| which(**key)).for_each(|(_, stream)| stream.end());
        self.forget_ended();
    }

    fn forget_ended(&mut self) {
        self.streams.retain(|_, stream| {
            let has_work = stream.last.as_ref().is_some_and(|last| last.clock_ns().is_none());
            !stream.destroyed || has_work
        });
    }

    fn live_mut(&mut self, key: StreamKey) -> Result<&mut Stream, NoStream> {
        self.streams.get_mut(&key).filter(|stream| !stream.destroyed).ok_or(NoStream)
    }

    pub fn describe(&self, key: StreamKey) -> Result<Properties, NoStream> {
        let known = self.streams.get(&key).filter(|stream| !stream.destroyed);
        known.map(|stream| stream.properties).or(key.implied()).ok_or(NoStream)
    }

    /// Sets the priority of later launches; ignored for a default stream.
    pub fn set_priority(&mut self, key: StreamKey, priority: i32) -> Result<(), NoStream> {
        if key.implied().is_none() {
            self.live_mut(key)?.properties.priority = priority;
        }
        Ok(())
    }

    /// Enqueues work after the earlier work of the stream, after `waits`, and after the work that the rules of the
    /// default stream require.
    pub fn enqueue(
        &mut self,
        key: StreamKey,
        mut waits: Vec<Arc<Completion>>,
        work: Work,
    ) -> Result<Arc<Completion>, Unqueued> {
        if let Some(properties) = key.implied() {
            self.streams.entry(key).or_insert_with(|| Stream::new(properties));
        }
        let Properties { device, blocking, .. } =
            self.live_mut(key).map_err(|NoStream| Unqueued::NoStream)?.properties;
        if blocking {
            waits.extend(self.implied_waits(key, device));
        }
        let completion = Arc::new(Completion::default());
        let not_before_ns = self.host_clock_ns.max(clock::here_ns());
        let job = Job { waits, not_before_ns, work, completion: Arc::clone(&completion) };
        let stream = self.streams.get_mut(&key).expect("looked up above");
        let Stream { jobs, agent, .. } = stream;
        let jobs = match jobs {
            Some(jobs) => jobs,
            None => {
                *agent = clock::stream();
                let started = worker::start(format!("vgpu-stream-{key:?}"), *agent);
                jobs.insert(started.map_err(|_| Unqueued::NoThread)?)
            }
        };
        if let Some(agent) = *agent {
            clock::job_queued(agent);
        }
        jobs.send(job).expect("a worker lives as long as its sender");
        stream.last = Some(Arc::clone(&completion));
        Ok(completion)
    }

    fn implied_waits(&self, key: StreamKey, device: u32) -> Vec<Arc<Completion>> {
        let is_default = matches!(key, StreamKey::Default { .. });
        self.streams
            .iter()
            .filter(|(other, stream)| **other != key && stream.properties.joins(device))
            .filter(|(other, _)| is_default || matches!(other, StreamKey::Default { .. }))
            .filter_map(|(_, stream)| stream.last.clone())
            .filter(|last| last.clock_ns().is_none_or(|ended_ns| ended_ns > self.host_clock_ns))
            .collect()
    }

    /// The stream's last work, if it ever had any.
    pub fn last(&self, key: StreamKey) -> Result<Option<Arc<Completion>>, NoStream> {
        self.describe(key)?;
        Ok(self.streams.get(&key).and_then(|stream| stream.last.clone()))
    }

    /// The last work of every stream of a device.
    pub fn last_of_device(&self, device: u32) -> Vec<Arc<Completion>> {
        self.streams
            .values()
            .filter(|stream| stream.properties.device == device)
            .filter_map(|stream| stream.last.clone())
            .collect()
    }

    /// True if all work has ended.
    pub fn are_idle(&self) -> bool {
        self.streams.values().filter_map(|stream| stream.last.as_ref()).all(|last| last.clock_ns().is_some())
    }

    /// Records that the host has waited until `clock_ns`: work enqueued from now on starts no earlier.
    pub fn host_reached(&mut self, clock_ns: u64) {
        self.host_clock_ns = self.host_clock_ns.max(clock_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Work that ends when the test releases it, so that the order is forced without sleeping.
    fn held() -> (Work, Sender<u64>) {
        let (release, held) = channel();
        (Box::new(move || held.recv().unwrap()), release)
    }

    fn takes(duration_ns: u64) -> Work {
        Box::new(move || duration_ns)
    }

    const DEFAULT: StreamKey = StreamKey::Default { device: 0 };

    fn created(streams: &mut Streams, blocking: bool) -> StreamKey {
        StreamKey::Created(streams.create(Properties { device: 0, priority: 0, blocking }))
    }

    #[test]
    fn the_default_stream_joins_blocking_streams_both_ways() {
        let mut streams = Streams::new();
        let blocking = created(&mut streams, true);
        let apart = created(&mut streams, false);
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
    fn threads_default_streams_join_the_device_s_own_but_not_each_other() {
        let mut streams = Streams::new();
        let [one, other] = [1, 2].map(|thread| StreamKey::PerThread { device: 0, thread });
        let (work, release) = held();
        let first = streams.enqueue(one, vec![], work).unwrap();
        assert_eq!(streams.enqueue(other, vec![], takes(4)).unwrap().wait(), 4, "beside the held work");
        let joined = streams.enqueue(DEFAULT, vec![], takes(1)).unwrap();
        assert_eq!(joined.clock_ns(), None);
        release.send(100).unwrap();
        assert_eq!((joined.wait(), first.wait()), (101, 100));
    }

    #[test]
    fn destroyed_streams_finish_their_work_and_are_gone() {
        let mut streams = Streams::new();
        let key = created(&mut streams, true);
        let (work, release) = held();
        let done = streams.enqueue(key, vec![], work).unwrap();
        streams.destroy(key).unwrap();
        assert_eq!(streams.enqueue(key, vec![], takes(1)).unwrap_err(), Unqueued::NoStream);
        release.send(3).unwrap();
        assert_eq!(done.wait(), 3);
    }

    #[test]
    fn work_enqueued_after_the_host_waited_starts_later() {
        let mut streams = Streams::new();
        let (one, other) = (created(&mut streams, false), created(&mut streams, false));
        let reached = streams.enqueue(one, vec![], takes(50)).unwrap().wait();
        streams.host_reached(reached);
        assert_eq!(streams.enqueue(other, vec![], takes(7)).unwrap().wait(), 57);
    }
}
