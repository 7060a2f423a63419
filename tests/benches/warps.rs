//! Measures how fast CPU kernels exchange values by operations of the warp: against the same kernels as coroutines, and
//! against kernels that do the same through shared memory (`warps/pairs.cu`).
//!
//! `cargo bench -p eager-tests --bench warps [-- --rounds N --out FILE]`. Variants alternate, and so do the kernels in
//! each process; every sample is kept in the file whose name is printed. Traps: it measures the executables beside it,
//! so build them in the same profile first (`make bench` does); ratios are of processor time in one process, or of two
//! that ran one after the other, because the speed of the machine changes between rounds.

use eager_measure::statistics::{median, spread};
use eager_measure::{Stamp, turns};
use eager_tests::bench::Bench;
use eager_tests::measure::{Sample, both_ratios, samples};
use eager_tests::{eagercc_with, has_toolchain, root, run_ok, tool};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

const ROUNDS: usize = 5;
/// Numbers that each launch reads, as in the program.
const NUMBERS: f64 = (1 << 18) as f64;
/// Variants: the name, the flag of `eagercc`, the words of the program, launches for one sample.
const VARIANTS: [(&str, &str, &[&str], usize); 2] = [
    ("warps", "--eager-kernel-mode=auto", &[], 40),
    ("coroutines", "--eager-kernel-mode=coroutines", &["shuffles"], 1),
];
/// Pairs of kernels: the name, the numbers of each thread, and whether speed is asked of them: ten times that of
/// coroutines, and half that of shared memory.
const PAIRS: [(&str, f64, bool); 7] = [
    ("sum", 1.0, true),
    ("scan", 1.0, true),
    ("transpose8", 8.0, true),
    ("transpose32", 32.0, true),
    ("low_half", 1.0, false),
    ("halves", 1.0, false),
    ("odd_even", 1.0, false),
];

#[derive(Serialize)]
struct Record {
    bench: &'static str,
    stamp: Stamp,
    /// By variant, then by kernel: seconds of one launch.
    times: BTreeMap<&'static str, BTreeMap<String, Vec<Sample>>>,
}

const BENCH: Bench = Bench { name: "warps", counts: &[("--rounds", ROUNDS)], has_programs: false };

fn main() {
    let flags = BENCH.flags();
    if !has_toolchain("bench of warps") {
        return;
    }
    let stamp = Stamp::now(&root());
    let folder = tempfile::tempdir().expect("folder");
    let record = Record { bench: BENCH.name, stamp, times: times(flags.counts[0], folder.path()) };
    print(&record);
    flags.keep(&record);
}

fn times(rounds: usize, folder: &Path) -> BTreeMap<&'static str, BTreeMap<String, Vec<Sample>>> {
    let source = root().join("tests/benches/warps/pairs.cu");
    let mut commands = VARIANTS.map(|(name, mode, words, launches)| {
        let program = folder.join(name);
        let flags = ["-O3", "-std=c++17", "--eager-no-instrument", mode].map(OsString::from);
        eagercc_with(&flags, &[&source], &program);
        let mut command = Command::new(tool("eager"));
        command.args(["run", "--plain", "--time-scale", "0", "--"]).arg(&program);
        command.arg(launches.to_string()).args(words).env("EAGER_VGPU_WORKERS", "1");
        command
    });
    let mut times: BTreeMap<&'static str, BTreeMap<String, Vec<Sample>>> = BTreeMap::new();
    for round in 0..rounds {
        for variant in turns(round, VARIANTS.len()) {
            let (name, _, _, launches) = VARIANTS[variant];
            for (kernel, of_launches) in samples(&run_ok(&mut commands[variant])) {
                let launches = launches as f64;
                let one = of_launches
                    .iter()
                    .map(|s| Sample { cpu_s: s.cpu_s / launches, wall_s: s.wall_s / launches });
                times.entry(name).or_default().entry(kernel).or_default().extend(one);
            }
        }
    }
    times
}

fn print(record: &Record) {
    println!("{}", record.stamp);
    println!("ns of processor time for each thread, median ± half the distance of the quartiles");
    println!("{:12} {:>14} {:>14} {:>14}   ratios", "exchange", "shuffles", "shared memory", "coroutines");
    for (pair, own, is_asked) in PAIRS {
        let [warps, coroutines] = ["warps", "coroutines"].map(|variant| &record.times[variant]);
        let all = [
            &warps[&format!("{pair}-shuffles")],
            &warps[&format!("{pair}-shared")],
            &coroutines[&format!("{pair}-shuffles")],
        ];
        let threads = NUMBERS / own;
        let shown = all.map(|samples| {
            let ns: Vec<f64> = samples.iter().map(|sample| sample.cpu_s * 1e9 / threads).collect();
            format!("{:8.2} ±{:3.0}%", median(&ns), 100.0 * spread(&ns))
        });
        let [over_shared, faster] =
            [(all[1], all[0]), (all[0], all[2])].map(|(a, b)| median(&both_ratios(a, b)[0]));
        let [asked_shared, asked_faster] =
            if is_asked { [" (at most 2 is asked)", " (at least 10)"] } else { [""; 2] };
        println!(
            "{pair:12} {:>14} {:>14} {:>14}   {over_shared:.2} of shared memory{asked_shared}, {faster:.1} times as fast as \
             coroutines{asked_faster}",
            shown[0], shown[1], shown[2]
        );
    }
}
