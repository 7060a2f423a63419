//! Translates the device side of a CUDA program (NVPTX bitcode from clang, not optimised) to code for this CPU.
//!
//! [`convert`] is the whole interface: bitcode in, an x86-64 module and a report out. Trap: it runs inside clang, in
//! the pass plugin, so it must use a context of its own, keep no global state and never abort; all constructs that it
//! cannot translate are returned together as [`ConvertError::Unsupported`].
#![forbid(unsafe_code)]

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
mod lockstep;
mod loops;
mod math;
mod minmax;
mod out_of_line;
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
mod variables;
mod warp;

pub(crate) use eager_llvm as llvm;
use serde::{Deserialize, Serialize};

/// Symbol that the translated module declares for the address of the GPU code registered with CUDA, by which the
/// runtime tells equal kernel names of two files apart. The linker of the module, the compiler pass, replaces it by
/// that address; otherwise it is null.
pub const DEVICE_CODE_SYMBOL: &str = "eager.device_code";

/// Form in which a kernel's threads run on one CPU thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The fastest form that a kernel allows: loops without a barrier, fission if it waits at block barriers only,
    /// otherwise warps or coroutines.
    #[default]
    Auto,
    /// Loops for kernels without a barrier, coroutines for the others.
    Loops,
    /// Like `Auto`, but also for kernels with more barriers than pays off.
    Fission,
    /// Coroutines for all kernels: the oracle that tests compare other forms with.
    Coroutine,
    /// Like `Auto`, but the threads of a warp always count as diverged, to test that path.
    LanesApart,
}

impl Mode {
    /// Returns the mode by its name on the compiler driver's command line.
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

/// Kernels in which threads of a warp run in step where no barrier or warp operation demands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockStep {
    /// No kernel: only barriers and operations of the warp order threads.
    Off,
    /// Kernels that are seen to rely on it, at the accesses to shared memory that do.
    #[default]
    Auto,
    /// Like `Auto`, and where it is unknown whether a kernel relies on it.
    Suspected,
    /// Like `Suspected`, and at every volatile access to other memory.
    All,
}

impl LockStep {
    /// Returns the setting by its name on the compiler driver's command line.
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

/// Limits on a kernel's instructions, counted after simplification, beyond which an optimisation that costs compile
/// time is left out. Results do not depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Instructions times copies up to which rows are cut at comparisons of the thread index.
    pub guards: usize,
    /// Instructions times copies up to which there are two versions, for launches with and without a touch map.
    pub versions: usize,
    /// The same for a kernel that is cut at operations of the warp. More than for others: its only version calls a
    /// function for each lane and region, at ten times the time.
    pub warp_versions: usize,
    /// Instructions times copies up to which the optimiser works as for `-O3`.
    pub optimiser: usize,
    /// Instructions of a coroutine up to which its marks are inline.
    pub marks_inline: usize,
    /// Instructions up to which straight code is vectorised.
    pub slp: usize,
    /// Memory accesses in a loop over threads up to which it is vectorised.
    pub vectorised_accesses: usize,
}

impl Budget {
    /// Leaves out everything that can be left out.
    pub const NOTHING: Budget = Budget {
        guards: 0,
        versions: 0,
        warp_versions: 0,
        optimiser: 0,
        marks_inline: 0,
        slp: 0,
        vectorised_accesses: 0,
    };
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            guards: 30_000,
            versions: 24_000,
            warp_versions: 40_000,
            optimiser: 120_000,
            marks_inline: 4_000,
            slp: 8_000,
            vectorised_accesses: 256,
        }
    }
}

/// Options of a translation.
#[derive(Debug, Clone)]
pub struct Options {
    /// LLVM's name of the CPU to generate code for.
    pub cpu: String,
    /// Record accesses to global memory in the executor's touch map.
    pub touch: bool,
    /// Count bytes of global memory requested and floating-point operations.
    pub counters: bool,
    /// Check every access before it happens: strict mode.
    pub strict: bool,
    pub mode: Mode,
    pub lock_step: LockStep,
    pub budget: Budget,
    /// Name in messages: the source file as the user wrote it.
    pub module_name: String,
}

impl Default for Options {
    /// All measurements on, strict mode off. `x86-64-v2` has no fused multiply-add: results do not depend on what the
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

/// Result of translating one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelReport {
    /// Mangled name.
    pub name: String,
    pub mode: KernelMode,
    pub params: Vec<ParamReport>,
    pub static_shared_bytes: u32,
}

/// Form of a translated kernel; the numbers are those of the binary interface.
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

/// A message to the user about a kernel: a simpler form than requested, or a construct that it should not rely on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Mangled name.
    pub kernel: String,
    pub text: String,
    /// The program is at fault, so the note is shown by default.
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
    /// Description of the construct, in the user's terms where possible.
    pub construct: String,
    /// `file:line` if the device code was compiled with line tables, else the name of its function.
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
    /// Every unsupported construct, in order of kernels; one line each.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unsupported(Vec<Unsupported>),
    #[error("{module}: cannot generate code for CPU `{cpu}`: {reason}")]
    Target { module: String, cpu: String, reason: String },
    #[error("{module}: translation to CPU code failed (a defect of eager-kernels): {reason}")]
    Defect { module: String, reason: String },
}

/// Translates one translation unit's device module.
///
/// # Errors
/// See [`ConvertError`].
pub fn convert(bitcode: &[u8], options: &Options) -> Result<Converted, ConvertError> {
    translate::translate(bitcode, options)
}
