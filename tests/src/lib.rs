//! Shared helpers of the system tests: find the built tools, compile programs, run a daemon for one test.
//!
//! Trap: these tests run the *built* executables beside the test binary, so `cargo build --workspace` must have run
//! before (`make test` does this). Every process that a test starts ends with it, even if the test panics: the guards
//! kill on drop.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub mod accounting;
pub mod bench;
pub mod book;
pub mod contents;
pub mod corpus;
pub mod cudas;
pub mod daemon;
pub mod fuzz;
pub mod generate;
pub mod gpu;
pub mod live;
pub mod measure;
pub mod mixed;
pub mod mps;
pub mod mutate;
pub mod nvml;
pub mod place;
pub mod release_before;
pub mod verbs;

/// Returns the folder of the built executables and libraries.
pub fn bin_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("path of the test binary");
    let folder = exe.parent().expect("folder of the binary");
    // Test binaries are in `deps`, one level below programs.
    if folder.ends_with("deps") { folder.parent().expect("profile folder") } else { folder }.to_path_buf()
}

/// Returns the path of a built executable or library; panics with the command that builds it if it is missing.
pub fn tool(name: &str) -> PathBuf {
    let path = bin_dir().join(name);
    assert!(path.exists(), "{} is not built: run `cargo build --workspace` first", path.display());
    path
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("repository root").to_path_buf()
}

/// True if the compiler's toolchain is installed; otherwise prints that `test` is skipped.
pub fn has_toolchain(test: &str) -> bool {
    let clang = Command::new("clang++-22").arg("--version").output().is_ok_and(|o| o.status.success());
    let cuda = root().join(".toolchain/cuda-13.0/include/cuda_runtime.h").exists();
    if !(clang && cuda) {
        eprintln!("SKIPPED: {test}: needs clang++-22 and .toolchain/cuda-13.0: run ./setup.sh");
    }
    clang && cuda
}

/// Reads a number from an environment variable.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// Polls until `look` succeeds. Panics after a minute with its last error; the minute is a safety limit, not a
/// measurement. The pause between polls only saves processor time.
pub fn until<T, S: Display>(mut look: impl FnMut() -> Result<T, S>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => {
                assert!(start.elapsed() < Duration::from_secs(60), "no success within a minute: {seen}")
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Polls until `holds` returns true; returns how long that took.
pub fn until_holds(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    until(|| if holds() { Ok(()) } else { Err(format!("{what} did not happen")) });
    start.elapsed()
}

/// Writes an executable script, for `sh` or for another interpreter that its first line names.
pub fn script(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"))
}

/// Runs a command that must succeed; returns its standard output.
pub fn run_ok(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?} ended with {}:\n{}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the exit code of a command that refused, and its one line on standard error.
pub fn refusal(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.stdout.is_empty() && said.lines().count() == 1, "{}", text(output));
    (output.status.code(), said)
}

/// Returns both output streams of a finished command, for messages.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Compiles sources with `eagercc` into `out`.
pub fn eagercc(sources: &[&Path], out: &Path) {
    eagercc_with(&["-O2".into()], sources, out);
}

/// Compiles a program's text; source and program are in `folder`.
pub fn compiled(folder: &Path, name: &str, text: &str) -> PathBuf {
    let (source, program) = (folder.join(format!("{name}.cu")), folder.join(name));
    std::fs::write(&source, text).expect("write the source");
    eagercc(&[&source], &program);
    program
}

/// Compiles sources with `eagercc`; `words` come before the sources.
pub fn eagercc_with(words: &[OsString], sources: &[&Path], out: &Path) {
    run_ok(Command::new(tool("eagercc")).args(words).args(sources).arg("-o").arg(out));
}

/// Compiles a program of `rodinia/` into the build folder; returns its path.
pub fn rodinia_binary(program: &eager_rodinia::Program) -> PathBuf {
    rodinia_binary_with(program, &[])
}

/// Compiles a program of `rodinia/` into the build folder, with further words for the compiler.
pub fn rodinia_binary_with(program: &eager_rodinia::Program, words: &[OsString]) -> PathBuf {
    let out = bin_dir().join("rodinia-programs");
    std::fs::create_dir_all(&out).expect("folder for programs");
    // Test binaries run at the same time: each compiles to a file of its own and moves it into place.
    let binary = out.join(&program.binary);
    let own =
        out.join(format!("{}.{}.{:?}", program.binary, std::process::id(), std::thread::current().id()));
    rodinia_build(program, words, &own);
    std::fs::rename(&own, &binary).expect("move the program into place");
    binary
}

/// Compiles a program of `rodinia/` to `out`.
pub fn rodinia_build(program: &eager_rodinia::Program, words: &[OsString], out: &Path) {
    run_ok(&mut rodinia_command(program, words, out));
}

/// Returns the command that compiles a program of `rodinia/` to `out`.
pub fn rodinia_command(program: &eager_rodinia::Program, words: &[OsString], out: &Path) -> Command {
    let folder = root().join("rodinia").join(&program.name);
    let sources = program.sources.iter().map(|source| folder.join(source));
    let mut command = Command::new(tool("eagercc"));
    command.arg("-O2").args(words).args(&program.flags).args(sources).arg("-o").arg(out);
    command
}

/// Returns the arguments of a run that verifies itself; makes its input in `folder`.
pub fn rodinia_arguments(run: &eager_rodinia::Run, folder: &Path) -> Vec<String> {
    let input = run.input.as_ref().map(|input| input.make(1, folder).expect("make the input"));
    let mut arguments = run.arguments(input.as_deref());
    arguments.push("--verify".to_string());
    arguments
}

/// Makes a command use the stand-in runtime instead of NVIDIA's, with virtual devices of its own. It does not use
/// `eager run`, so the shim is not told whether there is a daemon.
pub fn on_stand_in<'a>(command: &'a mut Command, cards: &str) -> &'a mut Command {
    command
        .env("LD_LIBRARY_PATH", stand_in_folder())
        .env("EAGER_VGPU", cards)
        .env("EAGER_VGPU_TIME_SCALE", "0")
}

/// Returns the stand-in runtime's folder, which `eager run` makes beside the programs.
fn stand_in_folder() -> PathBuf {
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| drop(run(Command::new(tool("eager")).args(["run", "--plain", "--", "true"]))));
    bin_dir().join("eager-virtual")
}
