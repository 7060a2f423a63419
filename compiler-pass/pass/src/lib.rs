//! The Eager compiler pass: an LLVM plugin that clang runs at the start of its pipeline on every module.
//!
//! Host modules: read IR into facts ([`read`]), plan (crate `eager-tasks`, no LLVM), write IR ([`emit`]). Device
//! modules: CPU kernels for the virtual GPU, and facts about kernels' arguments ([`device`]). Trap: this code runs
//! inside clang, and a panic must not unwind into clang. So every entry point catches panics, and a failure becomes a
//! clang error, which fails the compile.

mod device;
mod diagnostics;
mod emit;
mod host;
pub mod options;
pub mod rdc;
mod read;

use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use eager_llvm::Module;

use crate::emit::managed;
use crate::options::{PassOptions, WholeProgram};

/// Major version of the LLVM that this plugin is built for. LLVM's C++ interface differs between major versions.
pub const LLVM_MAJOR: u32 = eager_llvm::MAJOR;

unsafe extern "C" {
    fn eager_plugin_api_version() -> u32;
    fn eager_register_callbacks(builder: *mut c_void);
}

/// `llvm::PassPluginLibraryInfo`.
#[repr(C)]
#[derive(Debug)]
pub struct PassPluginLibraryInfo {
    api_version: u32,
    name: *const c_char,
    version: *const c_char,
    register_callbacks: Option<unsafe extern "C" fn(*mut c_void)>,
    #[cfg(feature = "llvm22")]
    pre_code_gen: *const c_void,
}

/// Entry point that clang and opt look up in a pass plugin.
#[unsafe(no_mangle)]
pub extern "C" fn llvmGetPassPluginInfo() -> PassPluginLibraryInfo {
    let host_major = host_llvm_major();
    let refused = host_major != LLVM_MAJOR;
    if refused {
        eprintln!(
            "eager: this plugin is built for LLVM {LLVM_MAJOR}, and the compiler that loads it is LLVM {host_major}: \
             use clang-{LLVM_MAJOR} (eagercc takes it from EAGER_CLANG or PATH)"
        );
    }
    PassPluginLibraryInfo {
        // The loader refuses a version that no LLVM has, so the compile fails instead of crashing.
        // SAFETY: the function returns a constant.
        api_version: if refused { 0 } else { unsafe { eager_plugin_api_version() } },
        name: c"eager".as_ptr(),
        version: concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast(),
        register_callbacks: (!refused)
            .then_some(eager_register_callbacks as unsafe extern "C" fn(*mut c_void)),
        #[cfg(feature = "llvm22")]
        pre_code_gen: std::ptr::null(),
    }
}

/// Major version of the LLVM of the host process: the first one that the loader finds. If a compiler of another version
/// loads this plugin, the process has two LLVMs, and the plugin's own calls are bound to its own by name.
fn host_llvm_major() -> u32 {
    type GetVersion = unsafe extern "C" fn(*mut u32, *mut u32, *mut u32);
    // SAFETY: a look-up by a NUL-terminated name in the global scope.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"LLVMGetVersion".as_ptr()) };
    if symbol.is_null() {
        return LLVM_MAJOR;
    }
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: every LLVM since 16 defines this name with this signature; the three pointers are valid for the call.
    unsafe {
        let get: GetVersion = std::mem::transmute(symbol);
        get(&raw mut major, &raw mut minor, &raw mut patch);
    }
    major
}

/// Runs the pass on a module; called by the registered pass, once per module. Returns whether the module was changed.
///
/// # Safety
/// `module` is a live module that no other code uses during the call; clang's pass manager guarantees both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eager_run_on_module(module: *mut c_void) -> bool {
    // SAFETY: the caller guarantees what `lend` requires.
    unsafe { Module::lend(module, |module| guarded(module, run)) }
}

/// Links the CPU kernels; called after the host's optimisation, once per module. Returns whether the module was
/// changed.
///
/// # Safety
/// As for [`eager_run_on_module`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eager_link_kernels(module: *mut c_void) -> bool {
    // SAFETY: the caller guarantees what `lend` requires.
    unsafe { Module::lend(module, |module| guarded(module, link_kernels)) }
}

/// Runs a step on a module; a failure or panic becomes a clang error.
fn guarded(module: &Module<'_>, step: fn(&Module<'_>, &PassOptions) -> Result<bool, String>) -> bool {
    let options = options();
    match catch_unwind(AssertUnwindSafe(|| step(module, &options))) {
        Ok(Ok(changed)) => changed,
        Ok(Err(message)) => {
            report_error(module, &message);
            true
        }
        Err(_) => {
            report_error(
                module,
                "the pass failed on this file: please report it (--eager-no-instrument avoids it)",
            );
            true
        }
    }
}

fn options() -> PassOptions {
    PassOptions::from_lookup(|name| std::env::var_os(name))
}

/// Whether the host code of this module is left to be instrumented by the linker.
///
/// # Safety
/// As for [`eager_run_on_module`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eager_is_postponed(module: *mut c_void) -> bool {
    let is_device = |module: &Module<'_>| device::is_device(module);
    // SAFETY: the caller guarantees what `lend` requires.
    options().whole_program == WholeProgram::Compile && !unsafe { Module::lend(module, is_device) }
}

/// Whether this process is a linker that runs the plugin on the whole program.
#[unsafe(no_mangle)]
pub extern "C" fn eager_links_program() -> bool {
    matches!(options().whole_program, WholeProgram::Link(_))
}

/// Runs the pass on one module, device or host.
///
/// # Errors
/// A message for the user, one line per problem; the compile must fail.
fn run(module: &Module<'_>, options: &PassOptions) -> Result<bool, String> {
    if device::is_device(module) {
        let clusters = device::clusters::add_cluster_attributes(module);
        let masks = device::old_warp::add_masks(module);
        let mended = device::mend::mend(module) || clusters || masks;
        if let Some(path) = &options.device_code {
            rdc::keep(module, path).map_err(|error| error.to_string())?;
        }
        if let Some(path) = &options.kernel_data {
            device::kernel_data::write(module, path).map_err(|error| error.to_string())?;
        }
        if let Some(path) = &options.cpu_kernels {
            device::cpu_kernels::write(module, path, options).map_err(|error| error.to_string())?;
        }
        let cast = device::casts::make_plain(module);
        return Ok(managed::mark(module) || mended || cast);
    }
    let mut changed = managed::point_host(module).map_err(|error| error.to_string())?;
    if let Some(path) = &options.device_code {
        changed |= rdc::embed(module, path).map_err(|error| error.to_string())?;
    }
    if let WholeProgram::Link(program) = &options.whole_program {
        module.set_source_name(program);
    }
    if options.instrument && options.whole_program != WholeProgram::Compile {
        changed |= host::instrument(module, options).map_err(|error| error.to_string())?;
    }
    if let (WholeProgram::Compile, Some(path)) = (&options.whole_program, &options.kernel_data) {
        changed |= device::kernel_data::add_metadata(module, path).map_err(|error| error.to_string())?;
    }
    Ok(changed)
}

/// Links the CPU kernels into a host module that has device code.
///
/// # Errors
/// As for [`run`].
fn link_kernels(module: &Module<'_>, options: &PassOptions) -> Result<bool, String> {
    let path = options.cpu_kernels.as_ref().filter(|_| !device::is_device(module));
    let Some(path) = path.filter(|path| device::cpu_kernels::has_device_code(module, path)) else {
        return Ok(false);
    };
    device::cpu_kernels::link_in(module, path).map_err(|error| error.to_string())?;
    Ok(true)
}

fn report_error(module: &Module<'_>, message: &str) {
    for line in message.lines().filter(|line| !line.trim().is_empty()) {
        let line =
            CString::new(format!("eager: {line}")).unwrap_or_else(|_| CStr::to_owned(c"eager: failed"));
        module.emit_error(&line);
    }
}
