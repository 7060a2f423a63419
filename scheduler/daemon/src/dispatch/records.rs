//! Writes of what only informs people: the history of runs and the list of ended programs.
//!
//! Trap: scheduling never depends on either, so a failed write is logged once, shown as a problem, and retried.

use super::Dispatch;
use eager_units::Nanos;

impl Dispatch {
    /// Logs that the history of runs could not be written.
    pub fn log_history_write(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.log(format!(
                "the history of runs cannot be written ({error}): the daemon retries; a restart would lose the latest runs"
            ));
        }
    }

    /// Why the list of ended programs cannot be written; None if it can.
    pub fn ended_problem(&self) -> Option<&str> {
        self.ended_file.problem()
    }

    /// When to write the list of ended programs; None if the file is up to date.
    pub fn next_ended_write(&self) -> Option<Nanos> {
        self.ended_file.next_write(&self.core.ended)
    }

    /// Writes the list of ended programs if it is due, or at the daemon's end (`is_end`) however recently it was
    /// written.
    pub fn write_ended(&mut self, is_end: bool) {
        let (now, ended) = (self.core.now(), &self.core.ended);
        let file = &mut self.ended_file;
        let written = if is_end { file.write_at_end(ended, now) } else { file.write_if_due(ended, now) };
        if let Err(error) = written {
            self.log(format!(
                "the list of ended programs cannot be written ({error}): the daemon retries; a restart would lose the latest ones"
            ));
        }
    }
}
