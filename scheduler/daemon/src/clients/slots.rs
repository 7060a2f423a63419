//! The task slots of one client, and the contents of each slot's cell. Pure.
//!
//! Trap: requests are untrusted and come in any order. A request without sense must be answered (a program may wait for
//! it), changes nothing, and is a strike; too many strikes end the connection.

use crate::persistence::state_file::KeptSlot;
use eager_core::action::{Gate, Reason};
use eager_core::event::{Event, KernelRequest, Restored, TaskRequest};
use eager_core::policy::Traits;
use eager_core::scheduler::{Stage, TaskView};
use eager_proto::reply::{self, TaskCell, gate};
use eager_proto::request::{Request, RequestBody, Slot};
use eager_units::{Bytes, ClientId, DeviceId, TaskId};
use zerocopy::FromZeros;

/// More than any device has; larger claims are cut to it, so that no sum of claims can overflow.
const CLAIM_MAX: u64 = 1 << 56;

/// The one refusal that the shim tells from the others.
const TOO_LARGE: &Reason =
    &Reason::TooLarge { wanted: Bytes::ZERO, largest: Bytes::ZERO, limit: Bytes::ZERO };
const _: () = assert!(TOO_LARGE.code() == reply::REASON_TOO_LARGE);

/// One task slot of a client.
#[derive(Debug, Clone, Default)]
pub struct TaskSlot {
    pub task: Option<TaskId>,
    /// The task's begin has not been answered yet.
    begin_is_open: bool,
    /// Sequence of the last request of this slot.
    last: u32,
    answered: u32,
    /// Why the task was refused.
    refused: Option<Reason>,
    /// Why its last extension was refused.
    extend_refused: Option<Reason>,
    /// Raised whenever the gate changes.
    epoch: u16,
    gate: Option<Gate>,
    /// The task's request, while it waits.
    asking: Option<TaskRequest>,
    /// Uid that held the slot's waiting task back when an earlier daemon ended: the program sends the request again.
    held_by: Option<u32>,
}

/// A request that makes no sense in the slot's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike;

impl TaskSlot {
    /// Takes in a request. `fresh` is the id for a task that begins with it, `priority` that task's among its user's.
    pub fn accept(
        &mut self,
        client: ClientId,
        request: &Request,
        fresh: TaskId,
        priority: i8,
    ) -> Result<Option<Event>, Strike> {
        self.last = request.sequence;
        let event = match &request.body {
            body @ RequestBody::TaskBegin { .. } => self.begin(client, body, fresh, priority).map(Some),
            body => self.translate(body),
        };
        if !self.begin_is_open {
            self.answered = self.last;
        }
        event
    }

    fn translate(&mut self, body: &RequestBody) -> Result<Option<Event>, Strike> {
        if *body == RequestBody::TaskEnd {
            return self.end();
        }
        let task = self.task.ok_or(Strike)?;
        Ok(Some(match body {
            RequestBody::TaskExtend { bytes } => {
                self.extend_refused = None;
                Event::TaskExtend { task, bytes: claim(*bytes) }
            }
            RequestBody::TaskShrink { bytes } => Event::TaskShrink { task, bytes: claim(*bytes) },
            RequestBody::AllLaunched => Event::AllLaunched { task },
            RequestBody::KernelHeld { .. } => Event::KernelHeld { task, kernel: kernel(body).ok_or(Strike)? },
            RequestBody::Busy => Event::Busy { task },
            RequestBody::Idle => Event::Idle { task },
            RequestBody::Promoted => Event::Promoted { task },
            RequestBody::TaskBegin { .. } | RequestBody::TaskEnd => return Err(Strike),
        }))
    }

    fn begin(
        &mut self,
        client: ClientId,
        body: &RequestBody,
        fresh: TaskId,
        priority: i8,
    ) -> Result<Event, Strike> {
        if self.task.is_some() {
            return Err(Strike);
        }
        let request = TaskRequest { held_by: self.held_by, priority, ..task_request(body).ok_or(Strike)? };
        let (last, answered, epoch) = (self.last, self.answered, self.epoch);
        let (task, asking) = (Some(fresh), Some(request.clone()));
        *self = TaskSlot { task, begin_is_open: true, last, answered, epoch, asking, ..TaskSlot::default() };
        Ok(Event::TaskBegin { task: fresh, client, request })
    }

    /// Ends the slot's task and frees the slot. A refused task gives no event, since the core does not know it.
    fn end(&mut self) -> Result<Option<Event>, Strike> {
        self.begin_is_open = false;
        self.extend_refused = None;
        self.asking = None;
        self.held_by = None;
        match (self.task.take(), self.refused.take()) {
            (Some(task), _) => Ok(Some(Event::TaskEnd { task })),
            (None, Some(_)) => Ok(None),
            (None, None) => Err(Strike),
        }
    }

    /// Notes that the task has got a device.
    pub fn bound(&mut self) {
        self.begin_is_open = false;
        self.asking = None;
        self.answered = self.last;
    }

    /// Restores a slot as an earlier daemon left it.
    pub fn restored(kept: &KeptSlot) -> TaskSlot {
        let task = kept.task.as_ref().map(|task| task.task);
        let (answered, held_by) = (kept.answered, kept.held_by);
        TaskSlot { task, last: answered, answered, held_by, ..TaskSlot::default() }
    }

    /// State of the slot that the next daemon needs. `view` is the core's view of the slot's task, `contexts` the
    /// devices on which the program has a context.
    pub fn kept(&self, view: Option<&TaskView<'_>>, contexts: Vec<DeviceId>) -> KeptSlot {
        let waiting = self.asking.as_ref();
        let held_by = waiting.map_or(self.held_by, |request| request.held_by);
        KeptSlot { answered: self.answered, task: view.and_then(restorable), held_by, contexts }
    }

    /// Notes that the waiting task is held back by this uid, or released.
    pub fn hold(&mut self, held_by: Option<u32>) {
        if let Some(request) = &mut self.asking {
            request.held_by = held_by;
        }
    }

    /// Notes another priority of the waiting task.
    pub fn set_priority(&mut self, priority: i8) {
        if let Some(request) = &mut self.asking {
            request.priority = priority;
        }
    }

    /// The waiting task and its request.
    pub fn asking(&self) -> Option<(TaskId, &TaskRequest)> {
        Some((self.task?, self.asking.as_ref()?))
    }

    /// Notes that the core refused the task or its last extension. A refused task leaves the slot.
    pub fn refuse(&mut self, reason: Reason) {
        if self.begin_is_open {
            let (last, epoch) = (self.last, self.epoch);
            *self = TaskSlot { last, answered: last, refused: Some(reason), epoch, ..TaskSlot::default() };
        } else {
            self.extend_refused = Some(reason);
        }
    }

    /// The contents of the slot's cell, and the reason in words. `view` is the core's view of the slot's task.
    pub fn answer(&mut self, view: Option<&TaskView<'_>>, traits: Traits) -> (TaskCell, String) {
        let cell = self.cell(view, traits);
        let reason: Option<&Reason> = match view.map(|view| &view.stage) {
            None => self.refused.as_ref(),
            Some(Stage::Waiting { reason }) => Some(reason),
            Some(Stage::Bound { reason, .. }) => Some(self.extend_refused.as_ref().unwrap_or(reason)),
        };
        let number = reason.map_or(0, Reason::code);
        (TaskCell { reason: number, ..cell }, reason.map_or_else(String::new, Reason::to_string))
    }

    fn cell(&mut self, view: Option<&TaskView<'_>>, traits: Traits) -> TaskCell {
        let answered = self.answered;
        let free = TaskCell { answered, ..TaskCell::new_zeroed() };
        let Some(view) = view else {
            let state = if self.refused.is_some() { reply::STATE_REFUSED } else { reply::STATE_FREE };
            return TaskCell { state, ..free };
        };
        let asked = TaskCell { requirement: view.requirement.0, ..free };
        match (&view.stage, view.terms(&traits)) {
            (Stage::Bound { gate, .. }, Some(terms)) => {
                let bound = TaskCell { gate: self.gate_word(*gate), ..asked }.bound(&terms);
                let refused = if self.extend_refused.is_some() { reply::FLAG_EXTEND_REFUSED } else { 0 };
                TaskCell { flags: bound.flags | refused, ..bound }
            }
            _ => TaskCell { state: reply::STATE_WAITING, ..asked },
        }
    }

    fn gate_word(&mut self, gate: Gate) -> u64 {
        if self.gate != Some(gate) {
            self.gate = Some(gate);
            self.epoch = self.epoch.wrapping_add(1);
        }
        let allowed = gate.allowed();
        gate::pack(allowed.is_some(), self.epoch, allowed.unwrap_or(0))
    }
}

/// Slots of one client by index, up to the last one used: most idle programs use none, and few more than one.
#[derive(Debug, Default)]
pub struct TaskSlots(Vec<TaskSlot>);

impl TaskSlots {
    pub fn get_mut(&mut self, slot: Slot) -> &mut TaskSlot {
        let index = slot.index();
        if self.0.len() <= index {
            self.0.resize_with(index + 1, TaskSlot::default);
        }
        // The vector is long enough now.
        &mut self.0[index]
    }

    /// The slot, if it was ever used.
    pub fn get(&self, slot: Slot) -> Option<&TaskSlot> {
        self.0.get(slot.index())
    }

    pub fn used(&self) -> impl Iterator<Item = (Slot, &TaskSlot)> {
        Slot::all().zip(&self.0)
    }

    pub fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.0.iter().filter_map(|slot| slot.task)
    }
}

/// State of a bound task for a restart; `None` while it waits.
fn restorable(view: &TaskView<'_>) -> Option<Restored> {
    let Stage::Bound { device, class, grant, managed, all_launched, promotion_done, .. } = &view.stage else {
        return None;
    };
    Some(Restored {
        task: view.task,
        client: view.client,
        request: view.request.clone(),
        device: *device,
        class: *class,
        grant: *grant,
        requirement: view.requirement,
        managed: *managed,
        all_launched: *all_launched,
        promotion_done: *promotion_done,
    })
}

fn claim(bytes: u64) -> Bytes {
    Bytes(bytes.min(CLAIM_MAX))
}

fn task_request(body: &RequestBody) -> Option<TaskRequest> {
    let RequestBody::TaskBegin { requirement, site: _, blocks, threads_per_block, flags, function } = body
    else {
        return None;
    };
    Some(TaskRequest {
        requirement: claim(*requirement),
        blocks: *blocks,
        threads_per_block: u32::try_from(*threads_per_block).unwrap_or(u32::MAX),
        lazy: flags.lazy,
        managed: flags.managed,
        whole: flags.whole,
        barred: flags.barred,
        function: function.clone(),
        estimate: None,
        held_by: None,
        priority: 0,
    })
}

fn kernel(body: &RequestBody) -> Option<KernelRequest> {
    let RequestBody::KernelHeld { footprint, static_size, access, kernel } = body else { return None };
    Some(KernelRequest {
        name: kernel.clone(),
        footprint: claim(*footprint),
        static_size: claim(*static_size),
        access: *access,
    })
}
