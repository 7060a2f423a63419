//! `eager queue` and `eager policy` for people.
//!
//! Tasks that are held or kept back by a limit, and programs that wait for another program's task, have no place and
//! come last.

use super::{Align, Left, PRIORITY, Right, lined_up, or_dash};
use eager_journal::names;
use eager_proto::admin::{AfterRow, PolicyRow, QueueRow};
use eager_units::shown::{size, time};

/// Formats `eager queue`: tasks, and programs that wait for another program's task to end. `user` returns a user's
/// name.
pub fn queue(rows: &[QueueRow], after: &[AfterRow], user: impl Fn(u32) -> String) -> String {
    const HEADER: [(&str, Align); 12] = [
        ("PLACE", Right),
        ("TASK", Right),
        ("PID", Right),
        ("USER", Left),
        ("LABEL", Left),
        ("FUNCTION", Left),
        ("CLASS", Left),
        ("NEEDS", Right),
        ("WAIT", Right),
        ("EXPECTED", Left),
        (PRIORITY, Right),
        ("WHY", Left),
    ];
    let cells = rows.iter().map(|row| {
        [
            or_dash(row.place),
            row.task.to_string(),
            row.pid.to_string(),
            user(row.uid),
            row.label.clone(),
            names::readable(&row.function),
            if row.class.is_empty() { "?".into() } else { row.class.clone() },
            size(row.requirement_bytes),
            time(row.waited_ms),
            or_dash(row.expected_ms.map(|ms| format!("in {}", time(ms)))),
            row.priority.to_string(),
            row.reason.clone(),
        ]
    });
    let dash = || "-".to_owned();
    let comes_after = after.iter().map(|row| {
        let AfterRow { pid, uid, label, waited_ms, reason, .. } = row;
        let (pid, user, waited) = (pid.to_string(), user(*uid), time(*waited_ms));
        let (label, reason, none) = (label.clone(), reason.clone(), String::new());
        [dash(), dash(), pid, user, label, none, "?".into(), dash(), waited, dash(), dash(), reason]
    });
    let shows_priority = rows.iter().any(|row| row.priority != 0);
    let shown = |at: usize| shows_priority || HEADER[at].0 != PRIORITY;
    let header: Vec<(&str, Align)> = (0..HEADER.len()).filter(|at| shown(*at)).map(|at| HEADER[at]).collect();
    let shorter =
        |row: [String; 12]| (0..).zip(row).filter(|(at, _)| shown(*at)).map(|(_, cell)| cell).collect();
    lined_up(&header, cells.chain(comes_after).map(shorter))
}

/// Formats `eager policy`.
pub fn policy(row: &PolicyRow) -> String {
    let PolicyRow { policy, about, configured, reverted, queue, eager, by_program, gate, known } = row;
    let source = match (reverted.as_str(), policy == configured) {
        ("", true) => "as configured".to_owned(),
        ("", false) => format!("set while the daemon runs; configured is {configured}"),
        (why, _) => format!("in the place of {configured}: {why}"),
    };
    let starts = if *eager { "starts tasks that do not fit" } else { "starts what fits only" };
    let given = if *by_program { ", gives devices to whole programs" } else { "" };
    let known = known.join(", ");
    // A daemon of the previous release does not send it.
    let about = if about.is_empty() { String::new() } else { format!("a task starts {about}\n") };
    format!(
        "policy {policy} ({source})\n{about}queue {queue}, gate {gate}, {starts}{given}\nknown: {known}\n"
    )
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
            priority: 0,
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
        let after = AfterRow {
            pid: 4250,
            uid: 1000,
            label: "evaluate".into(),
            after: 12,
            waited_ms: 3000,
            reason: "waits: for task 12 (needle) to end".into(),
        };
        let expected = "\
PLACE  TASK   PID  USER  LABEL     FUNCTION  CLASS    NEEDS   WAIT  EXPECTED  WHY
    1    12  4242  anna  needle    main      eager  8.9 GiB  1m00s  in 41 s   waits: for memory
    -     7  4242  anna  needle    main      ?      8.9 GiB  1m00s  -         waits: uid 0 holds it until it is released
    -     -  4250  anna  evaluate            ?            -    3 s  -         waits: for task 12 (needle) to end
";
        assert_eq!(queue(&[first, held], &[after], |_| "anna".into()), expected);
    }

    #[test]
    fn where_a_policy_came_from_is_said() {
        let row = PolicyRow {
            policy: "case".into(),
            about: "where it fits".into(),
            configured: "case".into(),
            reverted: String::new(),
            queue: "largest-first".into(),
            eager: false,
            by_program: false,
            gate: "none".into(),
            known: vec!["case".into(), "eager-opt".into()],
        };
        let rest = "a task starts where it fits\nqueue largest-first, gate none, starts what fits only\nknown: case, eager-opt\n";
        assert_eq!(policy(&row), format!("policy case (as configured)\n{rest}"));
        let set = PolicyRow { configured: "eager-opt".into(), ..row };
        let said = "policy case (set while the daemon runs; configured is eager-opt)\n";
        assert_eq!(policy(&set), format!("{said}{rest}"));
        let reverted = PolicyRow { reverted: "eager-opt panicked".into(), ..set };
        let said = "policy case (in the place of eager-opt: eager-opt panicked)\n";
        assert_eq!(policy(&reverted), format!("{said}{rest}"));
        let of_programs = PolicyRow { by_program: true, ..reverted.clone() };
        assert!(policy(&of_programs).contains("starts what fits only, gives devices to whole programs\n"));
        let old = PolicyRow { about: String::new(), ..reverted };
        assert!(!policy(&old).contains("a task starts"));
    }
}
