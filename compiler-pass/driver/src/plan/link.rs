//! Plans the last command: an executable, a shared library, or an archive of objects.
//!
//! Trap: the executable gets a run path to `libeager.so` but none to CUDA's libraries, unless the user asks for one to
//! the stand-in runtime. The loader must stay free to choose the stand-in runtime or NVIDIA's. For the linker CUDA's
//! folder must come first, because the shim's folder may hold the stand-in runtime under the same name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{
    CPU_KERNELS_VARIABLE, CommandLine, INSTRUMENT_VARIABLE, Plan, REPORT_VARIABLE, Step,
    WHOLE_PROGRAM_VARIABLE, cpu_kernel_variables, joined,
};
use crate::invocation::{CudaRuntime, Job, LinkItem};
use crate::toolchain::{ARCHIVER, MANAGED_LINK, MODULE_LINKER, OPTIMISER, Toolchain};
use crate::{libraries, stand_in};

/// Adds the link of the sources' objects with the user's words, the shim and the CUDA runtime.
pub fn add_link(plan: &mut Plan, job: &Job, toolchain: &Toolchain, scratch: &Path, objects: &[PathBuf]) {
    // Compile flags that the link does not use need no warning.
    let mut args: Vec<OsString> = vec!["-Wno-unused-command-line-argument".into()];
    let is_whole = libraries::takes_whole_archives(&job.link);
    let mut rest = job.link.iter();
    while let Some(item) = rest.next() {
        let mut words: Vec<OsString> = match item {
            LinkItem::Source(index) => vec![objects[*index].clone().into()],
            LinkItem::File(word) | LinkItem::Word(word) => vec![word.clone()],
        };
        if words[0] == "-l"
            && let Some(LinkItem::Word(name)) = rest.next()
        {
            words.push(name.clone());
        }
        // The device linker takes only those members of an archive that other device code calls, but host code may use
        // all of them.
        if !is_whole && libraries::names_one_of(&words, &job.libraries) {
            let words_of = if args.last().is_some_and(|last| last == "-Xlinker") {
                in_linkers_words
            } else {
                in_clangs_words
            };
            words = words_of(words);
        }
        args.extend(words);
    }
    let mut command = CommandLine { program: toolchain.clang.clone(), args, ..CommandLine::default() };
    if job.rdc {
        plan.steps.push(gather(job, scratch, objects));
        if !job.settings.no_cpu_kernels {
            let kernels = add_cpu_kernels(plan, job, toolchain, scratch);
            command.args.push(kernels.into());
        }
        // Only in the link that makes the program, so that the program has it once.
        if job.uses_plugin() && !job.links("-r") {
            let registration = add_managed_variables(plan, job, toolchain, scratch);
            command.args.extend([registration.into(), "-Wl,--wrap=__cudaRegisterVar".into()]);
        }
        let tree = joined("--cuda-path=", &toolchain.cuda);
        command.args.extend(["--offload-link".into(), tree.clone(), "-Xoffload-linker".into(), tree]);
    }
    if job.whole_program {
        add_whole_program(plan, &mut command, job, toolchain, scratch);
    }
    // A relocatable object is not a program yet.
    if !job.links("-r") {
        add_libraries(&mut command.args, job, toolchain);
    }
    if let Some(output) = &job.output {
        command.args.extend(["-o".into(), output.into()]);
    }
    plan.run(command);
}

/// Adds words for clang that link all members of a library.
fn in_clangs_words(mut library: Vec<OsString>) -> Vec<OsString> {
    library.insert(0, "-Wl,--whole-archive".into());
    library.push("-Wl,--no-whole-archive".into());
    library
}

/// Adds words that link all members of a library behind `-Xlinker`, which takes one word each.
fn in_linkers_words(library: Vec<OsString>) -> Vec<OsString> {
    let own = library.into_iter().flat_map(|word| ["-Xlinker".into(), word]);
    ["--whole-archive".into()]
        .into_iter()
        .chain(own)
        .chain(["-Xlinker".into(), "--no-whole-archive".into()])
        .collect()
}

/// Step that gathers the device modules for the CPU kernels.
fn gather(job: &Job, scratch: &Path, objects: &[PathBuf]) -> Step {
    let named = job.link.iter().filter_map(|item| match item {
        LinkItem::Source(index) => Some(objects[*index].clone()),
        LinkItem::File(path) => Some(path.into()),
        LinkItem::Word(_) => None,
    });
    let mut objects: Vec<PathBuf> = named.collect();
    objects.extend(job.libraries.iter().filter(|file| !job.files().any(|named| named == *file)).cloned());
    Step::GatherDeviceCode { objects, list: scratch.join("device.rsp") }
}

/// Adds the commands that make CPU kernels from the device code of all objects: merge the gathered modules, convert by
/// the plugin, compile. Returns the object.
fn add_cpu_kernels(plan: &mut Plan, job: &Job, toolchain: &Toolchain, scratch: &Path) -> PathBuf {
    let [list, device, kernels, object] =
        ["device.rsp", "device.bc", "kernels.bc", "kernels.o"].map(|name| scratch.join(name));
    plan.run(CommandLine {
        program: toolchain.llvm_folder.join(MODULE_LINKER.name),
        args: vec![joined("@", &list), "-o".into(), device.clone().into()],
        ..CommandLine::default()
    });
    let settings = cpu_kernel_variables(job);
    plan.run(CommandLine {
        program: toolchain.llvm_folder.join(OPTIMISER.name),
        args: vec![
            joined("--load-pass-plugin=", &toolchain.plugin),
            "-passes=eager".into(),
            "-disable-output".into(),
            device.into(),
        ],
        variables: settings.chain([(CPU_KERNELS_VARIABLE, kernels.clone().into())]).collect(),
        ..CommandLine::default()
    });
    let mut args: Vec<OsString> =
        ["-O2", "-fPIC", "-Wno-override-module", "-x", "ir"].map(OsString::from).into();
    args.extend([kernels.into(), "-c".into(), "-o".into(), object.clone().into()]);
    plan.run(CommandLine { program: toolchain.clang.clone(), args, ..CommandLine::default() });
    object
}

/// Adds the compile of the code that registers managed variables where the linker makes the registration. Returns the
/// object.
fn add_managed_variables(plan: &mut Plan, job: &Job, toolchain: &Toolchain, scratch: &Path) -> PathBuf {
    let object = scratch.join("managed.o");
    let mut args: Vec<OsString> = ["-O2", "-fPIC"].map(OsString::from).into();
    args.push(joined("-fpass-plugin=", &toolchain.plugin));
    args.extend(["-x".into(), "c".into(), toolchain.headers.join(MANAGED_LINK).into()]);
    args.extend(["-c".into(), "-o".into(), object.clone().into()]);
    let plain = job.settings.no_instrument.then(|| (INSTRUMENT_VARIABLE, "0".into()));
    plan.run(CommandLine {
        program: toolchain.clang.clone(),
        args,
        variables: plain.into_iter().collect(),
        ..CommandLine::default()
    });
    object
}

fn add_libraries(args: &mut Vec<OsString>, job: &Job, toolchain: &Toolchain) {
    let runtime = if job.links("-lcudart_static") || job.links("-lcudart") {
        &[][..]
    } else {
        match job.runtime {
            CudaRuntime::Shared => &["-lcudart"][..],
            CudaRuntime::Static => &["-lcudart_static", "-ldl", "-lrt", "-lpthread"],
            CudaRuntime::None => &[],
        }
    };
    args.push(joined("-L", &toolchain.cuda.join("lib")));
    // A program without CUDA calls, such as a build's own tool, must start without CUDA's libraries.
    args.push("-Wl,--push-state,--as-needed".into());
    if !job.settings.no_instrument {
        args.push(joined("-L", &toolchain.shim_folder));
        args.push("-leager".into());
        args.push("-Wl,--enable-new-dtags".into());
        args.push(joined("-Wl,-rpath,", &toolchain.shim_folder));
    }
    if job.settings.is_virtual {
        args.push("-Wl,--enable-new-dtags".into());
        args.push(joined("-Wl,-rpath,", &stand_in::folder_beside(&toolchain.shim_folder)));
    }
    args.extend(runtime.iter().map(OsString::from));
    args.extend(["-lm".into(), "-Wl,--pop-state".into()]);
    if job.links("-shared") {
        // The runtimes keep the addresses of its kernels, so it must stay when the program closes it.
        args.push("-Wl,-z,nodelete".into());
    }
}

/// Adds the words that make the linker merge the bitcode of all objects and run the plugin on the result.
fn add_whole_program(
    plan: &mut Plan,
    command: &mut CommandLine,
    job: &Job,
    toolchain: &Toolchain,
    scratch: &Path,
) {
    command.args.extend(["-flto=full".into(), "-fuse-ld=lld".into()]);
    if job.settings.no_instrument {
        return;
    }
    command.args.push(joined("-Wl,--load-pass-plugin=", &toolchain.plugin));
    let program = job.output.as_deref().unwrap_or(Path::new("a.out"));
    command.variables.push((WHOLE_PROGRAM_VARIABLE, joined("link=", program)));
    // clang's own remark switches do not reach the linker.
    command.args.extend(job.remark_words.iter().filter_map(|word| {
        let word = word.to_str()?.strip_prefix("-R")?;
        Some(OsString::from(format!("-Wl,-mllvm,-{}", word.replacen("pass", "pass-remarks", 1))))
    }));
    if job.settings.report.is_some() {
        let report = scratch.join("program-report.json");
        command.variables.push((REPORT_VARIABLE, report.clone().into()));
        plan.reports.push(report);
    }
}

/// Adds the command for a static library of the objects, in the user's order.
pub fn add_archive(plan: &mut Plan, job: &Job, toolchain: &Toolchain, objects: &[PathBuf]) {
    let mut args: Vec<OsString> = vec!["rcsD".into()];
    args.extend(job.output.iter().map(OsString::from));
    args.extend(job.link.iter().filter_map(|item| match item {
        LinkItem::Source(index) => Some(objects[*index].clone().into()),
        LinkItem::File(word) => Some(word.clone()),
        LinkItem::Word(_) => None,
    }));
    let program = toolchain.llvm_folder.join(ARCHIVER.name);
    plan.run(CommandLine { program, args, ..CommandLine::default() });
}
