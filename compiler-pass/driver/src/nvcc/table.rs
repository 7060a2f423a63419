//! nvcc's switches and their translations for clang.
//!
//! Names and meanings: `nvcc --help` of CUDA 13.0. A one-letter short name also takes its value joined.

/// Values that a switch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    One,
    /// Values separated by commas.
    List,
}

/// Translation of a switch.
#[derive(Clone, Copy, Debug)]
pub enum Translation {
    /// Dropped: it changes nothing in clang's output.
    Drop,
    /// Replaced by these words.
    To(&'static [&'static str]),
    /// Each value behind this prefix, in a single word.
    Joined(&'static str),
    /// Each value as a word of its own, behind this flag.
    Separate(&'static str),
    /// Each value unchanged.
    Values,
    /// An error with advice on what to do instead.
    Refuse(&'static str),
    Special(Special),
}

/// Switches whose translation depends on the value or on other switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Arch,
    Code,
    Gencode,
    Language,
    MaxRegisters,
    Output,
    Ptx,
    Cubin,
    Archive,
    DeviceLink,
    Rdc,
    Fmad,
    ExactRoots,
    FlushDenormals,
    DefaultStream,
    Werror,
}

/// A switch of nvcc.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// Long name, without the dashes.
    pub long: &'static str,
    /// Short name, without the dash; empty if there is none.
    pub short: &'static str,
    pub takes: Takes,
    pub translation: Translation,
}

const fn switch(long: &'static str, short: &'static str, takes: Takes, translation: Translation) -> Switch {
    Switch { long, short, takes, translation }
}

use Special::{
    Arch, Archive, Code, Cubin, DefaultStream, DeviceLink, FlushDenormals, Fmad, Gencode, Language,
};
use Special::{ExactRoots, MaxRegisters, Output, Ptx, Rdc, Werror};
use Takes::{List, Nothing, One};
use Translation::{Drop, Joined, Refuse, Separate, To, Values};

const NO_RUN: &str = "run the program yourself";
const NO_FATBIN: &str = "compile with -c: the object holds the fat binary";

/// In the order of nvcc's manual: phases, files, compiler, code generation, the rest.
pub const SWITCHES: &[Switch] = &[
    switch("compile", "c", Nothing, To(&["-c"])),
    switch("device-c", "dc", Nothing, To(&["-c", "-fgpu-rdc"])),
    switch("device-w", "dw", Nothing, To(&["-c"])),
    switch("device-link", "dlink", Nothing, Translation::Special(DeviceLink)),
    switch("link", "link", Nothing, Drop),
    switch("lib", "lib", Nothing, Translation::Special(Archive)),
    switch("run", "run", Nothing, Refuse(NO_RUN)),
    switch("ptx", "ptx", Nothing, Translation::Special(Ptx)),
    switch("cubin", "cubin", Nothing, Translation::Special(Cubin)),
    switch("fatbin", "fatbin", Nothing, Refuse(NO_FATBIN)),
    switch("cuda", "cuda", Nothing, Refuse("use -E, or -S -emit-llvm for clang's intermediate code")),
    switch("preprocess", "E", Nothing, To(&["-E"])),
    switch("generate-dependencies", "M", Nothing, To(&["-M"])),
    switch("generate-nonsystem-dependencies", "MM", Nothing, To(&["-MM"])),
    switch("generate-dependencies-with-compile", "MD", Nothing, To(&["-MD"])),
    switch("generate-nonsystem-dependencies-with-compile", "MMD", Nothing, To(&["-MMD"])),
    switch("generate-dependency-targets", "MP", Nothing, To(&["-MP"])),
    switch("dependency-output", "MF", One, Separate("-MF")),
    switch("dependency-target-name", "MT", One, Separate("-MT")),
    switch("output-file", "o", One, Translation::Special(Output)),
    switch("output-directory", "odir", One, Refuse("name each output with -o")),
    switch("x", "x", One, Translation::Special(Language)),
    switch("pre-include", "include", List, Separate("-include")),
    switch("library", "l", List, Joined("-l")),
    switch("define-macro", "D", One, Joined("-D")),
    switch("undefine-macro", "U", List, Joined("-U")),
    switch("include-path", "I", List, Joined("-I")),
    switch("system-include", "isystem", List, Separate("-isystem")),
    switch("library-path", "L", List, Joined("-L")),
    switch("cudart", "cudart", One, Joined("--cudart=")),
    switch("cudadevrt", "cudadevrt", One, Drop),
    switch("compiler-bindir", "ccbin", One, Drop),
    switch("allow-unsupported-compiler", "allow-unsupported-compiler", Nothing, Drop),
    switch("compiler-options", "Xcompiler", List, Values),
    switch("linker-options", "Xlinker", List, Separate("-Xlinker")),
    switch("ptxas-options", "Xptxas", List, Separate("-Xcuda-ptxas")),
    switch("nvlink-options", "Xnvlink", List, Separate("-Xoffload-linker")),
    switch("fatbin-options", "Xfatbin", List, Drop),
    switch("cudafe-options", "Xcudafe", List, Drop),
    switch("archive-options", "Xarchive", List, Drop),
    switch("std", "std", One, Joined("-std=")),
    switch("optimize", "O", One, Joined("-O")),
    switch("dopt", "dopt", One, Drop),
    switch("Ofast-compile", "Ofc", One, Drop),
    switch("debug", "g", Nothing, To(&["-g"])),
    // clang does not look at the second word where it does not optimise, and would warn of that.
    switch(
        "device-debug",
        "G",
        Nothing,
        To(&["-g", "--cuda-noopt-device-debug", "-Wno-unused-command-line-argument", "-D__CUDACC_DEBUG__"]),
    ),
    switch("generate-line-info", "lineinfo", Nothing, To(&["-gline-tables-only"])),
    switch("profile", "pg", Nothing, To(&["-pg"])),
    switch("shared", "shared", Nothing, To(&["-shared"])),
    switch("machine", "m", One, Joined("-m")),
    switch("gpu-architecture", "arch", One, Translation::Special(Arch)),
    switch("gpu-code", "code", One, Translation::Special(Code)),
    switch("generate-code", "gencode", One, Translation::Special(Gencode)),
    switch("relocatable-device-code", "rdc", One, Translation::Special(Rdc)),
    switch("maxrregcount", "maxrregcount", One, Translation::Special(MaxRegisters)),
    switch(
        "use_fast_math",
        "use_fast_math",
        Nothing,
        To(&["-fgpu-approx-transcendentals", "-fgpu-flush-denormals-to-zero"]),
    ),
    switch("ftz", "ftz", One, Translation::Special(FlushDenormals)),
    switch("fmad", "fmad", One, Translation::Special(Fmad)),
    switch("prec-div", "prec-div", One, Drop),
    switch("prec-sqrt", "prec-sqrt", One, Translation::Special(ExactRoots)),
    switch("default-stream", "default-stream", One, Translation::Special(DefaultStream)),
    switch("expt-relaxed-constexpr", "expt-relaxed-constexpr", Nothing, Drop),
    switch("expt-extended-lambda", "expt-extended-lambda", Nothing, Drop),
    switch("extended-lambda", "extended-lambda", Nothing, Drop),
    switch("extra-device-vectorization", "extra-device-vectorization", Nothing, Drop),
    switch("restrict", "restrict", Nothing, Drop),
    switch("dlink-time-opt", "dlto", Nothing, Drop),
    switch("lto", "lto", Nothing, Drop),
    switch("legacy-launch-seq", "legacy-launch-seq", Nothing, Drop),
    switch("static-global-template-stub", "static-global-template-stub", One, Drop),
    switch("device-entity-has-hidden-visibility", "device-entity-has-hidden-visibility", One, Drop),
    switch("disable-warnings", "w", Nothing, To(&["-w"])),
    switch("Werror", "Werror", One, Translation::Special(Werror)),
    switch("Wno-deprecated-gpu-targets", "Wno-deprecated-gpu-targets", Nothing, Drop),
    switch("Wreorder", "Wreorder", Nothing, To(&["-Wreorder"])),
    switch("Wdefault-stream-launch", "Wdefault-stream-launch", Nothing, Drop),
    switch("Wext-lambda-captures-this", "Wext-lambda-captures-this", Nothing, Drop),
    switch("Wmissing-launch-bounds", "Wmissing-launch-bounds", Nothing, Drop),
    switch("resource-usage", "res-usage", Nothing, To(&["-Xcuda-ptxas", "-v"])),
    switch("diag-suppress", "diag-suppress", List, Drop),
    switch("diag-error", "diag-error", List, Drop),
    switch("diag-warn", "diag-warn", List, Drop),
    switch("display-error-number", "err-no", Nothing, Drop),
    switch("no-display-error-number", "no-err-no", Nothing, Drop),
    switch("source-in-ptx", "src-in-ptx", Nothing, Drop),
    switch("forward-unknown-to-host-compiler", "forward-unknown-to-host-compiler", Nothing, Drop),
    switch("forward-unknown-to-host-linker", "forward-unknown-to-host-linker", Nothing, Drop),
    switch("threads", "t", One, Drop),
    switch("split-compile", "split-compile", One, Drop),
    switch("keep", "keep", Nothing, Drop),
    switch("keep-dir", "keep-dir", One, Drop),
    switch("save-temps", "save-temps", Nothing, Drop),
    switch("clean-targets", "clean", Nothing, Refuse("remove the outputs yourself")),
    switch("time", "time", One, Drop),
    switch("no-host-device-initializer-list", "nohdinitlist", Nothing, Drop),
    switch("no-host-device-move-forward", "nohdmoveforward", Nothing, Drop),
    switch("verbose", "v", Nothing, To(&["-v"])),
    switch("dryrun", "dryrun", Nothing, To(&["--show"])),
    switch("version", "V", Nothing, To(&["--version"])),
    switch("help", "h", Nothing, To(&["--help"])),
];
