//! `eager history` for people.
//!
//! The table shows how long ago things happened. Times of day would depend on this machine's time zone and the
//! daemon's clock.

use super::{Column, Left, Right, USER, chosen_columns, column, in_columns, or_dash};
use crate::values::WrongValue;
use eager_journal::names;
use eager_proto::admin::ProgramRow;
use eager_units::shown::{size, time};

/// A program that has ended, and the time at which it is shown (milliseconds since 1970).
#[derive(Debug, Clone)]
pub struct Past {
    pub row: ProgramRow,
    pub now_ms: u64,
}

const COLUMNS: [Column<Past>; 15] = [
    column("PID", Right, |past| past.row.pid.to_string()),
    column(USER, Left, |past| past.row.uid.to_string()),
    column("LABEL", Left, |past| past.row.label.clone()),
    column("FUNCTION", Left, |past| names::readable(&past.row.function)),
    column("TASKS", Right, |past| past.row.tasks.to_string()),
    column("STARTED", Right, |past| ago(past, past.row.started_ms)),
    column("ENDED", Right, |past| ago(past, past.row.ended_ms)),
    column("RAN", Right, |past| or_dash(had_device(past).map(|row| time(row.ran_ms)))),
    column("WAITED", Right, |past| time(past.row.waited_ms)),
    column("HELD", Right, |past| or_dash(Some(past.row.held_ms).filter(|ms| *ms > 0).map(time))),
    column("CLASS", Left, |past| or_dash(had_device(past).map(|row| row.classes.join(" ")))),
    column("GPU", Left, |past| or_dash(had_device(past).map(gpus))),
    column("GRANT", Right, |past| or_dash(had_device(past).map(|row| size(row.grant_bytes)))),
    column("RESIDENT", Right, |past| or_dash(past.row.resident_bytes.map(size))),
    column("END", Left, end),
];

fn had_device(past: &Past) -> Option<&ProgramRow> {
    Some(&past.row).filter(|row| !row.devices.is_empty())
}

fn gpus(row: &ProgramRow) -> String {
    row.devices.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn ago(past: &Past, at_ms: u64) -> String {
    format!("{} ago", time(past.now_ms.saturating_sub(at_ms)))
}

fn end(past: &Past) -> String {
    match (past.row.end.as_str(), past.row.reason.as_str()) {
        (end, "") => end.to_owned(),
        // The core's reasons already begin with the kind of end.
        (end, reason) if reason.starts_with(end) => reason.to_owned(),
        (end, reason) => format!("{end}: {reason}"),
    }
}

/// Returns the named columns in the named order, or all columns.
pub fn program_columns(wanted: Option<&[String]>) -> Result<Vec<Column<Past>>, WrongValue> {
    chosen_columns(&COLUMNS, wanted)
}

/// Formats the table of `eager history`. `user` returns a user's name.
pub fn programs(rows: &[Past], columns: &[Column<Past>], user: impl Fn(u32) -> String) -> String {
    in_columns(rows, columns, |past| user(past.row.uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_programs_line_up() {
        let row = ProgramRow {
            client: 3,
            pid: 4242,
            uid: 1000,
            label: "sradv1".into(),
            function: "_Z4mainiPPc".into(),
            tasks: 2,
            started_ms: 1_000_000,
            ended_ms: 1_065_000,
            ran_ms: 61_000,
            waited_ms: 3200,
            held_ms: 400,
            classes: vec!["eager".into(), "promoted".into()],
            devices: vec![2, 0],
            requirement_bytes: 9 << 30,
            grant_bytes: 9 << 30,
            grown_bytes: 0,
            resident_bytes: Some(6 << 30),
            end: "ended".into(),
            reason: String::new(),
        };
        let refused = ProgramRow {
            pid: 4300,
            label: "huge".into(),
            tasks: 1,
            ran_ms: 0,
            held_ms: 0,
            classes: Vec::new(),
            devices: Vec::new(),
            resident_bytes: None,
            end: "refused".into(),
            reason: "refused: 64 GiB wanted, and no device has more than 16 GiB".into(),
            ..row.clone()
        };
        let cancelled =
            ProgramRow { end: "cancelled".into(), reason: "SIGTERM was sent by uid 0".into(), ..row.clone() };
        let past = |row| Past { row, now_ms: 1_185_000 };
        let rows = [past(row), past(refused), past(cancelled)];
        let expected = " PID  USER  LABEL   FUNCTION  TASKS    STARTED      ENDED    RAN  WAITED   HELD  CLASS           GPU  GRANT  RESIDENT  END
4242  anna  sradv1  main          2  3m05s ago  2m00s ago  1m01s   3.2 s  0.4 s  eager promoted  2,0  9 GiB     6 GiB  ended
4300  anna  huge    main          1  3m05s ago  2m00s ago      -   3.2 s      -  -               -        -         -  refused: 64 GiB wanted, and no device has more than 16 GiB
4242  anna  sradv1  main          2  3m05s ago  2m00s ago  1m01s   3.2 s  0.4 s  eager promoted  2,0  9 GiB     6 GiB  cancelled: SIGTERM was sent by uid 0
";
        let all = program_columns(None).expect("all");
        assert_eq!(programs(&rows, &all, |_| "anna".into()), expected);
        let unknown = program_columns(Some(&["why".to_owned()])).expect_err("unknown").to_string();
        assert!(unknown.starts_with("no column `why`; known: pid, user, label, "), "{unknown}");
    }
}
