//! Guards the core: a policy that panics or proposes nonsense must not take the daemon down.
//!
//! Trap: after a panic the scheduler is half changed and must not be looked at again. Who holds what is then taken from
//! the daemon's own notes ([`crate::persistence::state_file`]), never from it.

use crate::persistence::ended::Ended;
use crate::persistence::journal::{self, Journal};
use crate::policy::recent::Recent;
use crate::policy::run_history::RunHistory;
use crate::policy::tally::Tally;
use crate::policy::watchdog::Heartbeat;
use eager_core::action::Action;
use eager_core::event::{DeviceProfile, Event};
use eager_core::journal::JournalLine;
use eager_core::scheduler::Anomaly;
use eager_core::{PolicyName, Scheduler};
use eager_units::{DeviceId, Nanos};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A change of the journal's state in a step that is worth a log line.
#[derive(Debug, PartialEq, Eq)]
pub enum JournalChange {
    /// Nothing is recorded from here on.
    Failed(String),
    /// Steps are recorded again.
    Resumed,
}

/// The policy panicked: the step has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

/// Scheduler, journal, clock, and the history of earlier runs.
#[derive(Debug)]
pub struct GuardedCore {
    pub scheduler: Scheduler,
    /// Why `case` decides in place of the policy that was asked for.
    pub reverted: Option<String>,
    /// What is wrong with the policy although its last step counts. The reader that takes it replaces the policy.
    pub complaint: Option<String>,
    pub run_history: RunHistory,
    pub tally: Tally,
    pub recent: Recent,
    pub ended: Ended,
    /// Proposals of the policy so far that the ledger did not allow.
    dropped: u64,
    devices: Vec<(DeviceId, DeviceProfile)>,
    journal: Journal,
    /// Why nothing is recorded although a journal was asked for.
    pub journal_problem: Option<String>,
    started: Instant,
    /// Time of the virtual clock as of its last message; none in real time.
    virtual_time: Option<Nanos>,
    heartbeat: Arc<Heartbeat>,
}

impl GuardedCore {
    /// Starts the journal, without devices yet. `Err`: there can never be a journal at that path; a full disk only
    /// gives a [`GuardedCore::journal_problem`].
    pub fn new(
        scheduler: Scheduler,
        run_history: RunHistory,
        mut journal: Journal,
        started: Instant,
    ) -> std::io::Result<GuardedCore> {
        let journal_problem = match journal.begin(&scheduler, Nanos::default()) {
            Err(error) if !journal::may_pass(&error) => return Err(error),
            begun => begun.err().map(|error| error.to_string()),
        };
        Ok(GuardedCore {
            scheduler,
            reverted: None,
            complaint: None,
            run_history,
            tally: Tally::default(),
            recent: Recent::default(),
            ended: Ended::default(),
            dropped: 0,
            devices: Vec::new(),
            journal,
            journal_problem,
            started,
            virtual_time: None,
            heartbeat: Arc::default(),
        })
    }

    pub fn heartbeat(&self) -> Arc<Heartbeat> {
        Arc::clone(&self.heartbeat)
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    /// The time in which decisions are made: that of the virtual clock if there is one.
    pub fn decision_time(&self) -> Nanos {
        self.virtual_time.unwrap_or_else(|| self.now())
    }

    /// Makes all further decisions at this time, until the next call.
    pub fn set_virtual_time(&mut self, now: Nanos) {
        self.virtual_time = Some(now);
    }

    pub fn has_virtual_time(&self) -> bool {
        self.virtual_time.is_some()
    }

    /// Monotonic time since the daemon started.
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Runs one step of the core, and writes its line if there is a journal. Adds the history's estimate to the event
    /// first.
    pub fn step(&mut self, event: &mut Event) -> (Result<Vec<Action>, Panicked>, Option<JournalChange>) {
        if let Event::DeviceAdded { device, profile } = event {
            self.devices.push((*device, profile.clone()));
        }
        let now = self.decision_time();
        let begun = self.now();
        let prepared = self.journal.prepare(&self.scheduler, begun);
        self.run_history.estimate(event);
        let (scheduler, decided) = (&mut self.scheduler, event.clone());
        let mut actions = Vec::new();
        self.heartbeat.begin(begun);
        let done = catch_unwind(AssertUnwindSafe(|| {
            scheduler.step(now, decided, &mut actions);
        }));
        self.heartbeat.end();
        let took = self.now().saturating_sub(begun);
        if done.is_err() {
            self.journal.count_unrecorded();
            return (Err(Panicked), self.note_journal(prepared));
        }
        let dropped = self.scheduler.anomalies().get(&Anomaly::DroppedProposal).copied().unwrap_or_default();
        if std::mem::replace(&mut self.dropped, dropped) < dropped && self.reverted.is_none() {
            self.complaint = Some("proposed a grant that the ledger does not allow".into());
        }
        self.run_history.note(now, event, &actions);
        self.tally.note(&self.scheduler, event, &actions, took);
        self.recent.note(now, &self.scheduler, event, &actions);
        self.ended.note(now, &self.scheduler, event, &actions);
        if !self.journal.is_on() {
            self.journal.count_unrecorded();
            return (Ok(actions), self.note_journal(prepared));
        }
        let line = JournalLine { now, event: event.clone(), actions };
        let written = self.journal.record(&line, begun);
        (Ok(line.actions), self.note_journal(prepared.and_then(|again| written.map(|()| again))))
    }

    /// Keeps the result of writing the journal; `Ok(true)`: recording goes on after a failure.
    fn note_journal(&mut self, written: std::io::Result<bool>) -> Option<JournalChange> {
        match written {
            Ok(false) => None,
            Ok(true) => {
                self.journal_problem = None;
                Some(JournalChange::Resumed)
            }
            Err(error) => {
                let why = error.to_string();
                self.journal_problem = Some(why.clone());
                Some(JournalChange::Failed(why))
            }
        }
    }

    /// Notes that `case` decides in place of the configured policy, with all that the scheduler knew.
    pub fn mark_reverted(&mut self, why: String) {
        self.reverted = Some(why);
        self.tally.policy_fell_back();
        self.complaint = None;
    }

    /// Sets another size limit for the journal, in bytes.
    pub fn set_journal_max(&mut self, bytes_max: u64) {
        self.journal.set_bytes_max(bytes_max);
    }

    /// Replaces the scheduler by a new one under `case`, with the same devices and nothing else. The journal goes on
    /// with a new piece that begins with this state.
    pub fn replace(&mut self, why: String) -> std::io::Result<()> {
        self.scheduler = Scheduler::new(PolicyName::Case, self.scheduler.options().clone());
        self.dropped = 0;
        self.mark_reverted(why);
        let journal = self.journal.begin(&self.scheduler, self.now());
        self.journal_problem = journal.as_ref().err().map(std::io::Error::to_string);
        for (device, profile) in std::mem::take(&mut self.devices) {
            // A scheduler without tasks has nothing to break on; the steps that follow report a journal that fails.
            let _ = self.step(&mut Event::DeviceAdded { device, profile });
        }
        journal
    }
}
