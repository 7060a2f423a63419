//! What a daemon's journal says of a run. Pure.
//!
//! Trap: a program may begin several tasks, and wait for each; its wait is the sum of them.

use eager_core::action::{Action, Class};
use eager_core::event::Event;
use eager_core::journal::JournalLine;
use eager_journal::Journal;
use std::collections::BTreeMap;

/// Tasks that were bound with less than they asked for.
pub fn eager_starts(journal: &Journal) -> usize {
    let is_eager = |action: &&Action| matches!(action, Action::Bind { class: Class::Eager, .. });
    journal.lines.iter().flat_map(|line| &line.actions).filter(is_eager).count()
}

/// Seconds between begin and device of all tasks of each label.
pub fn waits(lines: &[JournalLine]) -> BTreeMap<String, f64> {
    let (mut labels, mut begun) = (BTreeMap::new(), BTreeMap::new());
    let mut waits = BTreeMap::new();
    for line in lines {
        match &line.event {
            Event::ClientConnected { client, label, .. } => drop(labels.insert(*client, label.clone())),
            Event::TaskBegin { task, client, .. } => drop(begun.insert(*task, (line.now, *client))),
            _ => {}
        }
        for action in &line.actions {
            let Action::Bind { task, .. } = action else { continue };
            let Some((since, client)) = begun.remove(task) else { continue };
            let label = labels.get(&client).cloned().unwrap_or_default();
            *waits.entry(label).or_default() += line.now.saturating_sub(since).0 as f64 / 1e9;
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_core::event::TaskRequest;
    use eager_core::reason::Reason;
    use eager_core::units::{Bytes, ClientId, DeviceId, Nanos, TaskId};

    fn line(seconds: u64, event: Event, bound: Option<u64>) -> JournalLine {
        let bind = |task| Action::Bind {
            task: TaskId(task),
            device: DeviceId(0),
            class: Class::Normal,
            grant: Bytes(1),
            managed: false,
            reason: Reason::NoDevice,
        };
        JournalLine { now: Nanos::from_secs(seconds), event, actions: bound.map(bind).into_iter().collect() }
    }

    fn begin(task: u64, client: u64) -> Event {
        let request = TaskRequest { requirement: Bytes(1), ..TaskRequest::default() };
        Event::TaskBegin { task: TaskId(task), client: ClientId(client), request }
    }

    #[test]
    fn a_programs_wait_is_that_of_all_its_tasks() {
        let connected = |client, label: &str| Event::ClientConnected {
            client: ClientId(client),
            uid: 0,
            label: label.to_owned(),
        };
        let lines = [
            line(0, connected(1, "a"), None),
            line(0, connected(2, "b"), None),
            line(1, begin(1, 1), Some(1)),
            line(2, begin(2, 2), None),
            line(5, begin(3, 1), None),
            line(6, Event::TaskEnd { task: TaskId(1) }, Some(2)),
            line(8, Event::TaskEnd { task: TaskId(2) }, Some(3)),
        ];
        let waited = [("a".to_owned(), 3.0), ("b".to_owned(), 4.0)];
        assert_eq!(waits(&lines), BTreeMap::from(waited));
    }
}
