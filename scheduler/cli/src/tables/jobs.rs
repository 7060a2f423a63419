//! `eager jobs` for people.

use super::{Align, Left, Right, or_dash, table};
use eager_units::shown::time;

/// One submitted job.
#[derive(Debug, Clone)]
pub struct JobRow {
    pub job: u64,
    /// `runs`, `ended`, `lost`, `damaged`.
    pub state: &'static str,
    /// Exit code, or a signal's name.
    pub exit: String,
    /// Time from submission to end, or until now, in milliseconds; None if unknown.
    pub took_ms: Option<u64>,
    /// The command line, safe to print.
    pub words: String,
}

/// Formats the table of `eager jobs`.
pub fn jobs(rows: &[JobRow]) -> String {
    const HEADER: [(&str, Align); 5] =
        [("JOB", Right), ("STATE", Left), ("EXIT", Left), ("TIME", Right), ("COMMAND", Left)];
    let cells = rows.iter().map(|row| {
        [
            row.job.to_string(),
            row.state.to_owned(),
            row.exit.clone(),
            or_dash(row.took_ms.map(time)),
            row.words.clone(),
        ]
    });
    table(HEADER, cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_line_up() {
        let row = |job, state, exit: &str, took_ms, words: &str| JobRow {
            job,
            state,
            exit: exit.into(),
            took_ms,
            words: words.into(),
        };
        let rows = [
            row(9, "ended", "SIGTERM", Some(126_000), "--label night ./train"),
            row(10, "runs", "-", Some(400), "./train"),
            row(11, "lost", "-", None, "./train"),
        ];
        let expected = "\
JOB  STATE  EXIT      TIME  COMMAND
  9  ended  SIGTERM  2m06s  --label night ./train
 10  runs   -        0.4 s  ./train
 11  lost   -            -  ./train
";
        assert_eq!(jobs(&rows), expected);
    }
}
