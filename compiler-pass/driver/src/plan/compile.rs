//! Plans the commands that compile one source to an object.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{
    CPU_KERNELS_VARIABLE, CommandLine, DEVICE_CODE_VARIABLE, GPU_ARCH, INSTRUMENT_VARIABLE,
    KERNEL_DATA_VARIABLE, Plan, REPORT_VARIABLE, WHOLE_PROGRAM_VARIABLE, cpu_kernel_variables, joined,
};
use crate::invocation::{Job, Mode, Side};
use crate::nvcc::{INEXACT_ROOTS, OF_NVCC};
use crate::source::{Language, Source};
use crate::toolchain::{HEADER, MANAGED, Toolchain};

/// Errors of clang that are warnings in older versions of gcc, to which nvcc passes C sources.
const GCC_WARNS_ONLY: [&str; 5] = [
    "-Wno-error=implicit-function-declaration",
    "-Wno-error=implicit-int",
    "-Wno-error=incompatible-pointer-types",
    "-Wno-error=int-conversion",
    "-Wno-error=return-mismatch",
];

/// An error of clang that is a warning in nvcc (#2361-D) and gcc: `dim3 grid = {n / 64, 1, 1};` with a signed `n`.
const NVCC_WARNS_ONLY: &str = "-Wno-error=c++11-narrowing";

/// Warnings of clang that nvcc has not: an empty loop written on one line (`while (x != y);`), and loops that an
/// optimiser did not unroll as `#pragma unroll` asks, which happens in code for the CPU even where a GPU's is unrolled.
/// They come first, so that the user's own words win.
const WITHOUT_WARNINGS: [&str; 2] = ["-Wno-empty-body", "-Wno-pass-failed"];

/// Makes clang emit casts as calls; otherwise it folds out-of-range casts of constants to poison. The plugin lowers the
/// calls correctly for the CPU and for the GPU.
pub const CASTS_AS_CALLS: &str = "-fno-strict-float-cast-overflow";

/// Selects libdevice's correctly rounded `sqrtf`, as nvcc does. clang does not set this option, and the default is
/// approximate: on an H100 roots were up to 0.8 units in the last place off.
const EXACT_ROOTS: &str = "-mllvm=-nvvm-reflect-add=__CUDA_PREC_SQRT=1";
/// Words by which a program asks for approximate roots, also through nvcc's switches.
const INEXACT: [&str; 4] = ["-fgpu-approx-transcendentals", "-ffast-math", "-Ofast", INEXACT_ROOTS];

/// One source of a job, with the data that its commands need.
#[derive(Clone, Copy)]
pub struct Unit<'a> {
    pub job: &'a Job,
    pub toolchain: &'a Toolchain,
    pub scratch: &'a Path,
    pub index: usize,
}

impl Unit<'_> {
    fn source(&self) -> &Source {
        &self.job.sources[self.index]
    }

    /// Adds the command for `-c` or `-S`, and one for the device half's dependencies if dependencies are asked for.
    pub fn add_compile(&self, plan: &mut Plan, mode: &OsString, output: Option<&Path>) {
        let mut command = self.command(self.words());
        self.add_plugin(plan, &mut command);
        let dependencies = self.dependencies();
        if let Some((flag, file, targets)) = &dependencies {
            command.args.extend([flag.clone(), "-MF".into(), file.into()]);
            command.args.extend(targets.iter().cloned());
        }
        self.add_side(&mut command, self.job.side);
        self.add_source(&mut command, mode, output);
        if let Some(cuda_source) = self.source().device_half.as_ref().filter(|_| self.makes_cpu_kernels()) {
            self.add_nvcc_device_half(plan, &command, cuda_source);
        }
        plan.run(command);
        if let Some((flag, file, targets)) = dependencies.filter(|_| self.has_two_sides()) {
            let print = if flag == "-MMD" { "-MM" } else { "-M" };
            let mut command = self.command(self.words());
            command.args.extend(targets);
            self.add_device_half(plan, command, print, Some(file));
        }
    }

    /// Adds the commands for `-E` and similar: clang's output for the host half, then for the device half.
    pub fn add_front_end(&self, plan: &mut Plan, mode: &OsString) {
        let wanted = &self.job.dependencies;
        let mut command = self.command(self.words());
        command.args.extend(wanted.flag.iter().cloned());
        command.args.extend(wanted.file.iter().flat_map(|file| [OsString::from("-MF"), file.into()]));
        command.args.extend(wanted.targets.iter().cloned());
        // Some of these modes do not use the CUDA path or the GPU architecture.
        if self.source().language.is_cuda() {
            command.args.push("-Wno-unused-command-line-argument".into());
        }
        self.add_side(&mut command, self.job.side);
        self.add_source(&mut command, mode, self.job.output.as_deref());
        let dumps_macros = command.args.iter().any(|word| word == "-dM");
        plan.run(command);
        if self.has_two_sides() && mode != "-fsyntax-only" && !dumps_macros {
            let mut command = self.command(self.words());
            let mut into = self.job.output.clone();
            if mode != "-E" {
                into = wanted.file.clone().or(into);
                command.args.extend(wanted.targets.iter().cloned());
            }
            self.add_device_half(plan, command, &mode.to_string_lossy(), into);
        }
    }

    fn has_device_half(&self) -> bool {
        self.source().language.is_cuda() || self.source().device_half.is_some()
    }

    fn makes_cpu_kernels(&self) -> bool {
        self.has_device_half() && self.job.uses_plugin() && !self.job.settings.no_cpu_kernels
    }

    /// Whether the source is CMake's compiler identification, which must find clang, because CMake must use clang's
    /// switches.
    fn asks_for_the_compiler(&self) -> bool {
        self.source().path.file_name().is_some_and(|name| name == "CMakeCUDACompilerId.cu")
    }

    fn has_two_sides(&self) -> bool {
        self.source().language == Language::Cuda && self.job.side == Side::Both
    }

    fn add_device_half(&self, plan: &mut Plan, mut command: CommandLine, mode: &str, into: Option<PathBuf>) {
        self.add_side(&mut command, Side::Device);
        command.args.push("-Wno-unused-command-line-argument".into());
        self.add_source(&mut command, &mode.into(), None);
        command.append_to = into.filter(|path| path != Path::new("-"));
        plan.run(command);
    }

    fn command(&self, args: Vec<OsString>) -> CommandLine {
        CommandLine { program: self.toolchain.clang.clone(), args, ..CommandLine::default() }
    }

    /// The user's words for this language, and the path of CUDA.
    fn words(&self) -> Vec<OsString> {
        let Unit { job, toolchain, .. } = self;
        let language = self.source().language;
        let mut words: Vec<OsString> = Vec::new();
        if language == Language::C {
            words.extend(GCC_WARNS_ONLY.iter().map(OsString::from));
        }
        if language.is_cuda() {
            words.extend(WITHOUT_WARNINGS.iter().map(OsString::from));
        }
        // In a CUDA source this name comes after CUDA's own headers, which must find clang (nvcc.h).
        let is_kept = |word: &&OsString| !language.is_cuda() || *word != OF_NVCC;
        words.extend(job.compile_words.iter().filter(is_kept).cloned());
        if language.is_cuda() {
            words.extend(job.cuda_words.iter().cloned());
            words.push(joined("--cuda-path=", &toolchain.cuda));
            if job.gpus.is_empty() {
                words.push(format!("--cuda-gpu-arch={GPU_ARCH}").into());
            }
            words.push("-Wno-unknown-cuda-version".into());
            words.push(NVCC_WARNS_ONLY.into());
            if !words.iter().any(|word| INEXACT.iter().any(|inexact| word == inexact)) {
                words.extend(["-Xarch_device".into(), EXACT_ROOTS.into()]);
            }
            if job.rdc {
                words.push("-fgpu-rdc".into());
            }
            if language == Language::Cuda
                && !toolchain.headers.as_os_str().is_empty()
                && !self.asks_for_the_compiler()
            {
                words.extend(header(toolchain));
                if job.plugin_affects_sources() {
                    words.extend(managed());
                }
            }
            words.extend(job.overlay.iter().flat_map(|file| [OsString::from("-ivfsoverlay"), file.into()]));
        } else if language.is_preprocessed_here() && !toolchain.cuda.as_os_str().is_empty() {
            words.extend(["-isystem".into(), toolchain.cuda.join("include").into()]);
        }
        if language.is_preprocessed_here() {
            words.extend(
                toolchain.cuda_includes.iter().flat_map(|path| [OsString::from("-isystem"), path.into()]),
            );
        }
        words
    }

    fn add_plugin(&self, plan: &mut Plan, command: &mut CommandLine) {
        let Unit { job, toolchain, scratch, index } = self;
        if job.whole_program {
            command.args.push("-flto=full".into());
        }
        if !job.uses_plugin() || !self.source().language.has_ir() {
            return;
        }
        command.args.push(joined("-fpass-plugin=", &toolchain.plugin));
        // Makes clang keep source locations in the IR, without debug information in the object. No pass has this name,
        // so it prints nothing.
        command.args.push("-Rpass-analysis=eager-places".into());
        command.args.extend(job.remark_words.iter().cloned());
        if job.settings.no_instrument {
            command.variables.push((INSTRUMENT_VARIABLE, "0".into()));
        } else if job.whole_program {
            command.variables.push((WHOLE_PROGRAM_VARIABLE, "compile".into()));
        }
        if self.has_device_half() && !job.settings.no_instrument {
            let data = scratch.join(format!("{index}-kernels.json"));
            command.variables.push((KERNEL_DATA_VARIABLE, data.into()));
        }
        if self.makes_cpu_kernels() {
            // Under `-fgpu-rdc` kernels may call functions of other files, so the link makes their CPU code.
            let (variable, name) =
                if job.rdc { (DEVICE_CODE_VARIABLE, "device") } else { (CPU_KERNELS_VARIABLE, "kernels") };
            command.variables.push((variable, scratch.join(format!("{index}-{name}.bc")).into()));
            command.variables.extend(cpu_kernel_variables(job));
            if self.source().language.is_cuda() {
                command.args.extend(["-Xarch_device".into(), CASTS_AS_CALLS.into()]);
            }
        }
        if job.settings.report.is_some() && !job.whole_program {
            let report = scratch.join(format!("{index}-report.json"));
            command.variables.push((REPORT_VARIABLE, report.clone().into()));
            plan.reports.push(report);
        }
    }

    fn add_side(&self, command: &mut CommandLine, side: Side) {
        match side {
            Side::Host if self.source().language.is_cuda() => command.args.push("--cuda-host-only".into()),
            Side::Device if self.source().language.is_cuda() => {
                command.args.push("--cuda-device-only".into())
            }
            _ => {}
        }
    }

    fn add_source(&self, command: &mut CommandLine, mode: &OsString, output: Option<&Path>) {
        let source = self.source();
        let language = source.language.clang_name().into();
        command.args.extend(["-x".into(), language, source.path.clone().into(), mode.clone()]);
        command.args.extend(output.iter().flat_map(|output| [OsString::from("-o"), output.into()]));
    }

    /// Flag, file and targets of the requested dependencies. Where clang would derive a name from `-o`, uses the user's
    /// `-o`, not the object in the scratch folder.
    fn dependencies(&self) -> Option<(OsString, PathBuf, Vec<OsString>)> {
        let Unit { job, .. } = self;
        let wanted = &job.dependencies;
        let flag = wanted.flag.clone().filter(|_| self.source().language.is_preprocessed_here())?;
        let stem = self.source().stem();
        let file = wanted.file.clone().unwrap_or_else(|| match &job.output {
            Some(output) if job.sources.len() > 1 => {
                let output = output.with_extension("").display().to_string();
                PathBuf::from(format!("{output}-{stem}.d"))
            }
            Some(output) => output.with_extension("d"),
            None => format!("{stem}.d").into(),
        });
        let mut targets = wanted.targets.clone();
        if targets.is_empty() {
            let extension = if job.mode == Mode::Compile("-S".into()) { "s" } else { "o" };
            let derived = || PathBuf::from(format!("{stem}.{extension}"));
            targets = vec!["-MQ".into(), job.output.clone().unwrap_or_else(derived).into()];
        }
        Some((flag, file, targets))
    }
}

/// Words that include [`MANAGED`] behind [`HEADER`].
pub fn managed() -> [OsString; 2] {
    ["-include".into(), MANAGED.into()]
}

/// Words that include [`HEADER`] before a CUDA source, as a system header, so that no dependency file lists it.
pub fn header(toolchain: &Toolchain) -> [OsString; 4] {
    ["-isystem".into(), toolchain.headers.clone().into(), "-include".into(), HEADER.into()]
}
