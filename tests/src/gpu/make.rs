//! Fills a bundle's folder on a machine with the toolchain, and packs it.
//!
//! Trap: NVIDIA's licence allows its runtime to be passed on unmodified only, so everything except the runtime is
//! stripped (`tests/gpu/NOTICE`).

use super::bundle::{Build, Bundle, CONTENTS, Contents, CorpusProgram, Devices, PROBE, SERVER, SUITES};
use super::choice::run_of;
use super::process::{io_error, last_lines, run};
use super::steps::{arguments, footprints};
use crate::corpus::{self, Requirement};
use crate::{bin_dir, rodinia_command, root};
use eager_measure::Stamp;
use eager_rodinia::Program;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Contents to put into a bundle. A test orders less than everything.
#[derive(Debug, Clone)]
pub struct Order {
    pub devices: Devices,
    pub programs: Vec<String>,
    pub suites: Vec<String>,
    /// Names of corpus programs.
    pub corpus: Vec<String>,
}

const ARCHITECTURE: &str = "sm_90";
const TOOLS: [&str; 3] = ["gpu-test", "eager", "eagerd"];
const LIMIT: Duration = Duration::from_secs(900);
const SIZE_MAX: u64 = 60 << 20;
/// Files at the top of the folder.
const PAGES: [&str; 3] = ["run.sh", "README.md", "NOTICE"];

impl Order {
    /// Orders everything, for a GPU; of the corpus, the programs that ask for no more than a GPU has.
    pub fn whole() -> Order {
        let programs = eager_rodinia::programs().iter().map(|program| program.name.clone()).collect();
        let may_run = |program: &corpus::Program| program.requirement != Requirement::None;
        let corpus = corpus::programs().into_iter().filter(may_run).map(|program| program.name).collect();
        Order { devices: Devices::Gpu, programs, suites: SUITES.map(String::from).into(), corpus }
    }

    /// Returns the compiler arguments for every compile. For a GPU: code and its PTX, and no C++ library that the other
    /// machine may lack.
    fn words(&self) -> Vec<String> {
        let words: &[&str] = match self.devices {
            Devices::Gpu => &["--cuda-include-ptx=all", "-static-libstdc++", "-static-libgcc"],
            Devices::Virtual => &[],
        };
        let target = format!("--cuda-gpu-arch={ARCHITECTURE}");
        words.iter().map(|word| (*word).to_owned()).chain([target]).collect()
    }

    /// Returns the arguments that turn the pass off. Without CPU kernels too, the compile is that of plain clang, whose
    /// output a virtual device cannot run.
    fn plain(&self) -> &'static [&'static str] {
        match self.devices {
            Devices::Gpu => &["--eager-no-instrument", "--eager-no-cpu-kernels"],
            Devices::Virtual => &["--eager-no-instrument"],
        }
    }
}

/// Makes the folder anew.
///
/// # Errors
/// One line: what is missing, or what did not compile.
pub fn make(folder: &Path, order: &Order) -> Result<Bundle, String> {
    if folder.exists() && !folder.join(CONTENTS).exists() {
        return Err(format!("{}: exists and is not a bundle: name another folder", folder.display()));
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(io_error(folder.display()))?;
    }
    for name in ["bin", "lib", "eager", "plain", "conformance", "corpus", "expected"] {
        std::fs::create_dir_all(folder.join(name)).map_err(io_error(folder.display()))?;
    }
    let contents = serde_json::to_string_pretty(&contents(order)?).map_err(|error| error.to_string())?;
    std::fs::write(folder.join(CONTENTS), contents + "\n").map_err(io_error(CONTENTS))?;
    let bundle = Bundle::open(folder)?;
    tools(&bundle, order)?;
    for program in bundle.programs() {
        build(&bundle, order, &program.binary, |words, out| rodinia_command(program, words, out))?;
    }
    build(&bundle, order, PROBE, |words, out| eagercc(words, "gpu/probe.cu", out, &[]))?;
    suites(&bundle, order)?;
    corpus_programs(&bundle, order)?;
    let calibrate = "../virtual-gpu/model/calibrate/calibrate.cu";
    uninstrumented(order, calibrate, &bundle.calibration())?;
    uninstrumented(order, "gpu/driver.cu", &bundle.driver())?;
    let scratch = tempfile::tempdir().map_err(io_error("temporary folder"))?;
    bundle.programs().into_iter().try_for_each(|program| count_pages(&bundle, program, scratch.path()))?;
    Ok(bundle)
}

fn contents(order: &Order) -> Result<Contents, String> {
    let compiler = done(Command::new("clang++-22").arg("--version"))?;
    let pins = root().join("cuda-13.0.requirements.txt");
    let pins = std::fs::read_to_string(&pins).map_err(io_error(pins.display()))?;
    let runtime = pins.split_whitespace().find(|word| word.starts_with("nvidia-cuda-runtime"));
    Ok(Contents {
        devices: order.devices,
        commit: Stamp::now(&root()).commit,
        architectures: vec![ARCHITECTURE.to_owned()],
        compiler: compiler.lines().next().unwrap_or("unknown").to_owned(),
        cuda: runtime.unwrap_or("unknown").to_owned(),
        programs: order.programs.clone(),
        suites: order.suites.clone(),
        corpus: chosen(order).map(expected).collect(),
    })
}

/// Runs a command; returns its output.
fn done(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    run(command, LIMIT)
        .and_then(super::process::Ended::succeeded)
        .map(|ended| ended.out)
        .map_err(|why| format!("{shown}: {why}"))
}

fn tools(bundle: &Bundle, order: &Order) -> Result<(), String> {
    let built = |name: &str| bin_dir().join(name);
    match order.devices {
        Devices::Gpu => {
            for name in TOOLS {
                stripped(&built(name), &bundle.tool(name))?;
            }
            stripped(&built("libeager.so"), &bundle.libraries().join("libeager.so"))?;
            let cuda = root().join(".toolchain/cuda-13.0/lib/libcudart.so.13");
            copied(&cuda, &bundle.libraries().join("libcudart.so.13"))?;
            // In a folder that only `eager` searches: the model's side of the calibration needs it.
            let stand_in = bundle.libraries().join("eager");
            std::fs::create_dir(&stand_in).map_err(io_error(stand_in.display()))?;
            stripped(&built("libcudart.so"), &stand_in.join("libcudart.so"))?;
            let link = stand_in.join("eager-virtual/libcudart.so.13");
            std::fs::create_dir(stand_in.join("eager-virtual")).map_err(io_error(link.display()))?;
            std::os::unix::fs::symlink("../libcudart.so", &link).map_err(io_error(link.display()))?;
            // Library that Rust's programs need besides glibc.
            let unwinder = done(Command::new("cc").arg("-print-file-name=libgcc_s.so.1"))?;
            copied(Path::new(unwinder.trim()), &bundle.libraries().join("libgcc_s.so.1"))?;
            for page in PAGES {
                copied(&root().join("tests/gpu").join(page), &bundle.folder.join(page))?;
            }
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                copied(&root().join(licence), &bundle.folder.join(licence))?;
            }
            Ok(())
        }
        Devices::Virtual => {
            for name in TOOLS.into_iter().chain([SERVER]) {
                linked(&built(name), &bundle.tool(name))?;
            }
            let libraries = [
                ("libeager.so", "libeager.so"),
                ("libcudart.so", "libcudart.so.13"),
                ("libeager_fake_nvml.so", "libnvidia-ml.so.1"),
            ];
            libraries
                .into_iter()
                .try_for_each(|(name, place)| linked(&built(name), &bundle.libraries().join(place)))
        }
    }
}

fn copied(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(io_error(from.display()))
}

fn stripped(from: &Path, to: &Path) -> Result<(), String> {
    done(Command::new("strip").arg("--strip-all").arg("-o").arg(to).arg(from)).map(drop)
}

/// Finishes a compiled program: strips it if it is for a GPU.
fn ready(order: &Order, place: &Path) -> Result<(), String> {
    match order.devices {
        Devices::Gpu => done(Command::new("strip").arg(place)).map(drop),
        Devices::Virtual => Ok(()),
    }
}

fn linked(from: &Path, to: &Path) -> Result<(), String> {
    if !from.exists() {
        return Err(format!("{} is not built: run `cargo build --workspace`", from.display()));
    }
    std::os::unix::fs::symlink(from, to).map_err(io_error(to.display()))
}

/// Compiles a program with the pass and without.
fn build(
    bundle: &Bundle,
    order: &Order,
    binary: &str,
    command: impl Fn(&[std::ffi::OsString], &Path) -> Command,
) -> Result<(), String> {
    let words: Vec<std::ffi::OsString> = order.words().into_iter().map(Into::into).collect();
    let plain = [words.clone(), order.plain().iter().map(Into::into).collect()].concat();
    for (which, words) in [(Build::Eager, &words), (Build::Plain, &plain)] {
        eprintln!("{binary}, {which:?}");
        let out = bundle.program(which, binary);
        // The CPU detects the probe's fault only with checks.
        let mut command = command(words, &out);
        if binary == PROBE && order.devices == Devices::Virtual {
            command.arg("--eager-strict");
        }
        done(&mut command)?;
        ready(order, &out)?;
    }
    Ok(())
}

/// Returns the command that compiles a source below `tests/`.
fn eagercc(words: &[std::ffi::OsString], source: &str, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(bin_dir().join("eagercc"));
    command.arg("-O2").args(words).args(more).arg(root().join("tests").join(source)).arg("-o").arg(out);
    command
}

/// Compiles the suite's programs, and keeps what they print on the virtual GPU.
fn suites(bundle: &Bundle, order: &Order) -> Result<(), String> {
    let words: Vec<std::ffi::OsString> = order.words().into_iter().map(Into::into).collect();
    // The flags of the suite's own test, because output must be equal to the byte. CPU kernels are built for a GPU too,
    // since plain clang knows no managed variables; one program then gives both outputs.
    let fixed = ["-O1", "-std=c++17", "-ffp-contract=off", "--eager-no-instrument"];
    for suite in &order.suites {
        eprintln!("conformance, {suite}");
        let place = bundle.suite(suite);
        done(&mut eagercc(&words, &format!("conformance/{suite}.cu"), &place, &fixed))?;
        let mut plain = Command::new(bin_dir().join("eager"));
        let printed =
            done(plain.args(["run", "--plain", "--virtual", "H200", "--time-scale", "0", "--"]).arg(&place))?;
        std::fs::write(bundle.expected_suite(suite), printed).map_err(io_error(suite))?;
        ready(order, &place)?;
    }
    Ok(())
}

/// Returns the corpus programs that were ordered.
fn chosen(order: &Order) -> impl Iterator<Item = corpus::Program> {
    corpus::programs().into_iter().filter(|program| order.corpus.contains(&program.name))
}

fn expected(program: corpus::Program) -> CorpusProgram {
    CorpusProgram { name: program.name, exit: program.exit, prints: program.prints }
}

/// Compiles the corpus programs, as many at a time as there are processors: they are most of the compiles.
fn corpus_programs(bundle: &Bundle, order: &Order) -> Result<(), String> {
    let programs: Vec<corpus::Program> = chosen(order).collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let parts = programs.chunks(programs.len().div_ceil(workers).max(1));
        let started: Vec<_> = parts.map(|part| scope.spawn(move || compiled(bundle, order, part))).collect();
        let failed = |_| Err("a compile's thread ended".to_owned());
        started.into_iter().map(|part| part.join().unwrap_or_else(failed)).collect()
    });
    outcomes.into_iter().collect()
}

fn compiled(bundle: &Bundle, order: &Order, programs: &[corpus::Program]) -> Result<(), String> {
    for program in programs {
        eprintln!("corpus, {}", program.name);
        let place = bundle.corpus(&program.name);
        let compiled = corpus::compile(program, &order.words(), &place);
        if !compiled.status.success() {
            let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
            return Err(format!("{}: {}", program.source.display(), last_lines(&[&said])));
        }
        ready(order, &place)?;
    }
    Ok(())
}

/// Compiles a program without instrumentation, with both kinds of code: virtual devices run it too, and the card that
/// calibration finds is compared with the model.
fn uninstrumented(order: &Order, source: &str, place: &Path) -> Result<(), String> {
    eprintln!("{source}");
    let words: Vec<std::ffi::OsString> = order.words().into_iter().map(Into::into).collect();
    done(&mut eagercc(&words, source, place, &["--eager-no-instrument"]))?;
    ready(order, place)
}

/// Records what the kernels of a program touch on the virtual GPU.
fn count_pages(bundle: &Bundle, program: &Program, scratch: &Path) -> Result<(), String> {
    eprintln!("pages of {}", program.name);
    let words = arguments(run_of(program, footprints::SIZES), scratch)?;
    let mut command = Command::new(bin_dir().join("eager"));
    command.args(["profile", "--out"]).arg(bundle.expected_footprints(&program.name));
    done(command.arg(bundle.program(Build::Eager, &program.binary)).args(words)).map(drop)
}

/// Packs the folder into one file beside it; returns the file and its size in bytes. Equal folders give equal files.
///
/// # Errors
/// One line: a command failed, or the file is too large to be carried.
pub fn pack(bundle: &Bundle) -> Result<(PathBuf, u64), String> {
    let name = bundle.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = bundle.folder.parent().unwrap_or(Path::new("/"));
    let file = parent.join(format!("{name}.tar.xz"));
    let time = done(Command::new("git").args(["log", "-1", "--format=@%ct"]).current_dir(root()))?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime", time.trim()]);
    tar.args(["--use-compress-program", "xz -9 -T1", "-cf"]).arg(&file).arg("-C").arg(parent).arg(&name);
    done(&mut tar)?;
    let size = std::fs::metadata(&file).map_err(io_error(file.display()))?.len();
    if size > SIZE_MAX {
        return Err(format!("{}: {} MiB, at most {}", file.display(), size >> 20, SIZE_MAX >> 20));
    }
    Ok((file, size))
}
