//! Requests about a process's contexts, memory and operations: each is charged to the process's user before the model
//! sees it.
//!
//! Trap: when the model refuses, or an operation ends, the charge must be given back.

use std::collections::BTreeMap;

use eager_gpu_model::{AllocId, AllocKind, ContextId, Op, OpId};
use eager_vgpu_link::{Refusal, Reply, RequestId};

use super::{Answer, Home, ProcessId, ReplyKind, Service, Waiter};
use crate::holdings::Held;
use crate::validation;

/// Share of an operation that has not ended.
const OPEN: Held = Held { allocs: 0, managed_bytes: 0, open: 1, ranges: 0 };

impl Service {
    /// Opens a context. `None`: answered when the context is ready.
    pub(super) fn open_context(
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
        self.take(process, OPEN)?;
        let made = self.model.context_create(self.now, index).map_err(|e| self.refusal(e));
        let made = made.inspect_err(|_| self.give_back(process, OPEN))?;
        self.greeted(process)?.contexts.insert(device, made.id);
        let Some(op) = made.ready else {
            self.give_back(process, OPEN);
            return Ok(Some(Reply::Done));
        };
        self.wait_for(op, process, request, made.id, ReplyKind::Context, OPEN);
        Ok(None)
    }

    fn wait_for(
        &mut self,
        op: OpId,
        process: ProcessId,
        request: RequestId,
        context: ContextId,
        reply_kind: ReplyKind,
        held: Held,
    ) {
        let (agent, submitted) = (self.agent, self.now);
        self.waiters.insert(op, Waiter { process, request, agent, context, submitted, reply_kind, held });
    }

    /// Operations under way in the context never end; a request that waits for one is refused instead.
    pub(super) fn close_context(
        &mut self,
        process: ProcessId,
        device: u32,
        answers: &mut Vec<Answer>,
    ) -> Result<Reply, Refusal> {
        self.checked(device)?;
        let holder = self.greeted(process)?;
        let Some(context) = holder.contexts.remove(&device) else { return Ok(Reply::Done) };
        let (gone, left) = std::mem::take(&mut holder.allocs)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, home)| home.device == device);
        holder.allocs = left;
        gone.into_values().for_each(|home| self.give_back(process, home.held));
        self.destroy(context);
        let ended: Vec<OpId> =
            self.waiters.iter().filter(|(_, waiter)| waiter.context == context).map(|(op, _)| *op).collect();
        for op in ended {
            let Some(waiter) = self.waiters.remove(&op) else { continue };
            self.give_back(waiter.process, waiter.held);
            self.post(waiter, Err(Refusal::NoContext { device }), self.now, answers);
        }
        Ok(Reply::Done)
    }

    pub(super) fn destroy(&mut self, context: ContextId) {
        self.model.context_destroy(self.now, context).expect("the service names only contexts it made");
    }

    fn context(&mut self, process: ProcessId, device: u32) -> Result<ContextId, Refusal> {
        self.checked(device)?;
        self.greeted(process)?.contexts.get(&device).copied().ok_or(Refusal::NoContext { device })
    }

    /// Allocates memory. `None`: answered when the memory evicted for it is written back.
    pub(super) fn allocate(
        &mut self,
        process: ProcessId,
        request: RequestId,
        device: u32,
        bytes: u64,
        kind: AllocKind,
    ) -> Result<Option<Reply>, Refusal> {
        let context = self.context(process, device)?;
        let model_bytes = self.scale.to_model_bytes(bytes);
        let managed_bytes = if kind == AllocKind::Managed { model_bytes } else { 0 };
        let held = Held { allocs: 1, managed_bytes, ..Held::default() };
        self.take(process, held.plus(OPEN))?;
        let made = self.model.alloc(self.now, context, model_bytes, kind).map_err(|e| self.refusal(e));
        let made = made.inspect_err(|_| self.give_back(process, held.plus(OPEN)))?;
        self.greeted(process)?.allocs.insert(made.id, Home { device, held });
        let Some(op) = made.ready else {
            self.give_back(process, OPEN);
            return Ok(Some(Reply::Allocated(made.id)));
        };
        self.wait_for(op, process, request, context, ReplyKind::Allocation(made.id), OPEN);
        Ok(None)
    }

    pub(super) fn free(&mut self, process: ProcessId, alloc: AllocId) -> Result<Reply, Refusal> {
        self.owned(process, alloc)?;
        self.model.free(self.now, alloc).map_err(|e| self.refusal(e))?;
        if let Some(home) = self.greeted(process)?.allocs.remove(&alloc) {
            self.give_back(process, home.held);
        }
        Ok(Reply::Done)
    }

    /// Device of an allocation, which must be the process's own.
    pub(super) fn owned(&mut self, process: ProcessId, alloc: AllocId) -> Result<u32, Refusal> {
        let home = self.greeted(process)?.allocs.get(&alloc).copied();
        home.map(|home| home.device).ok_or(Refusal::NotOwned(alloc.0))
    }

    pub(super) fn submit(
        &mut self,
        process: ProcessId,
        request: RequestId,
        device: u32,
        op: Op,
    ) -> Result<(), Refusal> {
        let context = self.context(process, device)?;
        for alloc in named_allocs(&op) {
            if self.owned(process, alloc)? != device {
                return Err(Refusal::Invalid(format!("allocation {} is not on device {device}", alloc.0)));
            }
        }
        let op = self.scale.op(op);
        let mut held = OPEN;
        if let Op::Kernel(kernel) = &op {
            validation::check_length(kernel, &self.cards[device as usize], self.model.options())?;
            held.ranges = validation::ranges(kernel) as u64;
        }
        self.take(process, held)?;
        let submitted = self.model.submit(self.now, context, op).map_err(|e| self.refusal(e));
        let op = submitted.inspect_err(|_| self.give_back(process, held))?;
        self.wait_for(op, process, request, context, ReplyKind::Report, held);
        Ok(())
    }
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
