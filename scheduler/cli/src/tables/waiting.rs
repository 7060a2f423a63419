//! `eager queue` and `eager policy` for people.
//!
//! Trap: who stands beside the queue has no place, and comes last.

use super::{Align, Left, Right, gib, table};
use eager_journal::names;
use eager_proto::admin::{PolicyRow, QueueRow};

/// `eager queue`.
pub fn queue(rows: &[QueueRow]) -> String {
    const HEADER: [(&str, Align); 10] = [
        ("PLACE", Right),
        ("TASK", Right),
        ("PID", Right),
        ("LABEL", Left),
        ("FUNCTION", Left),
        ("CLASS", Left),
        ("NEEDS GiB", Right),
        ("WAIT s", Right),
        ("EXPECTED", Left),
        ("WHY", Left),
    ];
    let seconds = |ms: u64| format!("{:.1}", ms as f64 / 1e3);
    let cells = rows.iter().map(|row| {
        [
            row.place.map_or("-".into(), |place| place.to_string()),
            row.task.to_string(),
            row.pid.to_string(),
            row.label.clone(),
            names::readable(&row.function),
            if row.class.is_empty() { "?".into() } else { row.class.clone() },
            gib(row.requirement_bytes),
            seconds(row.waited_ms),
            row.expected_ms.map_or("-".into(), |ms| format!("in {} s", seconds(ms))),
            row.reason.clone(),
        ]
    });
    table(HEADER, cells)
}

/// `eager policy`.
pub fn policy(row: &PolicyRow) -> String {
    let PolicyRow { policy, configured, reverted, queue, eager, gate, known } = row;
    let source = match (reverted.as_str(), policy == configured) {
        ("", true) => "as configured".to_owned(),
        ("", false) => format!("set while the daemon runs; configured is {configured}"),
        (why, _) => format!("in the place of {configured}: {why}"),
    };
    let starts = if *eager { "starts tasks that do not fit" } else { "starts what fits only" };
    let known = known.join(", ");
    format!("policy {policy} ({source})\nqueue {queue}, gate {gate}, {starts}\nknown: {known}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_lines_up() {
        let first = QueueRow {
            place: Some(1),
            task: 12,
            pid: 4242,
            uid: 1000,
            label: "needle".into(),
            function: "main".into(),
            requirement_bytes: 9_556_302_234,
            class: "eager".into(),
            waited_ms: 60_000,
            expected_ms: Some(41_200),
            held_by: None,
            reason: "waits: for memory".into(),
        };
        let held = QueueRow {
            place: None,
            task: 7,
            class: String::new(),
            expected_ms: None,
            held_by: Some(0),
            reason: "waits: uid 0 holds it until it is released".into(),
            ..first.clone()
        };
        let expected = "\
PLACE  TASK   PID  LABEL   FUNCTION  CLASS  NEEDS GiB  WAIT s  EXPECTED   WHY
    1    12  4242  needle  main      eager      8.900    60.0  in 41.2 s  waits: for memory
    -     7  4242  needle  main      ?          8.900    60.0  -          waits: uid 0 holds it until it is released
";
        assert_eq!(queue(&[first, held]), expected);
    }

    #[test]
    fn where_a_policy_came_from_is_said() {
        let row = PolicyRow {
            policy: "case".into(),
            configured: "case".into(),
            reverted: String::new(),
            queue: "largest-first".into(),
            eager: false,
            gate: "none".into(),
            known: vec!["case".into(), "eager-opt".into()],
        };
        let rest = "queue largest-first, gate none, starts what fits only\nknown: case, eager-opt\n";
        assert_eq!(policy(&row), format!("policy case (as configured)\n{rest}"));
        let set = PolicyRow { configured: "eager-opt".into(), ..row };
        let said = "policy case (set while the daemon runs; configured is eager-opt)\n";
        assert_eq!(policy(&set), format!("{said}{rest}"));
        let reverted = PolicyRow { reverted: "eager-opt panicked".into(), ..set };
        let said = "policy case (in the place of eager-opt: eager-opt panicked)\n";
        assert_eq!(policy(&reverted), format!("{said}{rest}"));
    }
}
