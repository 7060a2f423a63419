//! `eager trace`: a journal of the daemon or the simulator as a file for Perfetto's viewer.
//!
//! Trap: a journal still being written is read as far as it goes; tasks that run then have slices without an end.

use anyhow::Context;
use clap::Args;
use eager_journal::timeline::Timeline;
use eager_journal::{Journal, perfetto};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct TraceFlags {
    /// What `eagerd --journal FILE` wrote.
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Where the trace goes [default: the journal's name with .pftrace].
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Writes the trace; the line that says so.
pub fn trace(flags: &TraceFlags) -> anyhow::Result<String> {
    let named = |path: &PathBuf| path.display().to_string();
    let text = std::fs::read_to_string(&flags.journal)
        .with_context(|| format!("cannot read the journal {}", named(&flags.journal)))?;
    let journal = Journal::read(&text).with_context(|| named(&flags.journal))?;
    let bytes = perfetto::encode(&Timeline::of(&journal.lines));
    let out = flags.out.clone().unwrap_or_else(|| flags.journal.with_extension("pftrace"));
    std::fs::write(&out, bytes).with_context(|| format!("cannot write {}", named(&out)))?;
    let (steps, policy) = (journal.lines.len(), journal.header.policy);
    Ok(format!("{}: {steps} steps under {policy}; open it at https://ui.perfetto.dev\n", named(&out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_journal_is_refused_in_one_line_and_nothing_is_written() {
        let folder = tempfile::tempdir().expect("folder");
        let journal = folder.path().join("a.journal");
        let flags = TraceFlags { journal: journal.clone(), out: None };
        let said = |flags| format!("{:#}", trace(flags).expect_err("no journal"));
        assert!(said(&flags).starts_with("cannot read the journal "), "{}", said(&flags));
        std::fs::write(&journal, "not a journal\n").expect("write");
        assert!(
            said(&flags).contains("a.journal: line 1 of the journal cannot be read: "),
            "{}",
            said(&flags)
        );
        assert!(!journal.with_extension("pftrace").exists());
    }
}
