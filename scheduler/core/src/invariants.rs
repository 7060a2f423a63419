//! Conditions that must hold after every step, computed afresh from the tasks and not from the ledger's running sums.
//!
//! Trap: these are checks only; a decision that relied on them could not be checked by them any more.

use crate::action::Gate;
use crate::model::{Bound, Client, Device, Slice, Task, TaskState};
use crate::policy::GateRule;
use crate::scheduler::Scheduler;
use eager_units::{Bytes, Class, ClientId, DeviceId, Nanos, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A broken invariant: always a defect of this crate, whatever the events were.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("{device}: {granted} granted and {contexts} for contexts exceed its {capacity}")]
    OverCommitted { device: DeviceId, granted: Bytes, contexts: Bytes, capacity: Bytes },
    #[error("{device}: the ledger says {ledger}, its tasks hold {held}")]
    SumDiffers { device: DeviceId, ledger: Bytes, held: Bytes },
    #[error("{device}: its count of programs with a context and no memory so far is wrong")]
    IdleDiffers { device: DeviceId },
    #[error("{device}: its list of programs with a context is wrong")]
    ProgramsDiffer { device: DeviceId },
    #[error("{device}: contexts in the ledger are {ledger}, its clients need {needed}")]
    ContextsDiffer { device: DeviceId, ledger: Bytes, needed: Bytes },
    #[error("{device}: lists tasks that are not bound to it, or misses one that is")]
    TaskListDiffers { device: DeviceId },
    #[error("{device}: the ledger counts {ledger} warps, its tasks have {held}")]
    WarpsDiffer { device: DeviceId, ledger: u64, held: u64 },
    #[error("{task} belongs to no live client")]
    Orphan { task: TaskId },
    #[error("{task} waits without a reason")]
    SilentWait { task: TaskId },
    #[error("{task} waits although it could start")]
    Stranded { task: TaskId },
    #[error("{task} waits although {device} has room for it and no rule bars it")]
    Owed { task: TaskId, device: DeviceId },
    #[error("{task} came after {head}, which had waited for {waited}, and started before it")]
    Passed { task: TaskId, head: TaskId, waited: Nanos },
    #[error("{task} waits and is not in the queue, or is in the queue and does not wait")]
    QueueDiffers { task: TaskId },
    #[error("{task} is {class:?} with {grant} of {requirement}")]
    WrongClass { task: TaskId, class: Class, grant: Bytes, requirement: Bytes },
    #[error("{task} runs eagerly in memory that is not managed")]
    EagerUnmanaged { task: TaskId },
    #[error("{device}: {free} free while eager {task} still misses memory")]
    PromotionMissed { device: DeviceId, free: Bytes, task: TaskId },
    #[error("{device}: {eager} eager tasks, {allowed} allowed")]
    TooManyEager { device: DeviceId, eager: u32, allowed: u32 },
    #[error("{task}: its gate is {gate:?}, which its class and the policy do not allow")]
    WrongGate { task: TaskId, gate: Gate },
    #[error("{task}: its gate is {gate:?}, which is out of date")]
    StaleGate { task: TaskId, gate: Gate },
    #[error("{task}: a kernel is held at an open gate")]
    HeldAtOpenGate { task: TaskId },
    #[error("{device}: its lists of eager and held tasks are not those of its tasks")]
    ShortcutsDiffer { device: DeviceId },
    #[error("{device}: the ledger counts {ledger} in use without a grant, {seen} were observed")]
    UnaccountedDiffers { device: DeviceId, ledger: Bytes, seen: Bytes },
    #[error("the lists of clients of one process are wrong")]
    LaterClientsDiffer,
    #[error("the count of bound tasks of uid {uid} is wrong")]
    BoundByUserDiffers { uid: u32 },
    #[error("{task} and all other tasks that hold memory wait for each other, and no deadline ends that")]
    Circle { task: TaskId },
    #[error("{device}: kernels of {task} are held at their gate, and no task has its turn")]
    TurnMissed { device: DeviceId, task: TaskId },
    #[error("{device}: {slices} slices at once are more than the policy allows")]
    TooManySlices { device: DeviceId, slices: usize },
    #[error("{device}: {task} has a slice there, and is bound elsewhere or gone")]
    SliceOfStranger { device: DeviceId, task: TaskId },
    #[error("{task}: watched is {watched}, and should not be")]
    WrongWatch { task: TaskId, watched: bool },
}

/// Checks all invariants; the first violation found, if any.
pub fn check(scheduler: &Scheduler) -> Result<(), Violation> {
    for device in scheduler.state().devices.values() {
        check_sums(scheduler, device)?;
        check_eager(scheduler, device)?;
        check_slices(scheduler, device)?;
    }
    check_clients(scheduler)?;
    check_bypass(scheduler)?;
    if let Some((task, device)) = scheduler.owed().next() {
        return Err(Violation::Owed { task, device });
    }
    for task in scheduler.state().tasks.values() {
        let owner = scheduler.state().clients.get(&task.client);
        if !owner.is_some_and(|client| client.tasks.contains(&task.id)) {
            return Err(Violation::Orphan { task: task.id });
        }
        if scheduler.waits_in_one_place(task) != task.bound().is_none() {
            return Err(Violation::QueueDiffers { task: task.id });
        }
        match &task.state {
            TaskState::Waiting { last_reported: None } => {
                return Err(Violation::SilentWait { task: task.id });
            }
            TaskState::Waiting { .. } if scheduler.could_start(task) => {
                return Err(Violation::Stranded { task: task.id });
            }
            TaskState::Waiting { .. } => {}
            TaskState::Bound(bound) => check_bound(scheduler, task, bound)?,
        }
    }
    Ok(())
}

/// Checks only that sums and lists match the tasks, whatever was decided, so that a scheduler made from an untrusted
/// image is consistent.
pub(crate) fn check_books(scheduler: &Scheduler) -> Result<(), Violation> {
    scheduler.state().devices.values().try_for_each(|device| check_sums(scheduler, device))
}

fn check_clients(scheduler: &Scheduler) -> Result<(), Violation> {
    let state = scheduler.state();
    let waits = |task: &&Task| task.bound().is_none();
    let is_waiting =
        |client: &Client| state.tasks.values().filter(waits).any(|task| task.client == client.id);
    let mut later: BTreeMap<ClientId, BTreeSet<ClientId>> = BTreeMap::new();
    for (first, client) in
        state.clients.values().filter_map(|client| Some((client.first_of_process?, client.id)))
    {
        later.entry(first).or_default().insert(client);
    }
    if later != state.later_clients {
        return Err(Violation::LaterClientsDiffer);
    }
    let mut bound_by_user: BTreeMap<u32, u32> = BTreeMap::new();
    for task in state.tasks.values().filter(|task| task.bound().is_some()) {
        let uid = state.clients.get(&task.client).map_or(0, |client| client.uid);
        *bound_by_user.entry(uid).or_default() += 1;
    }
    let uids = || bound_by_user.keys().chain(state.bound_by_user.keys());
    if let Some(&uid) = uids().find(|uid| bound_by_user.get(*uid) != state.bound_by_user.get(*uid)) {
        return Err(Violation::BoundByUserDiffers { uid });
    }
    let holders = || state.clients.values().filter(|client| !client.contexts.is_empty());
    let all_wait = holders().all(is_waiting);
    let holder =
        |task: &&Task| task.request.held_by.is_none() && holders().any(|client| client.id == task.client);
    match state.tasks.values().filter(waits).find(holder) {
        Some(task) if all_wait && scheduler.next_deadline().is_none() => {
            Err(Violation::Circle { task: task.id })
        }
        _ => Ok(()),
    }
}

/// Checks that the tasks that started since the first one became overdue fit beside it on its device, except one task
/// of each other user. Where devices are full by tasks and not by bytes, none may have started.
fn check_bypass(scheduler: &Scheduler) -> Result<(), Violation> {
    let state = scheduler.state();
    let Some((head, since)) = scheduler.overdue_since() else { return Ok(()) };
    let Some(head) = state.tasks.get(&head).filter(|task| scheduler.is_queued(task)) else { return Ok(()) };
    let waited = scheduler.now().saturating_sub(head.asked_at);
    let context =
        |device: &Device| state.context_cost(device, head.client, scheduler.options().context_bytes);
    // Where its program's context does not fit besides, the first one cannot start, and no task has to leave it room.
    let takes_head = |device: &&Device| head.requirement.saturating_add(context(device)) <= device.capacity;
    for device in state.devices.values().filter(takes_head) {
        let passed = bound_on(scheduler, device.id).filter(|(task, bound)| {
            task.arrival > head.arrival && bound.bound_at > since && !bound.out_of_turn
        });
        let mut by_user: BTreeMap<u32, Vec<(Bytes, TaskId)>> = BTreeMap::new();
        for (task, _) in passed {
            let uid = state.clients.get(&task.client).map_or(0, |client| client.uid);
            let asked = task.requirement.min(task.request.requirement);
            by_user.entry(uid).or_default().push((asked, task.id));
        }
        let head_user = state.clients.get(&head.client).map(|client| client.uid);
        let mut taken = head.requirement;
        for (uid, mut tasks) in by_user {
            tasks.sort();
            if Some(uid) != head_user {
                tasks.pop();
            }
            for (asked, task) in tasks {
                taken = taken.saturating_add(asked);
                if taken > device.capacity || !scheduler.passes_beside() {
                    return Err(Violation::Passed { task, head: head.id, waited });
                }
            }
        }
    }
    Ok(())
}

fn bound_on(scheduler: &Scheduler, device: DeviceId) -> impl Iterator<Item = (&Task, &Bound)> {
    let tasks = scheduler.state().tasks.values();
    tasks.filter_map(|task| Some((task, task.bound()?))).filter(move |(_, bound)| bound.device == device)
}

fn check_sums(scheduler: &Scheduler, device: &Device) -> Result<(), Violation> {
    let (granted, contexts, capacity) = (device.granted, device.contexts, device.capacity);
    let id = device.id;
    let used = granted.0.checked_add(contexts.0);
    if used.is_none_or(|used| used > capacity.0) {
        return Err(Violation::OverCommitted { device: id, granted, contexts, capacity });
    }
    let held: Bytes = bound_on(scheduler, id).map(|(_, bound)| bound.grant).sum();
    if held != granted {
        return Err(Violation::SumDiffers { device: id, ledger: granted, held });
    }
    let mut programs: BTreeMap<ClientId, u32> = BTreeMap::new();
    for client in scheduler.state().clients.values().filter(|client| client.contexts.contains(&id)) {
        *programs.entry(client.program()).or_default() += 1;
    }
    if programs != device.programs {
        return Err(Violation::ProgramsDiffer { device: id });
    }
    let needed = Bytes(scheduler.options().context_bytes.0.saturating_mul(programs.len() as u64));
    if needed != contexts {
        return Err(Violation::ContextsDiffer { device: id, ledger: contexts, needed });
    }
    if idle_on(scheduler, id) != device.idle {
        return Err(Violation::IdleDiffers { device: id });
    }
    let warps = bound_on(scheduler, id).map(|(task, _)| task.warps()).fold(0, u64::saturating_add);
    if warps != device.warps {
        return Err(Violation::WarpsDiffer { device: id, ledger: device.warps, held: warps });
    }
    let state = scheduler.state();
    let (ledger, seen) = (device.unaccounted, state.unaccounted_on(id));
    if ledger != seen {
        return Err(Violation::UnaccountedDiffers { device: id, ledger, seen });
    }
    if !bound_on(scheduler, id).map(|(task, _)| task.id).eq(device.tasks.iter().copied()) {
        return Err(Violation::TaskListDiffers { device: id });
    }
    let of_class = |(task, bound): (&Task, &Bound)| (bound.class == Class::Eager).then_some(task.id);
    let held = |(task, bound): (&Task, &Bound)| Some((bound.held.as_ref()?.1, task.id));
    let held: BTreeSet<(Nanos, TaskId)> = bound_on(scheduler, id).filter_map(held).collect();
    let is_eager = bound_on(scheduler, id).filter_map(of_class).eq(device.eager.iter().copied());
    if !is_eager || held != device.held {
        return Err(Violation::ShortcutsDiffer { device: id });
    }
    Ok(())
}

fn idle_on(scheduler: &Scheduler, device: DeviceId) -> BTreeMap<u32, u32> {
    let state = scheduler.state();
    let holds = |task: &Task| task.bound().is_some() && task.requirement > Bytes::ZERO;
    let mut idle = BTreeMap::new();
    for client in state.clients.values().filter(|client| client.contexts.contains(&device)) {
        let holds_now = state.tasks.values().any(|task| task.client == client.id && holds(task));
        if !client.has_held && !holds_now {
            *idle.entry(client.uid).or_default() += 1;
        }
    }
    idle
}

fn check_eager(scheduler: &Scheduler, device: &Device) -> Result<(), Violation> {
    let eager = || bound_on(scheduler, device.id).filter(|(_, bound)| bound.class == Class::Eager);
    let left = device.left_to_others(scheduler.traits().sharing.eager_leaves);
    let could_grow = |(task, bound): &(&Task, &Bound)| {
        device.free() > left || device.free() >= task.requirement.saturating_sub(bound.grant)
    };
    if device.free() > Bytes::ZERO
        && let Some((task, _)) = eager().find(could_grow)
    {
        return Err(Violation::PromotionMissed { device: device.id, free: device.free(), task: task.id });
    }
    // An extension makes a task eager in any case; only tasks that started eagerly are limited.
    let started = eager().filter(|(_, bound)| bound.started_eager).count() as u32;
    let allowed = if scheduler.traits().eager { scheduler.options().eager_per_device } else { 0 };
    if started > allowed {
        return Err(Violation::TooManyEager { device: device.id, eager: started, allowed });
    }
    Ok(())
}

fn check_slices(scheduler: &Scheduler, device: &Device) -> Result<(), Violation> {
    let Some(rounds) = scheduler.traits().rounds() else { return Ok(()) };
    let holds_place = |slice: &&Slice| !scheduler.is_passed_by(slice, rounds);
    let slices = device.slices.iter().filter(holds_place).count();
    let stranger = device.slices.iter().find(|slice| !device.tasks.contains(&slice.task));
    if let Some(slice) = stranger {
        return Err(Violation::SliceOfStranger { device: device.id, task: slice.task });
    }
    if slices > rounds.in_flight as usize && !rounds.while_saturated {
        return Err(Violation::TooManySlices { device: device.id, slices });
    }
    if slices > 0 {
        return Ok(());
    }
    // One whose slice is over waits for the end of its own kernels.
    let waits = |(task, bound): &(&Task, &Bound)| bound.held.is_some() && device.slice_of(task.id).is_none();
    match bound_on(scheduler, device.id).find(waits) {
        Some((task, _)) => Err(Violation::TurnMissed { device: device.id, task: task.id }),
        None => Ok(()),
    }
}

fn check_bound(scheduler: &Scheduler, task: &Task, bound: &Bound) -> Result<(), Violation> {
    let id = task.id;
    let whole = bound.grant == task.requirement;
    if bound.grant > task.requirement || whole == (bound.class == Class::Eager) {
        let (class, grant, requirement) = (bound.class, bound.grant, task.requirement);
        return Err(Violation::WrongClass { task: id, class, grant, requirement });
    }
    if bound.started_eager && !bound.managed {
        return Err(Violation::EagerUnmanaged { task: id });
    }
    let rule = scheduler.traits().gate;
    let gated =
        scheduler.traits().rounds().is_some() || (bound.class == Class::Eager && rule != GateRule::None);
    if gated == (bound.gate == Gate::Ungated) {
        return Err(Violation::WrongGate { task: id, gate: bound.gate });
    }
    if !scheduler.gate_is_current(task, bound) {
        return Err(Violation::StaleGate { task: id, gate: bound.gate });
    }
    if bound.held.is_some() && bound.gate != Gate::Hold {
        return Err(Violation::HeldAtOpenGate { task: id });
    }
    let eager_beside = bound_on(scheduler, bound.device).any(|(_, other)| other.class == Class::Eager);
    let on_device = scheduler.state().devices.get(&bound.device);
    let should_watch = match rule {
        GateRule::PerKernel | GateRule::WhileIdle => bound.class != Class::Eager && eager_beside,
        GateRule::Rounds(_) => on_device.is_some_and(|device| device.slice_of(id).is_some()),
        GateRule::None | GateRule::Barrier => false,
    };
    if bound.watched != should_watch {
        return Err(Violation::WrongWatch { task: id, watched: bound.watched });
    }
    Ok(())
}
