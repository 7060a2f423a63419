//! Executes a program's next steps, as the runtime shim would.
//!
//! Trap: this must follow the shim: gate before launch, shrink at free, prefetch within the grant, report busy and
//! idle only while watched.

use crate::client::{Blocked, InFlight, Queued, piece};
use crate::engine::{SimError, World, model_time};
use crate::job::{JobOp, KernelOp};
use crate::memory::Readiness;
use crate::result::{Outcome, Span};
use crate::steps::Step;
use eager_client::buffers::Order;
use eager_client::request::Outbox;
use eager_client::task::{Geometry, TaskKey};
use eager_client::{News, Occasion};
use eager_core::event::{Event, TaskRequest};
use eager_gpu_model::{Completion, ModelError, Op, OpId, Pattern, Range};
use eager_units::Nanos;

/// Stream priorities (CUDA: lower is more urgent).
const PRIORITY_HIGH: i32 = -1;
const PRIORITY_LOW: i32 = 0;

impl<'a> World<'a> {
    /// Lets a client proceed until it must wait.
    pub(crate) fn pump(&mut self, index: usize) -> Result<(), SimError> {
        self.report_activity(index)?;
        while self.can_go_on(index)? {
            if self.asks_from_start(index) && !self.has_foothold(index)? {
                return Ok(());
            }
            self.look(index)?;
            let client = &mut self.clients[index];
            let Some(&step) = client.steps.get(client.at) else { return self.end(index) };
            if self.take(index, step)? {
                let client = &mut self.clients[index];
                client.at += 1;
                client.launched = 0;
            }
        }
        Ok(())
    }

    /// True if the client can proceed; checks the event that it waits for.
    fn can_go_on(&mut self, index: usize) -> Result<bool, SimError> {
        let (now, timeline) = (self.now, self.options.timeline);
        let client = &mut self.clients[index];
        let free = match client.blocked {
            Blocked::Not => true,
            Blocked::NotSubmitted
            | Blocked::Host { .. }
            | Blocked::Context { .. }
            | Blocked::Operation(_)
            | Blocked::Ended => false,
            Blocked::Asked => {
                if client.result.outcome != Outcome::Done {
                    self.end(index)?;
                    return Ok(false);
                }
                if client.has_news() {
                    client.blocked = Blocked::Not;
                    return if self.asks_from_start(index) { Ok(true) } else { self.enter_context(index) };
                }
                false
            }
            Blocked::Stream => client.stream_empty(),
            Blocked::Kernels => client.launches_pending() == 0,
            Blocked::Queue => client.queue_has_room(),
            Blocked::Gate { since, at_gate } => {
                self.look(index)?;
                let passes = self.pass_gate(index, at_gate)?.is_none();
                if passes {
                    let result = &mut self.clients[index].result;
                    result.held.0 += now.0 - since.0;
                    if timeline && now > since {
                        result.held_spans.push(Span { from: since, to: now });
                    }
                }
                passes
            }
        };
        if free {
            self.clients[index].blocked = Blocked::Not;
        }
        Ok(free)
    }

    /// Executes a step. Returns true when it is finished and the next one follows.
    fn take(&mut self, index: usize, step: Step<'a>) -> Result<bool, SimError> {
        match self.prepare(index, &step)? {
            Readiness::Ready => {}
            Readiness::Wait => return Ok(false),
            Readiness::Done => {
                self.release_dead(index)?;
                return Ok(true);
            }
        }
        let is_finished = self.carry_on(index, step)?;
        if is_finished {
            self.release_dead(index)?;
        }
        Ok(is_finished)
    }

    fn carry_on(&mut self, index: usize, step: Step<'a>) -> Result<bool, SimError> {
        match step {
            Step::Host(seconds) => {
                self.begin_host_phase(index, seconds);
                Ok(true)
            }
            Step::Synchronize => {
                self.clients[index].blocked = Blocked::Stream;
                Ok(true)
            }
            Step::Launch { kernel, launches } => self.launch(index, kernel, launches),
            Step::Other(op) => self.other(index, op),
        }
    }

    fn other(&mut self, index: usize, op: &'a JobOp) -> Result<bool, SimError> {
        match op {
            JobOp::TaskBegin { requirement, blocks, threads_per_block, lazy } => {
                let client = &self.clients[index];
                let words = TaskRequest {
                    lazy: *lazy,
                    function: client.job.name.clone(),
                    estimate: client.estimates.get(client.tasks_begun).copied().flatten(),
                    ..TaskRequest::default()
                };
                let threads_per_block = u64::from(*threads_per_block);
                self.task_begins(index, *requirement, Geometry { blocks: *blocks, threads_per_block }, words)
            }
            JobOp::Alloc { buffer, bytes } => self.alloc(index, buffer, *bytes),
            JobOp::CopyToDevice { buffer, bytes, pinned } => self.copy_in(index, buffer, *bytes, *pinned),
            JobOp::CopyToHost { buffer, bytes, pinned } => {
                let Some(buffer) = self.clients[index].buffers.get(buffer.as_str()).copied() else {
                    return Ok(true);
                };
                let range = Range { offset: 0, bytes: *bytes };
                let pinned = *pinned || self.clients[index].tasks.uses_ring(buffer.part(0, *bytes));
                self.enqueue(index, Op::CopyToHost { alloc: buffer.alloc, range, pinned })?;
                self.clients[index].blocked = Blocked::Stream;
                Ok(true)
            }
            JobOp::Fill { buffer, bytes } => {
                let Some(buffer) = self.clients[index].buffers.get(buffer.as_str()).copied() else {
                    return Ok(true);
                };
                let range = Range { offset: 0, bytes: *bytes };
                self.enqueue(index, Op::Fill { alloc: buffer.alloc, range })?;
                Ok(true)
            }
            JobOp::CopyOnDevice { from, to, bytes } => {
                let buffers = &self.clients[index].buffers;
                let (Some(from), Some(to)) = (buffers.get(from.as_str()), buffers.get(to.as_str())) else {
                    return Ok(true);
                };
                let from_range = Range { offset: 0, bytes: *bytes };
                let op = Op::CopyOnDevice { from: from.alloc, from_range, to: to.alloc, to_offset: 0 };
                self.enqueue(index, op)?;
                Ok(true)
            }
            JobOp::AllLaunched => {
                let client = &mut self.clients[index];
                let site = client.sites.open.last().map_or(0, |open| open.site);
                client.tasks.all_launched(&client.sites, site, &mut client.wire);
                self.send_requests(index).map(|()| true)
            }
            JobOp::Free { buffer } => self.free(index, buffer),
            JobOp::TaskEnd => self.task_ends(index),
            // Unrolled before the run.
            JobOp::Host { .. } | JobOp::Kernel(_) | JobOp::Repeat { .. } => Ok(true),
        }
    }

    /// Creates the process's context on its device, once per device. Returns false if the program has to wait for it,
    /// or it failed.
    pub(crate) fn enter_context(&mut self, index: usize) -> Result<bool, SimError> {
        let client = &self.clients[index];
        let Some(device) = client.device() else { return Ok(true) };
        if let Some(&context) = client.contexts.get(&device) {
            self.clients[index].context = Some(context);
            return Ok(true);
        }
        match self.model.context_create(model_time(self.now), device.0 as usize) {
            Ok(made) => {
                let client = &mut self.clients[index];
                client.context = Some(made.id);
                client.contexts.insert(device, made.id);
                let Some(op) = made.ready else {
                    client.result.start.get_or_insert(self.now);
                    return Ok(true);
                };
                client.blocked = Blocked::Context { since: self.now, op };
                self.operations.insert(op, index);
                Ok(false)
            }
            Err(error) => self.out_of_memory(index, error),
        }
    }

    /// Puts launches into the stream, as many as gate and queue admit.
    fn launch(&mut self, index: usize, kernel: &'a KernelOp, launches: u32) -> Result<bool, SimError> {
        let at_gate = self.clients[index].at_gate(kernel);
        if let Some(at_gate) = self.pass_gate(index, at_gate)? {
            self.clients[index].blocked = Blocked::Gate { since: self.now, at_gate };
            return Ok(false);
        }
        let client = &mut self.clients[index];
        let diagonal = kernel.accesses.iter().any(|access| access.pattern == Pattern::Diagonal);
        let rest = launches - client.launched;
        // A diagonal is one walk over all its launches, so it is not split.
        let now_launches = if client.gated() && !diagonal { piece(rest) } else { rest };
        if client.gated() && !client.queue_has_room() {
            client.blocked = Blocked::Queue;
            return Ok(false);
        }
        let high = client.task().is_some_and(|task| task.terms.high_priority);
        let priority = if high { PRIORITY_HIGH } else { PRIORITY_LOW };
        let op = client.kernel(kernel, now_launches, priority);
        client.launched += now_launches;
        let finished = client.launched == launches;
        client.stream.push_back(Queued::Op { op, launches: now_launches });
        self.start_next(index)?;
        self.report_activity(index)?;
        Ok(finished)
    }

    pub(crate) fn enqueue(&mut self, index: usize, op: Op) -> Result<(), SimError> {
        self.clients[index].stream.push_back(Queued::Op { op, launches: 0 });
        self.start_next(index)
    }

    pub(crate) fn start_next(&mut self, index: usize) -> Result<(), SimError> {
        loop {
            let client = &mut self.clients[index];
            let Some(context) = client.context.filter(|_| client.in_flight.is_none()) else { return Ok(()) };
            match client.stream.pop_front() {
                None => return Ok(()),
                Some(Queued::Release(buffer)) => self.release(index, buffer)?,
                Some(Queued::Unstage(bytes)) => self.unstage(index, bytes)?,
                Some(Queued::Op { op, launches }) => {
                    let op = self.submit(index, context, op)?;
                    self.clients[index].in_flight = Some(InFlight { op, launches, since: self.now });
                    return Ok(());
                }
            }
        }
    }

    pub(crate) fn submit(
        &mut self,
        index: usize,
        context: eager_gpu_model::ContextId,
        op: Op,
    ) -> Result<OpId, SimError> {
        let id = self.model.submit(model_time(self.now), context, op)?;
        self.operations.insert(id, index);
        Ok(id)
    }

    /// Handles the end of the operation at the head of the stream.
    pub(crate) fn stream_completed(&mut self, index: usize, done: &Completion) -> Result<(), SimError> {
        let client = &mut self.clients[index];
        if let Some(head) = client.in_flight.take()
            && head.launches > 0
        {
            client.result.kernels.0 += done.at.0 - head.since.0;
            client.result.kernels_alone.0 += done.stats.work.0;
            if self.options.timeline {
                client.result.kernel_spans.push(Span { from: head.since, to: Nanos(done.at.0) });
            }
        }
        self.start_next(index)?;
        self.report_activity(index)
    }

    /// Enters terms of a task that the scheduler has changed since the program's last step. With more memory
    /// its data moves in beside its kernels (specification S-208).
    pub(crate) fn take_terms(&mut self, index: usize, key: TaskKey) -> Result<(), SimError> {
        let Some(told) = self.cell(index, key).told() else { return Ok(()) };
        let client = &mut self.clients[index];
        let occasion = match client.tasks.adopt(key, told, &mut client.wire) {
            // With the pages of memory that was never written, which the shim makes before its next kernel.
            Some(News::Promotion) => Occasion::Kernel,
            Some(News::Grant) => Occasion::Grown,
            Some(News::Terms) | None => return Ok(()),
        };
        let plan = client.tasks.plan_fetch(key, &Order::default(), occasion);
        let (context, ops) = (client.context, client.prefetches(plan));
        for op in ops {
            context.map(|context| self.submit(index, context, op)).transpose()?;
        }
        self.send_requests(index)
    }

    /// Reports busy or idle if the state of a watched task has changed.
    pub(crate) fn report_activity(&mut self, index: usize) -> Result<(), SimError> {
        let client = &mut self.clients[index];
        let (busy, wire) = (client.launches_pending() > 0, &mut client.wire);
        client.tasks.tell_activity(
            |_| busy,
            |slot, request| {
                wire.send(slot, request);
                true
            },
        );
        self.send_requests(index)
    }

    pub(crate) fn out_of_memory(&mut self, index: usize, error: ModelError) -> Result<bool, SimError> {
        let ModelError::OutOfMemory { .. } = error else { return Err(error.into()) };
        self.clients[index].result.outcome = Outcome::OutOfMemory { why: error.to_string() };
        self.end(index)?;
        Ok(false)
    }

    /// Ends the process: removes its context and reports its end to the scheduler.
    pub(crate) fn end(&mut self, index: usize) -> Result<(), SimError> {
        let client = &mut self.clients[index];
        if !client.stream_empty() && client.result.outcome == Outcome::Done {
            client.blocked = Blocked::Stream;
            return Ok(());
        }
        client.blocked = Blocked::Ended;
        client.result.end = self.now;
        client.drop_tasks(self.now);
        let (id, staged) = (client.id, std::mem::take(&mut client.staged));
        self.host.unstage(staged);
        let client = &mut self.clients[index];
        for context in std::mem::take(&mut client.contexts).into_values() {
            self.model.context_destroy(model_time(self.now), context)?;
        }
        self.operations.retain(|_, owner| *owner != index);
        self.ended += 1;
        self.step(Event::ClientGone { client: id })?;
        self.job_ended(index)
    }

    /// Kills the process in whatever state it is.
    pub(crate) fn kill(&mut self, index: usize) -> Result<(), SimError> {
        let client = &mut self.clients[index];
        if client.blocked == Blocked::Ended {
            return Ok(());
        }
        client.result.outcome = Outcome::Killed;
        self.cores.forget(self.now, index);
        self.end(index)
    }
}
