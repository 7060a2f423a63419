//! What the daemon decided about each job, read from its journal.
//!
//! Jobs are told apart by label: the runner starts each with a label of its own. Trap: a program may have more than one
//! task; a job's classes are the union in order of appearance, its wait the sum, its grant the first task's.

use anyhow::Result;
use eager_core::action::Action;
use eager_core::event::Event;
use eager_core::reason::Reason;
use eager_journal::pieces;
use eager_units::{Class, ClientId, Nanos, TaskId};
use std::collections::BTreeMap;
use std::path::Path;

/// Decisions about one job. Times in nanoseconds since the [`Origin`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decisions {
    pub asked_ns: Option<u64>,
    pub bound_ns: Option<u64>,
    pub promoted_ns: Option<u64>,
    pub wait_ns: u64,
    pub device: Option<u32>,
    pub classes: Vec<String>,
    pub requirement_bytes: u64,
    pub grant_bytes: u64,
    pub reason: String,
    pub refused: Option<String>,
    /// When its process was gone.
    pub gone_ns: Option<u64>,
}

/// When the times of a journal begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    FirstClient,
    /// Of a virtual clock.
    Clock,
}

/// Label → decisions.
pub fn decisions(path: &Path, origin: Origin) -> Result<BTreeMap<String, Decisions>> {
    let first = (origin == Origin::Clock).then_some(Nanos(0));
    let mut reader = Reader { first, ..Reader::default() };
    for line in &pieces::last_run(path)?.lines {
        reader.event(line.now, &line.event);
        for action in &line.actions {
            reader.action(line.now, action);
        }
    }
    Ok(reader.jobs)
}

#[derive(Default)]
struct Reader {
    jobs: BTreeMap<String, Decisions>,
    labels: BTreeMap<ClientId, String>,
    tasks: BTreeMap<TaskId, (String, Nanos)>,
    first: Option<Nanos>,
}

impl Reader {
    fn event(&mut self, now: Nanos, event: &Event) {
        match event {
            Event::ClientConnected { client, label, .. } => {
                self.first.get_or_insert(now);
                self.labels.insert(*client, label.clone());
                self.jobs.entry(label.clone()).or_default();
            }
            Event::TaskBegin { task, client, request } => {
                let Some(label) = self.labels.get(client) else { return };
                self.tasks.insert(*task, (label.clone(), now));
                let job = self.jobs.entry(label.clone()).or_default();
                job.asked_ns.get_or_insert(since(now, self.first));
                job.requirement_bytes += request.requirement.0;
            }
            Event::ClientGone { client } => {
                if let Some(label) = self.labels.get(client) {
                    let job = self.jobs.entry(label.clone()).or_default();
                    job.gone_ns = Some(since(now, self.first));
                }
            }
            Event::TaskExtend { task, bytes } => {
                if let Some((label, _)) = self.tasks.get(task) {
                    self.jobs.entry(label.clone()).or_default().requirement_bytes += bytes.0;
                }
            }
            _ => {}
        }
    }

    fn action(&mut self, now: Nanos, action: &Action) {
        let (Action::Bind { task, .. } | Action::Refuse { task, .. } | Action::Regrant { task, .. }) = action
        else {
            return;
        };
        let Some((label, asked)) = self.tasks.get(task).cloned() else { return };
        let job = self.jobs.entry(label).or_default();
        match action {
            Action::Bind { device, class, grant, reason, .. } => {
                if job.bound_ns.is_none() {
                    job.bound_ns = Some(since(now, self.first));
                    job.device = Some(device.0);
                    job.grant_bytes = grant.0;
                    job.reason = reason.to_string();
                }
                job.wait_ns += now.0.saturating_sub(asked.0);
                note(&mut job.classes, *class);
            }
            // A task that needs no more because it frees is not one that got memory.
            Action::Regrant { reason: Reason::PromotedByShrinking { .. }, .. } => {}
            Action::Regrant { class, .. } => {
                if *class == Class::Promoted {
                    job.promoted_ns.get_or_insert(since(now, self.first));
                }
                note(&mut job.classes, *class);
            }
            Action::Refuse { reason, .. } => job.refused = Some(reason.to_string()),
            _ => {}
        }
    }
}

fn since(now: Nanos, first: Option<Nanos>) -> u64 {
    now.0.saturating_sub(first.unwrap_or(now).0)
}

fn note(classes: &mut Vec<String>, class: Class) {
    let name = class.to_string();
    if !classes.contains(&name) {
        classes.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::event::{DeviceProfile, TaskRequest};
    use eager_core::{Options, PolicyName, Scheduler};
    use eager_journal::Journal;
    use eager_units::{Bytes, DeviceId};

    const GIB: u64 = 1 << 30;

    /// A journal as the daemon writes it: one step per second, from ten seconds on.
    fn journal(events: Vec<Event>) -> tempfile::NamedTempFile {
        let scheduler = Scheduler::new(PolicyName::EagerOpt, Options::default());
        let seconds = (10..).map(|second| Nanos(second * 1_000_000_000));
        let journal = Journal::recorded(scheduler, seconds.zip(events));
        let file = tempfile::NamedTempFile::new().expect("file");
        std::fs::write(file.path(), journal.write().expect("JSON")).expect("write");
        file
    }

    fn device() -> Event {
        let profile = DeviceProfile {
            name: "test".into(),
            capacity: Bytes(10 * GIB),
            sms: 1,
            warps_per_sm: 64,
            blocks_per_sm: 32,
            faults_stall: false,
        };
        Event::DeviceAdded { device: DeviceId(0), profile }
    }

    fn client(id: u64, label: &str) -> Event {
        Event::ClientConnected { client: ClientId(id), uid: 0, label: label.into(), informed: false }
    }

    fn begin(id: u64, gib: u64) -> Event {
        let request =
            TaskRequest { requirement: Bytes(gib * GIB), function: "main".into(), ..TaskRequest::default() };
        Event::TaskBegin { task: TaskId(id), client: ClientId(id), request }
    }

    #[test]
    fn an_eager_start_and_its_promotion_are_found_with_their_times() {
        let end = Event::TaskEnd { task: TaskId(1) };
        let file = journal(vec![device(), client(1, "a"), client(2, "b"), begin(1, 8), begin(2, 6), end]);
        let jobs = decisions(file.path(), Origin::FirstClient).expect("journal");
        assert_eq!(jobs["a"].classes, ["normal"]);
        let eager = &jobs["b"];
        assert_eq!(eager.classes, ["eager", "promoted"]);
        assert_eq!((eager.requirement_bytes, eager.grant_bytes), (6 * GIB, 2 * GIB));
        // The first client connected in the second step.
        assert_eq!((eager.bound_ns, eager.promoted_ns), (Some(3_000_000_000), Some(4_000_000_000)));
        assert!(eager.reason.contains("starts eagerly"), "{}", eager.reason);
    }

    #[test]
    fn needing_less_is_no_promotion() {
        let frees = Event::TaskShrink { task: TaskId(2), bytes: Bytes(5 * GIB) };
        let file = journal(vec![device(), client(1, "a"), client(2, "b"), begin(1, 8), begin(2, 6), frees]);
        let jobs = decisions(file.path(), Origin::FirstClient).expect("journal");
        assert_eq!((jobs["b"].classes.as_slice(), jobs["b"].promoted_ns), (&["eager".to_string()][..], None));
    }

    #[test]
    fn a_refusal_keeps_its_sentence() {
        let file = journal(vec![device(), client(1, "a"), begin(1, 64)]);
        let jobs = decisions(file.path(), Origin::FirstClient).expect("journal");
        assert!(jobs["a"].refused.as_deref().is_some_and(|why| why.contains("larger than every device")));
    }
}
