//! Explains the state of a task and its prospects on each device, as data and as sentences.
//!
//! Trap: decide nothing here. Every fact comes from the policy and the rules that decide about starts, asked about one
//! device at a time ([`View::only`]); a second implementation beside them would sooner or later contradict them.

use super::{Scheduler, Share, Stage, TaskView};
use crate::forecast;
use crate::model::{Device, Task, View};
use crate::options::QueueOrder;
use crate::policy::Placement;
use crate::reason::Reason;
use eager_units::{Bytes, Class, DeviceId, Nanos, TaskId};

/// Tasks that a device's explanation names; further ones are counted.
const NAMED_MAX: usize = 10;

/// A waiting task's place.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing<'a> {
    pub task: TaskView<'a>,
    /// From 1, in the order in which waiting tasks are tried; None: it waits beside the queue.
    pub place: Option<u32>,
    /// How it would run if it started now; None where that is not known.
    pub class: Option<Class>,
    /// When a device is expected to have room for all of it, by the run times of earlier runs. Only for the first task,
    /// since what the others get depends on what it takes.
    pub expected: Option<Nanos>,
}

/// Prospect of a waiting task on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    pub device: DeviceId,
    pub offer: Offer,
    /// Demand of this task and of all on the device together, in percent of the device's memory.
    pub os_ratio_percent: u64,
}

/// Offer of a device to a task, if it were the task's turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Offer {
    /// It would start.
    Starts { class: Class, grant: Bytes },
    /// `missing` bytes of what it wants, and of what its program's context would take there, are not free; `reason`
    /// tells why it does not start with less.
    Lacks { missing: Bytes, free: Bytes, context: Bytes, reason: Reason },
    /// The device takes no new tasks.
    Drained,
    /// The task's request bars the device.
    Barred,
    /// It would wait for another reason.
    Waits { reason: Reason },
}

impl Scheduler {
    /// The waiting tasks: first those in the queue, in the order in which they are tried, then those beside it.
    pub fn queue(&self) -> Vec<Standing<'_>> {
        let standing = self.standing();
        let queued =
            (1..).zip(&standing).filter_map(|(place, id)| Some((Some(place), self.state.tasks.get(id)?)));
        let aside = self.aside.iter().copied().chain(self.lines.behind());
        let aside = aside.filter_map(|id| Some((None, self.state.tasks.get(&id)?)));
        queued.chain(aside).map(|(place, task)| self.stand(place, task)).collect()
    }

    /// The place of a waiting task; None if the task does not exist or does not wait.
    pub fn standing_of(&self, id: TaskId) -> Option<Standing<'_>> {
        let task = self.state.tasks.get(&id).filter(|task| task.bound().is_none())?;
        let place = self.standing().iter().position(|standing| *standing == id);
        Some(self.stand(place.map(|place| place as u32 + 1), task))
    }

    /// Ids of the queued tasks in the order in which they are tried. An overdue task is first, wherever the order has
    /// it.
    fn standing(&self) -> Vec<TaskId> {
        let mut order = self.order();
        if let Some(first) = self.overdue().map(|task| task.id) {
            order.retain(|id| *id != first);
            order.insert(0, first);
        }
        order
    }

    fn stand<'a>(&'a self, place: Option<u32>, task: &'a Task) -> Standing<'a> {
        let expected = match place {
            Some(1) => forecast::reserve(self.read(), task).map(|room| room.at).filter(|at| *at > self.now),
            _ => None,
        };
        Standing { task: self.task_view(task), place, class: self.class_of(task), expected }
    }

    fn class_of(&self, task: &Task) -> Option<Class> {
        if !self.traits.eager || task.request.whole {
            return Some(Class::Normal);
        }
        match self.policy_placement(self.as_it_is_tried(task), task) {
            Placement::Bind { grant, .. } if grant < task.requirement => Some(Class::Eager),
            Placement::Bind { .. } => Some(Class::Normal),
            Placement::Wait(_) => None,
        }
    }

    fn as_it_is_tried(&self, task: &Task) -> View<'_> {
        View { last_resort: self.has_last_resort(), ..self.leaving_room(self.read(), task) }
    }

    /// Prospects of a waiting task on each device; empty if the task does not exist or has a device.
    pub fn outlooks(&self, id: TaskId) -> Vec<Outlook> {
        let task = self.state.tasks.get(&id).filter(|task| task.bound().is_none());
        let on = |task: &Task| self.state.devices.values().map(|device| self.outlook(device, task)).collect();
        task.map(on).unwrap_or_default()
    }

    fn outlook(&self, device: &Device, task: &Task) -> Outlook {
        let wanted = self.wanted_on(device).saturating_add(task.requirement);
        let os_ratio_percent = wanted.percent_of(device.capacity.min(device.task_max));
        Outlook { device: device.id, offer: self.offer(device, task), os_ratio_percent }
    }

    fn offer(&self, device: &Device, task: &Task) -> Offer {
        if device.drained {
            return Offer::Drained;
        }
        if task.request.barred.has(device.id) {
            return Offer::Barred;
        }
        let view = View { only: Some(device.id), ..self.as_it_is_tried(task) };
        match self.policy_placement(view, task) {
            Placement::Bind { grant, .. } => {
                let class = if grant < task.requirement { Class::Eager } else { Class::Normal };
                Offer::Starts { class, grant }
            }
            Placement::Wait(reason) => {
                let reason = view.why_no_context(device, task).unwrap_or(reason);
                let context = self.state.context_cost(device, task.client, self.options.context_bytes);
                let (needed, free) = (task.requirement.saturating_add(context), device.free());
                let missing = needed.saturating_sub(free);
                if missing > Bytes::ZERO && lacks_only(&reason) {
                    Offer::Lacks { missing, free, context, reason }
                } else {
                    Offer::Waits { reason }
                }
            }
        }
    }

    /// Demand for a device's memory: requirements, contexts, and memory in use but granted to no task.
    fn wanted_on(&self, device: &Device) -> Bytes {
        let required: Bytes = self.read().tasks_on(device.id).map(|(task, _)| task.requirement).sum();
        required.saturating_add(device.contexts).saturating_add(device.unaccounted)
    }

    /// Sentences about a task at this time; None if the task does not exist.
    pub fn explain_task(&self, id: TaskId, now: Nanos) -> Option<Vec<String>> {
        let task = self.state.tasks.get(&id)?;
        let view = self.task_view(task);
        Some(match &view.stage {
            Stage::Waiting { reason } => self.explain_waiting(&view, reason, now),
            Stage::Bound { .. } => self.explain_bound(&view, now),
        })
    }

    fn explain_waiting(&self, view: &TaskView<'_>, reason: &Reason, now: Nanos) -> Vec<String> {
        let (name, wanted) = (named(view), view.requirement);
        let waited = now.saturating_sub(view.asked_at);
        let mut sentences = vec![format!("{name} has waited for {waited} for {wanted} of device memory.")];
        // The deciding reason comes first: a limit, a hold, the order, the memory.
        sentences.push(format!("It {reason}."));
        let standing = self.standing_of(view.task);
        sentences.push(match standing.as_ref().and_then(|standing| standing.place) {
            Some(place) => {
                let (length, order) = (self.queue.len(), order_in_words(self.traits.queue));
                format!("It has place {place} of {length} in the queue of {}: {order}.", self.name)
            }
            None => "It waits beside the queue and blocks no other task.".to_owned(),
        });
        if view.request.priority != 0 {
            let (priority, uid) = (view.request.priority, view.uid);
            sentences
                .push(format!("Its priority is {priority}; that counts among the tasks of uid {uid} alone."));
        }
        sentences.extend(self.describe_outlooks(&self.outlooks(view.task), wanted));
        if let Some(at) = standing.and_then(|standing| standing.expected) {
            let expected = at.saturating_sub(now);
            sentences.push(format!(
                "Room for all of it is expected in {expected}, if the tasks that run take as long as in earlier runs."
            ));
        }
        sentences
    }

    /// A sentence for each device; devices with the same sentence share one.
    fn describe_outlooks(&self, outlooks: &[Outlook], wanted: Bytes) -> Vec<String> {
        let mut groups: Vec<(Vec<DeviceId>, String)> = Vec::new();
        for outlook in outlooks {
            let sentence = self.describe_outlook(outlook, wanted);
            let rest = sentence.strip_prefix(&outlook.device.to_string()).unwrap_or(&sentence);
            match groups.iter_mut().find(|(_, known)| known == rest) {
                Some((devices, _)) => devices.push(outlook.device),
                None => groups.push((vec![outlook.device], rest.to_owned())),
            }
        }
        groups.iter().map(|(devices, rest)| format!("{}{rest}", each_of(devices))).collect()
    }

    fn describe_outlook(&self, outlook: &Outlook, wanted: Bytes) -> String {
        let Outlook { device, offer, os_ratio_percent } = outlook;
        match offer {
            Offer::Starts { class: Class::Eager, grant } => {
                let ratio = ratio(*os_ratio_percent);
                let limits = self.limits_in_words();
                format!(
                    "{device} would start it eagerly with {grant} of {wanted}, if it were its turn: OS-ratio {ratio}{limits}."
                )
            }
            Offer::Starts { .. } => {
                format!("{device} would start it with all it wants, if it were its turn.")
            }
            Offer::Lacks { missing, free, context, reason } => {
                let more = why_not_eager(reason);
                let context = match *context {
                    Bytes::ZERO => String::new(),
                    context => format!(" and {context} for its context"),
                };
                format!("{device} lacks {missing}: {free} of {wanted}{context} are free{more}.")
            }
            Offer::Drained => format!("{device} is drained: nothing new starts there."),
            Offer::Barred => format!("{device} is barred: its program asked for other devices."),
            Offer::Waits { reason } => {
                let reason = reason.to_string();
                format!("{device} alone would not start it: {}.", reason.trim_start_matches("waits: "))
            }
        }
    }

    /// OS-ratios above which kernels of eager tasks are held; empty where the gate does not judge single kernels.
    fn limits_in_words(&self) -> String {
        if !self.traits.gate.judges_kernels() {
            return String::new();
        }
        let options = &self.options;
        let (cyclic, other) = (options.os_ratio_percent_cyclic, options.os_ratio_percent_other);
        let (cyclic, other) = (ratio(cyclic.into()), ratio(other.into()));
        format!(", while its kernels are held above {cyclic}, or {other} where they touch each byte once")
    }

    /// Memory that an over-subscribed task leaves free, where the policy has that rule: others start there although it
    /// came first.
    fn left_in_words(&self, device: DeviceId) -> String {
        let left = |device: &Device| device.left_to_others(self.traits.sharing.eager_leaves);
        match self.state.devices.get(&device).map(left) {
            None | Some(Bytes::ZERO) => String::new(),
            Some(left) => format!("; until all of it is free at once, {left} are left to other tasks"),
        }
    }

    fn explain_bound(&self, view: &TaskView<'_>, now: Nanos) -> Vec<String> {
        let Stage::Bound { device, class, grant, bound_at, reason, gate, gate_reason, held, .. } =
            &view.stage
        else {
            return Vec::new();
        };
        let name = named(view);
        let (ran, waited) = (now.saturating_sub(*bound_at), bound_at.saturating_sub(view.asked_at));
        let (wanted, missing) = (view.requirement, view.requirement.saturating_sub(*grant));
        let mut sentences =
            vec![format!("{name} has run on {device} for {ran}, {class}, after it waited for {waited}.")];
        sentences.push(format!("Why: {reason}."));
        sentences.push(match missing {
            Bytes::ZERO => format!("It has all of the {wanted} that it wants."),
            missing => format!(
                "It has {grant} of the {wanted} that it wants; the missing {missing} come as memory becomes free on \
                 {device}, before any waiting task{}.",
                self.left_in_words(*device)
            ),
        });
        if *class == Class::Eager || self.traits.rounds().is_some() {
            sentences.push(format!("Its gate: {gate} ({gate_reason})."));
        }
        sentences.extend(self.share(view.task).map(|share| share_in_words(*device, share)));
        if let Some((kernel, since)) = held {
            sentences.push(format!(
                "Its kernel {kernel} has waited at the gate for {}.",
                now.saturating_sub(*since)
            ));
        }
        if self.state.devices.get(device).is_some_and(|device| device.drained) {
            sentences.push(format!(
                "{device} is drained: this task goes on, and its program's next task would start elsewhere."
            ));
        }
        sentences
    }

    /// Sentences about a device at this time; None if the device does not exist.
    pub fn explain_device(&self, id: DeviceId, now: Nanos) -> Option<Vec<String>> {
        let device = self.state.devices.get(&id)?;
        let view = self.devices().find(|view| view.device == id)?;
        let (capacity, granted, free) = (view.capacity, view.granted, view.free);
        let mut parts = vec![format!("{granted} granted to {}", count(device.tasks.len(), "task"))];
        let others =
            [(view.contexts, "set aside for contexts"), (view.unaccounted, "in use and granted to no task")];
        let others = others.into_iter().filter(|(bytes, _)| *bytes > Bytes::ZERO);
        parts.extend(others.map(|(bytes, what)| format!("{bytes} {what}")));
        let (name, parts) = (&view.profile.name, parts.join(", "));
        let mut sentences = vec![format!("{id} ({name}) has {capacity}: {parts}, {free} free.")];
        if view.drained {
            sentences.push("It is drained: what runs there goes on, and nothing new starts.".to_owned());
        }
        if view.oversubscribed > Bytes::ZERO {
            let ratio = ratio(self.wanted_on(device).percent_of(capacity));
            sentences.push(format!("Its eager tasks want {} more: OS-ratio {ratio}.", view.oversubscribed));
        }
        let on_device: Vec<&Task> = self.read().tasks_on(id).map(|(task, _)| task).collect();
        describe_some(&mut sentences, &on_device, "run there", |task| self.describe_bound(task, now));
        let waiting: Vec<&Task> = self.standing().iter().filter_map(|id| self.state.tasks.get(id)).collect();
        describe_some(&mut sentences, &waiting, "wait", |task| {
            let outlook = self.describe_outlook(&self.outlook(device, task), task.requirement);
            format!("{} waits; {outlook}", named(&self.task_view(task)))
        });
        Some(sentences)
    }

    fn describe_bound(&self, task: &Task, now: Nanos) -> String {
        let view = self.task_view(task);
        let Stage::Bound { class, grant, bound_at, gate, gate_reason, .. } = &view.stage else {
            return String::new();
        };
        let (name, wanted, ran) = (named(&view), view.requirement, now.saturating_sub(*bound_at));
        let gate =
            if *class == Class::Eager { format!("; gate: {gate} ({gate_reason})") } else { String::new() };
        format!("{name} has run there for {ran}, {class}, with {grant} of {wanted}{gate}.")
    }
}

/// `GPU 1`, or `Each of GPU 0 to 3`.
fn each_of(devices: &[DeviceId]) -> String {
    if let [device] = devices {
        return device.to_string();
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &DeviceId(number) in devices {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    let ranges: Vec<String> = ranges.iter().map(range).collect();
    format!("Each of GPU {}", ranges.join(", "))
}

/// Why a task does not start over-subscribed on a device with too little memory; empty under policies without eager
/// starts.
fn why_not_eager(reason: &Reason) -> String {
    match reason {
        Reason::NoEagerPlace { eager_per_device: most, .. } => {
            format!(", and it takes no further eager task (at most {most})")
        }
        Reason::TooLittleToStart { least, .. } => format!(", and {least} are the least for an eager start"),
        Reason::NoneSoon { within, .. } => {
            format!(", and the rest is not expected within {within}, so it does not start eagerly either")
        }
        _ => String::new(),
    }
}

/// True if memory is all that the device has too little of.
fn lacks_only(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::NoRoom { .. }
            | Reason::NoEagerPlace { .. }
            | Reason::NoRoomForContext { .. }
            | Reason::TooLittleToStart { .. }
            | Reason::NoneSoon { .. }
    )
}

fn describe_some(
    sentences: &mut Vec<String>,
    tasks: &[&Task],
    rest: &str,
    describe: impl Fn(&Task) -> String,
) {
    sentences.extend(tasks.iter().take(NAMED_MAX).map(|task| describe(task)));
    if tasks.len() > NAMED_MAX {
        sentences.push(format!("{} more of them {rest}.", tasks.len() - NAMED_MAX));
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn named(view: &TaskView<'_>) -> String {
    let TaskView { task, label, uid, .. } = view;
    format!("{task} ({label}, uid {uid})")
}

/// A ratio with two decimals, in integer arithmetic.
fn ratio(percent: u64) -> String {
    format!("{}.{:02}", percent / 100, percent % 100)
}

fn order_in_words(order: QueueOrder) -> &'static str {
    match order {
        QueueOrder::Fifo => "in order of arrival, and no task starts before the first",
        QueueOrder::Backfill => "in order of arrival, and every task that fits starts",
        QueueOrder::LargestFirst => "the largest first, and every task that fits starts",
        QueueOrder::LongestRemaining => "the longest expected run first, and every task that fits starts",
    }
}

/// What a task is due of its device's time, and had.
fn share_in_words(device: DeviceId, share: Share) -> String {
    let (nice, had, due) = (share.nice, share.service, share.due_percent());
    let lag = match share.lag {
        None => String::new(),
        Some(lag) if lag < 0 => format!(", {} more than its share", Nanos(lag.unsigned_abs())),
        Some(lag) => format!(", {} less than its share", Nanos(lag.unsigned_abs())),
    };
    format!("With nice {nice} it is due {due:.0} % of the time of {device} now; it has had {had}{lag}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_in_a_row_are_a_range() {
        let of = |numbers: &[u32]| each_of(&numbers.iter().copied().map(DeviceId).collect::<Vec<_>>());
        assert_eq!(of(&[7]), "GPU 7");
        assert_eq!(of(&[0, 1, 2, 3]), "Each of GPU 0 to 3");
        assert_eq!(of(&[1, 2, 4, 6, 7, 8]), "Each of GPU 1, 2, 4, 6 to 8");
    }
}
