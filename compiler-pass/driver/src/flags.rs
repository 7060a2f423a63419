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
    Separate,
    /// The value is the rest of the argument.
    Joined,
    /// In the rest of the argument or in the next one.
    JoinedOrSeparate,
}

/// Purpose of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
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
    pub purpose: Purpose,
}

const fn flag(name: &'static str, value: Value, purpose: Purpose) -> Flag {
    Flag { name, value, purpose }
}

/// Sorted by name. A longer name wins over a shorter one that is its prefix.
pub const FLAGS: &[Flag] = &[
    flag("-###", Value::None, Purpose::ClangAlone),
    flag("--cuda", Value::Separate, Purpose::CudaVersion),
    flag("--cuda-device-only", Value::None, Purpose::DeviceOnly),
    flag("--cuda-gpu-arch=", Value::Joined, Purpose::GpuArch),
    flag("--cuda-host-only", Value::None, Purpose::HostOnly),
    flag("--cuda-include-ptx=", Value::Joined, Purpose::Cuda),
    flag("--cuda-noopt-device-debug", Value::None, Purpose::Cuda),
    flag("--cuda-path=", Value::Joined, Purpose::CudaPath),
    flag("--cuda=", Value::Joined, Purpose::CudaVersion),
    flag("--cudart=", Value::Joined, Purpose::CudaRuntime),
    flag("--eager-archive", Value::None, Purpose::Archive),
    flag("--eager-kernel-mode=", Value::Joined, Purpose::KernelMode),
    flag("--eager-lockstep", Value::None, Purpose::LockStep),
    flag("--eager-lockstep=", Value::Joined, Purpose::LockStep),
    flag("--eager-no-cpu-kernels", Value::None, Purpose::NoCpuKernels),
    flag("--eager-no-instrument", Value::None, Purpose::NoInstrument),
    flag("--eager-report=", Value::Joined, Purpose::Report),
    flag("--eager-strict", Value::None, Purpose::Strict),
    flag("--eager-virtual", Value::None, Purpose::Virtual),
    flag("--eager-whole-program", Value::None, Purpose::WholeProgram),
    flag("--help", Value::None, Purpose::Help),
    flag("--ld-path=", Value::Joined, Purpose::Link),
    flag("--no-cuda-gpu-arch=", Value::Joined, Purpose::NoGpuArch),
    flag("--no-cuda-include-ptx=", Value::Joined, Purpose::Cuda),
    flag("--no-offload-arch=", Value::Joined, Purpose::NoGpuArch),
    flag("--offload-arch=", Value::Joined, Purpose::GpuArch),
    flag("--offload-device-only", Value::None, Purpose::DeviceOnly),
    flag("--offload-host-only", Value::None, Purpose::HostOnly),
    flag("--output", Value::Separate, Purpose::Output),
    flag("--output=", Value::Joined, Purpose::Output),
    flag("--param", Value::Separate, Purpose::Both),
    flag("--rtlib=", Value::Joined, Purpose::Link),
    flag("--show", Value::None, Purpose::Show),
    flag("--sysroot", Value::Separate, Purpose::Both),
    flag("--unwindlib=", Value::Joined, Purpose::Link),
    flag("--version", Value::None, Purpose::Version),
    flag("-B", Value::JoinedOrSeparate, Purpose::Both),
    flag("-D", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-E", Value::None, Purpose::FrontEnd),
    flag("-I", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-L", Value::JoinedOrSeparate, Purpose::Link),
    flag("-M", Value::None, Purpose::FrontEnd),
    flag("-MD", Value::None, Purpose::Dependencies),
    flag("-MF", Value::JoinedOrSeparate, Purpose::DependencyFile),
    flag("-MG", Value::None, Purpose::Compile),
    flag("-MM", Value::None, Purpose::FrontEnd),
    flag("-MMD", Value::None, Purpose::Dependencies),
    flag("-MP", Value::None, Purpose::Compile),
    flag("-MQ", Value::JoinedOrSeparate, Purpose::DependencyTarget),
    flag("-MT", Value::JoinedOrSeparate, Purpose::DependencyTarget),
    flag("-MV", Value::None, Purpose::Compile),
    flag("-Rpass-analysis=", Value::Joined, Purpose::Remark),
    flag("-Rpass-missed=", Value::Joined, Purpose::Remark),
    flag("-Rpass=", Value::Joined, Purpose::Remark),
    flag("-S", Value::None, Purpose::CompileOnly),
    flag("-T", Value::JoinedOrSeparate, Purpose::Link),
    flag("-U", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-W", Value::Joined, Purpose::Compile),
    flag("-Wl,", Value::Joined, Purpose::Link),
    flag("-Xarch_device", Value::Separate, Purpose::Cuda),
    flag("-Xarch_host", Value::Separate, Purpose::Compile),
    flag("-Xassembler", Value::Separate, Purpose::Compile),
    flag("-Xclang", Value::Separate, Purpose::Compile),
    flag("-Xcuda-fatbinary", Value::Separate, Purpose::Cuda),
    flag("-Xcuda-ptxas", Value::Separate, Purpose::Cuda),
    flag("-Xlinker", Value::Separate, Purpose::Link),
    flag("-Xoffload-linker", Value::Separate, Purpose::Link),
    flag("-Xpreprocessor", Value::Separate, Purpose::Compile),
    flag("-c", Value::None, Purpose::CompileOnly),
    flag("-cudart", Value::Separate, Purpose::CudaRuntime),
    flag("-dumpmachine", Value::None, Purpose::ClangAlone),
    flag("-dumpversion", Value::None, Purpose::ClangAlone),
    flag("-e", Value::Separate, Purpose::Link),
    flag("-emit-llvm", Value::None, Purpose::Compile),
    flag("-fgpu-rdc", Value::None, Purpose::Rdc),
    flag("-flto", Value::None, Purpose::Lto),
    flag("-flto=", Value::Joined, Purpose::Lto),
    flag("-fno-gpu-rdc", Value::None, Purpose::NoRdc),
    flag("-fno-lto", Value::None, Purpose::NoLto),
    flag("-fsyntax-only", Value::None, Purpose::FrontEnd),
    flag("-fuse-ld=", Value::Joined, Purpose::Link),
    flag("-gcc-toolchain", Value::Separate, Purpose::Both),
    flag("-h", Value::None, Purpose::Help),
    flag("-idirafter", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-imacros", Value::Separate, Purpose::Compile),
    flag("-include", Value::Separate, Purpose::Compile),
    flag("-include-pch", Value::Separate, Purpose::Compile),
    flag("-iprefix", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-iquote", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-isysroot", Value::JoinedOrSeparate, Purpose::Both),
    flag("-isystem", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-ivfsoverlay", Value::Separate, Purpose::Compile),
    flag("-iwithprefix", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-iwithprefixbefore", Value::JoinedOrSeparate, Purpose::Compile),
    flag("-l", Value::JoinedOrSeparate, Purpose::Link),
    flag("-mllvm", Value::Separate, Purpose::Compile),
    flag("-no-pie", Value::None, Purpose::Both),
    flag("-nodefaultlibs", Value::None, Purpose::Link),
    flag("-nolibc", Value::None, Purpose::Link),
    flag("-nostartfiles", Value::None, Purpose::Link),
    flag("-nostdlib", Value::None, Purpose::Link),
    flag("-o", Value::JoinedOrSeparate, Purpose::Output),
    flag("-pie", Value::None, Purpose::Link),
    flag("-rdynamic", Value::None, Purpose::Link),
    flag("-rpath", Value::Separate, Purpose::Link),
    flag("-s", Value::None, Purpose::Link),
    flag("-serialize-diagnostics", Value::Separate, Purpose::Compile),
    flag("-shared", Value::None, Purpose::Link),
    flag("-shared-libgcc", Value::None, Purpose::Link),
    flag("-static", Value::None, Purpose::Link),
    flag("-static-libgcc", Value::None, Purpose::Link),
    flag("-static-libstdc++", Value::None, Purpose::Link),
    flag("-static-pie", Value::None, Purpose::Link),
    flag("-std=", Value::Joined, Purpose::Compile),
    flag("-target", Value::Separate, Purpose::Both),
    flag("-u", Value::JoinedOrSeparate, Purpose::Link),
    flag("-x", Value::JoinedOrSeparate, Purpose::Language),
    flag("-z", Value::Separate, Purpose::Link),
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
