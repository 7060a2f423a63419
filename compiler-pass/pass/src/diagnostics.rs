//! Reports results: remarks through LLVM's diagnostics, so that clang's own switches select them, and the JSON report.
//!
//! Trap: the report must name functions by symbol while it is built, because sites are hashed from symbols. Symbols
//! become readable names only here.

use std::ffi::CString;

use eager_abi::{
    ACCESS_CYCLIC, ACCESS_ONE_PASS, ACCESS_SPARSE, ACCESS_UNUSED, ARG_ACCESS_BITS, ARG_ACCESS_SHIFT,
    ARG_POINTER, ARG_READ, ARG_REPEATED, ARG_WRITTEN, EagerKernelArg,
};
use eager_llvm::{Module, demangled};
use eager_tasks::Report;
use eager_tasks::report::{AccessClass, ArgReport, KernelReport, Remark};

use crate::options::PassOptions;
use crate::read::kernels::RegisteredKernel;

/// Completes the report, emits one remark per task and buffer, and writes the report to the driver's file.
///
/// # Errors
/// If the file cannot be written.
pub fn emit_report(
    module: &Module<'_>,
    mut report: Report,
    kernels: &[RegisteredKernel<'_>],
    options: &PassOptions,
) -> std::io::Result<()> {
    report.kernels = kernels.iter().map(kernel_report).collect();
    report.name_functions(demangled);
    for remark in report.remarks().into_iter().chain(report.buffer_remarks()) {
        emit_remark(module, &remark);
    }
    let Some(path) = &options.report else { return Ok(()) };
    std::fs::write(path, serde_json::to_string_pretty(&report)?)
}

fn kernel_report(kernel: &RegisteredKernel<'_>) -> KernelReport {
    KernelReport {
        symbol: kernel.name.clone(),
        function: demangled(&kernel.name),
        registers: kernel.resources.registers,
        shared_bytes: kernel.resources.shared_bytes,
        repeated: kernel.args.iter().any(|arg| arg.flags & ARG_REPEATED != 0),
        args: kernel.args.iter().map(arg_report).collect(),
    }
}

fn arg_report(arg: &EagerKernelArg) -> ArgReport {
    let has = |flag: u32| arg.flags & flag != 0;
    let class = arg.flags >> ARG_ACCESS_SHIFT & ((1 << ARG_ACCESS_BITS) - 1);
    ArgReport {
        bytes: arg.size,
        pointer: has(ARG_POINTER),
        read: has(ARG_READ),
        written: has(ARG_WRITTEN),
        access: match class {
            ACCESS_ONE_PASS => AccessClass::OnePass,
            ACCESS_CYCLIC => AccessClass::Cyclic,
            ACCESS_SPARSE => AccessClass::Sparse,
            ACCESS_UNUSED => AccessClass::Unused,
            _ => AccessClass::Unknown,
        },
    }
}

/// Emits one remark.
pub fn emit_remark(module: &Module<'_>, remark: &Remark) {
    let (file, line) = remark.place.as_ref().map_or(("", 0), |place| (place.file.as_str(), place.line));
    let (symbol, name) = (remark.symbol.as_str(), remark.name);
    module.emit_remark(eager_llvm::Remark {
        symbol,
        file,
        line,
        missed: remark.missed,
        name,
        text: &remark.text,
    });
}

/// Emits a compiler warning (`-Wbackend-plugin`).
pub fn warn(module: &Module<'_>, text: &str) {
    module.emit_warning(&CString::new(text).unwrap_or_default());
}
