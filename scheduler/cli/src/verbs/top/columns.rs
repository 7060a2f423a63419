//! Table of tasks: chooses the columns that fit, and their contents. Pure.
//!
//! Trap: on a narrow terminal, drop whole columns; a column that is squeezed too far is useless.

use super::line::{Line, Tone};
use super::text::{pad, width};
use crate::people;
use crate::tables::number;
use eager_proto::admin::TaskRow;
use eager_units::shown::{size, time};

/// One column.
#[derive(Debug, Clone, Copy)]
struct Column {
    name: &'static str,
    is_right: bool,
    /// Greatest width, even for longer entries.
    most: usize,
    cell: fn(&TaskRow) -> String,
}

const fn column(name: &'static str, is_right: bool, most: usize, cell: fn(&TaskRow) -> String) -> Column {
    Column { name, is_right, most, cell }
}

const COLUMNS: [Column; 14] = [
    column("TASK", true, 8, |row| number(row).map_or("-".into(), |task| task.to_string())),
    column("PID", true, 8, |row| row.pid.to_string()),
    column("USER", false, 10, |row| people::name(row.uid)),
    column("LABEL", false, 16, |row| row.label.clone()),
    column("FUNCTION", false, 20, |row| row.function.clone()),
    column("CLASS", false, 8, class),
    column("GPU", true, 4, |row| row.device.map_or("-".into(), |device| device.to_string())),
    column("NEEDS", true, 8, |row| or_dash(number(row).map(|_| row.requirement_bytes))),
    column("GRANT", true, 8, |row| if row.device.is_some() { size(row.grant_bytes) } else { "-".into() }),
    column("RESIDENT", true, 8, |row| or_dash(row.resident_bytes)),
    column("PINNED", true, 8, |row| or_dash(row.pinned_bytes)),
    column("WAIT", true, 6, |row| time(row.waited_ms)),
    column("RUN", true, 6, run),
    column("GATE", false, 9, gate),
];
/// Columns in the order in which they are dropped. The last column, why, is dropped between the two lists.
const GO_FIRST: [&str; 8] = ["PINNED", "PID", "FUNCTION", "RUN", "USER", "RESIDENT", "GRANT", "GATE"];
const GO_LAST: [&str; 4] = ["NEEDS", "WAIT", "CLASS", "GPU"];
/// A reason cut shorter than this is useless.
const WHY_MIN: usize = 24;
const GAP: usize = 1;

/// Returns the class of a running task, or the state of another.
pub fn class(row: &TaskRow) -> String {
    match (row.state.as_str(), row.class.as_str()) {
        ("running", class) => class.into(),
        (state, _) => state.into(),
    }
}

fn or_dash(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), size)
}

fn run(row: &TaskRow) -> String {
    if row.device.is_some() { time(row.running_ms) } else { "-".into() }
}

/// Describes the gate in nine columns; the reason explains it in full.
fn gate(row: &TaskRow) -> String {
    match (row.gate.as_str(), row.gate_max_bytes) {
        ("" | "none", _) => "-".into(),
        ("go", Some(most)) => format!("≤{}", size(most)),
        (gate, _) => gate.into(),
    }
}

/// Returns the columns that fit, with their widths; and the width left for the reason, if it is shown.
fn fit(rows: &[&TaskRow], columns: usize) -> (Vec<(Column, usize)>, Option<usize>) {
    let widest = |column: &Column| {
        let cells = rows.iter().map(|row| width(&(column.cell)(row)));
        cells.max().unwrap_or(0).clamp(width(column.name), column.most.max(width(column.name)))
    };
    let mut chosen: Vec<(Column, usize)> =
        COLUMNS.into_iter().map(|column| (column, widest(&column))).collect();
    let taken = |chosen: &[(Column, usize)]| chosen.iter().map(|(_, width)| width + GAP).sum::<usize>();
    for name in GO_FIRST {
        if taken(&chosen) + WHY_MIN <= columns {
            break;
        }
        chosen.retain(|(column, _)| column.name != name);
    }
    let why = columns.checked_sub(taken(&chosen)).filter(|left| *left >= WHY_MIN);
    for name in GO_LAST {
        if taken(&chosen) <= columns + GAP {
            break;
        }
        chosen.retain(|(column, _)| column.name != name);
    }
    (chosen, why)
}

/// Returns the header and the rows.
pub fn table(rows: &[&TaskRow], columns: usize) -> (Line, Vec<Line>) {
    let (chosen, why) = fit(rows, columns);
    let join = |cells: Vec<String>, last: &str| {
        let gap = " ".repeat(GAP);
        let cells = cells.join(&gap);
        match why {
            Some(left) => cells + &gap + &pad(last, left, false),
            None => cells,
        }
    };
    let header = chosen.iter().map(|(column, width)| pad(column.name, *width, column.is_right)).collect();
    let lines = rows.iter().map(|row| {
        let cells = chosen.iter().map(|(column, width)| pad(&(column.cell)(row), *width, column.is_right));
        Line::of(Tone::of_task(row), join(cells.collect(), &row.reason))
    });
    (Line::of(Tone::Header, join(header, "WHY")), lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> TaskRow {
        TaskRow {
            task: 7,
            pid: 4242,
            label: "needle".into(),
            function: "runTest".into(),
            state: "running".into(),
            class: "eager".into(),
            device: Some(2),
            requirement_bytes: 9 << 30,
            grant_bytes: 3 << 30,
            waited_ms: 1200,
            running_ms: 65_000,
            gate: "go".into(),
            gate_max_bytes: Some(4 << 30),
            reason: "starts eagerly: GPU 2 has 3 GiB free of the 9 GiB wanted".into(),
            ..TaskRow::default()
        }
    }

    #[test]
    fn a_narrow_terminal_loses_columns_and_no_line_is_too_long() {
        let row = row();
        let told = |columns| {
            let (header, lines) = table(&[&row], columns);
            assert!(width(&header.text()) <= columns, "{columns}: {:?}", header.text());
            format!("{}\n{}", header.text().trim_end(), lines[0].text().trim_end())
        };
        let expected = "\
TASK  PID USER LABEL  FUNCTION CLASS GPU NEEDS GRANT RESIDENT PINNED  WAIT   RUN GATE   WHY
   7 4242 root needle runTest  eager   2 9 GiB 3 GiB        -      - 1.2 s 1m05s ≤4 GiB starts eagerly: GPU 2 has 3 GiB free of t…";
        assert_eq!(told(130), expected);
        let expected = "\
TASK LABEL  CLASS GPU NEEDS GRANT  WAIT GATE   WHY
   7 needle eager   2 9 GiB 3 GiB 1.2 s ≤4 GiB starts eagerly: GPU 2 h…";
        assert_eq!(told(71), expected);
        assert_eq!(told(40), "TASK LABEL  CLASS GPU NEEDS  WAIT\n   7 needle eager   2 9 GiB 1.2 s");
        assert_eq!(told(20), "TASK LABEL  GPU\n   7 needle   2");
        (11..200).for_each(|columns| drop(told(columns)));
    }

    #[test]
    fn gates_and_states_are_short() {
        let with = |gate: &str| super::gate(&TaskRow { gate: gate.into(), gate_max_bytes: None, ..row() });
        assert_eq!(["", "none", "go", "hold"].map(with), ["-", "-", "go", "hold"]);
        assert_eq!(super::gate(&TaskRow { gate_max_bytes: Some(512 << 20), ..row() }), "≤512 MiB");
        let of = |state: &str| class(&TaskRow { state: state.into(), ..row() });
        assert_eq!(["running", "stopped", "waiting"].map(of), ["eager", "stopped", "waiting"]);
    }
}
