//! Table of the flags that the driver must understand, sorted by name; every other flag goes to clang unchanged.
//!
//! A flag is in the table for one of three reasons: it changes what the driver does, it takes a value in the next
//! argument (which must not be mistaken for an input), or it belongs to one of the steps only. clang accepts both `-L
//! dir` and `-Ldir`, but only `-include file`.

/// Form in which a flag takes its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value: the flag is the whole argument.
    None,
    /// The value is the next argument.
    Apart,
    /// The value is the rest of the argument.
    Joined,
    /// In the rest of the argument or in the next one.
    JoinedOrApart,
}

/// Purpose of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// For the compile of every source.
    Compile,
    /// For the compile of CUDA sources only.
    Cuda,
    Link,
    /// For compile and link.
    Both,
    /// `-o`.
    Output,
    /// `-x`.
    Language,
    /// `-c`, `-S`: compile without a link.
    CompileOnly,
    /// Stops before code generation.
    FrontEnd,
    /// Prints what clang would do or its properties; the command line goes to clang unchanged.
    ClangAlone,
    /// `-MD`, `-MMD`: dependencies beside the output.
    Dependencies,
    /// `-MF`.
    DependencyFile,
    /// `-MT`, `-MQ`.
    DependencyTarget,
    /// `-Rpass=` and similar.
    Remark,
    CudaPath,
    /// `--cuda 12.9`.
    CudaVersion,
    CudaRuntime,
    GpuArch,
    /// `--no-cuda-gpu-arch=`: removes an architecture again.
    NoGpuArch,
    HostOnly,
    DeviceOnly,
    Rdc,
    NoRdc,
    Lto,
    NoLto,
    WholeProgram,
    Archive,
    Show,
    Report,
    NoInstrument,
    NoCpuKernels,
    KernelMode,
    LockStep,
    Strict,
    Virtual,
    Help,
    Version,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub name: &'static str,
    pub value: Value,
    pub usage: Use,
}

const fn flag(name: &'static str, value: Value, usage: Use) -> Flag {
    Flag { name, value, usage }
}

/// Sorted by name. A longer name wins over a shorter one that is its prefix.
pub const FLAGS: &[Flag] = &[
    flag("-###", Value::None, Use::ClangAlone),
    flag("--cuda", Value::Apart, Use::CudaVersion),
    flag("--cuda-device-only", Value::None, Use::DeviceOnly),
    flag("--cuda-gpu-arch=", Value::Joined, Use::GpuArch),
    flag("--cuda-host-only", Value::None, Use::HostOnly),
    flag("--cuda-include-ptx=", Value::Joined, Use::Cuda),
    flag("--cuda-noopt-device-debug", Value::None, Use::Cuda),
    flag("--cuda-path=", Value::Joined, Use::CudaPath),
    flag("--cuda=", Value::Joined, Use::CudaVersion),
    flag("--cudart=", Value::Joined, Use::CudaRuntime),
    flag("--eager-archive", Value::None, Use::Archive),
    flag("--eager-kernel-mode=", Value::Joined, Use::KernelMode),
    flag("--eager-lockstep", Value::None, Use::LockStep),
    flag("--eager-lockstep=", Value::Joined, Use::LockStep),
    flag("--eager-no-cpu-kernels", Value::None, Use::NoCpuKernels),
    flag("--eager-no-instrument", Value::None, Use::NoInstrument),
    flag("--eager-report=", Value::Joined, Use::Report),
    flag("--eager-strict", Value::None, Use::Strict),
    flag("--eager-virtual", Value::None, Use::Virtual),
    flag("--eager-whole-program", Value::None, Use::WholeProgram),
    flag("--help", Value::None, Use::Help),
    flag("--ld-path=", Value::Joined, Use::Link),
    flag("--no-cuda-gpu-arch=", Value::Joined, Use::NoGpuArch),
    flag("--no-cuda-include-ptx=", Value::Joined, Use::Cuda),
    flag("--no-offload-arch=", Value::Joined, Use::NoGpuArch),
    flag("--offload-arch=", Value::Joined, Use::GpuArch),
    flag("--offload-device-only", Value::None, Use::DeviceOnly),
    flag("--offload-host-only", Value::None, Use::HostOnly),
    flag("--output", Value::Apart, Use::Output),
    flag("--output=", Value::Joined, Use::Output),
    flag("--param", Value::Apart, Use::Both),
    flag("--rtlib=", Value::Joined, Use::Link),
    flag("--show", Value::None, Use::Show),
    flag("--sysroot", Value::Apart, Use::Both),
    flag("--unwindlib=", Value::Joined, Use::Link),
    flag("--version", Value::None, Use::Version),
    flag("-B", Value::JoinedOrApart, Use::Both),
    flag("-D", Value::JoinedOrApart, Use::Compile),
    flag("-E", Value::None, Use::FrontEnd),
    flag("-I", Value::JoinedOrApart, Use::Compile),
    flag("-L", Value::JoinedOrApart, Use::Link),
    flag("-M", Value::None, Use::FrontEnd),
    flag("-MD", Value::None, Use::Dependencies),
    flag("-MF", Value::JoinedOrApart, Use::DependencyFile),
    flag("-MG", Value::None, Use::Compile),
    flag("-MM", Value::None, Use::FrontEnd),
    flag("-MMD", Value::None, Use::Dependencies),
    flag("-MP", Value::None, Use::Compile),
    flag("-MQ", Value::JoinedOrApart, Use::DependencyTarget),
    flag("-MT", Value::JoinedOrApart, Use::DependencyTarget),
    flag("-MV", Value::None, Use::Compile),
    flag("-Rpass-analysis=", Value::Joined, Use::Remark),
    flag("-Rpass-missed=", Value::Joined, Use::Remark),
    flag("-Rpass=", Value::Joined, Use::Remark),
    flag("-S", Value::None, Use::CompileOnly),
    flag("-T", Value::JoinedOrApart, Use::Link),
    flag("-U", Value::JoinedOrApart, Use::Compile),
    flag("-W", Value::Joined, Use::Compile),
    flag("-Wl,", Value::Joined, Use::Link),
    flag("-Xarch_device", Value::Apart, Use::Cuda),
    flag("-Xarch_host", Value::Apart, Use::Compile),
    flag("-Xassembler", Value::Apart, Use::Compile),
    flag("-Xclang", Value::Apart, Use::Compile),
    flag("-Xcuda-fatbinary", Value::Apart, Use::Cuda),
    flag("-Xcuda-ptxas", Value::Apart, Use::Cuda),
    flag("-Xlinker", Value::Apart, Use::Link),
    flag("-Xoffload-linker", Value::Apart, Use::Link),
    flag("-Xpreprocessor", Value::Apart, Use::Compile),
    flag("-c", Value::None, Use::CompileOnly),
    flag("-cudart", Value::Apart, Use::CudaRuntime),
    flag("-dumpmachine", Value::None, Use::ClangAlone),
    flag("-dumpversion", Value::None, Use::ClangAlone),
    flag("-e", Value::Apart, Use::Link),
    flag("-emit-llvm", Value::None, Use::Compile),
    flag("-fgpu-rdc", Value::None, Use::Rdc),
    flag("-flto", Value::None, Use::Lto),
    flag("-flto=", Value::Joined, Use::Lto),
    flag("-fno-gpu-rdc", Value::None, Use::NoRdc),
    flag("-fno-lto", Value::None, Use::NoLto),
    flag("-fsyntax-only", Value::None, Use::FrontEnd),
    flag("-fuse-ld=", Value::Joined, Use::Link),
    flag("-gcc-toolchain", Value::Apart, Use::Both),
    flag("-h", Value::None, Use::Help),
    flag("-idirafter", Value::JoinedOrApart, Use::Compile),
    flag("-imacros", Value::Apart, Use::Compile),
    flag("-include", Value::Apart, Use::Compile),
    flag("-include-pch", Value::Apart, Use::Compile),
    flag("-iprefix", Value::JoinedOrApart, Use::Compile),
    flag("-iquote", Value::JoinedOrApart, Use::Compile),
    flag("-isysroot", Value::JoinedOrApart, Use::Both),
    flag("-isystem", Value::JoinedOrApart, Use::Compile),
    flag("-ivfsoverlay", Value::Apart, Use::Compile),
    flag("-iwithprefix", Value::JoinedOrApart, Use::Compile),
    flag("-iwithprefixbefore", Value::JoinedOrApart, Use::Compile),
    flag("-l", Value::JoinedOrApart, Use::Link),
    flag("-mllvm", Value::Apart, Use::Compile),
    flag("-no-pie", Value::None, Use::Both),
    flag("-nodefaultlibs", Value::None, Use::Link),
    flag("-nolibc", Value::None, Use::Link),
    flag("-nostartfiles", Value::None, Use::Link),
    flag("-nostdlib", Value::None, Use::Link),
    flag("-o", Value::JoinedOrApart, Use::Output),
    flag("-pie", Value::None, Use::Link),
    flag("-rdynamic", Value::None, Use::Link),
    flag("-rpath", Value::Apart, Use::Link),
    flag("-s", Value::None, Use::Link),
    flag("-serialize-diagnostics", Value::Apart, Use::Compile),
    flag("-shared", Value::None, Use::Link),
    flag("-shared-libgcc", Value::None, Use::Link),
    flag("-static", Value::None, Use::Link),
    flag("-static-libgcc", Value::None, Use::Link),
    flag("-static-libstdc++", Value::None, Use::Link),
    flag("-static-pie", Value::None, Use::Link),
    flag("-std=", Value::Joined, Use::Compile),
    flag("-target", Value::Apart, Use::Both),
    flag("-u", Value::JoinedOrApart, Use::Link),
    flag("-x", Value::JoinedOrApart, Use::Language),
    flag("-z", Value::Apart, Use::Link),
];

/// The driver's own switch that `unknown`, a word beginning with `--eager-`, most likely means.
#[must_use]
pub fn closest_switch(unknown: &str) -> &'static str {
    let own = FLAGS.iter().map(|flag| flag.name).filter(|name| name.starts_with("--eager-"));
    own.min_by_key(|name| edit_distance(unknown, name)).unwrap_or("--help")
}

/// Levenshtein distance: the number of characters to insert, delete or replace.
fn edit_distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_has_no_name_twice() {
        for pair in FLAGS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
    }

    #[test]
    fn a_mistyped_switch_is_recognised() {
        assert_eq!(closest_switch("--eager-no-instrumnet"), "--eager-no-instrument");
        assert_eq!(closest_switch("--eager-repot=x"), "--eager-report=");
        assert_eq!(closest_switch("--eager-whole-programme"), "--eager-whole-program");
        assert_eq!((edit_distance("", "abc"), edit_distance("kitten", "sitting")), (3, 3));
    }
}
