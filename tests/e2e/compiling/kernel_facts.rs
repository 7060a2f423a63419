//! Compares what the compiler states about kernels with what the virtual GPU saw them touch.
//!
//! The compiler's side is the text that `eager-pass` tests against its output; the other side is the touch map of real
//! runs, in blocks of 4 KiB. Trap: kernels touch allocations, not arguments, so where two arguments lead to one
//! allocation, either statement may hold for it.

use eager_tests::{has_toolchain, rodinia_arguments, rodinia_binary, root, run_ok, tool};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::Command;

#[derive(Deserialize)]
struct KernelLine {
    kernel: String,
    arguments: Vec<Option<Touched>>,
}

#[derive(Deserialize, Clone, Copy)]
struct Touched {
    address: u64,
    blocks: u64,
    blocks_read: u64,
    blocks_written: u64,
}

/// The compiler's statement about one argument.
#[derive(Clone, Debug)]
struct Said {
    reads: bool,
    writes: bool,
    class: String,
}

impl Said {
    /// Parses `rw one-pass`, `unused`, …
    fn parse(text: &str) -> Said {
        let (used, class) = text.split_once(' ').unwrap_or(("", text));
        Said { reads: used.contains('r'), writes: used.contains('w'), class: class.to_owned() }
    }

    fn is_known(&self) -> bool {
        self.reads || self.writes || self.class == "unused"
    }
}

fn said_of_programs() -> BTreeMap<String, Vec<Said>> {
    let path = root().join("compiler-pass/pass/tests/kernel_facts/programs.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, args)| (name.to_owned(), args.split(", ").map(Said::parse).collect()))
        .collect()
}

/// For each kernel and argument, the largest share of the argument's allocation that a launch touched.
type Shares = BTreeMap<(String, usize), f64>;

fn hold_against(line: &KernelLine, said: &[Said], shares: &mut Shares) {
    assert_eq!(line.arguments.len(), said.len(), "{}", line.kernel);
    for (index, touched) in line.arguments.iter().enumerate() {
        let Some(touched) = touched else { continue };
        let leads_here =
            |other: &Option<Touched>| other.is_some_and(|other| other.address == touched.address);
        let all: Vec<&Said> = said
            .iter()
            .zip(&line.arguments)
            .filter(|(_, other)| leads_here(other))
            .map(|(said, _)| said)
            .collect();
        if !all.iter().all(|said| said.is_known()) {
            continue;
        }
        let place = format!("{}, argument {index}, {all:?}", line.kernel);
        assert!(touched.blocks_read == 0 || all.iter().any(|said| said.reads), "{place} is read");
        assert!(touched.blocks_written == 0 || all.iter().any(|said| said.writes), "{place} is written");
        let most = touched.blocks_read.max(touched.blocks_written) as f64 / touched.blocks as f64;
        let share = shares.entry((line.kernel.clone(), index)).or_insert(0.0);
        *share = share.max(most);
    }
}

#[test]
fn no_promise_is_broken_and_streams_touch_all_they_go_through() {
    if !has_toolchain("kernel facts against the touch map") {
        return;
    }
    let said = said_of_programs();
    let folder = tempfile::tempdir().expect("folder");
    let mut shares = Shares::new();
    for program in eager_rodinia::programs() {
        let trace = folder.path().join(format!("{}.jsonl", program.name));
        let mut command = Command::new(tool("eager"));
        command.args(["run", "--plain", "--virtual", "1xV100-16GB", "--memory-scale", "1024"]);
        command.args(["--time-scale", "0", "--"]).arg(rodinia_binary(program));
        command.args(rodinia_arguments(&program.smoke, folder.path()));
        run_ok(command.env("EAGER_VGPU_TRACE", &trace));
        let text = std::fs::read_to_string(&trace).expect("trace");
        let lines = text.lines().filter_map(|line| serde_json::from_str::<KernelLine>(line).ok());
        let mut kernels = 0;
        for line in lines {
            hold_against(&line, &said[&line.kernel], &mut shares);
            kernels += 1;
        }
        assert!(kernels > 0, "{} ran no kernel", program.name);
    }
    let of_class = |class: &str| -> Vec<(&(String, usize), f64)> {
        let found = shares.iter().filter(|((kernel, index), _)| said[kernel][*index].class == class);
        found.map(|(argument, &share)| (argument, share)).collect()
    };
    for (argument, share) in of_class("one-pass") {
        assert!(share >= 0.9, "{argument:?} is one pass and touches {share:.2} of its buffer");
    }
    for (argument, share) in of_class("unused") {
        assert!(share == 0.0, "{argument:?} is unused and touches {share:.2} of its buffer");
    }
    assert!(of_class("one-pass").len() > 20 && of_class("unused").len() >= 3, "{shares:?}");
}

/// Sparse is a statement about each launch: a diagonal uses little of a large matrix.
#[test]
fn a_sparse_kernel_touches_a_part_of_its_buffer() {
    if !has_toolchain("sparse kernels against the touch map") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("trace.jsonl");
    let programs = eager_rodinia::programs();
    let needle = programs.iter().find(|program| program.name == "nw").expect("nw");
    let mut command = Command::new(tool("eager"));
    command.args(["run", "--plain", "--virtual", "1xV100-16GB", "--memory-scale", "1024"]);
    command.args(["--time-scale", "0", "--"]).arg(rodinia_binary(needle)).args(["1024", "10"]);
    run_ok(command.env("EAGER_VGPU_TRACE", &trace));
    let text = std::fs::read_to_string(&trace).expect("trace");
    let lines: Vec<KernelLine> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let share = |line: &KernelLine| {
        let matrix = line.arguments[1].expect("the matrix");
        matrix.blocks_written as f64 / matrix.blocks as f64
    };
    let launches = lines.len() as f64;
    assert_eq!(launches, 127.0, "1024 / 8 - 1 launches");
    let mean = lines.iter().map(share).sum::<f64>() / launches;
    assert!(mean < 0.6, "launches touch {mean:.2} of the matrix on average");
    assert!(share(&lines[0]) < 0.02, "the first diagonal is one tile");
}
