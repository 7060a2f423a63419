//! What the compiler pass costs and how well it reserves, over the programs of `rodinia/`.
//!
//! - compile: `eagercc` with the pass over the same command without (`--eager-no-instrument`), neither with CPU kernels;
//!   with CPU kernels for the virtual GPU as a third, which no user of a real GPU pays;
//! - run: instrumented under a daemon over uninstrumented on the same virtual GPU server, alone, time scale 0;
//! - reserve: most that was reserved over most that was held, from the traces of the instrumented run.
//!
//! `cargo bench -p eager-tests --bench compiler [-- --rounds N --programs bfs,nw --out FILE]`. Variants take turns within
//! a round; every sample is kept in the file whose name is printed. Trap: it measures the executables beside it, so build
//! them in the same profile first (`make bench` does).

use eager_rodinia::Program;
use eager_tests::accounting::audit;
use eager_tests::measure::{Stamp, geometric_mean, median, ratios, spread};
use eager_tests::{bin_dir, daemon::Daemon, has_toolchain, root, run_ok, tool};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 7;
/// Variants of a compile, in the order of their samples.
const MODES: [(&str, &[&str]); 3] = [
    ("plain", &["--eager-no-instrument", "--eager-no-cpu-kernels"]),
    ("pass", &["--eager-no-cpu-kernels"]),
    ("pass and CPU kernels", &[]),
];

/// Everything about one program. Seconds, by round.
#[derive(Debug, Default, Serialize)]
struct Samples {
    program: String,
    arguments: Vec<String>,
    compile_plain_s: Vec<f64>,
    compile_pass_s: Vec<f64>,
    compile_all_s: Vec<f64>,
    run_plain_s: Vec<f64>,
    run_instrumented_s: Vec<f64>,
    reserved_bytes_max: u64,
    held_bytes_max: u64,
    static_tasks: u64,
    lazy_tasks: u64,
}

#[derive(Serialize)]
struct Record<'a> {
    bench: &'static str,
    stamp: Stamp,
    rounds: usize,
    samples: &'a [Samples],
}

struct Flags {
    rounds: usize,
    programs: Option<Vec<String>>,
    out: PathBuf,
}

fn flags() -> Flags {
    let mut flags = Flags { rounds: ROUNDS, programs: None, out: bin_dir().join("../bench-compiler.json") };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--rounds" => flags.rounds = value.parse().expect("--rounds takes a number"),
            "--programs" => flags.programs = Some(value.split(',').map(str::to_owned).collect()),
            "--out" => flags.out = value.into(),
            _ => panic!("{word} is none of --rounds, --programs, --out"),
        }
    }
    flags
}

fn main() {
    let flags = flags();
    if !has_toolchain("bench of the compiler") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let chosen =
        |program: &&Program| flags.programs.as_ref().is_none_or(|names| names.contains(&program.name));
    let mut all: Vec<Samples> = Vec::new();
    for program in eager_rodinia::programs().iter().filter(chosen) {
        eprintln!("{}: {} rounds", program.name, flags.rounds);
        let mut samples = Samples { program: program.name.clone(), ..Samples::default() };
        compiles(program, flags.rounds, folder.path(), &mut samples);
        runs(program, flags.rounds, folder.path(), &mut samples);
        all.push(samples);
    }
    let record = Record { bench: "compiler", stamp: Stamp::now(), rounds: flags.rounds, samples: &all };
    let text = serde_json::to_string_pretty(&record).expect("plain data");
    std::fs::write(&flags.out, text).unwrap_or_else(|e| panic!("{}: {e}", flags.out.display()));
    print(&record);
    println!("every sample: {}", flags.out.display());
}

fn seconds(command: &mut Command) -> f64 {
    let start = Instant::now();
    run_ok(command);
    start.elapsed().as_secs_f64()
}

fn binary(folder: &Path, program: &Program, mode: usize) -> PathBuf {
    folder.join(format!("{}-{mode}", program.name))
}

fn compiles(program: &Program, rounds: usize, folder: &Path, samples: &mut Samples) {
    let sources: Vec<PathBuf> = program
        .sources
        .iter()
        .map(|source| root().join("rodinia").join(&program.name).join(source))
        .collect();
    for round in 0..=rounds {
        for (mode, (_, words)) in MODES.iter().enumerate() {
            let mut command = Command::new(tool("eagercc"));
            command
                .arg("-O2")
                .args(*words)
                .args(&program.flags)
                .args(&sources)
                .arg("-o")
                .arg(binary(folder, program, mode));
            let took = seconds(&mut command);
            // The first round fills the file caches.
            if round > 0 {
                [&mut samples.compile_plain_s, &mut samples.compile_pass_s, &mut samples.compile_all_s][mode]
                    .push(took);
            }
        }
    }
    // The uninstrumented program needs CPU kernels to run here.
    let mut command = Command::new(tool("eagercc"));
    command.args(["-O2", "--eager-no-instrument"]).args(&sources).arg("-o").arg(binary(folder, program, 0));
    run_ok(&mut command);
}

fn runs(program: &Program, rounds: usize, folder: &Path, samples: &mut Samples) {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-opt"]);
    // The largest of the published configurations at its scaled size: start-up does not hide what a call costs.
    let largest =
        program.configurations.iter().map(|configuration| &configuration.scaled).max_by_key(|run| run.bytes);
    let run = largest.unwrap_or(&program.small);
    let input = run.input.as_ref().map(|input| input.make(1, folder).expect("make the input"));
    samples.arguments = run.arguments(input.as_deref());
    let command = |mode: usize| {
        let mut command = daemon.run(&binary(folder, program, mode));
        command.args(&samples.arguments).current_dir(folder);
        command
    };
    let trace = folder.join(format!("{}.jsonl", program.name));
    run_ok(command(2).env("EAGER_TRACE", &trace).env("EAGER_VGPU_TRACE", &trace));
    let books = audit(&std::fs::read_to_string(&trace).expect("trace")).expect("a trace");
    let (mut plain, mut instrumented) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let took = (seconds(&mut command(0)), seconds(&mut command(2)));
        if round > 0 {
            plain.push(took.0);
            instrumented.push(took.1);
        }
    }
    (samples.run_plain_s, samples.run_instrumented_s) = (plain, instrumented);
    (samples.reserved_bytes_max, samples.held_bytes_max) = (books.reserved_bytes_max, books.held_bytes_max);
    (samples.static_tasks, samples.lazy_tasks) = (books.static_tasks, books.lazy_tasks);
}

fn print(record: &Record<'_>) {
    let Stamp { commit, cpu, cores, .. } = &record.stamp;
    println!(
        "commit {commit}, {cpu}, {cores} cores, {} rounds; virtual GPU, nothing measured on a GPU",
        record.rounds
    );
    println!(
        "{:10} {:>9} {:>14} {:>14} {:>9} {:>14} {:>12} {:>9}",
        "program", "compile s", "pass", "+ CPU kernels", "run s", "instrumented", "held bytes", "reserved"
    );
    let (mut pass, mut all, mut run) = (Vec::new(), Vec::new(), Vec::new());
    for s in record.samples {
        let with_pass = ratios(&s.compile_plain_s, &s.compile_pass_s);
        let with_all = ratios(&s.compile_plain_s, &s.compile_all_s);
        let running = ratios(&s.run_plain_s, &s.run_instrumented_s);
        let cell = |ratios: &[f64]| format!("{:.3} ±{:.3}", median(ratios), spread(ratios));
        println!(
            "{:10} {:9.2} {:>14} {:>14} {:9.2} {:>14} {:>12} {:9.4}",
            s.program,
            median(&s.compile_plain_s),
            cell(&with_pass),
            cell(&with_all),
            median(&s.run_plain_s),
            cell(&running),
            s.held_bytes_max,
            s.reserved_bytes_max as f64 / s.held_bytes_max.max(1) as f64
        );
        pass.push(median(&with_pass));
        all.push(median(&with_all));
        run.push(median(&running));
    }
    println!(
        "geometric means: pass {:.3} (at most 1.05 is asked), with CPU kernels {:.3}, instrumented run {:.3} (at most 1.02)",
        geometric_mean(&pass),
        geometric_mean(&all),
        geometric_mean(&run)
    );
}
