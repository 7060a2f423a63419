//! Latest answers of the daemon, and the thread that asks it.
//!
//! Trap: a stuck daemon must not block the keyboard, so only the thread may wait for the daemon.

use super::rates::Rates;
use crate::daemon::DaemonPlace;
use crate::tables;
use eager_journal::names;
use eager_proto::admin::{AdminReply, AdminRequest, TaskRow};
use eager_proto::snapshot::Snapshot;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Duration;

/// Most tasks that are requested; a screen shows fewer.
const TASKS_MAX: u32 = 1000;

/// The daemon's sentences about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    pub task: u64,
    pub sentences: Vec<String>,
}

#[derive(Debug, Default)]
pub struct LatestAnswers {
    pub snapshot: Snapshot,
    pub rates: Rates,
    pub explained: Option<Explained>,
    /// Why there is no newer snapshot.
    pub trouble: Option<String>,
}

/// Answer of the daemon, or why there is none.
type News = anyhow::Result<(Snapshot, Option<Explained>)>;

impl LatestAnswers {
    pub fn new(snapshot: Snapshot) -> LatestAnswers {
        let mut answers = LatestAnswers::default();
        answers.update(Ok((snapshot, None)));
        answers
    }

    pub fn update(&mut self, news: News) {
        match news {
            Ok((mut snapshot, mut explained)) => {
                let after = std::mem::take(&mut snapshot.after);
                snapshot.tasks.extend(after.into_iter().map(tables::as_task));
                snapshot.tasks.iter_mut().for_each(make_readable);
                let sentences = explained.iter_mut().flat_map(|explained| &mut explained.sentences);
                sentences.for_each(|sentence| *sentence = names::in_text(sentence));
                self.rates.see(&snapshot);
                (self.snapshot, self.explained, self.trouble) = (snapshot, explained, None);
            }
            Err(why) => self.trouble = Some(format!("old: {why:#}")),
        }
    }

    /// Returns the daemon's sentences about this task, if there are any.
    pub fn explanation(&self, task: u64) -> Option<&[String]> {
        let explained = self.explained.as_ref().filter(|explained| explained.task == task)?;
        Some(&explained.sentences)
    }
}

/// Replaces mangled C++ names in a row by readable ones.
fn make_readable(row: &mut TaskRow) {
    for text in [&mut row.function, &mut row.held_kernel, &mut row.reason] {
        *text = names::in_text(text);
    }
}

pub fn snapshot(place: &DaemonPlace) -> anyhow::Result<Snapshot> {
    match place.ask(&AdminRequest::Snapshot { tasks_max: TASKS_MAX })? {
        AdminReply::Snapshot(snapshot) => Ok(*snapshot),
        other => anyhow::bail!("the daemon answers {other:?}"),
    }
}

/// Asks for an explanation. None if the task is gone, or the daemon has no explanation for it.
fn explain(place: &DaemonPlace, task: u64) -> Option<Explained> {
    match place.ask(&AdminRequest::Explain { task }) {
        Ok(AdminReply::Explained { sentences, .. }) => Some(Explained { task, sentences }),
        _ => None,
    }
}

/// Carries out a request, and returns the result or the error in one line.
fn act(place: &DaemonPlace, request: &AdminRequest) -> String {
    match place.ask(request) {
        Ok(AdminReply::Done { said }) => said,
        Ok(other) => format!("the daemon answers {other:?}"),
        Err(error) => format!("{error:#}"),
    }
}

/// Thread that asks the daemon at intervals.
#[derive(Debug)]
pub struct Asker {
    orders: Sender<Order>,
    explained_task: Option<u64>,
    news: Receiver<News>,
    said: Receiver<String>,
}

/// Order for the thread, handled before it asks again.
#[derive(Debug)]
enum Order {
    /// Explain this task from now on.
    Explain(Option<u64>),
    Act(AdminRequest),
}

impl Asker {
    /// Starts the thread, which ends when [`Asker`] is dropped.
    pub fn start(place: DaemonPlace, interval: Duration) -> Asker {
        let (tell, news) = sync_channel(1);
        let (orders, incoming) = channel();
        let (answer, said) = channel();
        std::thread::spawn(move || {
            let mut explains = None;
            loop {
                let first = match incoming.recv_timeout(interval) {
                    Ok(order) => Some(order),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                for order in first.into_iter().chain(incoming.try_iter()) {
                    match order {
                        Order::Explain(task) => explains = task,
                        // Sending fails only when the thread is about to end.
                        Order::Act(request) => drop(answer.send(act(&place, &request))),
                    }
                }
                let news =
                    snapshot(&place).map(|said| (said, explains.and_then(|task| explain(&place, task))));
                if tell.send(news).is_err() {
                    break;
                }
            }
        });
        Asker { orders, explained_task: None, news, said }
    }

    /// Requests explanations of this task from now on, at once.
    pub fn explain(&mut self, task: Option<u64>) {
        if std::mem::replace(&mut self.explained_task, task) != task {
            // Sending cannot fail while this exists: the thread ends only with it.
            let _ = self.orders.send(Order::Explain(task));
        }
    }

    /// Requests an action, at once.
    pub fn act(&self, request: AdminRequest) {
        // Sending cannot fail while this exists: the thread ends only with it.
        let _ = self.orders.send(Order::Act(request));
    }

    /// Returns results of actions, one line each.
    pub fn said(&self) -> impl Iterator<Item = String> + '_ {
        self.said.try_iter()
    }

    pub fn news(&self) -> impl Iterator<Item = News> + '_ {
        self.news.try_iter()
    }
}
