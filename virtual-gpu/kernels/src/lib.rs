//! Turns the device side of a CUDA program (NVPTX bitcode from clang, not optimised) into code for this CPU.
//!
//! [`convert`] is the whole interface: bitcode in, an x86-64 module and a report out. Trap: it runs inside clang, in the
//! pass plugin, so it uses a context of its own, keeps no global state and never aborts; what it cannot translate comes
//! back as [`ConvertError::Unsupported`], all of it at once.

mod apart;
mod body;
mod budget;
mod casts;
mod check;
mod clusters;
mod coroutine;
mod denormals;
mod driver;
mod fission;
mod flow;
mod guards;
mod import;
mod instrument;
mod integers;
mod intrinsics;
mod library;
mod llvm;
mod lockstep;
mod loops;
mod math;
mod minmax;
mod places;
mod polls;
mod provenance;
mod ptx;
mod pure;
mod races;
mod recompute;
mod regions;
mod rounding;
mod runtime;
mod shared;
mod stretches;
mod strict;
mod suspend;
mod thread;
mod thread_call;
mod translate;
mod warp;

use serde::{Deserialize, Serialize};

/// Declared by the translated module for the address of the GPU code that is registered with CUDA, by which the runtime
/// tells equal kernel names of two files apart. Who links the module in puts that address in its place; left alone it
/// is null.
pub const DEVICE_CODE_SYMBOL: &str = "eager.device_code";

/// How a kernel's threads are run on one CPU thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The fastest that a kernel allows: loops without a barrier, fission where all its waiting is at block barriers,
    /// coroutines else.
    #[default]
    Auto,
    /// Loops for kernels without a barrier, coroutines for the others.
    Loops,
    /// As `Auto`, and also where a kernel has more regions than pay.
    Fission,
    /// Coroutines for all kernels: the oracle that tests compare the others with.
    Coroutine,
    /// As `Auto`, but threads of a warp always count as apart: for tests of what they do then.
    LanesApart,
}

impl Mode {
    /// The mode of this name, as the compiler driver's users write it.
    pub fn from_name(name: &str) -> Option<Mode> {
        match name {
            "auto" => Some(Mode::Auto),
            "loops" => Some(Mode::Loops),
            "fission" => Some(Mode::Fission),
            "coroutines" => Some(Mode::Coroutine),
            "lanes-apart" => Some(Mode::LanesApart),
            _ => None,
        }
    }
}

/// Which threads of a warp run in step where nothing says that they must.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockStep {
    /// Those of no kernel: only barriers and operations of the warp order them.
    Off,
    /// Those of kernels that are seen to rely on it, at the accesses to shared memory that do.
    #[default]
    Auto,
    /// Also where it is not seen whether a kernel relies on it.
    Suspected,
    /// Also at every volatile access to other memory.
    All,
}

impl LockStep {
    /// As the compiler driver's users write it.
    pub fn from_name(name: &str) -> Option<LockStep> {
        match name {
            "off" => Some(LockStep::Off),
            "auto" => Some(LockStep::Auto),
            "suspected" => Some(LockStep::Suspected),
            "all" => Some(LockStep::All),
            _ => None,
        }
    }
}

/// How many instructions a kernel may have, as the program wrote it and simplified, before something that costs time to
/// compile is left out. Results do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Times the copies of it: rows are cut at comparisons of the thread index.
    pub guards: usize,
    /// Times the copies of it: a version for launches with a touch map and one for those without.
    pub versions: usize,
    /// Times the copies of it: the optimiser works as for `-O3`.
    pub optimiser: usize,
    /// Marks of a coroutine are part of its code.
    pub marks_inline: usize,
    /// Straight code is vectorised.
    pub slp: usize,
    /// Accesses to memory in a loop over threads: it is vectorised.
    pub vectorised_accesses: usize,
}

impl Budget {
    /// Everything that can be left out is.
    pub const NOTHING: Budget =
        Budget { guards: 0, versions: 0, optimiser: 0, marks_inline: 0, slp: 0, vectorised_accesses: 0 };
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            guards: 30_000,
            versions: 60_000,
            optimiser: 120_000,
            marks_inline: 4_000,
            slp: 8_000,
            vectorised_accesses: 256,
        }
    }
}

/// What to make of a device module.
#[derive(Debug, Clone)]
pub struct Options {
    /// LLVM's name of the CPU to generate code for.
    pub cpu: String,
    /// Record accesses to global memory in the executor's touch map.
    pub touch: bool,
    /// Count bytes of global memory asked for and floating-point operations.
    pub counters: bool,
    /// Ask before every access whether it may happen: strict mode.
    pub strict: bool,
    pub mode: Mode,
    pub lock_step: LockStep,
    pub budget: Budget,
    /// Named in messages; the source file as the user wrote it.
    pub module_name: String,
}

impl Default for Options {
    /// All that measures on, strict mode off. `x86-64-v2` has no fused multiply-add: results do not depend on what the
    /// optimiser fuses, and the code runs on every x86-64 server of the last fifteen years.
    fn default() -> Self {
        Options {
            cpu: "x86-64-v2".to_owned(),
            touch: true,
            counters: true,
            strict: false,
            mode: Mode::Auto,
            lock_step: LockStep::Auto,
            budget: Budget::default(),
            module_name: "device code".to_owned(),
        }
    }
}

/// How one kernel was translated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelReport {
    /// Mangled name.
    pub name: String,
    pub mode: KernelMode,
    pub params: Vec<ParamReport>,
    pub static_shared_bytes: u32,
}

/// How a kernel's threads were laid out; the numbers are those of the binary interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelMode {
    Loop = 0,
    Coroutine = 1,
    Fission = 2,
    /// Warp by warp, cut at operations of the warp as well.
    Warp = 3,
}

/// Size and alignment of a parameter in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamReport {
    pub size: u32,
    pub align: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub kernels: Vec<KernelReport>,
    /// Names of the `__device__` and `__constant__` variables.
    pub variables: Vec<String>,
    pub notes: Vec<Note>,
}

/// What the user is told of a kernel: what was done in a simpler way than asked for, and what it should not rely on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Mangled name.
    pub kernel: String,
    pub text: String,
    /// The program is at fault, so it is said unasked.
    pub is_warning: bool,
}

/// A translated module.
#[derive(Debug, Clone)]
pub struct Converted {
    /// x86-64 bitcode, optimised, without a target triple; link it into the host module of the same source file.
    pub bitcode: Vec<u8>,
    pub report: Report,
}

/// A construct of a kernel that has no translation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// Mangled name of the kernel.
    pub kernel: String,
    /// What it is, in the user's terms where possible.
    pub construct: String,
    /// `file:line` if the device code was compiled with line tables, else the function it is in.
    pub place: String,
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kernel = check::readable(&self.kernel);
        let (place, construct) = (&self.place, &self.construct);
        write!(
            f,
            "{place}: kernel {kernel}: {construct} cannot run on the virtual GPU; `--eager-no-cpu-kernels` compiles for \
             real GPUs only"
        )
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    #[error("{module}: not NVPTX bitcode that this LLVM can read: {reason}")]
    Malformed { module: String, reason: String },
    /// Every construct found, in order of kernels; one line each.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unsupported(Vec<Unsupported>),
    #[error("{module}: no code for CPU `{cpu}`: {reason}")]
    Target { module: String, cpu: String, reason: String },
    #[error("{module}: translation to CPU code failed, a defect of eager-kernels: {reason}")]
    Defect { module: String, reason: String },
}

/// Translates one translation unit's device module.
///
/// # Errors
/// See [`ConvertError`].
pub fn convert(bitcode: &[u8], options: &Options) -> Result<Converted, ConvertError> {
    translate::translate(bitcode, options)
}
