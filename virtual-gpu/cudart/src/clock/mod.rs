//! The process's part in a virtual clock: the time of each of its agents, and the stamps on its requests.
//!
//! An agent is a thread that calls CUDA, or a stream. Between two of its calls, a thread's time advances by its
//! processor time, times the server's factor, and by its sleep. A stream's kernels are device work, so computing them
//! takes no time here. Agents wait for the server, for each other's work, or for the daemon. Every wait must pass
//! through this module, because the server advances time as soon as all agents wait. Traps: a stamp must be made and
//! sent under one lock, or the server could take an older one for the newer; an agent that ends another's wait must
//! mark the other as running *before* it stops itself, or time would advance between the two.

mod agent;
mod host;

pub use agent::{AgentId, here_ns, set_here_ns, set_in_mark, stream_begins};
pub use host::HostTimes;

use crate::forked;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use eager_gpu_model::Nanos;
use eager_vgpu_link::{Backend, Earliest, Joined, LinkError, Reply, Request, RequestId, Stamp};
use parking_lot::Mutex;

use agent::Kind;

/// Time that an unsuccessful query costs; it doubles with each directly following one. So a program that polls reaches
/// the event, and overshoots it at most by the last step (specification S-635).
const POLL_NS_MIN: u64 = 1_000;
const POLL_DOUBLINGS_MAX: u32 = 8;

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// The process's agents, and the server that they wait for.
#[derive(Debug)]
struct Clock {
    backend: Arc<dyn Backend>,
    host_factor: f64,
    host_times: Option<HostTimes>,
    agents: Mutex<Agents>,
}

#[derive(Debug, Default)]
struct Agents {
    by_id: BTreeMap<AgentId, Agent>,
    next: u32,
    /// Replies received since the last stamp.
    taken: Vec<RequestId>,
    /// Bound in the last stamp.
    last_bound: Option<Earliest>,
    /// Number of copies to the host that the program has made.
    downloads: u32,
}

#[derive(Debug)]
struct Agent {
    thread: Option<u32>,
    /// Time of the agent; while it waits, that at which the wait began.
    at_ns: u64,
    is_running: bool,
    /// Number of a stream's jobs that have not ended.
    jobs: usize,
}

impl Agents {
    fn add(&mut self, thread: Option<u32>, at_ns: u64, is_running: bool) -> AgentId {
        let id = AgentId(self.next);
        self.next += 1;
        self.by_id.insert(id, Agent { thread, at_ns, is_running, jobs: 0 });
        id
    }

    fn bound(&self) -> Option<Earliest> {
        let earliest =
            self.by_id.values().filter(|agent| agent.is_running).min_by_key(|agent| agent.at_ns)?;
        Some(Earliest { at: Nanos(earliest.at_ns), thread: earliest.thread })
    }

    fn suspend(&mut self, id: AgentId, at_ns: u64) {
        if let Some(agent) = self.by_id.get_mut(&id) {
            (agent.at_ns, agent.is_running) = (at_ns, false);
        }
    }

    fn resume(&mut self, id: AgentId, at_ns: u64) {
        if let Some(agent) = self.by_id.get_mut(&id) {
            (agent.at_ns, agent.is_running) = (agent.at_ns.max(at_ns), true);
        }
    }

    fn stamp(&mut self, id: AgentId, at_ns: u64) -> Stamp {
        self.last_bound = self.bound();
        let taken = std::mem::take(&mut self.taken);
        Stamp { at: Nanos(at_ns), agent: id.0, bound: self.last_bound, taken }
    }
}

impl Clock {
    /// Sends the process's state to the server if it has changed since the last stamp.
    fn send_changes(&self, agents: &mut Agents, id: AgentId) {
        if agents.bound() == agents.last_bound && agents.taken.is_empty() {
            return;
        }
        let stamp = agents.stamp(id, 0);
        // If the server is gone, the next request fails.
        let _ = self.backend.send(Request::Stamped { stamp, request: None });
    }

    /// Sends a request of an agent, which waits from now on.
    fn send(&self, id: AgentId, at_ns: u64, request: Request) -> Result<RequestId, LinkError> {
        let mut agents = self.agents.lock();
        agents.suspend(id, at_ns);
        let stamp = agents.stamp(id, at_ns);
        self.backend.send(Request::Stamped { stamp, request: Some(Box::new(request)) })
    }

    /// Sends a request at the calling agent's time and waits for the reply, which advances the agent to the server's
    /// time.
    fn call(&self, id: AgentId, request: Request) -> Result<Reply, LinkError> {
        let at_ns = here_ns();
        let request = self.send(id, at_ns, request)?;
        let Reply::Stamped { now, reply } = self.backend.wait(request)? else {
            return Err(LinkError::Malformed { what: "a reply without its time".to_owned() });
        };
        set_here_ns(at_ns.max(now.0));
        let mut agents = self.agents.lock();
        agents.resume(id, now.0);
        agents.taken.push(request);
        drop(agents);
        Ok((*reply)?)
    }
}

/// Joins the server's clock, if it keeps a virtual one. The calling thread becomes the first agent.
///
/// # Errors
/// The connection is of no more use.
pub fn join(
    backend: &Arc<dyn Backend>,
    seat: Option<u64>,
    host_times: Option<HostTimes>,
) -> Result<(), LinkError> {
    let id = backend.send(Request::Join { seat })?;
    let Joined { began, host_factor } = match backend.wait(id)? {
        Reply::Joined(Some(joined)) => joined,
        Reply::Joined(None) => return Ok(()),
        other => {
            return Err(LinkError::Malformed { what: format!("{other:?} in answer to joining the clock") });
        }
    };
    let host_factor = if host_times.is_some() { 0.0 } else { host_factor };
    let first_ns = host_times.as_ref().map_or(0, |times| times.after(0));
    let used_ns = (agent::processor_ns() as f64 * host_factor) as u64;
    let at_ns = began.0 + first_ns + used_ns;
    let mut agents = Agents { taken: vec![id], ..Agents::default() };
    let first = agents.add(Some(agent::thread_id()), at_ns, true);
    let clock = Clock { backend: Arc::clone(backend), host_factor, host_times, agents: Mutex::new(agents) };
    if CLOCK.set(clock).is_ok() {
        agent::become_host(first);
        set_here_ns(at_ns);
        // SAFETY: the handler is a plain function of this library, which stays loaded.
        unsafe { libc::atexit(leave) };
    }
    Ok(())
}

/// True if the process takes part in a virtual clock.
pub fn is_virtual() -> bool {
    joined().is_some()
}

/// The clock, if this process takes part in one; `None` in its forked children.
fn joined() -> Option<&'static Clock> {
    if forked::is_child() { None } else { CLOCK.get() }
}

/// The clock, and the calling thread's agent, which is made if there is none.
fn clock() -> Option<(&'static Clock, AgentId)> {
    let clock = joined()?;
    if let Some(id) = agent::current() {
        return Some((clock, id));
    }
    let mut agents = clock.agents.lock();
    // The thread that created this one cannot be later than all running agents, so their earliest time is a safe start.
    let at_ns = agents.bound().or(agents.last_bound).map_or(0, |bound| bound.at.0);
    let id = agents.add(Some(agent::thread_id()), at_ns, true);
    drop(agents);
    agent::become_host(id);
    set_here_ns(at_ns);
    Some((clock, id))
}

/// Sends a request and waits for its reply, at the calling agent's time if there is a virtual clock.
///
/// # Errors
/// Those of [`Backend::call`].
pub fn call(backend: &dyn Backend, request: Request) -> Result<Reply, LinkError> {
    match clock() {
        Some((clock, id)) => clock.call(id, request),
        None => backend.call(request),
    }
}

/// Marks the calling agent as waiting for work of this process, until [`resume`]. `None`: there is no clock.
pub fn suspend() -> Option<AgentId> {
    let (clock, id) = clock()?;
    let mut agents = clock.agents.lock();
    agents.suspend(id, here_ns());
    clock.send_changes(&mut agents, id);
    Some(id)
}

/// Marks a waiting agent as running again, at `at_ns` or at its own time if that is later.
pub fn resume(id: AgentId, at_ns: u64) {
    if let Some(clock) = joined() {
        clock.agents.lock().resume(id, at_ns);
    }
}

/// Adds the agent of a new stream; `None`: there is no clock.
pub fn stream() -> Option<AgentId> {
    joined().map(|clock| clock.agents.lock().add(None, 0, false))
}

/// Counts a job that the calling agent enqueues in a stream now.
pub fn job_queued(stream: AgentId) {
    let Some(clock) = joined() else { return };
    let mut agents = clock.agents.lock();
    if let Some(agent) = agents.by_id.get_mut(&stream) {
        if agent.jobs == 0 {
            (agent.at_ns, agent.is_running) = (agent.at_ns.max(here_ns()), true);
        }
        agent.jobs += 1;
    }
}

/// Counts the end of a stream's job; a stream without jobs waits.
pub fn job_ended(stream: AgentId) {
    let Some(clock) = joined() else { return };
    let mut agents = clock.agents.lock();
    if let Some(agent) = agents.by_id.get_mut(&stream) {
        agent.jobs -= 1;
        (agent.at_ns, agent.is_running) = (here_ns(), agent.jobs > 0);
    }
    clock.send_changes(&mut agents, stream);
}

/// Accounts for a query. An unsuccessful one takes time, since otherwise a polling program would never reach the event.
pub fn queried(ready: bool) {
    if ready {
        return agent::reset_failed_queries();
    }
    let Some((clock, id)) = clock() else { return };
    let doublings = agent::count_failed_query().min(POLL_DOUBLINGS_MAX);
    set_here_ns(here_ns() + (POLL_NS_MIN << doublings));
    // If the server is gone, the next call that needs it fails.
    let _ = clock.call(id, Request::Turn);
}

/// Records that the calling thread has copied from a device to the host: configured host work may follow.
pub fn downloaded() {
    let Some((clock, _)) = clock().filter(|_| agent::kind() == Kind::Host) else { return };
    if !agent::is_first_download() {
        return;
    }
    let downloads = {
        let mut agents = clock.agents.lock();
        agents.downloads += 1;
        agents.downloads
    };
    agent::add_configured_work(clock.host_times.as_ref().map_or(0, |times| times.after(downloads)));
}

/// A call of the program; its thread did host work before it. Nested calls are made by the runtime or the shim.
#[derive(Debug)]
pub struct HostCall(());

impl HostCall {
    pub fn begin() -> HostCall {
        if agent::call_begins()
            && let Some((clock, _)) = clock()
        {
            let measured_ns = agent::host_ns(clock.host_factor, clock.host_times.is_some());
            set_here_ns(here_ns() + agent::configured_ns() + measured_ns);
        }
        HostCall(())
    }
}

/// Begins a call of the program that lasts until [`call_ends`].
pub fn call_begins() {
    std::mem::forget(HostCall::begin());
}

pub fn call_ends() {
    drop(HostCall(()));
}

impl Drop for HostCall {
    fn drop(&mut self) {
        if agent::call_ends() && joined().is_some() {
            agent::host_work_begins();
        }
    }
}

/// Waits until everything earlier has happened; call before an action that the daemon sees.
pub fn turn() {
    let _call = HostCall::begin();
    if let Some((clock, id)) = clock() {
        let _ = clock.call(id, Request::Turn);
    }
}

/// Marks the calling thread as asleep until the daemon changes its answer in a slot.
pub fn await_daemon(slot: u32, seen: u32) {
    let _call = HostCall::begin();
    if let Some((clock, id)) = clock() {
        let _ = clock.send(id, here_ns(), Request::AwaitDaemon { slot, seen });
    }
}

/// Marks the calling thread as awake after [`await_daemon`].
pub fn awake() {
    let _call = HostCall::begin();
    if let Some((clock, id)) = clock() {
        let _ = clock.call(id, Request::Awake);
    }
}

/// Removes the agent of a thread that ends, so that it no longer holds the clock.
fn thread_ends(id: AgentId) {
    let Some(clock) = joined() else { return };
    let mut agents = clock.agents.lock();
    agents.by_id.remove(&id);
    clock.send_changes(&mut agents, id);
}

/// Leaves the clock when the process ends: its last host work is counted, and its memory is free at that time.
extern "C" fn leave() {
    // A panic must not cross into `exit`; the panic hook has printed the message on standard error.
    let _ = std::panic::catch_unwind(|| {
        let _call = HostCall::begin();
        if let Some((clock, id)) = clock() {
            let _ = clock.call(id, Request::Leave);
        }
    });
}
