//! Tables for people: aligned, sizes in GiB. Pure.
//!
//! Trap: names come from programs. The daemon has made them safe to print, but not short: a column is as wide as its
//! longest entry.

mod kernels;
mod waiting;

pub use kernels::{Kernel, footprints, kernels};
pub use waiting::{policy, queue};

use eager_journal::names;
use eager_proto::admin::{DaemonRow, DeviceRow, TaskRow};

/// Which side of a column is straight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

use Align::{Left, Right};

/// `eager ps`.
pub fn tasks(rows: &[TaskRow]) -> String {
    const HEADER: [(&str, Align); 11] = [
        ("TASK", Right),
        ("PID", Right),
        ("LABEL", Left),
        ("FUNCTION", Left),
        ("CLASS", Left),
        ("GPU", Right),
        ("NEEDS GiB", Right),
        ("GRANT GiB", Right),
        ("USED GiB", Right),
        ("WAIT s", Right),
        ("WHY", Left),
    ];
    let cells = rows.iter().map(|row| {
        [
            row.task.to_string(),
            row.pid.to_string(),
            row.label.clone(),
            names::readable(&row.function),
            class(row),
            row.device.map_or("-".into(), |device| device.to_string()),
            gib(row.requirement_bytes),
            gib(row.grant_bytes),
            row.used_bytes.map_or("-".into(), gib),
            format!("{:.1}", row.waited_ms as f64 / 1e3),
            row.reason.clone(),
        ]
    });
    table(HEADER, cells)
}

/// How it runs, or that it does not.
fn class(row: &TaskRow) -> String {
    match (row.class.as_str(), row.state.as_str()) {
        ("", state) => state.into(),
        (class, "stopped") => format!("{class}, stopped"),
        (class, _) if row.overstays => format!("{class}, overstays"),
        (class, _) => class.into(),
    }
}

/// `eager info`.
pub fn devices(daemon: &DaemonRow, rows: &[DeviceRow]) -> String {
    const HEADER: [(&str, Align); 11] = [
        ("GPU", Right),
        ("NAME", Left),
        ("KIND", Left),
        ("STATE", Left),
        ("MEMORY GiB", Right),
        ("GRANTED GiB", Right),
        ("OVER GiB", Right),
        ("USED GiB", Right),
        ("UTIL %", Right),
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
            gib(row.capacity_bytes),
            gib(row.granted_bytes),
            gib(row.oversubscribed_bytes),
            row.used_bytes.map_or("-".into(), gib),
            row.utilization_percent.map_or("-".into(), |percent| percent.to_string()),
            row.normal_tasks.to_string(),
            row.eager_tasks.to_string(),
        ]
    });
    let DaemonRow { version, pid, policy, uptime_ms, clients, waiting, running, .. } = daemon;
    format!(
        "eagerd {version}, pid {pid}, policy {policy}, up {} s: {clients} programs, {running} tasks running, \
         {waiting} waiting\n{}{}",
        uptime_ms / 1000,
        notes(daemon) + &drained(rows) + &unaccounted(rows),
        table(HEADER, cells)
    )
}

/// What is not as it should be, a line each.
pub fn notes(daemon: &DaemonRow) -> String {
    let mut lines = String::new();
    for (_, words) in daemon.problems() {
        lines += &format!("{words}\n");
    }
    if daemon.unattached > 0 {
        lines +=
            &format!("{} programs have not come back since the daemon was restarted\n", daemon.unattached);
    }
    if daemon.overruns > 0 {
        lines += &format!("{} times a program used more than it declared\n", daemon.overruns);
    }
    if daemon.overstays > 0 {
        lines += &format!("{} times a task had its device for longer than it may\n", daemon.overstays);
    }
    lines
}

/// A line for each device on which nothing new starts.
pub fn drained(rows: &[DeviceRow]) -> String {
    let line = |row: &DeviceRow| {
        let (device, since) = (row.device, duration(row.drained_ms?));
        let running = row.normal_tasks + row.eager_tasks;
        Some(format!("GPU {device}: drained for {since}: nothing new starts there, {running} tasks run\n"))
    };
    rows.iter().filter_map(line).collect()
}

/// The two largest units that say something: `41 s`, `3 min 5 s`, `2 h 1 min`, `4 d 3 h`.
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let units = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    let first = units.iter().position(|(_, length)| seconds >= *length).unwrap_or(units.len() - 1);
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, length) in &units[first..units.len().min(first + 2)] {
        if parts.is_empty() || left >= *length {
            parts.push(format!("{} {unit}", left / length));
        }
        left %= length;
    }
    parts.join(" ")
}

/// Memory that is in use and was granted to nobody, a line for each device that has some.
pub fn unaccounted(rows: &[DeviceRow]) -> String {
    let line = |row: &DeviceRow| {
        let (device, foreign) = (row.device, gib(row.foreign_bytes));
        let beyond = gib(row.unaccounted_bytes.saturating_sub(row.foreign_bytes));
        format!(
            "GPU {device}: in use and not given away: {foreign} GiB by programs that are not scheduled, {beyond} GiB \
             beyond what was declared\n"
        )
    };
    rows.iter().filter(|row| row.unaccounted_bytes > 0).map(line).collect()
}

/// Three decimals: on scaled-down devices a MiB must still be seen.
fn gib(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / f64::from(1 << 30))
}

fn table<const N: usize>(header: [(&str, Align); N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut lines = vec![header.map(|(name, _)| name.to_owned())];
    lines.extend(rows);
    let widths: [usize; N] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
    });
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().zip(header).zip(widths).map(|((cell, (_, align)), width)| match align {
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
            used_bytes: Some(7 << 30),
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
            used_bytes: None,
            waited_ms: 60_000,
            reason: "waits: there is no device yet".into(),
            ..task()
        };
        let expected = "\
TASK   PID  LABEL          FUNCTION  CLASS    GPU  NEEDS GiB  GRANT GiB  USED GiB  WAIT s  WHY
   7  4242  sradv1         main      eager      2      8.900      3.000     7.000     1.2  starts eagerly: GPU 2 has 3 GiB free
  12  4242  needle-größer            waiting    -      8.900      0.000         -    60.0  waits: there is no device yet
";
        assert_eq!(tasks(&[task(), waiting]), expected);
        assert_eq!(
            tasks(&[]),
            "TASK  PID  LABEL  FUNCTION  CLASS  GPU  NEEDS GiB  GRANT GiB  USED GiB  WAIT s  WHY\n"
        );
    }

    #[test]
    fn durations_have_two_units() {
        let shown = [0, 999, 41_000, 60_000, 185_000, 7_260_000, 86_400_000, 356_400_000].map(duration);
        assert_eq!(shown, ["0 s", "0 s", "41 s", "1 min", "3 min 5 s", "2 h 1 min", "1 d", "4 d 3 h"]);
    }

    #[test]
    fn devices_line_up() {
        let daemon = DaemonRow {
            version: "0.1.0".into(),
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
            usage_problem: "the devices have not said for 12.000 s what is in use".into(),
            state_problem: "No space left".into(),
            journal_problem: "No space left".into(),
            history_problem: String::new(),
        };
        let device = DeviceRow {
            device: 0,
            name: "V100-16GB".into(),
            kind: "virtual".into(),
            capacity_bytes: 16 << 30,
            granted_bytes: 12 << 30,
            context_bytes: 0,
            free_bytes: 1 << 30,
            oversubscribed_bytes: 1 << 20,
            used_bytes: Some(15 << 30),
            utilization_percent: Some(87),
            foreign_bytes: 2 << 30,
            unaccounted_bytes: 3 << 30,
            normal_tasks: 1,
            eager_tasks: 1,
            drained_ms: Some(3_725_000),
            ..DeviceRow::default()
        };
        let expected = "\
eagerd 0.1.0, pid 99, policy eager-opt, up 61 s: 3 programs, 2 tasks running, 1 waiting
policy reverted: eager-opt panicked
the state file cannot be written (No space left): a restart would lose what is granted
the journal cannot be written (No space left): what is decided is not recorded
the devices have not said for 12.000 s what is in use
2 programs have not come back since the daemon was restarted
2 times a program used more than it declared
GPU 0: drained for 1 h 2 min: nothing new starts there, 2 tasks run
GPU 0: in use and not given away: 2.000 GiB by programs that are not scheduled, 1.000 GiB beyond what was declared
GPU  NAME       KIND     STATE    MEMORY GiB  GRANTED GiB  OVER GiB  USED GiB  UTIL %  NORMAL  EAGER
  0  V100-16GB  virtual  drained      16.000       12.000     0.001    15.000      87       1      1
";
        assert_eq!(devices(&daemon, &[device]), expected);
    }
}
