//! Settings that the driver passes to the plugin: read from the environment once per module, plain data afterwards.
//!
//! The plugin is loaded into clang, which takes no options for it, so environment variables are the only channel. clang
//! runs the plugin in the device and in the host compilation of one command with the same environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// File through which the device half passes the CPU kernels to the host half. Unset: no CPU kernels.
pub const CPU_KERNELS_VARIABLE: &str = "EAGER_PASS_CPU_KERNELS";
/// How the CPU kernels run the threads of a block: a name of `eager_kernels::Mode`.
pub const KERNEL_MODE_VARIABLE: &str = "EAGER_PASS_KERNEL_MODE";
/// Which warps of the CPU kernels run in lock step: a name of `eager_kernels::LockStep`.
pub const LOCK_STEP_VARIABLE: &str = "EAGER_PASS_LOCK_STEP";
/// `1`: the CPU kernels check every access.
pub const STRICT_VARIABLE: &str = "EAGER_PASS_STRICT";
/// File through which the device half passes its module to the host half, which keeps it for the link (`-fgpu-rdc`).
pub const DEVICE_CODE_VARIABLE: &str = "EAGER_PASS_DEVICE_CODE";
/// File through which the device half passes its facts about kernels to the host half. Unset: no facts.
pub const KERNEL_DATA_VARIABLE: &str = "EAGER_PASS_KERNEL_DATA";
/// File to which the JSON report of the translation unit is written.
pub const REPORT_VARIABLE: &str = "EAGER_PASS_REPORT";
/// `0`: do not instrument the host code.
pub const INSTRUMENT_VARIABLE: &str = "EAGER_PASS_INSTRUMENT";
/// `compile`: leave the host code to the linker. `link=NAME`: this is the linker, and NAME its output.
pub const WHOLE_PROGRAM_VARIABLE: &str = "EAGER_PASS_WHOLE_PROGRAM";

/// When the host code is instrumented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WholeProgram {
    /// In the compile of each source.
    #[default]
    Off,
    /// At link time; this process is a compile.
    Compile,
    /// At link time; this process is the link, with this output file.
    Link(String),
}

/// Settings for one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassOptions {
    pub cpu_kernels: Option<PathBuf>,
    pub kernel_mode: Option<String>,
    pub lock_step: Option<String>,
    pub strict: bool,
    pub device_code: Option<PathBuf>,
    pub kernel_data: Option<PathBuf>,
    pub report: Option<PathBuf>,
    pub instrument: bool,
    pub whole_program: WholeProgram,
}

impl PassOptions {
    /// Decodes the variables through `lookup`.
    #[must_use]
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            cpu_kernels: path(CPU_KERNELS_VARIABLE),
            kernel_mode: lookup(KERNEL_MODE_VARIABLE).map(|mode| mode.to_string_lossy().into_owned()),
            lock_step: lookup(LOCK_STEP_VARIABLE).map(|way| way.to_string_lossy().into_owned()),
            strict: lookup(STRICT_VARIABLE).is_some_and(|value| value == "1"),
            device_code: path(DEVICE_CODE_VARIABLE),
            kernel_data: path(KERNEL_DATA_VARIABLE),
            report: path(REPORT_VARIABLE),
            instrument: lookup(INSTRUMENT_VARIABLE).is_none_or(|value| value != "0"),
            whole_program: lookup(WHOLE_PROGRAM_VARIABLE).map_or(WholeProgram::Off, |value| {
                let value = value.to_string_lossy();
                match value.strip_prefix("link=") {
                    Some(name) => WholeProgram::Link(name.to_owned()),
                    None if value == "compile" => WholeProgram::Compile,
                    None => WholeProgram::Off,
                }
            }),
        }
    }
}
