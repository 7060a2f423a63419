//! What the server decides: who holds what, what the model is asked, who is answered when.
//!
//! Every request gets one answer; that to [`Request::Run`] when the operation ends. Trap: a process may name any
//! allocation it likes, so each is looked up among its own before the model hears of it.

use std::collections::BTreeMap;

use eager_gpu_model::{
    AllocId, AllocKind, Card, Completion, ContextId, DeviceTotals, Model, ModelError, Nanos, Op, OpId,
    Options,
};
use eager_vgpu_link::{
    Activity, ClientFrame, DeviceActivity, DeviceInfo, Joined, PROTOCOL_VERSION, ProcessUse, Refusal, Reply,
    Request, RequestId, RunReport, ServerFrame,
};

use crate::timekeeper::{Due, Next, Timekeeper, What};
use crate::{Clock, Holder, RealNanos, Scale};

/// One connected process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

/// A frame to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub process: ProcessId,
    pub frame: ServerFrame,
}

/// Who connected, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub pid: u32,
    /// It is the server's own user, or root.
    pub is_owner: bool,
}

#[derive(Debug, Default)]
struct Process {
    greeted: bool,
    peer: Option<Peer>,
    pid: u32,
    contexts: BTreeMap<u32, ContextId>,
    /// Device of each allocation.
    allocs: BTreeMap<AllocId, u32>,
}

/// Who waits for an operation.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    process: ProcessId,
    request: RequestId,
    /// Its agent on the virtual clock.
    agent: Option<u32>,
    context: ContextId,
    submitted: Nanos,
    wants: Wanted,
}

/// What is answered when it ends.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Report,
    Context,
    Allocation(AllocId),
}

/// The virtual GPUs and everybody who uses them.
#[derive(Debug)]
pub struct Service {
    model: Model,
    cards: Vec<Card>,
    scale: Scale,
    /// Latest modelled time; what the clock is under time scale 0.
    now: Nanos,
    /// The virtual clock, if there is one, and modelled host time per processor time.
    keeper: Option<(Timekeeper, f64)>,
    /// The agent on the virtual clock whose request is being done.
    agent: Option<u32>,
    processes: BTreeMap<ProcessId, Process>,
    next_process: u64,
    waiters: BTreeMap<OpId, Waiter>,
}

impl Service {
    pub fn new(cards: Vec<Card>, options: Options, scale: Scale, clock: Clock) -> Service {
        let keeper = match clock {
            Clock::Real => None,
            Clock::Virtual { host_factor } => Some((Timekeeper::default(), host_factor)),
        };
        Service {
            model: Model::new(cards.clone(), options),
            cards,
            scale,
            now: Nanos(0),
            keeper,
            agent: None,
            processes: BTreeMap::new(),
            next_process: 1,
            waiters: BTreeMap::new(),
        }
    }

    /// The process that this service runs in has connected.
    pub fn connect(&mut self) -> ProcessId {
        self.connect_from(None)
    }

    /// Another process has connected. `peer`: who it is, where that is known.
    pub fn connect_from(&mut self, peer: Option<Peer>) -> ProcessId {
        let process = ProcessId(self.next_process);
        self.next_process += 1;
        self.processes.insert(process, Process { peer, ..Process::default() });
        process
    }

    /// The process is gone: everything it held is free at once, nobody waits for its operations.
    pub fn disconnect(&mut self, real: RealNanos, process: ProcessId) {
        self.follow(real);
        if let Some((keeper, _)) = &mut self.keeper {
            keeper.disconnect(process);
        }
        self.waiters.retain(|_, waiter| waiter.process != process);
        let Some(gone) = self.processes.remove(&process) else { return };
        for context in gone.contexts.into_values() {
            self.destroy(context);
        }
    }

    /// Handles one request at `real` time; what can be answered now goes to `answers`.
    pub fn handle(
        &mut self,
        real: RealNanos,
        process: ProcessId,
        frame: ClientFrame,
        answers: &mut Vec<Answer>,
    ) {
        self.follow(real);
        let ClientFrame { id, request } = frame;
        if let Some(reply) = self.begin(process, id, request, answers) {
            answers.push(Answer { process, frame: ServerFrame { id, reply } });
        }
        self.advance(real, answers);
    }

    /// Does a request as far as it can be done now. `None`: answered later, or never.
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
            Request::Stamped { stamp, request } => {
                let Some((keeper, _)) = &mut self.keeper else { return Some(Err(no_clock())) };
                keeper.stamped(process, id, stamp, request.map(|request| *request));
                None
            }
            Request::Settled(settled) => {
                let Some((keeper, _)) = &mut self.keeper else { return Some(Err(no_clock())) };
                keeper.settled(process, id, settled);
                None
            }
            Request::Join { seat } => Some(self.join(process, id, seat)),
            other => Some(self.reply(process, other)),
        }
    }

    fn join(&mut self, process: ProcessId, id: RequestId, seat: Option<u64>) -> Result<Reply, Refusal> {
        let pid = self.greeted(process)?.pid;
        let joined = self.keeper.as_mut().map(|(keeper, host_factor)| Joined {
            began: keeper.join(process, pid, seat, id),
            host_factor: *host_factor,
        });
        Ok(Reply::Joined(joined))
    }

    /// When [`Service::advance`] has something to do; `None`: not before the next request.
    pub fn deadline(&self) -> Option<RealNanos> {
        let scaled = self.keeper.is_none() && self.scale.time > 0.0;
        if scaled { self.model.next_event().map(|event| self.scale.real(event)) } else { None }
    }

    /// Who holds the virtual clock while others wait for it.
    pub fn holder(&self) -> Option<Holder> {
        self.keeper.as_ref().and_then(|(keeper, _)| keeper.holder())
    }

    /// Who holds the virtual clock was seen asleep for so long.
    pub fn slept(&mut self, holder: Holder, real_ns: u64, answers: &mut Vec<Answer>) {
        if let Some((keeper, _)) = &mut self.keeper {
            keeper.slept(holder.who, real_ns);
            self.proceed(answers);
        }
    }

    /// Lets time pass and answers whoever waited for an operation that has ended.
    pub fn advance(&mut self, real: RealNanos, answers: &mut Vec<Answer>) {
        if self.keeper.is_some() {
            return self.proceed(answers);
        }
        self.follow(real);
        let mut ended = Vec::new();
        self.model.advance(self.now, &mut ended);
        self.answer(ended, answers);
        if self.scale.time > 0.0 {
            return;
        }
        while !self.waiters.is_empty() {
            let Some(event) = self.model.next_event() else { return };
            self.now = self.now.max(event);
            let mut ended = Vec::new();
            self.model.advance(self.now, &mut ended);
            self.answer(ended, answers);
        }
    }

    /// Lets virtual time pass as far as everybody allows.
    fn proceed(&mut self, answers: &mut Vec<Answer>) {
        loop {
            let model = self.model.next_event().filter(|_| !self.waiters.is_empty());
            let Some((keeper, _)) = &mut self.keeper else { return };
            let next = keeper.next(model);
            self.now = keeper.now();
            match next {
                Next::Quiet => return,
                Next::Due(due) => self.due(due, answers),
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

    /// Does what is due on the virtual clock.
    fn due(&mut self, due: Due, answers: &mut Vec<Answer>) {
        let Due { process, agent, id, what } = due;
        let reply = match what {
            What::Answer(reply) => Some(reply),
            What::Ask(request) => {
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
                Some(Err(Refusal::Invalid("not for a stamp".to_owned())))
            }
            other => self.begin(process, id, other, answers),
        }
    }

    fn follow(&mut self, real: RealNanos) {
        if let Some(modelled) = self.scale.modelled(real) {
            self.now = self.now.max(modelled);
        }
    }

    fn answer(&mut self, ended: Vec<Completion>, answers: &mut Vec<Answer>) {
        for completion in ended {
            let Some(waiter) = self.waiters.remove(&completion.op) else { continue };
            let duration_ns = completion.at.0.saturating_sub(waiter.submitted.0);
            let reply = Ok(match waiter.wants {
                Wanted::Report => Reply::Ran(RunReport { duration_ns, stats: completion.stats }),
                Wanted::Context => Reply::Done,
                Wanted::Allocation(alloc) => Reply::Allocated(alloc),
            });
            self.post(waiter, reply, completion.at, answers);
        }
    }

    /// Answers whoever waited, at once or in its turn on the virtual clock.
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
            Request::Reserve { .. } | Request::Seated { .. } | Request::GiveUp { .. } => {
                self.seat(process, request)
            }
            _ => Err(Refusal::Invalid("only on a stamp".to_owned())),
        }
    }

    fn seat(&mut self, process: ProcessId, request: Request) -> Result<Reply, Refusal> {
        let (keeper, _) = self.keeper.as_mut().ok_or_else(no_clock)?;
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

    /// The model's index of a device.
    fn checked(&self, device: u32) -> Result<usize, Refusal> {
        let count = u32::try_from(self.cards.len()).unwrap_or(u32::MAX);
        if device < count { Ok(device as usize) } else { Err(Refusal::NoDevice { device, count }) }
    }

    /// `None`: answered when it is ready.
    fn open_context(
        &mut self,
        process: ProcessId,
        request: RequestId,
        device: u32,
    ) -> Result<Option<Reply>, Refusal> {
        self.greeted(process)?;
        let index = self.checked(device)?;
        if self.greeted(process)?.contexts.contains_key(&device) {
            return Ok(Some(Reply::Done));
        }
        let made = self.model.context_create(self.now, index).map_err(|e| self.refusal(e))?;
        self.greeted(process)?.contexts.insert(device, made.id);
        let Some(op) = made.ready else { return Ok(Some(Reply::Done)) };
        self.wait_for(op, process, request, made.id, Wanted::Context);
        Ok(None)
    }

    fn wait_for(
        &mut self,
        op: OpId,
        process: ProcessId,
        request: RequestId,
        context: ContextId,
        wants: Wanted,
    ) {
        self.waiters
            .insert(op, Waiter { process, request, agent: self.agent, context, submitted: self.now, wants });
    }

    /// Operations that were under way in the context never end; whoever waits for one is refused instead.
    fn close_context(
        &mut self,
        process: ProcessId,
        device: u32,
        answers: &mut Vec<Answer>,
    ) -> Result<Reply, Refusal> {
        self.checked(device)?;
        let holder = self.greeted(process)?;
        let Some(context) = holder.contexts.remove(&device) else { return Ok(Reply::Done) };
        holder.allocs.retain(|_, home| *home != device);
        self.destroy(context);
        let ended: Vec<OpId> =
            self.waiters.iter().filter(|(_, waiter)| waiter.context == context).map(|(op, _)| *op).collect();
        for op in ended {
            let Some(waiter) = self.waiters.remove(&op) else { continue };
            self.post(waiter, Err(Refusal::NoContext { device }), self.now, answers);
        }
        Ok(Reply::Done)
    }

    fn destroy(&mut self, context: ContextId) {
        self.model.context_destroy(self.now, context).expect("the service names only contexts it made");
    }

    fn context(&mut self, process: ProcessId, device: u32) -> Result<ContextId, Refusal> {
        self.checked(device)?;
        self.greeted(process)?.contexts.get(&device).copied().ok_or(Refusal::NoContext { device })
    }

    /// `None`: answered when what had to make room is written back.
    fn allocate(
        &mut self,
        process: ProcessId,
        request: RequestId,
        device: u32,
        bytes: u64,
        kind: AllocKind,
    ) -> Result<Option<Reply>, Refusal> {
        let context = self.context(process, device)?;
        let model_bytes = self.scale.to_model_bytes(bytes);
        let made = self.model.alloc(self.now, context, model_bytes, kind).map_err(|e| self.refusal(e))?;
        self.greeted(process)?.allocs.insert(made.id, device);
        let Some(op) = made.ready else { return Ok(Some(Reply::Allocated(made.id))) };
        self.wait_for(op, process, request, context, Wanted::Allocation(made.id));
        Ok(None)
    }

    fn free(&mut self, process: ProcessId, alloc: AllocId) -> Result<Reply, Refusal> {
        self.owned(process, alloc)?;
        self.model.free(self.now, alloc).map_err(|e| self.refusal(e))?;
        self.greeted(process)?.allocs.remove(&alloc);
        Ok(Reply::Done)
    }

    /// Device of an allocation of the process.
    fn owned(&mut self, process: ProcessId, alloc: AllocId) -> Result<u32, Refusal> {
        self.greeted(process)?.allocs.get(&alloc).copied().ok_or(Refusal::NotOwned(alloc.0))
    }

    fn submit(&mut self, process: ProcessId, request: RequestId, device: u32, op: Op) -> Result<(), Refusal> {
        let context = self.context(process, device)?;
        for alloc in named_allocs(&op) {
            if self.owned(process, alloc)? != device {
                return Err(Refusal::Invalid(format!("allocation {} is not on device {device}", alloc.0)));
            }
        }
        let op = self.model.submit(self.now, context, self.scale.op(op)).map_err(|e| self.refusal(e))?;
        self.wait_for(op, process, request, context, Wanted::Report);
        Ok(())
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, Refusal> {
        (0..).zip(&self.cards).map(|(index, card)| self.device(index, card)).collect()
    }

    /// Only the server's own user and root may look at all programs.
    fn may_look(&mut self, asker: ProcessId) -> Result<(), Refusal> {
        match self.greeted(asker)?.peer.is_some_and(|peer| !peer.is_owner) {
            true => Err(Refusal::NotAllowed),
            false => Ok(()),
        }
    }

    fn activity(&mut self, asker: ProcessId) -> Result<Activity, Refusal> {
        self.may_look(asker)?;
        let totals = |device| self.model.totals(self.now, device);
        let totals = (0..self.cards.len()).map(totals).collect::<Result<Vec<_>, _>>();
        let of = |totals: DeviceTotals| DeviceActivity {
            paged_bytes: self.scale.to_program_bytes(totals.moved.paged_bytes()),
            kernels: totals.kernel_present,
        };
        let devices = totals.map_err(|e| self.refusal(e))?.into_iter().map(of).collect();
        Ok(Activity { now: self.now, devices })
    }

    fn uses(&mut self, asker: ProcessId) -> Result<Vec<ProcessUse>, Refusal> {
        self.may_look(asker)?;
        let held = self.processes.values().flat_map(|process| {
            process.contexts.iter().map(|(&device, &context)| (device, process.pid, context))
        });
        held.map(|(device, pid, context)| {
            let bytes = self.model.pinned_bytes(context).map_err(|e| self.refusal(e))?;
            Ok(ProcessUse { device, pid, bytes: self.scale.to_program_bytes(bytes) })
        })
        .collect()
    }

    fn device(&self, index: u32, card: &Card) -> Result<DeviceInfo, Refusal> {
        let info = self.model.memory_info(index as usize).map_err(|e| self.refusal(e))?;
        let (major, minor) =
            card.compute_capability.split_once('.').unwrap_or((&card.compute_capability, "0"));
        Ok(DeviceInfo {
            index,
            name: card.name.clone(),
            capacity_bytes: self.scale.to_program_bytes(info.total),
            free_bytes: self.scale.to_program_bytes(info.free),
            sms: card.sms,
            threads_per_sm: card.threads_per_sm,
            blocks_per_sm: card.blocks_per_sm,
            faults_stall: !self.model.options().mps,
            shared_bytes_per_sm: card.shared_bytes_per_sm,
            registers_per_sm: card.registers_per_sm,
            compute_capability: (major.parse().unwrap_or(0), minor.parse().unwrap_or(0)),
            memory_scale: self.scale.memory,
            time_scale: self.scale.time,
        })
    }

    fn refusal(&self, error: ModelError) -> Refusal {
        match error {
            ModelError::OutOfMemory { wanted, free } => Refusal::OutOfMemory {
                wanted_bytes: self.scale.to_program_bytes(wanted),
                free_bytes: self.scale.to_program_bytes(free),
            },
            other => Refusal::Invalid(other.to_string()),
        }
    }
}

fn no_clock() -> Refusal {
    Refusal::Invalid("the server keeps no virtual clock: start it with --clock virtual".to_owned())
}

fn named_allocs(op: &Op) -> Vec<AllocId> {
    match op {
        Op::Kernel(kernel) => kernel.accesses.iter().map(|access| access.alloc).collect(),
        Op::CopyOnDevice { from, to, .. } => vec![*from, *to],
        Op::CopyToDevice { alloc, .. }
        | Op::CopyToHost { alloc, .. }
        | Op::Fill { alloc, .. }
        | Op::Prefetch { alloc, .. }
        | Op::HostAccess { alloc, .. }
        | Op::HostFault { alloc, .. } => vec![*alloc],
    }
}
