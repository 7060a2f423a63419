//! The order of the virtual clock: which agents may still act before which time, and which event is therefore next.
//! Pure.
//!
//! Conservative parallel discrete-event simulation (Chandy and Misra, "Distributed Simulation", IEEE TSE 1979): an
//! event is handled only when every running agent is later than it, so no earlier event can arrive afterwards. Order at
//! equal times: requests and answers, by process and agent; then the model's events; then the daemon's deadline. Trap:
//! an answer wakes an agent that is *at* the answer's time and may act there, so it holds the clock until its process
//! has sent a stamp that lists the answer as taken.

use std::collections::BTreeMap;

use eager_gpu_model::Nanos;
use eager_vgpu_link::{Earliest, Refusal, Reply, Request, RequestId, Settle, Settled, Sleeper, Stamp};

use crate::ProcessId;

/// Base of the ranks of processes without a seat, so that they follow all seats.
const UNSEATED: u64 = 1 << 32;

/// A process that takes part in the clock.
#[derive(Debug)]
struct Member {
    rank: u64,
    pid: u32,
    /// Bound of the last stamp.
    bound: Option<Earliest>,
    /// Replies that it has not taken yet, with the times at which their agents go on.
    untaken: BTreeMap<RequestId, Nanos>,
    sleepers: BTreeMap<u32, Asleep>,
    /// Real time that the process, as holder of the clock, has slept since its last message; counted as host time.
    slept_ns: u64,
    /// Number of messages from and to the process.
    message_count: u64,
}

/// An agent that sleeps until the daemon answers.
#[derive(Debug, Clone, Copy)]
struct Asleep {
    slot: u32,
    seen: u32,
    /// Time at which the daemon's answer arrived.
    awake: Option<Nanos>,
}

/// A place that is reserved and not taken yet.
#[derive(Debug)]
struct Seat {
    began: Nanos,
    /// Process that reserved it.
    by: ProcessId,
    pid: Option<u32>,
    slept_ns: u64,
}

/// The daemon, if there is one.
#[derive(Debug)]
struct Daemon {
    process: ProcessId,
    /// Id under which the daemon waits for the next question; `None`: it is working on the last.
    idle: Option<RequestId>,
    /// Time that it was last given.
    now: Nanos,
    deadline: Option<Nanos>,
    /// The sleepers in the last question.
    asked: Vec<(ProcessId, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at: Nanos,
    rank: u64,
    agent: u32,
    id: RequestId,
}

/// A request or answer that is due.
#[derive(Debug)]
pub struct Due {
    pub process: ProcessId,
    pub agent: u32,
    pub id: RequestId,
    pub kind: DueKind,
}

#[derive(Debug)]
pub enum DueKind {
    Ask(Request),
    Answer(Result<Reply, Refusal>),
}

/// The next step of the clock.
#[derive(Debug)]
pub enum Next {
    /// Nothing until a process or the daemon sends a message.
    Quiet,
    /// The clock is now at the time of this request or answer.
    Due(Due),
    /// The model's next event; the clock is at its time.
    Model,
    /// The daemon must be asked.
    Settle { daemon: ProcessId, id: RequestId, settle: Settle },
}

/// The process or seat that keeps the clock from advancing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub id: HolderId,
    pub pid: u32,
    /// `None`: any thread of the process.
    pub thread: Option<u32>,
    /// Changes with every message from or to the process.
    message_count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderId {
    Process(ProcessId),
    Seat(u64),
}

#[derive(Debug, Default)]
pub struct Timekeeper {
    now: Nanos,
    members: BTreeMap<ProcessId, Member>,
    seats: BTreeMap<u64, Seat>,
    next_seat: u64,
    due: BTreeMap<Key, Due>,
    daemon: Option<Daemon>,
    /// The daemon may have received messages since it was last asked.
    unsettled: bool,
    gone: Vec<u32>,
}

impl Timekeeper {
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Reserves places for processes that will be started; returns the number of the first.
    pub fn reserve(&mut self, by: ProcessId, seats: u32) -> u64 {
        let first = self.next_seat;
        self.next_seat += u64::from(seats);
        let seat = || Seat { began: self.now, by, pid: None, slept_ns: 0 };
        self.seats.extend((first..self.next_seat).map(|number| (number, seat())));
        first
    }

    /// Names the process that was started for a seat.
    pub fn seated(&mut self, seat: u64, pid: u32) {
        if let Some(seat) = self.seats.get_mut(&seat) {
            seat.pid = Some(pid);
        }
    }

    pub fn give_up(&mut self, seat: u64) {
        self.seats.remove(&seat);
    }

    /// Adds a process to the clock; returns the time at which it began. The process learns it from the reply to `id`.
    pub fn join(&mut self, process: ProcessId, pid: u32, seat: Option<u64>, id: RequestId) -> Nanos {
        let taken = seat.and_then(|number| Some((number, self.seats.remove(&number)?.began)));
        let (rank, began) = taken.unwrap_or((UNSEATED + process.0, self.now));
        let member = Member {
            rank,
            pid,
            bound: None,
            untaken: BTreeMap::from([(id, began)]),
            sleepers: BTreeMap::new(),
            slept_ns: 0,
            message_count: 0,
        };
        self.members.insert(process, member);
        began
    }

    /// Records a stamp and queues its request.
    pub fn stamped(&mut self, process: ProcessId, id: RequestId, stamp: Stamp, request: Option<Request>) {
        let Some(member) = self.members.get_mut(&process) else { return };
        for taken in &stamp.taken {
            member.untaken.remove(taken);
        }
        member.bound = stamp.bound;
        member.slept_ns = 0;
        member.message_count += 1;
        let Some(request) = request else { return };
        if let Request::AwaitDaemon { slot, seen } = request {
            member.sleepers.insert(stamp.agent, Asleep { slot, seen, awake: None });
            self.unsettled = true;
            return;
        }
        if matches!(request, Request::Awake) {
            // The request now represents the agent: a leftover entry of a sleeper would hold the clock for ever.
            member.sleepers.remove(&stamp.agent);
        }
        let at = stamp.at.max(self.now);
        self.insert(process, at, stamp.agent, id, DueKind::Ask(request));
    }

    /// Queues an answer with a place in time, such as the end of an operation.
    pub fn answer(
        &mut self,
        process: ProcessId,
        at: Nanos,
        agent: u32,
        id: RequestId,
        reply: Result<Reply, Refusal>,
    ) {
        self.insert(process, at, agent, id, DueKind::Answer(reply));
    }

    fn insert(&mut self, process: ProcessId, at: Nanos, agent: u32, id: RequestId, kind: DueKind) {
        let Some(member) = self.members.get(&process) else { return };
        let key = Key { at, rank: member.rank, agent, id };
        self.due.insert(key, Due { process, agent, id, kind });
    }

    /// Records that a reply was sent: its agent goes on at this time.
    pub fn replied(&mut self, process: ProcessId, id: RequestId) {
        if let Some(member) = self.members.get_mut(&process) {
            member.untaken.insert(id, self.now);
            member.message_count += 1;
        }
    }

    /// Removes a process. The daemon learns of it before the clock advances.
    pub fn disconnect(&mut self, process: ProcessId) {
        if self.daemon.as_ref().is_some_and(|daemon| daemon.process == process) {
            self.daemon = None;
        }
        self.seats.retain(|_, seat| seat.by != process);
        let Some(member) = self.members.remove(&process) else { return };
        self.due.retain(|_, due| due.process != process);
        if self.daemon.is_some() {
            self.gone.push(member.pid);
            self.unsettled = true;
        }
    }

    /// Records that the daemon has finished the last question; it waits under `id` for the next. Returns false if
    /// another process is the daemon.
    pub fn settled(&mut self, process: ProcessId, id: RequestId, settled: Settled) -> bool {
        let now = self.now;
        let daemon = self.daemon.get_or_insert_with(|| Daemon {
            process,
            idle: None,
            now: Nanos(u64::MAX),
            deadline: None,
            asked: Vec::new(),
        });
        if daemon.process != process {
            return false;
        }
        daemon.idle = Some(id);
        daemon.deadline = settled.deadline;
        let asked = std::mem::take(&mut daemon.asked);
        for index in settled.awake {
            let Some((process, agent)) = asked.get(index as usize) else { continue };
            let asleep = self.members.get_mut(process).and_then(|member| member.sleepers.get_mut(agent));
            if let Some(asleep) = asleep {
                asleep.awake.get_or_insert(now);
            }
        }
        true
    }

    /// Returns the next step. `model`: time of the model's next event.
    pub fn next(&mut self, model: Option<Nanos>) -> Next {
        let horizon = self.horizon();
        let free = |at: Nanos| horizon.is_none_or(|horizon| at < horizon);
        if !free(self.now) || self.daemon.as_ref().is_some_and(|daemon| daemon.idle.is_none()) {
            return Next::Quiet;
        }
        if self.unsettled && self.daemon.is_some() {
            return self.settle();
        }
        let due = self.due.first_key_value().map(|(key, due)| (key.at, due.may_message_daemon()));
        let deadline = self.daemon.as_ref().and_then(|daemon| daemon.deadline);
        // Without members no agent waits, so time need not advance for the daemon's deadline alone.
        let deadline = deadline.filter(|_| !self.members.is_empty());
        let at = [due.map(|(at, _)| at), model, deadline].into_iter().flatten().min();
        let Some(at) = at.map(|at| at.max(self.now)).filter(|&at| free(at)) else { return Next::Quiet };
        self.now = at;
        match due {
            Some((first, messages_daemon)) if first <= at => {
                if messages_daemon && self.daemon.as_ref().is_some_and(|daemon| daemon.now != at) {
                    return self.settle();
                }
                self.unsettled |= messages_daemon;
                self.due.pop_first().map_or(Next::Quiet, |(_, due)| Next::Due(due))
            }
            _ if model.is_some_and(|model| model <= at) => Next::Model,
            _ => self.settle(),
        }
    }

    fn settle(&mut self) -> Next {
        self.unsettled = false;
        let mut sleepers = Vec::new();
        let mut asked = Vec::new();
        for (process, member) in &self.members {
            for (agent, asleep) in member.sleepers.iter().filter(|(_, asleep)| asleep.awake.is_none()) {
                sleepers.push(Sleeper { pid: member.pid, slot: asleep.slot, seen: asleep.seen });
                asked.push((*process, *agent));
            }
        }
        let settle = Settle { now: self.now, sleepers, gone: std::mem::take(&mut self.gone) };
        let Some(daemon) = &mut self.daemon else { return Next::Quiet };
        let Some(id) = daemon.idle.take() else { return Next::Quiet };
        daemon.now = self.now;
        daemon.asked = asked;
        Next::Settle { daemon: daemon.process, id, settle }
    }

    /// Time before which no agent can act; `None`: all agents wait.
    fn horizon(&self) -> Option<Nanos> {
        let members = self.members.values().filter_map(Member::horizon);
        let seats = self.seats.values().map(Seat::horizon);
        members.chain(seats).min()
    }

    /// The holder of the clock; `None` if all agents wait, or if the process of a holding seat is unknown.
    pub fn holder(&self) -> Option<Holder> {
        let horizon = self.horizon()?;
        let member = self.members.iter().find(|(_, member)| member.horizon() == Some(horizon));
        if let Some((process, member)) = member {
            let thread = member.bound.filter(|_| member.untaken.is_empty()).and_then(|bound| bound.thread);
            return Some(Holder {
                id: HolderId::Process(*process),
                pid: member.pid,
                thread,
                message_count: member.message_count,
            });
        }
        let (number, seat) = self.seats.iter().find(|(_, seat)| seat.horizon() == horizon)?;
        Some(Holder { id: HolderId::Seat(*number), pid: seat.pid?, thread: None, message_count: 0 })
    }

    /// Counts `real_ns` of the holder's sleep as host time, so that the clock never waits for ever for a sleeping
    /// process.
    pub fn slept(&mut self, holder: HolderId, real_ns: u64) {
        match holder {
            HolderId::Process(process) => {
                if let Some(member) = self.members.get_mut(&process) {
                    member.slept_ns = member.slept_ns.saturating_add(real_ns);
                }
            }
            HolderId::Seat(number) => {
                if let Some(seat) = self.seats.get_mut(&number) {
                    seat.slept_ns = seat.slept_ns.saturating_add(real_ns);
                }
            }
        }
    }
}

impl Member {
    fn horizon(&self) -> Option<Nanos> {
        let bound = self.bound.map(|bound| bound.at);
        let awake = self.sleepers.values().filter_map(|asleep| asleep.awake);
        let earliest = bound.into_iter().chain(self.untaken.values().copied()).chain(awake).min()?;
        Some(Nanos(earliest.0.saturating_add(self.slept_ns)))
    }
}

impl Seat {
    fn horizon(&self) -> Nanos {
        Nanos(self.began.0.saturating_add(self.slept_ns))
    }
}

impl Due {
    /// True if handling it may send the daemon a message, or ends the process.
    fn may_message_daemon(&self) -> bool {
        matches!(self.kind, DueKind::Ask(Request::Turn | Request::Leave))
    }
}
