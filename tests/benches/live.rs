//! Measures what the machinery of `eager-live` costs by itself, on one virtual device at time scale 0.
//!
//! - run: each program of `rodinia/` instrumented under a daemon with that policy, over the same program uninstrumented
//!   on the same virtual GPU server;
//! - map: memory that is created, mapped and unmapped, over `cudaMalloc` and `cudaFree` of the same size, per call.
//!
//! `cargo bench -p eager-tests --bench live [-- --rounds N --programs bfs,nw --out FILE]`. Variants alternate, and the
//! variant that starts changes from round to round; every sample is kept in the file whose name is printed. Traps: it
//! measures the executables beside it, so build them in the same profile first (`make bench` does); on a machine with
//! other work only processor time is meaningful, and the calls' costs are those of the stand-in runtime and its server,
//! not of a GPU's driver.

use eager_measure::statistics::{geometric_mean, median, spread};
use eager_measure::{Stamp, turns};
use eager_rodinia::Program;
use eager_tests::bench::Bench;
use eager_tests::measure::{Sample, both_ratios, timed_run};
use eager_tests::{daemon::Daemon, eagercc_with, has_toolchain, rodinia_build, root, run_ok};
use serde::Serialize;
use std::path::Path;
use std::process::Command;

const ROUNDS: usize = 10;

/// Alternates between both ways to allocate and free device memory, in each of several sizes. Prints a line per sample:
/// way, bytes, nanoseconds to allocate, nanoseconds to free.
const CALLS: &str = r#"
#include <chrono>
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>
template <typename F> static F *driver_call(const char *name) {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
  return (F *)function;
}
#define CALL(name) auto *name##_call = driver_call<decltype(name)>(#name)
static double now() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
int main() {
  CALL(cuMemAddressReserve);
  CALL(cuMemCreate);
  CALL(cuMemMap);
  CALL(cuMemSetAccess);
  CALL(cuMemUnmap);
  CALL(cuMemRelease);
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  cudaFree(nullptr);
  for (size_t bytes : {size_t(2) << 20, size_t(64) << 20, size_t(1) << 30}) {
    CUdeviceptr at = 0;
    if (cuMemAddressReserve_call(&at, bytes, 0, 0, 0)) return 1;
    for (int round = 0; round < 200; ++round) {
      void *plain = nullptr;
      double a = now();
      if (cudaMalloc(&plain, bytes)) return 1;
      double b = now();
      if (cudaFree(plain)) return 1;
      double c = now();
      CUmemGenericAllocationHandle memory;
      if (cuMemCreate_call(&memory, bytes, &prop, 0) || cuMemMap_call(at, bytes, 0, memory, 0)) return 1;
      cuMemRelease_call(memory);
      if (cuMemSetAccess_call(at, bytes, &access, 1)) return 1;
      double d = now();
      if (cuMemUnmap_call(at, bytes)) return 1;
      double e = now();
      printf("malloc %zu %.0f %.0f\nmap %zu %.0f %.0f\n", bytes, b - a, c - b, bytes, d - c, e - d);
    }
  }
}
"#;

#[derive(Serialize)]
struct Run {
    program: String,
    arguments: Vec<String>,
    plain: Vec<Sample>,
    live: Vec<Sample>,
}

/// Samples of one way to allocate and free memory of one size.
#[derive(Default, Serialize)]
struct Calls {
    way: String,
    bytes: u64,
    get_ns: Vec<f64>,
    give_back_ns: Vec<f64>,
}

#[derive(Serialize)]
struct Record {
    bench: &'static str,
    stamp: Stamp,
    runs: Vec<Run>,
    calls: Vec<Calls>,
}

const BENCH: Bench = Bench { name: "live", counts: &[("--rounds", ROUNDS)], has_programs: true };

fn main() {
    let flags = BENCH.flags();
    if !has_toolchain("bench of eager-live") {
        return;
    }
    let stamp = Stamp::now(&root());
    let folder = tempfile::tempdir().expect("folder");
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let timed = |program| timed(program, flags.counts[0], &daemon, folder.path());
    let runs = flags.programs().map(timed).collect();
    let record = Record { bench: BENCH.name, stamp, runs, calls: calls(&daemon, folder.path()) };
    print(&record);
    flags.keep(&record);
}

fn timed(program: &Program, rounds: usize, daemon: &Daemon, folder: &Path) -> Run {
    eprintln!("{}: {rounds} rounds", program.name);
    let binaries = [["--eager-no-instrument"].as_slice(), &[]].map(|words| {
        let binary = folder.join(format!("{}-{}", program.name, words.len()));
        let words: Vec<_> = words.iter().map(Into::into).collect();
        rodinia_build(program, &words, &binary);
        binary
    });
    let run = timed_run(program);
    let input = run.input.as_ref().map(|input| input.make(1, folder).expect("make the input"));
    let arguments = run.arguments(input.as_deref());
    let command = |variant: usize| -> Command {
        let mut command = daemon.run(&binaries[variant]);
        command.args(&arguments).current_dir(folder);
        command
    };
    // Neither of these two runs is a sample: they fill caches.
    (0..2).for_each(|variant| drop(run_ok(&mut command(variant))));
    let mut taken = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for variant in turns(round, 2) {
            taken[variant].push(Sample::of(&mut command(variant)));
        }
    }
    let [plain, live] = taken;
    Run { program: program.name.clone(), arguments, plain, live }
}

fn calls(daemon: &Daemon, folder: &Path) -> Vec<Calls> {
    let (source, program) = (folder.join("calls.cu"), folder.join("calls"));
    std::fs::write(&source, CALLS).expect("write the source");
    let include = format!("-I{}", root().join(".toolchain/cuda-13.0/include").display());
    eagercc_with(&["-O2".into(), "--eager-no-instrument".into(), include.into()], &[&source], &program);
    let mut all: Vec<Calls> = Vec::new();
    for line in run_ok(&mut daemon.run(&program)).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [way, bytes, get, give_back] = words[..] else { panic!("{line}") };
        let (bytes, number) =
            (bytes.parse().expect("bytes"), |text: &str| text.parse().expect("nanoseconds"));
        let known = all.iter().position(|calls| calls.way == way && calls.bytes == bytes);
        let at = known.unwrap_or_else(|| {
            all.push(Calls { way: way.to_owned(), bytes, ..Calls::default() });
            all.len() - 1
        });
        all[at].get_ns.push(number(get));
        all[at].give_back_ns.push(number(give_back));
    }
    all
}

fn print(record: &Record) {
    println!("{}; virtual GPU, nothing measured on a GPU", record.stamp);
    println!("eager-live over uninstrumented: median ± half the distance of the quartiles");
    println!("{:10} {:>8} {:>15} {:>15}", "program", "plain s", "processor", "elapsed");
    let mut means: [Vec<f64>; 2] = Default::default();
    for run in &record.runs {
        let [cpu, wall] = both_ratios(&run.plain, &run.live);
        let cell = |ratios: &[f64]| format!("{:.3} ±{:.3}", median(ratios), spread(ratios));
        let plain_s = median(&run.plain.iter().map(|sample| sample.wall_s).collect::<Vec<f64>>());
        println!("{:10} {plain_s:8.2} {:>15} {:>15}", run.program, cell(&cpu), cell(&wall));
        means[0].push(median(&cpu));
        means[1].push(median(&wall));
    }
    let [cpu, wall] = means.map(|ratios| geometric_mean(&ratios));
    println!("geometric means: processor time {cpu:.3}, elapsed {wall:.3} (at most 1.01 is asked)");
    for Calls { way, bytes, get_ns, give_back_ns } in &record.calls {
        let us = |samples: &[f64]| median(samples) / 1e3;
        println!(
            "{way:7} {:6} MiB: {:6.1} us to get, {:6.1} us to give back ({} samples)",
            bytes >> 20,
            us(get_ns),
            us(give_back_ns),
            get_ns.len()
        );
    }
}
