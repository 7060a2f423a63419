//! CPU kernels: converted from the NVPTX module and passed in a file to the host half of the same clang command, which
//! links them into the object.
//!
//! Trap: clang runs the device half once per GPU architecture. The first run makes the CPU kernels and later runs keep
//! an existing file, so the file must not exist when the command starts (the driver gives each compile a fresh name).

use std::path::Path;

use eager_kernels::Note;
use eager_llvm::Module;
use eager_tasks::report::Remark;

use super::bitcode_for_cpu;
use crate::diagnostics;
use crate::options::PassOptions;

/// Name of the variable that a unit passes to `__cudaRegisterFatBinary`: clang's, and nvcc's (`crt/host_runtime.h`).
const DEVICE_CODE: &str = "__cuda_fatbin_wrapper";
const DEVICE_CODE_OF_NVCC: &str = "_ZL15__fatDeviceText";

/// Reason why CPU kernels could not be made or linked.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The converter's text names each construct that cannot run on the CPU, one per line.
    #[error("{0}")]
    Convert(String),
    #[error("unknown kernel mode `{name}`: use auto, loops, fission, coroutines or lanes-apart")]
    Mode { name: String },
    #[error("unknown lockstep mode `{name}`: use off, auto, suspected or all")]
    LockStep { name: String },
    #[error("cannot write CPU kernels to {path}: {source}")]
    Write { path: String, source: std::io::Error },
    #[error("cannot read CPU kernels from {path}: {source}; was the device side of this file compiled?")]
    Read { path: String, source: std::io::Error },
    #[error("{path} does not contain valid bitcode")]
    Parse { path: String },
    #[error("cannot link the CPU kernels in {path} into {module}")]
    Link { path: String, module: String },
}

/// Converts the module and writes the CPU kernels to `path`, unless an earlier architecture did.
///
/// # Errors
/// If the mode does not exist, a kernel uses something that cannot run on the CPU, or the file cannot be written.
pub fn write(module: &Module<'_>, path: &Path, pass: &PassOptions) -> Result<(), DeviceError> {
    if path.exists() {
        return Ok(());
    }
    let mode = match pass.kernel_mode.as_deref().map(|name| (name, eager_kernels::Mode::from_name(name))) {
        None => eager_kernels::Mode::default(),
        Some((_, Some(mode))) => mode,
        Some((name, None)) => return Err(DeviceError::Mode { name: name.to_owned() }),
    };
    let lock_step =
        match pass.lock_step.as_deref().map(|name| (name, eager_kernels::LockStep::from_name(name))) {
            None => eager_kernels::LockStep::default(),
            Some((_, Some(way))) => way,
            Some((name, None)) => return Err(DeviceError::LockStep { name: name.to_owned() }),
        };
    let module_name = module.source_name();
    let options = eager_kernels::Options {
        mode,
        lock_step,
        strict: pass.strict,
        module_name,
        ..eager_kernels::Options::default()
    };
    let converted = eager_kernels::convert(&bitcode_for_cpu(module), &options)
        .map_err(|error| DeviceError::Convert(error.to_string()))?;
    for Note { kernel, text, is_warning } in converted.report.notes {
        if is_warning {
            diagnostics::warn(module, &text);
            continue;
        }
        let remark = Remark { place: None, symbol: kernel, text, missed: true, name: "SimplerKernel" };
        diagnostics::emit_remark(module, &remark);
    }
    std::fs::write(path, converted.bitcode)
        .map_err(|source| DeviceError::Write { path: path.display().to_string(), source })
}

/// Whether the host module carries device code, and so needs the CPU kernels in `path`. For nvcc's host code the file
/// may be missing: clang makes the CPU kernels in a separate compile, if it can.
#[must_use]
pub fn has_device_code(module: &Module<'_>, path: &Path) -> bool {
    module.global(DEVICE_CODE).is_some() || (module.global(DEVICE_CODE_OF_NVCC).is_some() && path.exists())
}

/// Links the CPU kernels in `path` into the host module.
///
/// # Errors
/// If the file is missing, broken, or clashes with the module.
pub fn link_in(module: &Module<'_>, path: &Path) -> Result<(), DeviceError> {
    let shown = || path.display().to_string();
    let bytes = std::fs::read(path).map_err(|source| DeviceError::Read { path: shown(), source })?;
    let kernels = module.context().parse_bitcode(&bytes).map_err(|_| DeviceError::Parse { path: shown() })?;
    // A difference in target or layout is a linker warning, and clang's handler of linker messages crashes outside of
    // clang's own linking. Both modules are x86-64 Linux; only the vendor in the triple differs.
    kernels.set_layout_of(module);
    module.link(kernels).map_err(|()| DeviceError::Link { path: shown(), module: module.source_name() })?;
    name_device_code(module);
    Ok(())
}

/// Connects the kernel table to the program's GPU code. The module linker does not do this, because the host module's
/// variable is internal and so does not match the kernels' declaration.
fn name_device_code(module: &Module<'_>) {
    let device_code = module.global(DEVICE_CODE).or_else(|| module.global(DEVICE_CODE_OF_NVCC));
    let (Some(declared), Some(device_code)) = (module.global(eager_kernels::DEVICE_CODE_SYMBOL), device_code)
    else {
        return;
    };
    declared.replace_uses_with(device_code);
    declared.delete();
}
