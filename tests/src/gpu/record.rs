//! Rows of results, their table, and the record that is committed. Pure.
//!
//! Trap: a row of the stand-in runtime looks like a GPU's. Every row of the table and the record's first field name the
//! devices.

use super::bundle::{Contents, Devices};
use super::journal::Task;
use super::machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Version of the record; raised when a field changes its meaning.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Ok,
    /// The result is wrong, or the program did not end.
    Failed,
    /// The result is right, but worse than its goal.
    Missed,
    /// Not run, for the reason in the row.
    Skipped,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Failed => "FAILED",
            Status::Missed => "MISSED",
            Status::Skipped => "skipped",
        }
    }
}

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub step: &'static str,
    /// The program, the pair of programs, or the case.
    pub what: String,
    pub status: Status,
    /// Outcome in one line.
    pub said: String,
    pub elapsed_s: f64,
    /// Every sample, by name; the name ends with the unit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub samples: BTreeMap<String, Vec<f64>>,
    /// For a program under the daemon: what each of its tasks met, by round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Vec<Task>>,
    /// A file that the check produced, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Row {
    pub fn new(step: &'static str, what: impl Into<String>) -> Row {
        let (said, samples) = (String::new(), BTreeMap::new());
        let (tasks, file) = (Vec::new(), None);
        Row { step, what: what.into(), status: Status::Ok, said, elapsed_s: 0.0, samples, tasks, file }
    }

    pub fn with(mut self, status: Status, said: impl Into<String>) -> Row {
        (self.status, self.said) = (status, said.into().replace('\n', " / "));
        self
    }

    /// Makes the row of an outcome: a success, or what went wrong.
    pub fn of(step: &'static str, what: impl Into<String>, outcome: Result<String, String>) -> Row {
        let row = Row::new(step, what);
        match outcome {
            Ok(said) => row.with(Status::Ok, said),
            Err(said) => row.with(Status::Failed, said),
        }
    }

    pub fn file(mut self, text: String) -> Row {
        self.file = Some(text);
        self
    }

    pub fn tasks(mut self, by_round: Vec<Vec<Task>>) -> Row {
        self.tasks = by_round;
        self
    }

    pub fn samples(mut self, name: &str, values: Vec<f64>) -> Row {
        self.samples.insert(name.to_owned(), values);
        self
    }
}

#[derive(Debug, Serialize)]
pub struct Record<'a> {
    pub schema: u32,
    /// `virtual` means that no number in the record is a GPU's.
    pub devices: Devices,
    pub machine: &'a Machine,
    pub bundle: &'a Contents,
    /// Command-line arguments as given.
    pub arguments: Vec<String>,
    /// `false` if the run ended before its last step.
    pub whole: bool,
    pub rows: &'a [Row],
}

/// Counts the failed rows.
pub fn failed(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.status == Status::Failed).count()
}

pub fn table(devices: Devices, machine: &str, rows: &[Row]) -> String {
    let mut out = format!("{machine}\n");
    if devices == Devices::Virtual {
        out += "VIRTUAL: kernels ran on the CPU, and a file gave NVML's answers. No number below was measured on a GPU.\n";
    }
    let width =
        |cells: &dyn Fn(&Row) -> usize, least: usize| rows.iter().map(cells).max().unwrap_or(0).max(least);
    let (step, what) = (width(&|row| row.step.len(), 4), width(&|row| row.what.len(), 4));
    let mut line = |cells: [&str; 6]| {
        let [devices, first, second, status, elapsed, said] = cells;
        let line = format!("{devices:<8} {first:<step$} {second:<what$} {status:<8} {elapsed:>7}  {said}");
        let _ = writeln!(out, "{}", line.trim_end());
    };
    line(["DEVICES", "STEP", "WHAT", "RESULT", "SECONDS", "SEEN"]);
    for row in rows {
        let elapsed = format!("{:.1}", row.elapsed_s);
        line([devices.word(), row.step, &row.what, row.status.word(), &elapsed, &row.said]);
    }
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    let [failed, missed, skipped] = [Status::Failed, Status::Missed, Status::Skipped].map(count);
    let _ = writeln!(
        out,
        "{} checks on {} devices: {failed} failed, {missed} missed a goal, {skipped} were skipped",
        rows.len(),
        devices.word()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        vec![
            Row::new("alone", "nw").with(Status::Ok, "verified"),
            Row::of("overhead", "nw", Err("ended with\n1".to_owned())),
            Row::new("overhead", "backprop").with(Status::Missed, "1.40 %"),
        ]
    }

    #[test]
    fn a_table_has_a_line_for_each_check_and_counts() {
        let expected = "\
H200, driver 580
DEVICES  STEP     WHAT     RESULT   SECONDS  SEEN
GPU      alone    nw       ok           0.0  verified
GPU      overhead nw       FAILED       0.0  ended with / 1
GPU      overhead backprop MISSED       0.0  1.40 %
3 checks on GPU devices: 1 failed, 1 missed a goal, 0 were skipped
";
        assert_eq!(table(Devices::Gpu, "H200, driver 580", &rows()), expected);
        assert_eq!(failed(&rows()), 1);
    }

    #[test]
    fn no_line_of_a_virtual_table_can_be_taken_for_a_gpus() {
        let table = table(Devices::Virtual, "H200, driver 580", &rows());
        assert!(table.contains("No number below was measured on a GPU"), "{table}");
        let lines = table.lines().skip(3);
        assert!(lines.take(3).all(|line| line.starts_with("virtual ")), "{table}");
        assert!(!table.contains("\nGPU "), "{table}");
    }
}
