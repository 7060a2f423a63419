//! Measures what the compiler pass costs and how well it reserves, over the programs of `rodinia/`.
//!
//! - compile: `eagercc` with the pass over the same command without it (`--eager-no-instrument`), both without CPU
//!   kernels, for which no user of a real GPU pays; and once each with CPU kernels, for the executables of the runs;
//! - run: instrumented under a daemon over uninstrumented on the same virtual GPU server, alone, at time scale 0;
//! - reserve: most that was reserved over most that was held, from the traces of the instrumented run.
//!
//! `cargo bench -p eager-tests --bench compiler [-- --rounds N --run-rounds N --programs bfs,nw --out FILE]`. Variants
//! alternate, and the variant that starts changes from round to round; every sample is kept in the file whose name is
//! printed. Traps: it measures the executables beside it, so build them in the same profile first (`make bench` does);
//! and on a machine with other work only processor time is meaningful, which the run's ratio takes of the program's
//! process alone.

use eager_measure::statistics::{geometric_mean, median, spread};
use eager_measure::{Stamp, turns};
use eager_rodinia::Program;
use eager_tests::accounting::audit;
use eager_tests::bench::Bench;
use eager_tests::measure::{Sample, both_ratios, timed_run};
use eager_tests::{daemon::Daemon, has_toolchain, root, run_ok, tool};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// With two rounds, each variant of a compile goes first once. Together the default rounds take two to three minutes on
/// an idle core, nearly all of it in clang.
const ROUNDS: usize = 2;
const RUN_ROUNDS: usize = 6;

/// Variants of a compile, in the order of their samples. Every round takes the first two; the first round takes all.
const MODES: [(&str, &[&str]); 4] = [
    ("plain", &["--eager-no-instrument", "--eager-no-cpu-kernels"]),
    ("pass", &["--eager-no-cpu-kernels"]),
    ("plain and CPU kernels", &["--eager-no-instrument"]),
    ("pass and CPU kernels", &[]),
];
const COMPILED: usize = 2;
const PLAIN: usize = 2;
const INSTRUMENTED: usize = 3;

/// All samples of one program.
#[derive(Debug, Default, Serialize)]
struct Samples {
    program: String,
    arguments: Vec<String>,
    /// By mode, then by round.
    compile: [Vec<Sample>; 4],
    run_plain: Vec<Sample>,
    run_instrumented: Vec<Sample>,
    reserved_bytes_max: u64,
    held_bytes_max: u64,
    static_tasks: u64,
    lazy_tasks: u64,
}

#[derive(Serialize)]
struct Record<'a> {
    bench: &'static str,
    stamp: Stamp,
    compile_modes: [&'static str; 4],
    samples: &'a [Samples],
}

const BENCH: Bench = Bench {
    name: "compiler",
    counts: &[("--rounds", ROUNDS), ("--run-rounds", RUN_ROUNDS)],
    has_programs: true,
};

fn main() {
    let flags = BENCH.flags();
    let [rounds, run_rounds] = [flags.counts[0], flags.counts[1]];
    if !has_toolchain("bench of the compiler") {
        return;
    }
    // Taken at the start, because the commit and the machine's other work may change meanwhile.
    let stamp = Stamp::now(&root());
    let folder = tempfile::tempdir().expect("folder");
    let programs: Vec<&Program> = flags.programs().collect();
    if let Some(first) = programs.first() {
        // Fills the file caches with compiler, headers and tools.
        run_ok(&mut compile(first, folder.path(), INSTRUMENTED));
    }
    let mut all: Vec<Samples> = Vec::new();
    for program in programs {
        eprintln!("{}: {} rounds of compiles, {} of runs", program.name, rounds, run_rounds);
        let mut samples = Samples { program: program.name.clone(), ..Samples::default() };
        compiles(program, rounds, folder.path(), &mut samples);
        runs(program, run_rounds, folder.path(), &mut samples);
        all.push(samples);
    }
    let modes = MODES.map(|(name, _)| name);
    let record = Record { bench: BENCH.name, stamp, compile_modes: modes, samples: &all };
    print(&record);
    flags.keep(&record);
}

fn binary(folder: &Path, program: &Program, mode: usize) -> PathBuf {
    folder.join(format!("{}-{mode}", program.name))
}

fn compile(program: &Program, folder: &Path, mode: usize) -> Command {
    let sources = root().join("rodinia").join(&program.name);
    let mut command = Command::new(tool("eagercc"));
    command.arg("-O2").args(MODES[mode].1).args(&program.flags);
    command.args(program.sources.iter().map(|source| sources.join(source)));
    command.arg("-o").arg(binary(folder, program, mode));
    command
}

fn compiles(program: &Program, rounds: usize, folder: &Path, samples: &mut Samples) {
    for round in 0..rounds {
        for mode in turns(round, if round == 0 { MODES.len() } else { COMPILED }) {
            samples.compile[mode].push(Sample::of(&mut compile(program, folder, mode)));
        }
    }
}

fn runs(program: &Program, rounds: usize, folder: &Path, samples: &mut Samples) {
    // Under `case` memory stays plain. Managed memory costs a virtual GPU twice the processor time, for the record of
    // what kernels touch, and a real one nothing of that kind.
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "case"]);
    let run = timed_run(program);
    let input = run.input.as_ref().map(|input| input.make(1, folder).expect("make the input"));
    samples.arguments = run.arguments(input.as_deref());
    let command = |mode: usize| {
        let mut command = daemon.run(&binary(folder, program, mode));
        command.args(&samples.arguments).current_dir(folder);
        command
    };
    // Neither of these two runs is a sample: they fill caches, and a trace costs time.
    run_ok(&mut command(PLAIN));
    let trace = folder.join(format!("{}.jsonl", program.name));
    run_ok(command(INSTRUMENTED).env("EAGER_TRACE", &trace).env("EAGER_VGPU_TRACE", &trace));
    let books = audit(&std::fs::read_to_string(&trace).expect("trace")).expect("a trace");
    let mut taken = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for variant in turns(round, 2) {
            taken[variant].push(Sample::of(&mut command([PLAIN, INSTRUMENTED][variant])));
        }
    }
    [samples.run_plain, samples.run_instrumented] = taken;
    (samples.reserved_bytes_max, samples.held_bytes_max) = (books.reserved_bytes_max, books.held_bytes_max);
    (samples.static_tasks, samples.lazy_tasks) = (books.static_tasks, books.lazy_tasks);
}

fn print(record: &Record<'_>) {
    println!("{}; virtual GPU, nothing measured on a GPU", record.stamp);
    println!(
        "ratios: median ± half the distance of the quartiles; cpu = processor time, wall = elapsed time"
    );
    println!(
        "{:10} {:>9} {:>14} {:>14} {:>12} {:>7} {:>14} {:>14} {:>9} {:>6}",
        "program",
        "compile s",
        "pass cpu",
        "wall",
        "+ kernels",
        "run s",
        "instr. cpu",
        "wall",
        "reserved",
        "lazy"
    );
    let mut means: [Vec<f64>; 5] = Default::default();
    for s in record.samples {
        let [pass_cpu, pass_wall] = both_ratios(&s.compile[0], &s.compile[1]);
        let [kernels, _] = both_ratios(&s.compile[PLAIN], &s.compile[INSTRUMENTED]);
        let [run_cpu, run_wall] = both_ratios(&s.run_plain, &s.run_instrumented);
        let cell = |ratios: &[f64]| format!("{:.3} ±{:.3}", median(ratios), spread(ratios));
        let cpu_s = |samples: &[Sample]| median(&samples.iter().map(|s| s.cpu_s).collect::<Vec<f64>>());
        println!(
            "{:10} {:9.2} {:>14} {:>14} {:12.3} {:7.2} {:>14} {:>14} {:9.4} {:6}",
            s.program,
            cpu_s(&s.compile[0]),
            cell(&pass_cpu),
            cell(&pass_wall),
            median(&kernels),
            cpu_s(&s.run_plain),
            cell(&run_cpu),
            cell(&run_wall),
            s.reserved_bytes_max as f64 / s.held_bytes_max.max(1) as f64,
            s.lazy_tasks
        );
        for (mean, ratios) in means.iter_mut().zip([pass_cpu, pass_wall, kernels, run_cpu, run_wall]) {
            mean.push(median(&ratios));
        }
    }
    let [pass_cpu, pass_wall, kernels, run_cpu, run_wall] = means.map(|ratios| geometric_mean(&ratios));
    println!(
        "geometric means: compile with the pass {pass_cpu:.3} (wall {pass_wall:.3}; at most 1.05 is asked), where both make \
         CPU kernels {kernels:.3}; instrumented run {run_cpu:.3} (wall {run_wall:.3}; at most 1.02 is asked)"
    );
}
