//! `eager trace`: converts a journal of the daemon or the simulator to a file for Perfetto's viewer.
//!
//! A journal still being written is read up to its last full line; tasks running then have slices without an end.

use anyhow::Context;
use clap::Args;
use eager_journal::pieces::{self, Piece, PiecesError};
use eager_journal::{Drawing, Journal, perfetto};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct TraceFlags {
    /// What `eagerd --journal FILE` wrote: its last run by the journal's name or its folder, or one piece, such as FILE.3.
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Where the trace goes [default: the journal's name with .pftrace].
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Writes the trace, and returns the line that reports it.
pub fn trace(flags: &TraceFlags) -> anyhow::Result<String> {
    let named = |path: &PathBuf| path.display().to_string();
    // Time restarts with each run, so only the last run is shown, from the last gap in its recording on.
    let mut run: Option<(Drawing, usize, String)> = None;
    for piece in pieces::read(&flags.journal)? {
        let Piece { journal: Journal { header, lines }, follows, .. } = piece?;
        let (drawing, steps, policy) = match run.take() {
            Some((drawing, steps, _)) if follows => (drawing, steps, header.policy.to_string()),
            _ => (Drawing::from(&header), 0, header.policy.to_string()),
        };
        let (drawing, ..) = run.insert((drawing, steps + lines.len(), policy));
        drawing.add(&lines);
    }
    let none = || PiecesError::None { path: flags.journal.clone() };
    let (drawing, steps, policy) = run.ok_or_else(none)?;
    let bytes = perfetto::encode(&drawing.finish());
    let out = flags.out.clone().unwrap_or_else(|| flags.journal.with_extension("pftrace"));
    std::fs::write(&out, bytes).with_context(|| format!("cannot write {}", named(&out)))?;
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
