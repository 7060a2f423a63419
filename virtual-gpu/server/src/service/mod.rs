//! The server's decisions: ownership of memory, operations for the model, and the time of each reply.
//!
//! Every request gets one answer; that to [`Request::Run`] when the operation ends. Traps: a process may name any
//! allocation, so each must be looked up among its own before the model sees it; and any number, so each request must
//! be [`Checked`] before it is carried out.

mod queries;
mod resources;

use std::collections::BTreeMap;

use eager_gpu_model::{AllocId, Card, Completion, ContextId, Model, Nanos, OpId, Options};
use eager_vgpu_link::{
    ClientFrame, Joined, PROTOCOL_VERSION, Refusal, Reply, Request, RequestId, RunReport, ServerFrame,
};

use crate::holdings::{Held, Holdings, User};
use crate::timekeeper::{Due, DueKind, Next, Timekeeper};
use crate::validation::Checked;
use crate::{Clock, Holder, RealNanos, Scale};

/// A connected process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// A frame to send to a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub process: ProcessId,
    pub frame: ServerFrame,
}

/// A connected process, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub pid: u32,
    pub uid: u32,
    /// The process is of the server's own user or root.
    pub is_owner: bool,
}

#[derive(Debug, Default)]
struct Process {
    greeted: bool,
    peer: Option<Peer>,
    pid: u32,
    /// The process is a daemon that schedules these devices.
    attends: bool,
    contexts: BTreeMap<u32, ContextId>,
    allocs: BTreeMap<AllocId, Home>,
    /// Part of its user's share that the process holds.
    held: Held,
}

/// Where an allocation is, and its part of the user's share.
#[derive(Debug, Clone, Copy)]
struct Home {
    device: u32,
    held: Held,
}

impl Process {
    fn user(&self) -> User {
        self.peer.map(|peer| peer.uid)
    }
}

/// A request that waits for an operation.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    process: ProcessId,
    request: RequestId,
    /// The requesting agent on the virtual clock.
    agent: Option<u32>,
    context: ContextId,
    submitted: Nanos,
    reply_kind: ReplyKind,
    /// The operation's part of the user's share.
    held: Held,
}

/// Kind of reply that is sent when the operation ends.
#[derive(Debug, Clone, Copy)]
enum ReplyKind {
    Report,
    Context,
    Allocation(AllocId),
}

/// The virtual GPUs and all processes that use them.
#[derive(Debug)]
pub struct Service {
    model: Model,
    cards: Vec<Card>,
    scale: Scale,
    /// Latest modelled time; under time scale 0, the clock itself.
    now: Nanos,
    /// The virtual clock, if there is one, with modelled host time per processor time.
    keeper: Option<(Timekeeper, f64)>,
    /// Agent on the virtual clock whose request is being handled.
    agent: Option<u32>,
    processes: BTreeMap<ProcessId, Process>,
    next_process: u64,
    waiters: BTreeMap<OpId, Waiter>,
    holdings: Holdings,
    /// The last daemon has ended for good.
    is_dismissed: bool,
}

impl Service {
    pub fn new(cards: Vec<Card>, options: Options, scale: Scale, clock: Clock) -> Service {
        let keeper = match clock {
            Clock::Real => None,
            Clock::Virtual { host_factor } => Some((Timekeeper::default(), host_factor)),
        };
        let capacity_bytes = cards.iter().map(|card| card.memory_bytes).fold(0, u64::saturating_add);
        Service {
            holdings: Holdings::new(capacity_bytes),
            model: Model::new(cards.clone(), options),
            cards,
            scale,
            now: Nanos(0),
            keeper,
            agent: None,
            processes: BTreeMap::new(),
            next_process: 1,
            waiters: BTreeMap::new(),
            is_dismissed: false,
        }
    }

    /// Registers the process that this service runs in.
    pub fn connect(&mut self) -> ProcessId {
        self.connect_from(None)
    }

    /// Registers another process. `peer`: its credentials, where they are known.
    pub fn connect_from(&mut self, peer: Option<Peer>) -> ProcessId {
        let process = ProcessId(self.next_process);
        self.next_process += 1;
        self.processes.insert(process, Process { peer, ..Process::default() });
        process
    }

    /// Removes a process: everything it held is freed at once, and its waiting requests are dropped.
    pub fn disconnect(&mut self, real: RealNanos, process: ProcessId) {
        self.follow_real_time(real);
        if let Some((keeper, _)) = &mut self.keeper {
            keeper.disconnect(process);
        }
        self.waiters.retain(|_, waiter| waiter.process != process);
        let Some(gone) = self.processes.remove(&process) else { return };
        self.holdings.give_back(gone.user(), gone.held);
        for context in gone.contexts.into_values() {
            self.destroy(context);
        }
    }

    /// True if the process is a daemon that schedules these devices.
    pub fn attends(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|process| process.attends)
    }

    pub fn has_greeted(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|process| process.greeted)
    }

    /// True if the last daemon has ended for good.
    pub fn is_dismissed(&self) -> bool {
        self.is_dismissed
    }

    /// Handles one request at `real` time; replies that are ready go to `answers`.
    pub fn handle(
        &mut self,
        real: RealNanos,
        process: ProcessId,
        frame: ClientFrame,
        answers: &mut Vec<Answer>,
    ) {
        self.follow_real_time(real);
        let ClientFrame { id, request } = frame;
        let reply = match Checked::new(request, &self.cards) {
            Ok(request) => self.begin(process, id, request.into_inner(), answers),
            Err(refusal) => Some(Err(refusal)),
        };
        if let Some(reply) = reply {
            answers.push(Answer { process, frame: ServerFrame { id, reply } });
        }
        self.advance(real, answers);
    }

    /// Carries out a request as far as possible now. `None`: answered later, or never.
    fn begin(
        &mut self,
        process: ProcessId,
        id: RequestId,
        request: Request,
        answers: &mut Vec<Answer>,
    ) -> Option<Result<Reply, Refusal>> {
        match request {
            Request::Run { device, op } => self.submit(process, id, device, op).err().map(Err),
            Request::OpenContext { device } => self.open_context(process, id, device).transpose(),
            Request::Allocate { device, bytes, kind } => {
                self.allocate(process, id, device, bytes, kind).transpose()
            }
            Request::CloseContext { device } => Some(self.close_context(process, device, answers)),
            Request::Stamped { stamp, request } => match self.clock_of(process) {
                Ok(keeper) => {
                    keeper.stamped(process, id, stamp, request.map(|request| *request));
                    None
                }
                Err(refusal) => Some(Err(refusal)),
            },
            Request::Settled(settled) => match self.clock_of(process) {
                Ok(keeper) => {
                    let is_daemon = keeper.settled(process, id, settled);
                    (!is_daemon).then(|| {
                        Err(Refusal::Invalid("another connection already belongs to the daemon".to_owned()))
                    })
                }
                Err(refusal) => Some(Err(refusal)),
            },
            Request::Join { seat } => Some(self.join(process, id, seat)),
            other => Some(self.reply(process, other)),
        }
    }

    fn join(&mut self, process: ProcessId, id: RequestId, seat: Option<u64>) -> Result<Reply, Refusal> {
        let pid = self.greeted(process)?.pid;
        if self.keeper.is_some() {
            self.clock_of(process)?;
        }
        let joined = self.keeper.as_mut().map(|(keeper, host_factor)| Joined {
            began: keeper.join(process, pid, seat, id),
            host_factor: *host_factor,
        });
        Ok(Reply::Joined(joined))
    }

    /// The virtual clock, for a process that may take part in it. A participant can stop the clock, so only the
    /// server's own user and root may take part.
    fn clock_of(&mut self, process: ProcessId) -> Result<&mut Timekeeper, Refusal> {
        self.require_owner(process)?;
        self.keeper.as_mut().map(|(keeper, _)| keeper).ok_or_else(no_clock)
    }

    /// Time at which [`Service::advance`] has work; `None`: not before the next request.
    pub fn deadline(&self) -> Option<RealNanos> {
        let scaled = self.keeper.is_none() && self.scale.time > 0.0;
        if scaled { self.model.next_event().map(|event| self.scale.real(event)) } else { None }
    }

    /// The process or seat that holds the virtual clock while others wait for it.
    pub fn holder(&self) -> Option<Holder> {
        self.keeper.as_ref().and_then(|(keeper, _)| keeper.holder())
    }

    /// Records that the holder of the virtual clock was asleep for `real_ns`.
    pub fn slept(&mut self, holder: Holder, real_ns: u64, answers: &mut Vec<Answer>) {
        if let Some((keeper, _)) = &mut self.keeper {
            keeper.slept(holder.id, real_ns);
            self.proceed(answers);
        }
    }

    /// Advances time and answers the requests whose operations have ended.
    pub fn advance(&mut self, real: RealNanos, answers: &mut Vec<Answer>) {
        if self.keeper.is_some() {
            return self.proceed(answers);
        }
        self.follow_real_time(real);
        let mut ended = Vec::new();
        self.model.advance(self.now, &mut ended);
        self.answer(ended, answers);
        if self.scale.time > 0.0 {
            return;
        }
        while !self.waiters.is_empty() {
            let Some(event) = self.model.next_event() else { break };
            self.now = self.now.max(event);
            let mut ended = Vec::new();
            self.model.advance(self.now, &mut ended);
            self.answer(ended, answers);
        }
        if self.now > CLOCK_MAX && self.model.rewind() {
            self.now = Nanos(0);
        }
    }

    /// Advances virtual time as far as all participants allow.
    fn proceed(&mut self, answers: &mut Vec<Answer>) {
        loop {
            let model = self.model.next_event().filter(|_| !self.waiters.is_empty());
            let Some((keeper, _)) = &mut self.keeper else { return };
            let next = keeper.next(model);
            self.now = keeper.now();
            match next {
                Next::Quiet => return,
                Next::Due(due) => self.perform_due(due, answers),
                Next::Settle { daemon, id, settle } => {
                    let frame = ServerFrame { id, reply: Ok(Reply::Settle(settle)) };
                    answers.push(Answer { process: daemon, frame });
                }
                Next::Model => {
                    let mut ended = Vec::new();
                    self.model.advance(self.now, &mut ended);
                    self.answer(ended, answers);
                }
            }
        }
    }

    /// Performs a request or answer that is due on the virtual clock.
    fn perform_due(&mut self, due: Due, answers: &mut Vec<Answer>) {
        let Due { process, agent, id, kind } = due;
        let reply = match kind {
            DueKind::Answer(reply) => Some(reply),
            DueKind::Ask(request) => {
                self.agent = Some(agent);
                let reply = self.begin_stamped(process, id, request, answers);
                self.agent = None;
                reply
            }
        };
        let (Some(reply), Some((keeper, _))) = (reply, &mut self.keeper) else { return };
        keeper.replied(process, id);
        let reply = Ok(Reply::Stamped { now: self.now, reply: Box::new(reply) });
        answers.push(Answer { process, frame: ServerFrame { id, reply } });
    }

    fn begin_stamped(
        &mut self,
        process: ProcessId,
        id: RequestId,
        request: Request,
        answers: &mut Vec<Answer>,
    ) -> Option<Result<Reply, Refusal>> {
        match request {
            Request::Turn | Request::Leave | Request::Awake => Some(Ok(Reply::Done)),
            Request::Stamped { .. } | Request::Settled(_) | Request::Join { .. } => {
                Some(Err(Refusal::Invalid("this request must not be in a stamp".to_owned())))
            }
            other => self.begin(process, id, other, answers),
        }
    }

    fn follow_real_time(&mut self, real: RealNanos) {
        if let Some(modelled) = self.scale.modelled(real) {
            self.now = self.now.max(modelled);
        }
    }

    fn answer(&mut self, ended: Vec<Completion>, answers: &mut Vec<Answer>) {
        for completion in ended {
            let Some(waiter) = self.waiters.remove(&completion.op) else { continue };
            self.give_back(waiter.process, waiter.held);
            let duration_ns = completion.at.0.saturating_sub(waiter.submitted.0);
            let reply = Ok(match waiter.reply_kind {
                ReplyKind::Report => Reply::Ran(RunReport { duration_ns, stats: completion.stats }),
                ReplyKind::Context => Reply::Done,
                ReplyKind::Allocation(alloc) => Reply::Allocated(alloc),
            });
            self.post(waiter, reply, completion.at, answers);
        }
    }

    /// Answers a waiting request, at once or in its order on the virtual clock.
    fn post(&mut self, waiter: Waiter, reply: Result<Reply, Refusal>, at: Nanos, answers: &mut Vec<Answer>) {
        match (&mut self.keeper, waiter.agent) {
            (Some((keeper, _)), Some(agent)) => {
                keeper.answer(waiter.process, at, agent, waiter.request, reply);
            }
            _ => {
                let frame = ServerFrame { id: waiter.request, reply };
                answers.push(Answer { process: waiter.process, frame });
            }
        }
    }

    fn reply(&mut self, process: ProcessId, request: Request) -> Result<Reply, Refusal> {
        if let Request::Hello { version, pid } = request {
            return self.greet(process, version, pid);
        }
        self.greeted(process)?;
        match request {
            Request::Devices => self.devices().map(Reply::Devices),
            Request::Free { alloc } => self.free(process, alloc),
            Request::Advise { alloc, range, advice } => {
                self.owned(process, alloc)?;
                let range = self.scale.range(range);
                self.model.advise(self.now, alloc, range, advice).map_err(|e| self.refusal(e))?;
                Ok(Reply::Done)
            }
            Request::MemoryInfo { device } => {
                let info = self.model.memory_info(self.checked(device)?).map_err(|e| self.refusal(e))?;
                Ok(Reply::MemoryInfo(self.scale.memory_info(info)))
            }
            Request::Uses => self.uses(process).map(Reply::Uses),
            Request::Activity => self.activity(process).map(Reply::Activity),
            Request::Attend => self.attend(process).map(Reply::Attended),
            Request::Dismiss => {
                self.is_dismissed |= self.greeted(process)?.attends;
                Ok(Reply::Done)
            }
            Request::Reserve { .. } | Request::Seated { .. } | Request::GiveUp { .. } => {
                self.seat(process, request)
            }
            _ => Err(Refusal::Invalid("this request must be in a stamp".to_owned())),
        }
    }

    fn seat(&mut self, process: ProcessId, request: Request) -> Result<Reply, Refusal> {
        let keeper = self.clock_of(process)?;
        match request {
            Request::Reserve { seats } => return Ok(Reply::Seats { first: keeper.reserve(process, seats) }),
            Request::Seated { seat, pid } => keeper.seated(seat, pid),
            Request::GiveUp { seat } => keeper.give_up(seat),
            _ => {}
        }
        Ok(Reply::Done)
    }

    fn greet(&mut self, process: ProcessId, version: u32, pid: u32) -> Result<Reply, Refusal> {
        if version != PROTOCOL_VERSION {
            return Err(Refusal::Version { client: version, server: PROTOCOL_VERSION });
        }
        if let Some(process) = self.processes.get_mut(&process) {
            process.greeted = true;
            process.pid = process.peer.map_or(pid, |peer| peer.pid);
        }
        Ok(Reply::Welcome { version: PROTOCOL_VERSION })
    }

    fn greeted(&mut self, process: ProcessId) -> Result<&mut Process, Refusal> {
        self.processes.get_mut(&process).filter(|process| process.greeted).ok_or(Refusal::NoHello)
    }

    /// Charges `more` to the process's user.
    fn take(&mut self, process: ProcessId, more: Held) -> Result<(), Refusal> {
        let holder = self.processes.get_mut(&process).ok_or(Refusal::NoHello)?;
        self.holdings.take(holder.user(), more)?;
        holder.held = holder.held.plus(more);
        Ok(())
    }

    fn give_back(&mut self, process: ProcessId, less: Held) {
        if let Some(holder) = self.processes.get_mut(&process) {
            holder.held = holder.held.minus(less);
            self.holdings.give_back(holder.user(), less);
        }
    }

    /// The model's index of a device.
    fn checked(&self, device: u32) -> Result<usize, Refusal> {
        let count = u32::try_from(self.cards.len()).unwrap_or(u32::MAX);
        if device < count { Ok(device as usize) } else { Err(Refusal::NoDevice { device, count }) }
    }
}

/// Under time scale 0 time jumps, so long kernels could overflow the clock, where no operation would ever end. Beyond
/// this time, the clock is counted from 0 again. No operation takes as long as the rest of the range.
const CLOCK_MAX: Nanos = Nanos(u64::MAX / 4);

fn no_clock() -> Refusal {
    Refusal::Invalid("the server keeps no virtual clock: start it with --clock virtual".to_owned())
}
