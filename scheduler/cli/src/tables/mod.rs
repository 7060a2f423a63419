//! Tables for people: aligned columns, sizes and times with their units. Pure.
//!
//! Trap: names come from programs. The daemon has made them safe to print but not short, so a column is as wide as
//! its longest entry.

mod history;
mod jobs;
mod kernels;
mod waiting;

pub use history::{Past, program_columns, programs};
pub use jobs::{JobRow, jobs};
pub use kernels::{Kernel, footprints, kernels};
pub use waiting::{policy, queue};

use crate::values::WrongValue;
use eager_journal::names;
use eager_proto::admin::{AfterRow, DaemonRow, DeviceRow, TaskRow};
use eager_units::shown::{size, time};

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

use Align::{Left, Right};

/// Column of a table whose columns the user can choose.
#[derive(Debug)]
pub struct Column<R> {
    name: &'static str,
    align: Align,
    cell: fn(&R) -> String,
}

// Derived implementations would require rows that can be copied.
impl<R> Clone for Column<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Column<R> {}

/// Column of `eager ps`.
pub type TaskColumn = Column<TaskRow>;

const fn column<R>(name: &'static str, align: Align, cell: fn(&R) -> String) -> Column<R> {
    Column { name, align, cell }
}

/// Column whose cell is the user's name, which only the caller can look up.
const USER: &str = "USER";

/// Column shown only if some row has a priority, or the user asks for it.
const PRIORITY: &str = "PRIO";

/// Columns shown only where the policy shares the devices' time, or the user asks for them.
const SHARES: [&str; 4] = ["NICE", "DUE", "HAD", "BEHIND"];

const TASK_COLUMNS: [TaskColumn; 19] = [
    column("TASK", Right, |row| or_dash(number(row))),
    column("PID", Right, |row| row.pid.to_string()),
    column(USER, Left, |row| row.uid.to_string()),
    column("LABEL", Left, |row| row.label.clone()),
    column("FUNCTION", Left, |row| names::readable(&row.function)),
    column("CLASS", Left, class),
    column("GPU", Right, |row| or_dash(row.device)),
    column("NEEDS", Right, |row| or_dash(number(row).map(|_| size(row.requirement_bytes)))),
    column("GRANT", Right, |row| or_dash(row.device.map(|_| size(row.grant_bytes)))),
    column("RESIDENT", Right, |row| or_dash(row.resident_bytes.map(size))),
    column("PINNED", Right, |row| or_dash(row.pinned_bytes.map(size))),
    column("WAIT", Right, |row| time(row.waited_ms)),
    column("RUN", Right, |row| or_dash(row.device.map(|_| time(row.running_ms)))),
    column(PRIORITY, Right, |row| row.priority.to_string()),
    column(SHARES[0], Right, |row| or_dash(row.share.map(|share| share.nice))),
    column(SHARES[1], Right, |row| or_dash(row.share.map(|share| format!("{:.0} %", share.due_percent)))),
    column(SHARES[2], Right, |row| or_dash(row.share.map(|share| time(share.had_ms)))),
    column(SHARES[3], Right, |row| or_dash(row.share.and_then(|share| share.lag_ms).map(behind))),
    column("WHY", Left, |row| row.reason.clone()),
];

/// First number for programs that have no task yet. Each gets a number of its own, and they come last.
const NO_TASK: u64 = 1 << 63;

/// Converts a program that waits for another program's task to a row among tasks.
pub fn as_task(row: AfterRow) -> TaskRow {
    let AfterRow { pid, uid, label, waited_ms, reason, .. } = row;
    let state = "waiting".into();
    let task = NO_TASK | u64::from(pid.unsigned_abs());
    TaskRow { task, pid, uid, label, state, waited_ms, reason, ..TaskRow::default() }
}

/// Returns the task's number; None if the program has no task yet.
pub fn number(row: &TaskRow) -> Option<u64> {
    Some(row.task).filter(|task| *task < NO_TASK)
}

/// Returns the named columns in the named order, or all columns.
pub fn task_columns(wanted: Option<&[String]>) -> Result<Vec<TaskColumn>, WrongValue> {
    chosen_columns(&TASK_COLUMNS, wanted)
}

fn chosen_columns<R>(all: &[Column<R>], wanted: Option<&[String]>) -> Result<Vec<Column<R>>, WrongValue> {
    let Some(wanted) = wanted else { return Ok(all.to_vec()) };
    let find = |name: &String| {
        let found = all.iter().find(|column| column.name.eq_ignore_ascii_case(name.trim()));
        found.copied().ok_or_else(|| {
            let known = all.iter().map(|column| column.name.to_lowercase()).collect();
            WrongValue::Column { name: name.clone(), known }
        })
    };
    wanted.iter().map(find).collect()
}

/// Formats the table of `eager ps`. `user` returns a user's name.
pub fn tasks(rows: &[TaskRow], columns: &[TaskColumn], user: impl Fn(u32) -> String) -> String {
    let is_chosen = columns.len() != TASK_COLUMNS.len();
    let has_priorities = is_chosen || rows.iter().any(|row| row.priority != 0);
    let has_shares = is_chosen || rows.iter().any(|row| row.share.is_some());
    let is_shown = |column: &&TaskColumn| {
        (has_priorities || column.name != PRIORITY) && (has_shares || !SHARES.contains(&column.name))
    };
    let shown: Vec<TaskColumn> = columns.iter().filter(is_shown).copied().collect();
    in_columns(rows, &shown, |row| user(row.uid))
}

fn in_columns<R>(rows: &[R], columns: &[Column<R>], user: impl Fn(&R) -> String) -> String {
    let header: Vec<(&str, Align)> = columns.iter().map(|column| (column.name, column.align)).collect();
    let cell = |row: &R, column: &Column<R>| if column.name == USER { user(row) } else { (column.cell)(row) };
    let cells = rows.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect());
    lined_up(&header, cells)
}

/// Describes by how much device time a task is behind its share; with a minus sign where it is ahead.
fn behind(lag_ms: f64) -> String {
    let sign = if lag_ms <= -1.0 { "-" } else { "" };
    format!("{sign}{}", time(lag_ms.abs() as u64))
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or("-".into(), |value| value.to_string())
}

/// Describes the class in which a task runs, or its state if it does not run.
fn class(row: &TaskRow) -> String {
    match (row.class.as_str(), row.state.as_str()) {
        ("", state) => state.into(),
        (class, "stopped") => format!("{class}, stopped"),
        (class, _) if row.overstays => format!("{class}, overstays"),
        (class, _) => class.into(),
    }
}

/// Formats the table of `eager info`.
pub fn devices(daemon: &DaemonRow, rows: &[DeviceRow]) -> String {
    const HEADER: [(&str, Align); 14] = [
        ("GPU", Right),
        ("NAME", Left),
        ("KIND", Left),
        ("STATE", Left),
        ("MEMORY", Right),
        ("GRANTED", Right),
        ("CONTEXTS", Right),
        ("FREE", Right),
        ("OVER", Right),
        ("RESIDENT", Right),
        ("PINNED", Right),
        ("UTIL", Right),
        ("NORMAL", Right),
        ("EAGER", Right),
    ];
    let cells = rows.iter().map(|row| {
        [
            row.device.to_string(),
            row.name.clone(),
            row.kind.clone(),
            match (row.lost, row.drained_ms) {
                (true, _) => "lost",
                (false, Some(_)) => "drained",
                (false, None) => "open",
            }
            .into(),
            size(row.capacity_bytes),
            size(row.granted_bytes),
            size(row.context_bytes),
            size(row.free_bytes),
            if row.oversubscribed_bytes == 0 { "-".into() } else { size(row.oversubscribed_bytes) },
            or_dash(row.resident_bytes.map(size)),
            or_dash(row.pinned_bytes.map(size)),
            or_dash(row.utilization_percent.map(|percent| format!("{percent}%"))),
            row.normal_tasks.to_string(),
            row.eager_tasks.to_string(),
        ]
    });
    let build = daemon.build();
    let DaemonRow { pid, policy, uptime_ms, clients, waiting, running, .. } = daemon;
    format!(
        "eagerd {build}, pid {pid}, policy {policy}, up {}: {clients} programs, {running} tasks running, \
         {waiting} waiting\n{}{}",
        time(*uptime_ms),
        notes(daemon) + &drained(rows) + &unaccounted(rows),
        table(HEADER, cells)
    )
}

/// Returns a line for each thing that is not as it should be.
pub fn notes(daemon: &DaemonRow) -> String {
    let mut lines = String::new();
    for (_, words) in daemon.problems() {
        lines += &format!("{words}\n");
    }
    if daemon.unattached > 0 {
        lines +=
            &format!("{} programs have not reconnected since the daemon was restarted\n", daemon.unattached);
    }
    if daemon.overruns > 0 {
        lines += &format!("{} times a program used more than it declared\n", daemon.overruns);
    }
    if daemon.overstays > 0 {
        lines += &format!("{} times a task had its device for longer than it may\n", daemon.overstays);
    }
    lines
}

/// Returns a line for each device on which no new task starts.
pub fn drained(rows: &[DeviceRow]) -> String {
    let line = |row: &DeviceRow| {
        let (device, since) = (row.device, time(row.drained_ms?));
        let running = row.normal_tasks + row.eager_tasks;
        Some(format!("GPU {device}: drained for {since}: nothing new starts there, {running} tasks run\n"))
    };
    rows.iter().filter_map(line).collect()
}

/// Returns a line for each device with memory that is in use but granted to no task.
pub fn unaccounted(rows: &[DeviceRow]) -> String {
    let line = |row: &DeviceRow| {
        let (device, foreign) = (row.device, size(row.foreign_bytes));
        let beyond = size(row.unaccounted_bytes.saturating_sub(row.foreign_bytes));
        format!(
            "GPU {device}: in use but not granted: {foreign} by programs that are not scheduled, {beyond} \
             beyond what was declared\n"
        )
    };
    rows.iter().filter(|row| row.unaccounted_bytes > 0).map(line).collect()
}

fn table<const N: usize>(header: [(&str, Align); N], rows: impl Iterator<Item = [String; N]>) -> String {
    lined_up(&header, rows.map(Vec::from))
}

/// Aligns rows; each row must have a cell for each column.
fn lined_up(header: &[(&str, Align)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut lines = vec![header.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()];
    lines.extend(rows);
    let widest = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(widest).collect();
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().zip(header).zip(&widths).map(|((cell, (_, align)), &width)| match align {
            Left => format!("{cell:<width$}"),
            Right => format!("{cell:>width$}"),
        });
        let joined = padded.collect::<Vec<_>>().join("  ");
        text.push_str(joined.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> TaskRow {
        TaskRow {
            task: 7,
            client: 3,
            pid: 4242,
            uid: 1000,
            label: "sradv1".into(),
            function: "_Z4mainiPPc".into(),
            state: "running".into(),
            class: "eager".into(),
            device: Some(2),
            requirement_bytes: 9_556_302_234,
            grant_bytes: 3 << 30,
            resident_bytes: Some(8 << 30),
            pinned_bytes: Some(12 << 20),
            waited_ms: 1234,
            running_ms: 5000,
            gate: "hold".into(),
            reason: "starts eagerly: GPU 2 has 3 GiB free".into(),
            ..TaskRow::default()
        }
    }

    #[test]
    fn tasks_line_up() {
        let waiting = TaskRow {
            task: 12,
            label: "needle-größer".into(),
            function: String::new(),
            state: "waiting".into(),
            class: String::new(),
            device: None,
            grant_bytes: 0,
            resident_bytes: None,
            pinned_bytes: None,
            waited_ms: 60_000,
            reason: "waits: there is no device yet".into(),
            ..task()
        };
        let after = as_task(AfterRow {
            pid: 4250,
            uid: 1000,
            label: "evaluate".into(),
            after: 12,
            waited_ms: 3000,
            reason: "waits: for task 12 (needle) to end".into(),
        });
        let user = |uid: u32| if uid == 1000 { "anna".into() } else { uid.to_string() };
        let expected = "\
TASK   PID  USER  LABEL          FUNCTION  CLASS    GPU    NEEDS  GRANT  RESIDENT  PINNED   WAIT  RUN  WHY
   7  4242  anna  sradv1         main      eager      2  8.9 GiB  3 GiB     8 GiB  12 MiB  1.2 s  5 s  starts eagerly: GPU 2 has 3 GiB free
  12  4242  anna  needle-größer            waiting    -  8.9 GiB      -         -       -  1m00s    -  waits: there is no device yet
   -  4250  anna  evaluate                 waiting    -        -      -         -       -    3 s    -  waits: for task 12 (needle) to end
";
        let all = task_columns(None).expect("all");
        assert_eq!(tasks(&[task(), waiting.clone(), after], &all, user), expected);
        let wanted = ["why", "Task", "user"].map(String::from);
        let some = task_columns(Some(&wanted)).expect("known");
        let expected = "\
WHY                                   TASK  USER
starts eagerly: GPU 2 has 3 GiB free     7  anna
waits: there is no device yet           12  anna
";
        assert_eq!(tasks(&[task(), waiting], &some, user), expected);
        let unknown = task_columns(Some(&["colour".to_owned()])).expect_err("unknown").to_string();
        assert!(unknown.starts_with("no column `colour`; known: task, pid, user, "), "{unknown}");
        assert_eq!(
            tasks(&[], &all, user),
            "TASK  PID  USER  LABEL  FUNCTION  CLASS  GPU  NEEDS  GRANT  RESIDENT  PINNED  WAIT  RUN  WHY\n"
        );
    }

    #[test]
    fn devices_line_up() {
        let daemon = DaemonRow {
            version: "0.2.0".into(),
            commit: "2183783342f3".into(),
            pid: 99,
            policy: "eager-opt".into(),
            uptime_ms: 61_500,
            clients: 3,
            waiting: 1,
            running: 2,
            policy_state: "reverted: eager-opt panicked".into(),
            unattached: 2,
            confinement: "landlock".into(),
            survives_restart: false,
            overstays: 0,
            overruns: 2,
            usage_problem: "the devices have not reported memory use for 12 s".into(),
            state_problem: "No space left".into(),
            journal_problem: "No space left".into(),
            history_problem: String::new(),
            ended_problem: String::new(),
        };
        let device = DeviceRow {
            device: 0,
            name: "V100-16GB".into(),
            kind: "virtual".into(),
            capacity_bytes: 16 << 30,
            granted_bytes: 12 << 30,
            context_bytes: 300 << 20,
            free_bytes: 724 << 20,
            oversubscribed_bytes: 1 << 20,
            resident_bytes: Some(15 << 30),
            pinned_bytes: Some(3 << 30),
            utilization_percent: Some(87),
            foreign_bytes: 2 << 30,
            unaccounted_bytes: 3 << 30,
            normal_tasks: 1,
            eager_tasks: 1,
            drained_ms: Some(3_725_000),
            ..DeviceRow::default()
        };
        let expected = "\
eagerd 0.2.0 (2183783342f3), pid 99, policy eager-opt, up 1m01s: 3 programs, 2 tasks running, 1 waiting
policy reverted: eager-opt panicked
the state file cannot be written (No space left): a restart would lose what is granted
the journal cannot be written (No space left): what is decided is not recorded
the devices have not reported memory use for 12 s
2 programs have not reconnected since the daemon was restarted
2 times a program used more than it declared
GPU 0: drained for 1h02m: nothing new starts there, 2 tasks run
GPU 0: in use but not granted: 2 GiB by programs that are not scheduled, 1 GiB beyond what was declared
GPU  NAME       KIND     STATE    MEMORY  GRANTED  CONTEXTS     FREE   OVER  RESIDENT  PINNED  UTIL  NORMAL  EAGER
  0  V100-16GB  virtual  drained  16 GiB   12 GiB   300 MiB  724 MiB  1 MiB    15 GiB   3 GiB   87%       1      1
";
        assert_eq!(devices(&daemon, &[device]), expected);
    }
}
