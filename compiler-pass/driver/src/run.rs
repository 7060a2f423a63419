//! Carries out a plan: runs the commands and gathers the reports. The only module that starts processes.
//!
//! The scratch folder is removed with its handle, also when a compile fails. Trap: a compiler killed by a signal has no
//! exit code; the driver must then fail by the shell's convention, 128 plus the signal.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::dialect::Dialect;
use crate::invocation::{self, CudaChoice, Invocation, Job, Mode, Settings};
use crate::own_files::{self, OwnFile, own_files};
use crate::plan::{self, CommandLine, Plan, Step};
use crate::removed::{self, Removed};
use crate::source::{Language, Source};
use crate::toolchain::{
    ARCHIVER, LINKER, LLVM_MAJOR, MODULE_LINKER, Needs, OLDEST_OF_CUDA_12, OLDEST_OF_CUDA_13, OPTIMISER,
    Surroundings, Tool, Toolchain,
};
use crate::{
    advice, device_code, dialect, interrupt, libraries, mend, nvcc, ptxas, report, response, stand_in,
};

/// CUDA tree for programs that use names removed by CUDA 13.
const LAST_CUDA_12: &str = "12.9";

/// Text of `--help`.
pub const HELP: &str = "\
eagercc: compiles CUDA and C/C++ programs for the Eager scheduler

usage: eagercc [clang's flags] files... [-o program]
       eagercc --nvcc [nvcc's flags] files... [-o program]
       eagercc COMPILER [its flags] files...      in place of that compiler (nvcc, clang++, g++, ...)

  Sources (.cu, .c, .cc, .cpp, .cxx) are compiled by clang with the Eager pass; the executable runs on NVIDIA's CUDA
  runtime and on the virtual GPU's. Flags that are not listed here go to clang as they are; @file is read.

  --nvcc                   the other words are nvcc's (also when called by the name nvcc)
  --cuda-gpu-arch=sm_NN    GPU architecture (default sm_90); may be repeated
  -arch=sm_NN, -gencode …  the same in nvcc's words
  --cuda 12.9              build with this CUDA (default 13.0); auto: with 12.9 if the program uses names that CUDA 13 removed
  --cuda-path=DIR          CUDA tree (12.9 or 13.0)
  --cudart=KIND            CUDA runtime to link: shared (default), static, none
  -fgpu-rdc                device code linked across files; give it to the link too
  -flto                    host code instrumented as one module, by the linker; give it to the link too
  --eager-whole-program    the same
  -Rpass=eager             remark for each static task      -Rpass-missed=eager  for each lazy task, and why
  --eager-report=FILE      what the pass found and planned, as JSON, for all sources of the command
  --eager-kernel-mode=MODE how CPU code runs a block's threads: auto (default), loops, fission, coroutines, lanes-apart
  --eager-lockstep[=WAY]   threads of a warp run in step: auto (default: where a kernel is seen to rely on it), off,
                           suspected (also where it may; the flag alone is this), all
  --eager-strict           CPU code finds accesses out of bounds and reads of uninitialised memory
  --eager-no-instrument    leave the host code as it is (no scheduler)
  --eager-no-cpu-kernels   no CPU code for kernels (the program then needs a real GPU)
  --eager-virtual          the program finds the virtual GPU's CUDA runtime without `eager run`, also beside a real GPU
  --eager-archive          a static library of the sources and objects
  --show                   print the commands instead of running them
  --version, --help

environment:
  EAGER_CLANG      clang++ of LLVM 22         EAGER_CUDA_PATH  CUDA tree
  EAGER_HOME       folder with lib/eager/     EAGER_REMARKS=1  as -Rpass=eager -Rpass-missed=eager
";

/// Runs the driver; returns the exit code. `name` is the name that the user called it by.
///
/// # Errors
/// If the command line is wrong, a tool is missing, or a process cannot be started.
pub fn main(
    name: &OsStr,
    words: &[OsString],
    executable: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> anyhow::Result<u8> {
    if ptxas::is_meant(name) {
        return ptxas::run(name, words).context("cannot run ptxas");
    }
    let mut words = clang_words(name, words)?;
    if variable("EAGER_REMARKS").is_some_and(|value| value == "1") {
        words.extend(["-Rpass=eager".into(), "-Rpass-missed=eager".into()]);
    }
    let host = Host { executable, variable };
    match invocation::interpret(&words)? {
        Invocation::Help => {
            print!("{HELP}");
            Ok(0)
        }
        Invocation::Version => {
            let toolchain = host.find(&Settings::default(), Needs::default())?;
            println!("eagercc {}", eager_version::LONG);
            run_all(&plan::pass_through(&["--version".into()], &toolchain))
        }
        Invocation::PassThrough(_, settings) => {
            let toolchain = host.find(&settings, Needs::default())?;
            carry_out(&plan::pass_through(&words, &toolchain), &settings)
        }
        Invocation::Run(mut job) => compile_or_link(&mut job, &host),
    }
}

/// The driver's executable and its environment.
struct Host<'a> {
    executable: &'a Path,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Host<'_> {
    /// Finds the toolchain for a command with these settings.
    fn find(&self, settings: &Settings, needs: Needs) -> anyhow::Result<Toolchain> {
        let cuda_version = match &settings.cuda {
            CudaChoice::Version(version) => Some(version.as_str()),
            CudaChoice::Newest | CudaChoice::Auto => None,
        };
        let surroundings = Surroundings {
            variable: self.variable,
            executable: self.executable,
            cuda_path: settings.cuda_path.as_deref(),
            cuda_version,
        };
        Ok(Toolchain::find(&surroundings, needs)?)
    }
}

/// Runs a command that compiles or links; returns the exit code.
fn compile_or_link(job: &mut Job, host: &Host<'_>) -> anyhow::Result<u8> {
    if job.mode == Mode::Link {
        inspect_link_inputs(job);
    }
    for source in job.sources.iter_mut().filter(|source| source.is_nvcc_host_code()) {
        source.take_origin(&std::fs::read_to_string(&source.path).unwrap_or_default());
    }
    check_inputs(job)?;
    let needs = needs(job);
    let own = own_files_of(job);
    if job.settings.cuda == CudaChoice::Auto && needs_cuda_12(job, &own) {
        job.settings.cuda = CudaChoice::Version(LAST_CUDA_12.to_owned());
    }
    let toolchain = host.find(&job.settings, needs)?;
    choose_gpus(job, &own, &toolchain);
    if needs.plugin && (host.variable)("EAGER_CLANG").is_some() {
        check_major(&toolchain.clang)?;
    }
    for note in &job.notes {
        eprintln!("eagercc: note: {note}");
    }
    if job.settings.is_virtual && job.mode == Mode::Link && !job.settings.show {
        stand_in::link_all(&toolchain.shim_folder)?;
    }
    let code = run_job(job, &toolchain, &own, host.executable)?;
    print_hints(code, job, &own, &toolchain);
    Ok(code)
}

/// Rejects a missing source, which clang would report twice, once per side, and an input that an output would
/// overwrite.
fn check_inputs(job: &Job) -> anyhow::Result<()> {
    if let Some(path) = job.missing_source(Path::exists).filter(|_| !job.settings.show) {
        bail!("no such file: {}", path.display());
    }
    if let Some(path) = job.overwritten(is_same_file) {
        bail!("{} is an input and would be overwritten: choose another output with -o", path.display());
    }
    Ok(())
}

/// Replaces `native` on a machine without a GPU, and GPUs that the CUDA tree does not support. Chooses nvcc's default
/// for sources that the virtual GPU cannot run if they are compiled for eagercc's.
fn choose_gpus(job: &mut Job, own: &[OwnFile], toolchain: &Toolchain) {
    if let Some((file, header)) = advice::with_mbarrier(own) {
        job.avoid_mbarrier(&file.path, header);
    }
    if !is_gpu_in_sight() {
        job.replace_native(plan::GPU_ARCH);
    }
    if let Some((version, oldest)) = toolchain.cuda_version()
        && let Some(warning) = job.raise_gpus(oldest, &version)
    {
        eprintln!("eagercc: warning: {warning}");
    }
}

/// Finds out from the files of a link whether it must also link device code or instrument bitcode.
fn inspect_link_inputs(job: &mut Job) {
    let first = |files: Vec<PathBuf>| files.into_iter().find(|file| file.exists());
    let found = libraries::candidates(&job.link).into_iter().filter_map(first);
    let named = job.files().filter(|file| libraries::is_archive(file)).map(Path::to_path_buf);
    job.libraries = named.chain(found).filter(|file| has_device_code(file)).collect();
    let needs_device_link = !job.libraries.is_empty() || job.files().any(has_device_code);
    let has_bitcode = job.files().any(is_bitcode);
    job.rdc |= needs_device_link;
    job.whole_program |= has_bitcode;
}

/// Expands response files and translates the command line into clang's words.
fn clang_words(name: &OsStr, words: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let read = |path: &Path| std::fs::read_to_string(path);
    let (dialect, words) = dialect::of(name, words);
    match dialect {
        Dialect::Clang => Ok(nvcc::only_nvccs_own(&response::expand(&words, &read)?)?),
        Dialect::Nvcc => {
            let words = response::expand(&nvcc::response_files(&words), &read)?;
            Ok(nvcc::translate(&words)?)
        }
    }
}

/// Prints, after a failed command, a reason that the compiler does not know; after a command that made a program, how
/// to start it.
fn print_hints(code: u8, job: &Job, own: &[OwnFile], toolchain: &Toolchain) {
    if code != 0 {
        advice::lines(job, own, toolchain).into_iter().for_each(|line| eprintln!("eagercc: {line}"));
    } else if std::io::stderr().is_terminal() && !is_gpu_in_sight() && !job.settings.show {
        job.how_to_start().into_iter().for_each(|line| eprintln!("eagercc: note: {line}"));
    }
}

/// NVIDIA's driver creates the first of these devices, WSL the second.
fn is_gpu_in_sight() -> bool {
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|device| Path::new(device).exists())
}

fn needs(job: &Job) -> Needs {
    let links = job.mode == Mode::Link;
    let instrumented_link = links && (!job.settings.no_instrument || job.settings.is_virtual);
    Needs {
        cuda: links || job.sources.iter().any(|source| source.language.is_cuda()) || job.uses_plugin(),
        plugin: job.uses_plugin() && (!job.sources.is_empty() || job.whole_program || job.rdc),
        shim: instrumented_link,
        tools: tools(job),
    }
}

fn tools(job: &Job) -> &'static [Tool] {
    match job.mode {
        Mode::Archive => &[ARCHIVER],
        Mode::Link if job.rdc => &[MODULE_LINKER, OPTIMISER],
        Mode::Link if job.whole_program => &[LINKER],
        _ => &[],
    }
}

/// Whether two paths lead to the same regular file. Devices such as /dev/null may be input and output at once.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let identity = |file: std::fs::Metadata| (file.dev(), file.ino());
    file(one).map(identity).is_some_and(|one| file(other).map(identity) == Some(one))
}

/// Whether a file is LLVM bitcode: an object of a compile with `-flto`, which only a link with `-flto` accepts.
fn is_bitcode(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"BC\xC0\xDE"
}

/// Whether a file carries device code that must be linked.
fn has_device_code(path: &Path) -> bool {
    let is_library = path.extension().is_some_and(|extension| extension == "so");
    !is_library && std::fs::read(path).is_ok_and(|bytes| !device_code::modules(&bytes).is_empty())
}

/// Rejects a clang of another LLVM version; clang's own message for a plugin of the wrong version is not helpful.
fn check_major(clang: &Path) -> anyhow::Result<()> {
    let output = Command::new(clang)
        .arg("-dumpversion")
        .output()
        .with_context(|| format!("cannot run {}", clang.display()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if version.split('.').next() != Some(&LLVM_MAJOR.to_string()) {
        bail!(
            "EAGER_CLANG is clang {version} ({}), but the pass is built for LLVM {LLVM_MAJOR}: set it to clang++ of \
             that version",
            clang.display()
        );
    }
    Ok(())
}

/// Own files of the job's CUDA sources.
fn own_files_of(job: &Job) -> Vec<OwnFile> {
    let read = |path: &Path| path.is_file().then(|| std::fs::read(path).ok()).flatten();
    let cuda = job.sources.iter().filter(|source| source.language == Language::Cuda);
    cuda.flat_map(|source| own_files(&source.path, &job.compile_words, &read)).collect()
}

/// Decides `--cuda auto`: by names in the sources, by the GPUs, or, in a link, by the names that objects refer to.
fn needs_cuda_12(job: &Job, own: &[OwnFile]) -> bool {
    let texts = own.iter().map(|file| file.text.as_str());
    let by_text = matches!(removed::first_removed(texts), Some(Removed::By13(_)));
    let between = |gpu: &String| {
        let number = gpu.strip_prefix("sm_").and_then(|digits| digits.parse::<u32>().ok());
        number.is_some_and(|number| (OLDEST_OF_CUDA_12..OLDEST_OF_CUDA_13).contains(&number))
    };
    let asks = |path: &Path| {
        let is_library = path.extension().is_some_and(|extension| extension == "so");
        !is_library && std::fs::read(path).is_ok_and(|bytes| removed::is_named_in(&bytes))
    };
    by_text || job.gpus.iter().any(between) || job.files().any(asks)
}

/// Writes the texts that clang must read otherwise to the scratch folder, and the overlay file that replaces the sources
/// by them.
fn write_overlay(own: &[OwnFile], scratch: &Path) -> anyhow::Result<Option<PathBuf>> {
    let mut paths = Vec::new();
    for file in own {
        let Some(mended) = mend::mended(&file.text) else { continue };
        let path = std::path::absolute(&file.path)?;
        // Two sources may include the same header.
        if paths.iter().any(|(known, _)| *known == path) {
            continue;
        }
        let external = scratch.join(format!("{}-mended.cu", paths.len()));
        let written = std::fs::write(&external, file.bytes_of(&mended));
        written.with_context(|| format!("cannot write {}", external.display()))?;
        paths.push((path, external));
    }
    if paths.is_empty() {
        return Ok(None);
    }
    let overlay = scratch.join("overlay.yaml");
    std::fs::write(&overlay, own_files::overlay(&paths))
        .with_context(|| format!("cannot write {}", overlay.display()))?;
    Ok(Some(overlay))
}

/// Writes a CUDA source on standard input to a file, because clang reads it twice, once for each half. Messages name
/// the file as clang would.
fn keep_standard_input(job: &mut Job, scratch: &Path) -> anyhow::Result<()> {
    let is_standard_input = |source: &&mut Source| source.language.is_cuda() && source.path == Path::new("-");
    let Some(source) = job.sources.iter_mut().find(is_standard_input) else { return Ok(()) };
    let mut text = b"# 1 \"<stdin>\"\n".to_vec();
    std::io::stdin().lock().read_to_end(&mut text).context("cannot read standard input")?;
    let text = String::from_utf8_lossy(&text);
    let text = mend::mended(&text).map_or(text, Into::into);
    let path = scratch.join("-.cu");
    std::fs::write(&path, &*text).with_context(|| format!("cannot write {}", path.display()))?;
    // Headers in quotes are in the current folder.
    job.compile_words.extend(["-iquote".into(), ".".into()]);
    source.path = path;
    Ok(())
}

fn run_job(job: &mut Job, toolchain: &Toolchain, own: &[OwnFile], executable: &Path) -> anyhow::Result<u8> {
    if job.settings.show {
        return carry_out(&plan::plan(job, toolchain, Path::new("$SCRATCH")), &job.settings);
    }
    let scratch = tempfile::Builder::new()
        .prefix("eagercc-")
        .tempdir()
        .context("cannot create a temporary folder (set TMPDIR to choose where)")?;
    interrupt::clean_up(scratch.path());
    keep_standard_input(job, scratch.path())?;
    job.overlay = write_overlay(own, scratch.path())?;
    let mut plan = plan::plan(job, toolchain, scratch.path());
    let names_ptxas = job.names_ptxas();
    let ptxas = (!own.is_empty() && !names_ptxas)
        .then(|| ptxas::stand_in(scratch.path(), executable, &toolchain.cuda, own))
        .flatten();
    for step in &mut plan.steps {
        if let Step::Run(command) = step {
            // clang's temporary files are removed with the driver's. Files that clang leaves after a crash are not,
            // with -fcrash-diagnostics-dir.
            command.variables.push(("TMPDIR", scratch.path().into()));
            if command.args.iter().any(|word| word == Language::Cuda.clang_name()) {
                command.args.extend(ptxas.iter().flatten().cloned());
            }
        }
    }
    let code = carry_out(&plan, &job.settings)?;
    // A compiler cache preprocesses with the same words, which must not empty the report of the compile.
    let has_report = code == 0 && !matches!(job.mode, Mode::FrontEnd(_));
    if let Some(path) = job.settings.report.as_ref().filter(|_| has_report) {
        std::fs::write(path, report::merged(&report::read(&plan.reports)))
            .with_context(|| format!("cannot write the report {}", path.display()))?;
    }
    Ok(code)
}

fn carry_out(plan: &Plan, settings: &Settings) -> anyhow::Result<u8> {
    if settings.show {
        for step in &plan.steps {
            println!("{}", step.shell());
        }
        return Ok(0);
    }
    run_all(plan)
}

/// Runs the steps up to the first that fails; returns its exit code.
fn run_all(plan: &Plan) -> anyhow::Result<u8> {
    for step in &plan.steps {
        let code = match step {
            Step::Run(command) => {
                let code = run(command)?;
                if command.may_fail { 0 } else { code }
            }
            Step::GatherDeviceCode { objects, list } => gather(objects, list)?,
        };
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}

/// Writes each device module to a file of its own. The first file is an empty module, so that there is at least one.
fn gather(objects: &[PathBuf], list: &Path) -> anyhow::Result<u8> {
    const EMPTY: &[u8] = b"target triple = \"nvptx64-nvidia-cuda\"\n";
    let folder = list.parent().unwrap_or(Path::new(""));
    let mut paths = String::new();
    let mut write = |bytes: &[u8]| {
        let path = folder.join(format!("device-{}.bc", paths.lines().count()));
        writeln!(paths, "{}", path.display())?;
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    write(EMPTY)?;
    for object in objects.iter().filter(|path| path.extension().is_none_or(|extension| extension != "so")) {
        let bytes = std::fs::read(object).with_context(|| format!("cannot read {}", object.display()))?;
        device_code::modules(&bytes).into_iter().try_for_each(&mut write)?;
    }
    std::fs::write(list, paths).with_context(|| format!("cannot write {}", list.display()))?;
    Ok(0)
}

fn run(line: &CommandLine) -> anyhow::Result<u8> {
    let mut command = Command::new(&line.program);
    command.args(&line.args).envs(line.variables.iter().map(|(name, value)| (name, value)));
    if let Some(path) = &line.append_to {
        let file = OpenOptions::new().append(true).create(true).open(path);
        command.stdout(file.with_context(|| format!("cannot write {}", path.display()))?);
    }
    let status =
        interrupt::wait(command.spawn()).with_context(|| format!("cannot run {}", line.program.display()))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}
