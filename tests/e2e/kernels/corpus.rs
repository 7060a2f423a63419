//! Every program of `tests/corpus/`, compiled with and without instrumentation, alone and under a daemon: the same
//! output, exit code and CUDA errors; the placement that its first lines expect; and a reservation that fits what it
//! held.
//!
//! All tests share one compile and one run of each program and mode; `EAGER_TEST_ONLY=name,name` selects programs.
//! Trap: a program that hangs is ended after [`SECONDS_MAX`], which is a failure and not a measurement.

use eager_tests::accounting::{Books, audit};
use eager_tests::corpus::{Program, Requirement, compile, placements, programs};
use eager_tests::{daemon::Daemon, has_toolchain, run, text, tool};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex};

const SECONDS_MAX: &str = "120";

/// Results of one program.
struct Seen {
    program: Program,
    /// Compiled with `--eager-no-instrument`, run on a virtual GPU of its own.
    plain: (Output, Books),
    /// Instrumented, run under a daemon.
    scheduled: (Output, Books),
    static_tasks: usize,
    lazy_reasons: Vec<String>,
}

static SEEN: LazyLock<Result<Vec<Seen>, String>> = LazyLock::new(|| {
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--time-scale", "0", "--policy", "eager-opt"]);
    let folder = tempfile::tempdir().expect("folder");
    let work = Mutex::new(chosen(programs()));
    let done = Mutex::new(BTreeMap::new());
    let one = || {
        while let Some(program) = { work.lock().expect("work").pop() } {
            let name = program.name.clone();
            let seen = see(program, &daemon, folder.path());
            done.lock().expect("done").insert(name, seen);
        }
    };
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(one))));
    done.into_inner().expect("done").into_values().collect()
});

fn chosen(programs: Vec<Program>) -> Vec<Program> {
    let Ok(only) = std::env::var("EAGER_TEST_ONLY") else { return programs };
    programs.into_iter().filter(|program| only.split(',').any(|name| name == program.name)).collect()
}

fn see(program: Program, daemon: &Daemon, folder: &Path) -> Result<Seen, String> {
    let file = |kind: &str| folder.join(format!("{}.{kind}", program.name));
    let built = |mode: &[String], out: &Path| {
        let output = compile(&program, mode, out);
        output.status.success().then_some(()).ok_or(format!("{} {mode:?}: {}", program.name, text(&output)))
    };
    built(&["--eager-no-instrument".to_owned()], &file("plain"))?;
    let report = file("json");
    built(&[format!("--eager-report={}", report.display())], &file("scheduled"))?;
    let mut alone = Command::new(tool("eager"));
    alone.args(["run", "--plain", "--time-scale", "0", "--"]).arg(file("plain"));
    let plain = traced(alone, &file("plain.jsonl"))?;
    let scheduled = traced(daemon.run(&file("scheduled")), &file("scheduled.jsonl"))?;
    let (static_tasks, lazy_reasons) = placements(&report);
    Ok(Seen { program, plain, scheduled, static_tasks, lazy_reasons })
}

/// Runs a command within the time limit; shim and runtime both write to `trace`.
fn traced(command: Command, trace: &Path) -> Result<(Output, Books), String> {
    let output = run(Command::new("timeout")
        .arg(SECONDS_MAX)
        .arg(command.get_program())
        .args(command.get_args())
        .env("EAGER_TRACE", trace)
        .env("EAGER_VGPU_TRACE", trace));
    let lines = std::fs::read_to_string(trace).unwrap_or_default();
    let books = audit(&lines).map_err(|e| format!("{}: {e}", trace.display()))?;
    Ok((output, books))
}

/// Applies `judge` to every program, and fails with all complaints at once.
fn all(judge: impl Fn(&Seen) -> Option<String>) {
    if !has_toolchain("corpus") {
        return;
    }
    let seen = SEEN.as_ref().unwrap_or_else(|e| panic!("{e}"));
    assert!(!seen.is_empty(), "no programs in tests/corpus");
    let name = |seen: &Seen, complaint| format!("{}: {complaint}", seen.program.name);
    let wrong: Vec<String> = seen.iter().filter_map(|seen| judge(seen).map(|c| name(seen, c))).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn plain_programs_do_what_cuda_does() {
    all(|seen| {
        let (output, program) = (&seen.plain.0, &seen.program);
        let right = output.status.code() == Some(program.exit) && printed(output) == program.prints;
        (!right).then(|| format!("{}, it printed\n{}", output.status, text(output)))
    });
}

#[test]
fn instrumented_programs_do_what_plain_ones_do() {
    all(|seen| {
        let (plain, scheduled) = (&seen.plain.0, &seen.scheduled.0);
        let same = plain.status.code() == scheduled.status.code() && printed(plain) == printed(scheduled);
        (!same).then(|| {
            format!(
                "plain {}:\n{}scheduled {}:\n{}",
                plain.status,
                text(plain),
                scheduled.status,
                text(scheduled)
            )
        })
    });
}

#[test]
fn tasks_are_placed_as_expected() {
    all(|seen| {
        let program = &seen.program;
        let mut reasons = seen.lazy_reasons.clone();
        let found = program.lazy_reasons.iter().all(|part| {
            let at = reasons.iter().position(|reason| reason.contains(part.as_str()));
            at.map(|at| reasons.remove(at)).is_some()
        });
        let right = seen.static_tasks == program.static_tasks && found && reasons.is_empty();
        (!right).then(|| {
            format!(
                "{} static tasks and {:?}, expected {} and {:?}",
                seen.static_tasks, seen.lazy_reasons, program.static_tasks, program.lazy_reasons
            )
        })
    });
}

#[test]
fn reservations_fit_what_was_held() {
    all(|seen| {
        let (program, books) = (&seen.program, &seen.scheduled.1);
        let (reserved, held) = (books.reserved_bytes_max, books.held_bytes_max);
        if program.requirement == Requirement::None {
            return None;
        }
        if !books.nonsense.is_empty() {
            return Some(format!("{:?}", books.nonsense));
        }
        if !books.dead_uses.is_empty() {
            return Some(format!("dead buffers used at lines {:?} of the trace", books.dead_uses));
        }
        if program.requirement == Requirement::Exact && held != seen.plain.1.held_bytes_max {
            return Some(format!(
                "held {held} bytes at most, {} without instrumentation",
                seen.plain.1.held_bytes_max
            ));
        }
        if !books.late_launches.is_empty() {
            return Some(format!("launches after all-launched at lines {:?}", books.late_launches));
        }
        let all_static = program.lazy_reasons.is_empty();
        if all_static && !books.shortfalls.is_empty() {
            return Some(format!("reserved too little: {:?}", books.shortfalls));
        }
        let above = reserved.saturating_sub(held) * 50 > held;
        let wrong = reserved < held || (above && program.requirement == Requirement::Exact);
        wrong.then(|| format!("reserved {reserved} bytes at most, held {held}"))
    });
}

#[test]
fn only_leaked_memory_stays_reserved() {
    all(|seen| {
        let (program, books) = (&seen.program, &seen.scheduled.1);
        let (reserved, held) = (books.reserved_bytes_last, books.held_bytes_last);
        // A program that exits half-way leaves its task to the daemon, which sees the process end.
        let left = reserved > held && program.exit == 0;
        left.then(|| format!("{reserved} bytes still reserved, {held} held"))
    });
}
