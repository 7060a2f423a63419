//! Wrong command lines, at least one for each verb of each program: the line that names the mistake, and the exit code.
//!
//! Trap: the verbs are read from each program's help, so a new verb fails here until it has a line.

use eager_tests::verbs::{self, Verb};
use eager_tests::{run, run_ok, tool};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAMS: [&str; 6] = ["eager", "eagerd", "eager-vgpud", "eagercc", "eager-eval", "eager-sim"];

/// A verb, its words, the exit code, and a part of the first line on standard error. `DIR` stands for an empty folder.
type Wrong = (&'static str, &'static [&'static str], i32, &'static str);

const WRONG: &[Wrong] = &[
    ("eager", &["start"], 2, "unrecognized subcommand 'start'"),
    (
        "eager run",
        &["--run-dir", "DIR", "true"],
        1,
        "eager: no daemon at DIR: start one with `eagerd --virtual",
    ),
    ("eager run", &["--socket", "DIR/none.sock", "true"], 1, "eager: no daemon at DIR: "),
    ("eager run", &["--mem", "8GB", "true"], 2, "`8GB` is not a size"),
    (
        "eager run",
        &["--mem", "0", "true"],
        2,
        "`0` is no memory: write the most that the program uses, such as `8GiB`",
    ),
    ("eager run", &["--mem", "0GiB", "true"], 2, "`0GiB` is no memory: "),
    ("eager run", &["--mem", "-1", "true"], 2, "`-1` is not a size"),
    ("eager run", &["--mem", "99999999TiB", "true"], 2, "`99999999TiB` is not a size"),
    ("eager run", &["--mem", "1GiB", "-n", "17", "true"], 2, "17 is not in 1..=16"),
    ("eager run", &["--mem", "1GiB", "-n", "0", "true"], 2, "0 is not in 1..=16"),
    ("eager run", &["--mem", "1GiB", "-n", "-1", "true"], 2, "-1 is not in 1..=16"),
    ("eager run", &["--after", "18446744073709551616", "true"], 2, "number too large"),
    ("eager run", &["--plain", "--time-scale", "NaN", "true"], 2, "`NaN` is not a number of at least 0"),
    ("eager run", &["--after", "first", "true"], 2, "invalid value 'first' for '--after <TASK>'"),
    ("eager run", &["--plain", "--virtual", "Z80", "true"], 2, "no card `Z80`; known: "),
    ("eager run", &["--plain", "--virtual", "DIR/card.toml", "true"], 2, "DIR/card.toml"),
    ("eager run", &["--plain", "--time-scale", "-1", "true"], 2, "`-1` is not a number of at least 0"),
    ("eager run", &["--plain", "--memory-scale", "0", "true"], 2, "'--memory-scale <N>': 0 is not in 1.."),
    (
        "eager run",
        &["--plain", "--profile", "DIR/p.json", "true"],
        1,
        "eager: profile DIR/p.json: No such file",
    ),
    ("eager run", &["--plain", "DIR/program"], 127, "eager: cannot run DIR/program: No such file"),
    ("eager profile", &["--virtual", "Z80", "true"], 2, "no card `Z80`; known: "),
    ("eager profile", &["--out", "DIR/no/p.json", "true"], 1, "there is no such folder"),
    ("eager profile", &["true"], 1, "eager: no profile: the program used no virtual GPU"),
    ("eager calibrate", &["--mib", "1"], 2, "1 is not in 8..=4096"),
    ("eager calibrate", &["--virtual", "H200", "--program", "DIR/none"], 1, "eager: cannot run DIR/none"),
    ("eager ps", &["--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager history", &["--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    (
        "eager history",
        &["--user", "nobody of this name"],
        2,
        "this machine has no user `nobody of this name`",
    ),
    ("eager history", &["--format", "why"], 1, "eager: no column `why`; known: pid, user, label, "),
    ("eager history", &["--last", "-1"], 2, "unexpected argument '-1'"),
    ("eager info", &["--run-dir", "DIR", "--json"], 1, "eager: no daemon at DIR: "),
    ("eager queue", &["--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager top", &["--interval", "0"], 2, "`0` is not a number from 0.1 to 3600"),
    ("eager top", &["--interval", "-1"], 2, "`-1` is not a number from 0.1 to 3600"),
    ("eager top", &["--interval", "NaN"], 2, "`NaN` is not a number from 0.1 to 3600"),
    ("eager top", &["--sort", "size"], 2, "invalid value 'size' for '--sort <SORT>'"),
    ("eager top", &["--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    (
        "eager explain",
        &["gpu", "x"],
        1,
        "eager: `gpu x` is neither a task, such as `12`, nor a device, such as `gpu 1`, nor a program, such as `pid 4242`",
    ),
    ("eager explain", &["1", "--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager cancel", &["first"], 2, "invalid value 'first' for '<TASK>'"),
    ("eager cancel", &["1", "--signal", "X"], 2, "no signal `X`; such as TERM, INT, KILL"),
    ("eager cancel", &["1", "--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager hold", &["first"], 2, "invalid value 'first' for '<TASK>'"),
    ("eager hold", &["1", "--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager release", &["first"], 2, "invalid value 'first' for '<TASK>'"),
    ("eager release", &["1", "--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager priority", &["1", "high"], 2, "`high` is no priority: a whole number from -100 to 100"),
    ("eager priority", &["1", "101"], 2, "`101` is no priority: a whole number from -100 to 100"),
    ("eager priority", &["1", "-5", "--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager run", &["--priority", "1.5", "true"], 2, "`1.5` is no priority: a whole number from -100 to 100"),
    ("eager policy", &["--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager policy set", &["case", "--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager jobs", &["x"], 2, "unexpected argument 'x'"),
    ("eager submit", &["--time-limit", "soon", "true"], 2, "`soon` is no length of time such as `90s`"),
    ("eager wait", &["nope"], 2, "invalid value 'nope' for '[JOB]...'"),
    ("eager log", &["nope"], 2, "invalid value 'nope' for '[JOB]'"),
    ("eager drain", &["one"], 2, "invalid value 'one' for '<GPU>'"),
    ("eager drain", &["4294967296"], 2, "4294967296 is not in 0..=4294967295"),
    ("eager drain", &["0", "--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager undrain", &["0", "--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eager trace", &["DIR/journal"], 1, "eager: cannot read the journal DIR/journal: No such file"),
    (
        "eager trace",
        &["/bin/true"],
        1,
        "eager: cannot read the journal /bin/true: stream did not contain valid UTF-8",
    ),
    ("eager doctor", &["all"], 1, "no program `all` here"),
    ("eager mps", &["begin"], 2, "unrecognized subcommand 'begin'"),
    ("eager mps start", &["now"], 2, "unexpected argument 'now'"),
    ("eager mps stop", &["--within", "soon"], 2, "invalid value 'soon' for '--within <SECONDS>'"),
    ("eager mps stop", &["--within", "18446744073709551615"], 2, "is not in 0..=86400"),
    ("eager mps status", &["now"], 2, "unexpected argument 'now'"),
    ("eager completions", &["csh"], 2, "invalid value 'csh' for '<SHELL>'"),
    ("eager man", &["--out", "/proc/x"], 1, "eager: cannot write man pages to /proc/x: "),
    ("eager shutdown", &["--run-dir", "DIR"], 1, "eager: no daemon at DIR: "),
    ("eagerd", &["--virtual", "Z80"], 2, "no card `Z80`; known: "),
    ("eagerd", &["--policy", "fastest"], 2, "unknown policy `fastest`: known are case, "),
    ("eagerd", &["--virtual", "V100-16GB", "--run-dir", "/proc/x"], 78, "eagerd: /proc/x: No such file"),
    ("eagerd", &["--virtual", "V100-16GB", "--http", "99999"], 2, "`99999` is no address: give a port"),
    ("eagerd", &["--virtual", "0xV100-16GB"], 2, "write COUNTxNAME, count 1 to 64"),
    ("eagerd", &["--virtual", "V100-16GB", "--time-scale", "NaN"], 2, "`NaN` is not a number of at least 0"),
    ("eagerd", &["--virtual", "V100-16GB", "--host-factor", "-1"], 2, "`-1` is not a number of at least 0"),
    ("eagerd", &["--watchdog", "0"], 2, "0 is not in 1..=30"),
    ("eagerd", &["--task-seconds-max", "18446744073709551615"], 2, "is not in 1..=1000000000"),
    ("eagerd", &["--device-memory", "0"], 78, "eagerd: device-memory is 0, and must be a size above 0"),
    ("eagerd", &["--clients-per-user", "0"], 78, "eagerd: clients-per-user is 0, and must be at least 1"),
    ("eagerd", &["--devices-file", "DIR/d.json", "--run-dir", "DIR"], 78, "eagerd: DIR/d.json: No such file"),
    ("eagerd", &["--config", "DIR/eagerd.toml"], 78, "DIR/eagerd.toml"),
    (
        "eager-vgpud",
        &[],
        2,
        "eager-vgpud: the following required arguments were not provided: --cards <LIST> --socket <PATH>",
    ),
    ("eager-vgpud", &["--cards", "Z80", "--socket", "DIR/s"], 2, "no card `Z80`; known: "),
    (
        "eager-vgpud",
        &["--cards", "H200", "--socket", "DIR/no/s"],
        1,
        "eager-vgpud: cannot serve DIR/no/s: No such file",
    ),
    ("eagercc", &["DIR/none.cu"], 1, "eagercc: no such file: DIR/none.cu"),
    ("eager-eval demo", &["--workload", "W99"], 1, "eager-eval: unknown workload `W99`: known are W1 to W8"),
    ("eager-eval demo", &["--cards", "4xZ80"], 2, "no card `Z80`; known: "),
    (
        "eager-eval demo",
        &["--policies", "case,infinite", "--out", "DIR/none"],
        2,
        "'--policies <POLICIES>': infinite is for simulation only: it grants more memory than devices have",
    ),
    ("eager-eval virtual", &["--jobs", "0"], 2, "0 is not in 1..=1024"),
    ("eager-eval virtual", &["--policies", "fastest"], 2, "unknown policy `fastest`: known are case, "),
    ("eager-eval virtual", &["--clock", "wall"], 2, "invalid value 'wall'"),
    ("eager-eval compare", &["sim", "real"], 2, "invalid value 'real'"),
    (
        "eager-eval compare",
        &["sim", "virtual", "--tolerance", "NaN"],
        2,
        "`NaN` is not a number of at least 0",
    ),
    (
        "eager-eval compare",
        &["sim", "virtual", "--policies", "infinite"],
        2,
        "'--policies <POLICIES>': infinite is for simulation only",
    ),
    (
        "eager-eval sim",
        &["--experiment", "none"],
        1,
        "eager-eval: unknown experiment `none`: known are paper, live, live-mixes, fair, or give",
    ),
    ("eager-eval sim", &["--device-memory-mib", "0"], 2, "0 is not in 1.."),
    ("eager-eval sim", &["--ratio", "1"], 2, "expected LARGE:SMALL, such as 3:1"),
    (
        "eager-eval footprints",
        &["--sources", "DIR/none", "--out", "DIR/out"],
        1,
        "eagercc: no such file: DIR/none/",
    ),
    ("eager-eval pictures", &["--out", "/proc/x"], 1, "eager-eval: cannot make /proc/x: "),
    ("eager-eval report", &["DIR"], 1, "eager-eval: cannot read DIR/records.jsonl: No such file"),
    ("eager-sim run", &["DIR/none.json"], 2, "eager-sim: cannot read DIR/none.json: No such file"),
    (
        "eager-sim run",
        &["DIR/none.json", "--policy", "fastest"],
        2,
        "unknown policy `fastest`: known are case, ",
    ),
    ("eager-sim run", &["DIR/none.json", "--device-memory-mib", "0"], 2, "0 is not in 1.."),
    ("eager-sim replay", &["/dev/null"], 2, "eager-sim: /dev/null: "),
    ("eager-sim checks", &["all"], 2, "unexpected argument 'all'"),
    ("eager-sim swarm", &["--runs", "0"], 2, "0 is not in 1.."),
];

fn called(verb: &str, words: &[String], folder: &Path) -> Output {
    let mut verb = verb.split(' ');
    let mut command = Command::new(tool(verb.next().expect("a program")));
    run(command.args(verb).args(words).current_dir(folder).stdin(Stdio::null()))
}

fn name(program: &str, verb: &Verb) -> String {
    format!("{program} {}", verb.name()).trim_end().to_owned()
}

#[test]
fn each_verb_says_what_is_wrong_in_its_first_line() {
    let verbs: BTreeSet<String> = PROGRAMS
        .iter()
        .flat_map(|program| verbs::of(program).into_iter().map(|verb| (name(program, &verb), verb)))
        .filter(|(name, verb)| !verb.needs_verb || *name == "eager" || *name == "eager mps")
        .map(|(name, _)| name)
        .collect();
    let listed: BTreeSet<String> = WRONG.iter().map(|(verb, ..)| (*verb).to_owned()).collect();
    assert_eq!(verbs, listed, "verbs that there are, and those with a wrong command line here");
    let folder = tempfile::tempdir().expect("folder");
    let here = folder.path().to_str().expect("a plain path");
    for (verb, words, code, expected) in WRONG {
        let words: Vec<String> = words.iter().map(|word| word.replace("DIR", here)).collect();
        let output = called(verb, &words, folder.path());
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().next().unwrap_or_default();
        let what = format!("{verb} {words:?}: {output:?}");
        assert_eq!(output.status.code(), Some(*code), "{what}");
        assert!(first.contains(&expected.replace("DIR", here)), "{what}");
        assert!(*code == 2 || said.lines().count() == 1, "more than one line: {what}");
        assert!(!said.contains("panicked"), "{what}");
    }
}

#[test]
fn each_verb_names_a_flag_that_it_does_not_have() {
    let folder = tempfile::tempdir().expect("folder");
    // eagercc passes flags that it does not know to clang.
    for program in PROGRAMS.into_iter().filter(|program| *program != "eagercc") {
        for verb in verbs::of(program) {
            let output = called(&name(program, &verb), &["--no-such-flag".into()], folder.path());
            let said = String::from_utf8_lossy(&output.stderr);
            let first = said.lines().next().unwrap_or_default();
            assert!(
                output.status.code() == Some(2) && first.contains("--no-such-flag"),
                "{}: {said}",
                name(program, &verb)
            );
        }
    }
}

#[test]
fn each_program_says_its_release_and_commit() {
    for program in PROGRAMS {
        let said = run_ok(Command::new(tool(program)).arg("--version"));
        // `eagercc` prints clang's version after its own.
        let first = said.lines().next().unwrap_or_default();
        let build = first.strip_prefix(&format!("{program} {}", eager_version::VERSION));
        let build = build.unwrap_or_else(|| panic!("{program}: {said}"));
        // Without git, or outside a clone, there is no commit.
        let commit = build.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
        let is_commit = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(build.is_empty() || commit.is_some_and(is_commit), "{program}: {said}");
    }
}
