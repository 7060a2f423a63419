//! Decides whether the next kernel of a task may start: barrier (specification S-211), per-kernel rule (S-213 to
//! S-216), the per-kernel rule while the device is idle (S-323), rounds (S-117).
//!
//! Trap: an eager task that waits for a Normal task whose own program stands at a closed gate, or in the queue, can be
//! waiting for itself in a circle. Such tasks, and tasks of the eager task's own client, are not waited for (S-217).

use crate::action::Gate;
use crate::event::KernelRequest;
use crate::model::{Activity, Bound, Device, Task, View};
use crate::options::Options;
use crate::policy::{GateRule, Traits};
use crate::reason::Reason;
use eager_units::{AccessClass, Bytes, Class, ClientId, TaskId};

/// Decision about one task's gate, with its reason.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub gate: Gate,
    pub reason: Reason,
}

impl Verdict {
    fn go(allowed: Option<Bytes>, reason: Reason) -> Verdict {
        Verdict { gate: Gate::Go { allowed }, reason }
    }

    fn hold(reason: Reason) -> Verdict {
        Verdict { gate: Gate::Hold, reason }
    }
}

/// Judges the gate of a bound task in the current state.
pub(crate) fn judge(view: View<'_>, traits: &Traits, task: &Task, bound: &Bound) -> Verdict {
    let rule = traits.gate;
    if rule == GateRule::None {
        return Verdict { gate: Gate::Ungated, reason: Reason::NoGate };
    }
    if bound.class != Class::Eager && traits.rounds().is_none() {
        return Verdict { gate: Gate::Ungated, reason: Reason::NoLongerEager };
    }
    if view.state.devices.get(&bound.device).is_some_and(|device| device.lost) {
        // The tasks that it waits for will not move, and its own kernel fails at once.
        return Verdict::go(None, Reason::DeviceLost { device: bound.device });
    }
    if bound.waived_until.is_some_and(|until| view.now < until) {
        let held = traits.hold_ns_max.unwrap_or_default();
        return Verdict::go(None, Reason::HeldLongEnough { held });
    }
    match rule {
        GateRule::Barrier => barrier(view, task, bound),
        GateRule::PerKernel | GateRule::WhileIdle | GateRule::None => per_kernel(view, rule, task, bound),
        GateRule::Rounds(_) => round(view, task, bound),
    }
}

fn round(view: View<'_>, task: &Task, bound: &Bound) -> Verdict {
    let device = bound.device;
    let on_device = view.state.devices.get(&device);
    match on_device.and_then(|device| device.slice_of(task.id)) {
        Some(slice) if slice.is_over => Verdict::hold(Reason::TurnOver { device }),
        Some(slice) => Verdict::go(
            None,
            match slice.length {
                Some(length) => Reason::HasSlice { device, length },
                None => Reason::HasTurn { device },
            },
        ),
        None => Verdict::hold(match on_device.and_then(|device| device.slices.first()) {
            Some(slice) => Reason::NotItsTurn { device, holder: slice.task },
            None => Reason::NobodysTurn { device },
        }),
    }
}

fn barrier(view: View<'_>, task: &Task, bound: &Bound) -> Verdict {
    if bound.barrier_passed {
        return Verdict::go(None, Reason::BarrierPassed);
    }
    let device = bound.device;
    let mut tasks = 0;
    let mut behind = Vec::new();
    for (other, state) in normal_tasks(view, task, bound) {
        if other.client == task.client || client_is_stopped(view, other.client) {
            continue;
        }
        tasks += 1;
        if !state.all_launched {
            behind.push(other.id);
        }
    }
    match behind.first() {
        Some(&first) => {
            Verdict::hold(Reason::NotAllLaunched { device, task: first, tasks: behind.len() as u32 })
        }
        None if tasks == 0 => Verdict::go(None, Reason::NobodyToProtect { device }),
        None => Verdict::go(None, Reason::AllHaveLaunched { device, tasks }),
    }
}

/// Judges single kernels. The document gives two conditions and not how they join. Here (specification S-216): go when
/// all Normal tasks have launched their last kernel; else only while none of their kernels runs, and then only within
/// the OS-ratio. Memory that cannot be evicted keeps counting when its task has launched everything: a kernel started
/// beside it would fault without end. Under [`GateRule::WhileIdle`] the first condition does not apply: kernels must
/// have ended.
fn per_kernel(view: View<'_>, rule: GateRule, task: &Task, bound: &Bound) -> Verdict {
    let device = bound.device;
    let Some(on_device) = view.state.devices.get(&device) else { return Verdict::hold(Reason::NoDevice) };
    let Protected { tasks, unfinished, live, pinned, active } = Protected::from(view, task, bound);
    if tasks == 0 {
        return Verdict::go(None, Reason::NobodyToProtect { device });
    }
    if rule != GateRule::WhileIdle && unfinished == 0 {
        return match pinned {
            Bytes::ZERO => Verdict::go(None, Reason::AllHaveLaunched { device, tasks }),
            pinned => within_ratio(view.options, on_device, bound, pinned),
        };
    }
    match active {
        Some((other, Activity::Busy)) => Verdict::hold(Reason::NormalBusy { device, task: other }),
        Some((other, _)) => Verdict::hold(Reason::NormalUnknown { device, task: other }),
        None if rule == GateRule::WhileIdle => all_together(view.options, on_device, task, bound, live),
        None => within_ratio(view.options, on_device, bound, live),
    }
}

/// The normal tasks of a device that an eager one there waits for.
#[derive(Default)]
struct Protected {
    tasks: u32,
    /// Those of them that have launches to come.
    unfinished: u32,
    /// Memory that may be in use (`live`), and the part of it that cannot be evicted (`pinned`).
    live: Bytes,
    pinned: Bytes,
    /// The first with kernels on the device, or whose activity is not known.
    active: Option<(TaskId, Activity)>,
}

impl Protected {
    /// From an eager task: all normal tasks but those of its own client, and those that have no kernel there and whose
    /// program is stopped. Of these not even the memory counts, since a kernel held for it could be held for ever. A
    /// frozen process counts as idle, whatever it reported last.
    fn from(view: View<'_>, task: &Task, bound: &Bound) -> Protected {
        let mut all = Protected::default();
        for (other, state) in normal_tasks(view, task, bound).filter(|(other, _)| other.client != task.client)
        {
            let Some(owner) = view.state.clients.get(&other.client) else { continue };
            let is_active = state.activity != Activity::Idle && !owner.frozen;
            if !is_active && view.state.is_stopped(owner) {
                continue;
            }
            let pinned = if state.managed { Bytes::ZERO } else { state.grant };
            let is_done = state.all_launched && !is_active;
            all.tasks += 1;
            all.unfinished += u32::from(!state.all_launched);
            all.live = all.live.saturating_add(if is_done { pinned } else { state.grant });
            all.pinned = all.pinned.saturating_add(pinned);
            all.active = all.active.or(is_active.then_some((other.id, state.activity)));
        }
        all
    }
}

/// Judges kernels together with all that their task needs over its run (specification S-325): kernels that fit one by
/// one evict each other's buffers where all of them together do not fit.
fn all_together(options: &Options, on_device: &Device, task: &Task, bound: &Bound, live: Bytes) -> Verdict {
    let taken = live.saturating_add(on_device.contexts).saturating_add(on_device.unaccounted);
    let percent = options.os_ratio_percent_min();
    let (device, requirement, capacity) = (bound.device, task.requirement, on_device.capacity);
    if taken.saturating_add(requirement) <= capacity.percent(percent) {
        return within_ratio(options, on_device, bound, taken);
    }
    Verdict::hold(Reason::AllOverRatio { device, requirement, taken, percent, capacity })
}

/// Judges the kernel held at the gate. Without one, computes what could start without asking: what every kernel is
/// allowed, or the kernel last let through if that is more.
fn within_ratio(options: &Options, on_device: &Device, bound: &Bound, live: Bytes) -> Verdict {
    let (device, capacity) = (bound.device, on_device.capacity);
    let percent = options.os_ratio_percent_min();
    let unasked = capacity.percent(percent).saturating_sub(live);
    let held = bound.held.as_ref().map(|(kernel, _)| kernel);
    let admitted = bound.admitted.as_ref().filter(|kernel| kernel.footprint > unasked);
    let verdict = held.or(admitted).map(|kernel| within_ratio_of(options, on_device, kernel, live, unasked));
    if let Some(verdict) = verdict.filter(|verdict| held.is_some() || verdict.gate != Gate::Hold) {
        return verdict;
    }
    if unasked == Bytes::ZERO {
        return Verdict::hold(Reason::NoneAllowed { device, live, percent, capacity });
    }
    Verdict::go(Some(unasked), Reason::Idle { device, live, allowed: unasked, percent, capacity })
}

/// Judges one kernel. `unasked`: the largest footprint that may start without asking.
fn within_ratio_of(
    options: &Options,
    on_device: &Device,
    kernel: &KernelRequest,
    live: Bytes,
    unasked: Bytes,
) -> Verdict {
    let capacity = on_device.capacity;
    let percent = percent_for(options, kernel.access);
    let demand = live.saturating_add(kernel.footprint);
    let (name, footprint, ratio) = (kernel.name.clone(), kernel.footprint, demand.percent_of(capacity));
    if demand <= capacity.percent(percent) {
        let reason = Reason::WithinRatio { kernel: name, footprint, live, ratio, percent, capacity };
        return Verdict::go(Some(unasked.max(whole_kib(footprint))), reason);
    }
    Verdict::hold(Reason::OverRatio { kernel: name, footprint, live, ratio, percent, capacity })
}

fn percent_for(options: &Options, access: AccessClass) -> u32 {
    match access {
        AccessClass::Unknown | AccessClass::Cyclic => options.os_ratio_percent_cyclic,
        AccessClass::OnePass => options.os_ratio_percent_other,
        AccessClass::Sparse => options.os_ratio_percent_of_sparse(),
    }
}

/// Rounds up to whole KiB: the gate word counts KiB, with the allowance rounded down and the footprint rounded up, and
/// a kernel let through must pass.
fn whole_kib(bytes: Bytes) -> Bytes {
    Bytes(bytes.0.div_ceil(1024).saturating_mul(1024))
}

/// Tasks on the same device that have their whole requirement.
fn normal_tasks<'a>(
    view: View<'a>,
    task: &Task,
    bound: &Bound,
) -> impl Iterator<Item = (&'a Task, &'a Bound)> + use<'a> {
    let own = task.id;
    view.tasks_on(bound.device).filter(move |(other, state)| other.id != own && state.class != Class::Eager)
}

fn client_is_stopped(view: View<'_>, client: ClientId) -> bool {
    view.state.clients.get(&client).is_some_and(|client| view.state.is_stopped(client))
}
