//! The tasks of a program, as [`eager_client::Client`] decides on them: sends its requests to the core as events, and
//! shows it the core's decisions as a daemon would.
//!
//! Trap: the core decides while a request is sent, so that a task may be bound before its program looks. The program
//! goes by what it has seen ([`World::look`]), its result by what happened.

use crate::client::{Blocked, Client, Work};
use crate::engine::{SimError, World};
use crate::job::JobOp;
use crate::result::{Outcome, TaskTimes};
use crate::steps::Step;
use eager_client::account::Requirement;
use eager_client::cell::{Cell, State, gate};
use eager_client::ledger::BufferId;
use eager_client::request::{Begin, Outbox, Request};
use eager_client::sites::{Beginning, Begun};
use eager_client::task::{Geometry, Slot, TaskKey};
use eager_client::way::ByName;
use eager_client::{AtGate, Decided, Step as Next};
use eager_core::event::{Event, TaskRequest};
use eager_units::{Bytes, DeviceId, TaskId};
use std::collections::BTreeMap;

/// Requests of a program that have not reached the core.
#[derive(Debug, Default)]
pub struct Wire {
    requests: Vec<(Slot, Request)>,
    /// Sequence of the last request.
    sequence: u32,
}

impl Outbox for Wire {
    fn send(&mut self, slot: Slot, request: Request) -> u32 {
        self.requests.push((slot, request));
        self.sequence += 1;
        self.sequence
    }
}

/// True if the task that begins with these steps allocates more than the announced `bytes` in total, but never more
/// at once. The pass marks such a site as reusing freed memory. False if more than `bytes` is allocated at once.
fn reuses(steps: &[Step<'_>], bytes: u64) -> bool {
    let (mut sum, mut now, mut peak) = (0_u64, 0_u64, 0_u64);
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Other(JobOp::Alloc { buffer, bytes }) => {
                sizes.insert(buffer, *bytes);
                sum = sum.saturating_add(*bytes);
                now = now.saturating_add(*bytes);
                peak = peak.max(now);
            }
            Step::Other(JobOp::Free { buffer }) => {
                now = now.saturating_sub(sizes.remove(buffer.as_str()).unwrap_or(0));
            }
            Step::Other(JobOp::TaskEnd) => break,
            _ => {}
        }
    }
    peak <= bytes && bytes < sum
}

impl World<'_> {
    /// Handles the pass's call before a task's first device operation. `words`: what the request has beside numbers.
    pub(crate) fn task_begins(
        &mut self,
        index: usize,
        bytes: u64,
        geometry: Geometry,
        words: TaskRequest,
    ) -> Result<bool, SimError> {
        if words.lazy && !self.has_foothold(index)? {
            return Ok(false);
        }
        let client = &mut self.clients[index];
        client.tasks_begun += 1;
        client.words = words;
        let live_bytes =
            if client.tasks.habits.live_requirement { client.lives.live_bytes(client.at) } else { bytes };
        let beginning = Beginning {
            site: client.site(),
            requirement: Requirement { bytes, live_bytes },
            geometry,
            reuses: reuses(&client.steps[client.at..], bytes),
            // The written-out run shows every use.
            by_name: Some(ByName { piece: 1, room: u64::MAX }),
        };
        let (tasks, sites, wire) = (&mut client.tasks, &mut client.sites, &mut client.wire);
        if let Begun::Asked(key) = tasks.begin(sites, &beginning, |_| false, |_, _| true, wire) {
            tasks.open(sites, key, wire);
            // Memory that comes by name may also come after the program has gone on.
            let is_by_name = client.tasks.task(key).is_some_and(|task| task.by_name.is_some());
            if !(is_by_name && client.tasks.habits.early_copies) {
                client.blocked = Blocked::Asked;
            }
        }
        self.send_requests(index)?;
        Ok(true)
    }

    /// True while a program has no device yet that the policy gives to whole programs: it asks before its first step
    /// (specification S-114).
    pub(crate) fn asks_from_start(&self, index: usize) -> bool {
        self.traits.assignment.is_by_program() && self.clients[index].tasks.foothold.is_none()
    }

    /// Gives a program a device before it asks for memory, with a task that requires none: a lazy program, whose task is
    /// requested at its first launch, for its first context; or any program that is to have a device from its start.
    /// Returns false while the program waits for it.
    pub(crate) fn has_foothold(&mut self, index: usize) -> Result<bool, SimError> {
        let key = self.clients[index].tasks.lazy();
        let is_there =
            self.follow(index, key, |client, cell| client.tasks.need_foothold(key, cell, &mut client.wire))?;
        if !is_there {
            self.clients[index].blocked = Blocked::Asked;
        }
        Ok(is_there)
    }

    /// Enters the core's decision on the program's task, if there is one, and its latest terms. Asks for nothing.
    pub(crate) fn look(&mut self, index: usize) -> Result<(), SimError> {
        let Some(key) = self.clients[index].task().map(|task| task.key) else { return Ok(()) };
        self.follow(index, key, |client, cell| client.tasks.look(key, cell, &mut client.wire))?;
        self.take_terms(index, key)
    }

    /// Asks for the program's task unless it has been; returns true if it is bound.
    pub(crate) fn need_task(&mut self, index: usize) -> Result<bool, SimError> {
        let Some(key) = self.clients[index].task().map(|task| task.key) else { return Ok(false) };
        let need = |client: &mut Client<'_>, cell: &Cell| {
            client.tasks.need(key, cell, Geometry::UNKNOWN, &mut client.wire)
        };
        // The core may decide as soon as it is asked.
        Ok(self.follow(index, key, need)? || self.follow(index, key, need)?)
    }

    /// Enters decisions of the core until there is none. True if the task, or the foothold, is there.
    fn follow(
        &mut self,
        index: usize,
        key: TaskKey,
        mut next: impl FnMut(&mut Client<'_>, &Cell) -> Next<DeviceId, Work>,
    ) -> Result<bool, SimError> {
        loop {
            let cell = self.cell(index, key);
            let client = &mut self.clients[index];
            let step = next(client, &cell);
            if let Next::Decided(Decided::Foothold, _) = step {
                let asked = client.tasks.task(key).and_then(|task| task.own.asked);
                client.result.wait.0 += self.now.0 - asked.unwrap_or(self.now).0;
            }
            self.send_requests(index)?;
            match step {
                Next::Ready => return Ok(true),
                Next::Decided(..) => {}
                _ => return Ok(false),
            }
        }
    }

    /// Returns the kernel if the gate holds it.
    pub(crate) fn pass_gate(
        &mut self,
        index: usize,
        mut at_gate: AtGate,
    ) -> Result<Option<AtGate>, SimError> {
        let Some(task) = self.clients[index].task() else { return Ok(None) };
        let key = task.key;
        // The core may open the gate as soon as it is told of the kernel.
        for _ in 0..2 {
            let cell = self.cell(index, key);
            let client = &mut self.clients[index];
            let allowed = client.tasks.task(key).and_then(|task| task.own.allowed);
            let word = gate::pack(allowed.is_some(), 0, allowed.unwrap_or(0));
            if client.tasks.pass_gate(key, &mut at_gate, &cell, word, &mut client.wire) {
                return Ok(None);
            }
            self.send_requests(index)?;
        }
        Ok(Some(at_gate))
    }

    /// What a daemon would show of a task.
    pub(crate) fn cell(&self, index: usize, key: TaskKey) -> Cell {
        let client = &self.clients[index];
        let task = client.tasks.task(key);
        let sequence = client.wire.sequence;
        let (state, answered) = match task.filter(|task| task.own.id.is_some()) {
            None => (State::Free, sequence),
            Some(_) if client.result.outcome != Outcome::Done => (State::Refused, sequence),
            Some(task) => match task.own.shown {
                Some(terms) => (State::Bound { terms, extend_refused: false }, sequence),
                None => (State::Waiting, sequence.wrapping_sub(1)),
            },
        };
        Cell { sequence, answered, reason: 0, state }
    }

    /// Sends what the program's client has decided, in order.
    pub(crate) fn send_requests(&mut self, index: usize) -> Result<(), SimError> {
        for (slot, request) in std::mem::take(&mut self.clients[index].wire.requests) {
            let in_slot = |(of, _): &&(Slot, TaskId)| *of == slot;
            let task = self.clients[index].ids.iter().find(in_slot).map(|(_, task)| *task);
            match (request, task) {
                (Request::Begin(begin), _) => self.send_begin(index, slot, begin)?,
                (Request::Extend(bytes), Some(task)) => {
                    self.step(Event::TaskExtend { task, bytes: Bytes(bytes) })?;
                }
                (Request::Shrink(bytes), Some(task)) => {
                    self.step(Event::TaskShrink { task, bytes: Bytes(bytes) })?;
                }
                (Request::AllLaunched, Some(task)) => self.step(Event::AllLaunched { task })?,
                (Request::Held(held), Some(task)) => {
                    let kernel = self.clients[index].named(held);
                    self.step(Event::KernelHeld { task, kernel })?;
                }
                (Request::Busy, Some(task)) => self.step(Event::Busy { task })?,
                (Request::Idle, Some(task)) => self.step(Event::Idle { task })?,
                (Request::Promoted, Some(task)) => self.step(Event::Promoted { task })?,
                (Request::End, Some(task)) => {
                    let client = &mut self.clients[index];
                    client.ids.retain(|(of, _)| *of != slot);
                    // The lazy task outlives its foothold.
                    if let Some(task) = client.tasks.tasks_mut().find(|task| task.key.slot == slot) {
                        task.own = Work::default();
                    }
                    self.step(Event::TaskEnd { task })?;
                }
                (_, None) => {}
            }
        }
        Ok(())
    }

    fn send_begin(&mut self, index: usize, slot: Slot, begin: Begin) -> Result<(), SimError> {
        let Begin { site, bytes, geometry, flags } = begin;
        let now = self.now;
        let task = TaskId(self.task_next);
        self.task_next += 1;
        // Registered before the request is sent, because the core may answer at once.
        self.tasks.insert(task, index);
        let client = &mut self.clients[index];
        client.ids.push((slot, task));
        if let Some(asked) = client.tasks.tasks_mut().find(|task| task.key.slot == slot) {
            asked.own = Work { id: Some(task), asked: Some(now), ..Work::default() };
        }
        client.result.ask.get_or_insert(now);
        let words = if site == 0 {
            TaskRequest { lazy: true, function: client.job.name.clone(), ..TaskRequest::default() }
        } else {
            client.result.requirement_bytes = client.result.requirement_bytes.max(bytes);
            client.result.tasks.push(TaskTimes { ask: now, bind: None, released: None });
            client.words.clone()
        };
        let request = TaskRequest {
            requirement: Bytes(bytes),
            blocks: geometry.blocks,
            threads_per_block: u32::try_from(geometry.threads_per_block).unwrap_or(u32::MAX),
            whole: flags.whole,
            ..words
        };
        let client = client.id;
        self.step(Event::TaskBegin { task, client, request })
    }

    /// Handles the pass's call at the end of a task, all of whose buffers are freed.
    pub(crate) fn task_ends(&mut self, index: usize) -> Result<bool, SimError> {
        let client = &mut self.clients[index];
        if client.releases_pending() {
            client.blocked = Blocked::Stream;
            return Ok(false);
        }
        let unused: Vec<&str> = client.addresses.keys().copied().collect();
        unused.into_iter().try_for_each(|name| self.forget_address(index, name))?;
        let now = self.now;
        let client = &mut self.clients[index];
        let site = client.sites.open.last().map_or(0, |open| open.site);
        let over = client.tasks.end_site(&mut client.sites, site, |_, _| false, &mut client.wire);
        over.into_iter().for_each(|task| client.note_end(&task, now));
        self.send_requests(index)?;
        Ok(true)
    }

    /// A buffer is freed, or dead: counts what its task does not need any more, and tells the core.
    pub(crate) fn give_back(&mut self, index: usize, buffer: BufferId) -> Result<(), SimError> {
        let now = self.now;
        let client = &mut self.clients[index];
        let Some(freed) = client.tasks.ledger.remove(buffer) else { return Ok(()) };
        let over = client.tasks.freed(&freed.allocation(), &mut client.wire);
        over.into_iter().for_each(|task| client.note_end(&task, now));
        if client.task().is_some_and(|task| task.account.reserved() == 0) {
            client.note_release(now);
        }
        self.send_requests(index)
    }
}
