//! Compares the simulator's descriptors with the programs that they stand for: same calls, same bytes, same kernels, in
//! the same order.
//!
//! Both come from `program.toml`: the descriptor from its formulas, the run from its arguments. Traps: programs do not
//! free everything (`bfs` keeps one buffer to the end), so frees are only counted, and the program may have fewer. And
//! the number of levels of a breadth-first search depends on its graph, so there one round stands for all.

use eager_rodinia::{Program, Run};
use eager_sim::job::JobOp;
use eager_tests::{has_toolchain, rodinia_arguments, rodinia_binary, run_ok, tool};
use std::path::Path;
use std::process::Command;

/// An operation of a program on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Allocate { bytes: u64 },
    Copy { bytes: u64 },
    Fill { bytes: u64 },
    Launch { kernel: String },
}

/// Operations, and how many buffers were freed.
type Events = (Vec<Event>, usize);

fn described(ops: &[JobOp], events: &mut Events) {
    for op in ops {
        match op {
            JobOp::Alloc { bytes, .. } => events.0.push(Event::Allocate { bytes: *bytes }),
            JobOp::CopyToDevice { bytes, .. }
            | JobOp::CopyToHost { bytes, .. }
            | JobOp::CopyOnDevice { bytes, .. } => events.0.push(Event::Copy { bytes: *bytes }),
            JobOp::Fill { bytes, .. } => events.0.push(Event::Fill { bytes: *bytes }),
            JobOp::Kernel(kernel) => {
                let launch = Event::Launch { kernel: kernel.name.clone() };
                events.0.extend(std::iter::repeat_n(launch, kernel.launches as usize));
            }
            JobOp::Free { .. } => events.1 += 1,
            JobOp::Repeat { times, ops } => (0..*times).for_each(|_| described(ops, events)),
            JobOp::Host { .. } | JobOp::TaskBegin { .. } | JobOp::AllLaunched | JobOp::TaskEnd => {}
        }
    }
}

/// Parses the stand-in runtime's trace. Kernels run later than they are launched, but in the same order.
fn traced(trace: &str) -> Events {
    let lines: Vec<serde_json::Value> =
        trace.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let mut kernels = lines.iter().filter_map(|line| line["kernel"].as_str());
    let (mut events, mut frees) = (Vec::new(), 0);
    for line in &lines {
        let bytes = line["bytes"].as_u64().unwrap_or_default();
        match line["call"].as_str().unwrap_or_default() {
            "cudaMalloc" => events.push(Event::Allocate { bytes }),
            "cudaMemcpy" | "cudaMemcpyAsync" => events.push(Event::Copy { bytes }),
            "cudaMemset" | "cudaMemsetAsync" => events.push(Event::Fill { bytes }),
            "cudaFree" => frees += 1,
            "cudaLaunchKernel" => {
                let kernel = kernels.next().expect("a kernel ran for each launch").to_owned();
                events.push(Event::Launch { kernel });
            }
            _ => {}
        }
    }
    (events, frees)
}

/// Keeps one round of `round` events where equal rounds follow each other.
fn without_rounds(events: &[Event], round: usize) -> Vec<Event> {
    let mut kept: Vec<Event> = Vec::new();
    for event in events {
        kept.push(event.clone());
        if let Some(start) = kept.len().checked_sub(2 * round)
            && kept[start..start + round] == kept[start + round..]
        {
            kept.truncate(start + round);
        }
    }
    kept
}

fn same(described: &Event, traced: &Event) -> bool {
    match (described, traced) {
        // The run has the mangled name; and a descriptor has one name for the two kernels of nw's diagonal.
        (Event::Launch { kernel: plain }, Event::Launch { kernel: mangled }) => mangled.contains(plain),
        (described, traced) => described == traced,
    }
}

fn run_traced(program: &Program, binary: &Path, run: &Run, folder: &Path) -> Events {
    // The runtime appends to its trace, so each run has a file of its own.
    let trace = folder.join(format!("{}-{}.jsonl", program.name, run.bytes));
    let mut command = Command::new(tool("eager"));
    command.args(["run", "--plain", "--time-scale", "0", "--"]).arg(binary);
    run_ok(command.args(rodinia_arguments(run, folder)).env("EAGER_VGPU_TRACE", &trace));
    traced(&std::fs::read_to_string(&trace).expect("a trace"))
}

#[test]
fn every_program_does_what_its_descriptor_says() {
    if !has_toolchain("descriptors against programs") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    for program in eager_rodinia::programs() {
        let binary = rodinia_binary(program);
        for run in [&program.smoke, &program.small] {
            let mut paper = Events::default();
            described(&program.operations(run).expect("formulas with values"), &mut paper);
            let mut real = run_traced(program, &binary, run, folder.path());
            let name = &program.name;
            if name == "bfs" {
                // A round: copy, two kernels, copy.
                (paper.0, real.0) = (without_rounds(&paper.0, 4), without_rounds(&real.0, 4));
            }
            for (index, (described, traced)) in paper.0.iter().zip(&real.0).enumerate() {
                assert!(
                    same(described, traced),
                    "{name} {:?}: event {index} is {described:?} on paper and {traced:?} in the run",
                    run.args
                );
            }
            assert_eq!(paper.0.len(), real.0.len(), "{name} {:?}: number of events", run.args);
            assert!(real.1 <= paper.1, "{name}: {} frees on paper, {} in the run", paper.1, real.1);
        }
    }
}
