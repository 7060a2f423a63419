//! Measures how fast CPU kernels are, against plain C++ loops and POCL, what a launch costs, and how long their compile
//! takes.
//!
//! - speed: four pieces of work, two with barriers: in CUDA on one worker, with touch marks, and on two workers; as
//!   plain loops; and in OpenCL under POCL with one thread in its modes `loops` and `loopvec`. Casts to integers and
//!   functions are measured without POCL;
//! - launch: a kernel that does nothing, at time scale 0, in a program with few and with many allocations;
//! - compile: the CPU kernels of `rodinia/` over the time that clang needs for the device side alone;
//! - corpus: what CPU kernels add to the compiles of `kernels/compile/`, eight files with 60 kernels in all.
//!
//! `cargo bench -p eager-tests --bench kernels [-- --rounds N --out FILE]`. Variants alternate, and the variant that
//! starts changes from round to round; every sample is kept in the file whose name is printed. Traps: it measures the
//! executables beside it, so build them in the same profile first (`make bench` does); ratios are of processor time,
//! which other work on the machine changes little, but a gain from two workers shows only in elapsed time on an idle
//! machine; POCL compiles for this very processor, the other variants for `x86-64-v2`.

use eager_measure::statistics::{geometric_mean, median, spread};
use eager_measure::{Stamp, turns};
use eager_tests::bench::Bench;
use eager_tests::measure::{self, Sample, both_ratios};
use eager_tests::{eagercc_with, has_toolchain, root, run, run_ok, text, tool};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROUNDS: usize = 5;
const COMPILE_ROUNDS: usize = 2;
/// Exit code of a bench program that finds no device to run on.
const NOTHING_THERE: i32 = 77;
const LAUNCHES: f64 = 10_000.0;
const WORK: [(&str, bool); 8] = [
    ("map", false),
    ("stencil", false),
    ("reduce", true),
    ("smooth", true),
    ("to_int", false),
    ("to_unsigned", false),
    ("to_long", false),
    ("functions", false),
];

/// Samples of one variant, by piece of work.
type Times = BTreeMap<String, Vec<Sample>>;

#[derive(Serialize)]
struct Record {
    bench: &'static str,
    stamp: Stamp,
    /// By variant.
    speed: BTreeMap<&'static str, Times>,
    /// By program: clang's device side, without and with CPU kernels.
    compile: BTreeMap<String, [Vec<Sample>; 3]>,
    /// By file: without and with CPU kernels.
    corpus: BTreeMap<String, [Vec<Sample>; 2]>,
}

const BENCH: Bench = Bench { name: "kernels", counts: &[("--rounds", ROUNDS)], has_programs: false };

fn main() {
    let flags = BENCH.flags();
    if !has_toolchain("bench of the kernels") {
        return;
    }
    let stamp = Stamp::now(&root());
    let folder = tempfile::tempdir().expect("folder");
    let speed = speed(flags.counts[0], folder.path());
    let (compile, corpus) = (compiles(folder.path()), corpus(folder.path()));
    let record = Record { bench: BENCH.name, stamp, speed, compile, corpus };
    print(&record);
    flags.keep(&record);
}

fn source(name: &str) -> PathBuf {
    root().join("tests/benches/kernels").join(name)
}

/// Returns the commands of each round, by the name of the variant.
fn variants(folder: &Path) -> Vec<(&'static str, Command)> {
    let [plain, cuda, opencl] = ["plain", "cuda", "opencl"].map(|name| folder.join(name));
    let clang = |source_name: &str, out: &Path, words: &[&str]| {
        run(Command::new("clang++-22")
            .args(["-O3", "-std=c++17", "-march=x86-64-v2"])
            .arg(source(source_name))
            .arg("-o")
            .arg(out)
            .args(words))
    };
    let made = clang("plain.cpp", &plain, &[]);
    assert!(made.status.success(), "{}", text(&made));
    eagercc_with(
        &["-O3".into(), "-std=c++17".into(), "--eager-no-instrument".into()],
        &[&source("cuda.cu")],
        &cuda,
    );
    let on_workers = |workers: &str, marks: Option<&str>| {
        let mut command = Command::new(tool("eager"));
        command.args(["run", "--plain", "--time-scale", "0", "--"]).arg(&cuda).args(marks);
        command.env("EAGER_VGPU_WORKERS", workers);
        command
    };
    let mut variants = vec![
        ("loop", Command::new(&plain)),
        ("one worker", on_workers("1", None)),
        ("with marks", on_workers("1", Some("managed"))),
        ("two workers", on_workers("2", None)),
    ];
    let made = clang("opencl.cpp", &opencl, &["-l:libOpenCL.so.1"]);
    if !made.status.success() || run(&mut under_pocl(&opencl, "loopvec")).status.code() == Some(NOTHING_THERE)
    {
        eprintln!("SKIPPED: comparison with POCL: it is not installed (Debian: pocl-opencl-icd)");
        return variants;
    }
    variants.push(("POCL loops", under_pocl(&opencl, "loops")));
    variants.push(("POCL loopvec", under_pocl(&opencl, "loopvec")));
    variants
}

fn under_pocl(program: &Path, method: &str) -> Command {
    let mut command = Command::new(program);
    command.env("POCL_WORK_GROUP_METHOD", method).env("POCL_MAX_PTHREAD_COUNT", "1");
    command.env("POCL_DEVICES", "pthread");
    command
}

fn speed(rounds: usize, folder: &Path) -> BTreeMap<&'static str, Times> {
    let mut variants = variants(folder);
    let mut all: BTreeMap<&'static str, Times> = BTreeMap::new();
    for round in 0..rounds {
        for variant in turns(round, variants.len()) {
            let (name, command) = &mut variants[variant];
            add(all.entry(name).or_default(), &run_ok(command));
        }
    }
    all
}

/// Parses the lines of one run; adds the median of the repeats of each piece of work.
fn add(times: &mut Times, printed: &str) {
    for (work, samples) in measure::samples(printed) {
        let of = |part: fn(&Sample) -> f64| median(&samples.iter().map(part).collect::<Vec<_>>());
        let middle = Sample { cpu_s: of(|s| s.cpu_s), wall_s: of(|s| s.wall_s) };
        times.entry(work).or_default().push(middle);
    }
}

/// Compiles each program: the device side alone, then whole objects without and with CPU kernels.
fn compiles(folder: &Path) -> BTreeMap<String, [Vec<Sample>; 3]> {
    let mut all = BTreeMap::new();
    for program in eager_rodinia::programs() {
        eprintln!("{}: {COMPILE_ROUNDS} rounds of compiles", program.name);
        let samples: &mut [Vec<Sample>; 3] = all.entry(program.name.clone()).or_default();
        let sources = program.sources.iter().map(|s| root().join("rodinia").join(&program.name).join(s));
        let sources: Vec<PathBuf> = sources.filter(|s| s.extension().is_some_and(|e| e == "cu")).collect();
        for round in 0..COMPILE_ROUNDS {
            for way in turns(round, 3) {
                let mut total = Sample { wall_s: 0.0, cpu_s: 0.0 };
                for source in &sources {
                    let sample = Sample::of(&mut compile(way, &program.flags, source, folder));
                    total.wall_s += sample.wall_s;
                    total.cpu_s += sample.cpu_s;
                }
                samples[way].push(total);
            }
        }
    }
    all
}

/// Compiles whole objects of the corpus, without and with CPU kernels.
fn corpus(folder: &Path) -> BTreeMap<String, [Vec<Sample>; 2]> {
    let mut all: BTreeMap<String, [Vec<Sample>; 2]> = BTreeMap::new();
    let files = std::fs::read_dir(source("compile")).expect("the corpus");
    for file in files.map(|file| file.expect("its entries").path()) {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        eprintln!("{name}: {COMPILE_ROUNDS} rounds of compiles");
        let samples = all.entry(name).or_default();
        for round in 0..COMPILE_ROUNDS {
            for way in turns(round, 2) {
                samples[way].push(Sample::of(&mut compile(way + 1, &[], &file, folder)));
            }
        }
    }
    all
}

fn compile(way: usize, flags: &[String], source: &Path, folder: &Path) -> Command {
    let mut command = Command::new(tool("eagercc"));
    command.args(["-O2", "--eager-no-instrument", "-c"]).args(flags).arg(source);
    match way {
        0 => command.args(["--cuda-device-only", "-S"]).arg("-o").arg(folder.join("device.s")),
        1 => command.arg("--eager-no-cpu-kernels").arg("-o").arg(folder.join("host.o")),
        _ => command.arg("-o").arg(folder.join("kernels.o")),
    };
    command
}

fn print(record: &Record) {
    println!("{}", record.stamp);
    println!("times in ms of processor time, median of rounds ± half the distance of the quartiles");
    let variants: Vec<&str> = record.speed.keys().copied().collect();
    print!("{:14}", "work");
    variants.iter().for_each(|variant| print!(" {variant:>18}"));
    println!("  loop/one  POCL/one  two/one elapsed");
    for (work, barriers) in WORK {
        print!("{:14}", format!("{work}{}", if barriers { " (barriers)" } else { "" }));
        for variant in &variants {
            let Some(samples) = record.speed[variant].get(work) else {
                print!(" {:>18}", "-");
                continue;
            };
            let cpu_ms: Vec<f64> = samples.iter().map(|s| s.cpu_s * 1e3).collect();
            print!(" {:11.2} ±{:4.1}%", median(&cpu_ms), 100.0 * spread(&cpu_ms));
        }
        println!("  {}", ratios(record, work));
    }
    print_launches(record);
    print_compiles(record);
}

fn print_launches(record: &Record) {
    for (name, samples) in &record.speed["one worker"] {
        let Some(allocations) = name.strip_prefix("launch-") else { continue };
        let us = |part: fn(&Sample) -> f64| -> Vec<f64> {
            samples.iter().map(|sample| part(sample) / LAUNCHES * 1e6).collect()
        };
        let elapsed = us(|sample| sample.wall_s);
        println!(
            "launch among {allocations} allocations: {:.2} µs elapsed ±{:.0}%, {:.2} µs of processor time (under 2 µs is \
             asked)",
            median(&elapsed),
            100.0 * spread(&elapsed),
            median(&us(|sample| sample.cpu_s))
        );
    }
}

/// Ratios over one worker: the plain loop (goal without barriers: at least 0.7), POCL's better mode (goal with
/// barriers: 2), and the speed-up of two workers (goal: 1.6).
fn ratios(record: &Record, work: &str) -> String {
    let one = &record.speed["one worker"][work];
    let over = |variant: &str| Some(both_ratios(one, record.speed.get(variant)?.get(work)?));
    let plain = over("loop").map_or(f64::NAN, |[cpu, _]| median(&cpu));
    let pocl = ["POCL loops", "POCL loopvec"].iter().filter_map(|v| over(v)).map(|[cpu, _]| median(&cpu));
    let pocl = pocl.min_by(f64::total_cmp).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let two = over("two workers").map_or(f64::NAN, |[_, wall]| 1.0 / median(&wall));
    format!("{plain:8.2} {pocl:>9} {two:9.2}")
}

fn print_compiles(record: &Record) {
    let mut means = Vec::new();
    for (program, [device, without, with]) in &record.compile {
        let cpu_s = |samples: &[Sample]| median(&samples.iter().map(|s| s.cpu_s).collect::<Vec<_>>());
        let (device_s, kernels_s) = (cpu_s(device), cpu_s(with) - cpu_s(without));
        println!("compile of {program}: device side {device_s:.2} s, CPU kernels {kernels_s:.2} s more");
        means.push((kernels_s / device_s).max(1e-3));
    }
    println!(
        "geometric mean of CPU kernels over device side: {:.2} (at most 2 is asked)",
        geometric_mean(&means)
    );
    let mut added = Vec::new();
    for (file, samples) in &record.corpus {
        let cpu_s = |way: usize| median(&samples[way].iter().map(|s| s.cpu_s).collect::<Vec<_>>());
        let (without_s, more_s) = (cpu_s(0), cpu_s(1) - cpu_s(0));
        println!("corpus, {file}: {without_s:.2} s without CPU kernels, {more_s:.2} s more with them");
        added.push((more_s / without_s).max(1e-3));
    }
    println!(
        "corpus: CPU kernels add {:.2} of that (geometric mean; at most 1 is asked), {:.2} at most (3)",
        geometric_mean(&added),
        added.iter().copied().fold(0.0, f64::max)
    );
}
