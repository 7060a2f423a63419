//! The program's registrations: kernels with CPU code, host stubs, device variables.
//!
//! Trap: registration runs in constructors, before `main` and in no fixed order, so it must only fill maps: no thread,
//! no file, no connection. Two files of a program may each have a `static` kernel of the same name, so host stub and
//! CPU code are matched by the name *and* the GPU code that the same file registers. A stub may also be registered by
//! several files, some without CPU code, since the linker merges instances of a template.

use core::ffi::{CStr, c_char, c_void};
use std::collections::{BTreeMap, BTreeSet};

use eager_exec::abi::{CHECKS, KERNEL_ABI_VERSION, KernelEntry, KernelTable, ParamDesc, VariableEntry};
use parking_lot::Mutex;

use super::check::THREADS_PER_BLOCK_MAX;
use super::copies;
use crate::log::log_line;
use crate::names::readable;
use crate::status::Code;

/// A kernel's CPU code and name.
#[derive(Debug, Clone, Copy)]
pub struct CpuKernel {
    pub name: &'static str,
    pub entry: &'static KernelEntry,
    /// Architecture of the GPU that it was compiled for: 90 for `sm_90`; 0: unknown.
    pub architecture: u32,
}

impl CpuKernel {
    /// True if it was compiled for strict mode.
    pub fn checks(&self) -> bool {
        self.entry.flags & CHECKS != 0
    }

    /// Largest number of threads per block of a launch: `__launch_bounds__`, or CUDA's limit.
    pub fn threads_max(&self) -> u32 {
        match self.entry.threads_max {
            0 => THREADS_PER_BLOCK_MAX,
            promised => promised.min(THREADS_PER_BLOCK_MAX),
        }
    }

    /// Size and alignment of each parameter.
    pub fn params(&self) -> &'static [ParamDesc] {
        // SAFETY: pointer and count belong together in an entry of this ABI version, which stays valid (`add_table`'s
        // contract).
        unsafe { slice(self.entry.params, self.entry.param_count) }
    }
}

// SAFETY: needed because an entry holds raw pointers. They lead to constants of the program that are never written and
// that stay until the process ends (`add_table`'s contract), so any thread may read them.
unsafe impl Send for CpuKernel {}
// SAFETY: as for `Send`.
unsafe impl Sync for CpuKernel {}

/// Memory of a device variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    pub address: u64,
    pub bytes: u64,
}

/// A device name with the GPU code with which it was registered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    /// Address of the GPU code; 0 in tables without it.
    device_code: usize,
    pub(super) name: String,
}

impl Symbol {
    /// # Safety
    /// `name` is null (then there is no symbol) or a NUL-terminated string that stays valid.
    pub(super) unsafe fn new(device_code: *const c_void, name: *const c_char) -> Option<Symbol> {
        // SAFETY: by this function's contract.
        let name = unsafe { text(name) }?.to_owned();
        Some(Symbol { device_code: device_code as usize, name })
    }

    pub(super) fn with_suffix(&self, suffix: &str) -> Symbol {
        Symbol { device_code: self.device_code, name: format!("{}{suffix}", self.name) }
    }
}

#[derive(Default)]
struct Registry {
    kernels: BTreeMap<Symbol, CpuKernel>,
    variables: BTreeMap<Symbol, Variable>,
    /// Address of the host stub to the symbols it was registered with.
    stubs: BTreeMap<usize, Vec<Symbol>>,
    /// Address of the host's shadow variable to the symbols it was registered with.
    shadows: BTreeMap<usize, Vec<Symbol>>,
    /// Dynamic shared memory allowed by `cudaFuncSetAttribute`, by stub.
    shared_opt_in_bytes: BTreeMap<usize, u32>,
    /// Stubs of kernels that may have clusters not supported by every GPU, by `cudaFuncSetAttribute`.
    non_portable_clusters: BTreeSet<usize>,
    /// Kernels of another version were ignored; one line has said so, and each of them has no code.
    has_ignored: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    kernels: BTreeMap::new(),
    variables: BTreeMap::new(),
    stubs: BTreeMap::new(),
    shadows: BTreeMap::new(),
    shared_opt_in_bytes: BTreeMap::new(),
    non_portable_clusters: BTreeSet::new(),
    has_ignored: false,
});

/// Registers the kernels and variables of one translation unit.
///
/// # Safety
/// `table` is null or points to a table that stays valid until the process ends.
pub unsafe fn add_table(table: *const KernelTable) {
    // SAFETY: null is handled; otherwise the table stays valid by this function's contract.
    let Some(table) = (unsafe { table.as_ref::<'static>() }) else { return };
    if table.abi_version != KERNEL_ABI_VERSION {
        let theirs = table.abi_version;
        if std::mem::replace(&mut REGISTRY.lock().has_ignored, true) {
            return;
        }
        log_line(format_args!(
            "kernels with ABI version {theirs} are ignored, this runtime needs {KERNEL_ABI_VERSION}: recompile the program"
        ));
        return;
    }
    // SAFETY: counts and arrays belong together in a table of this version (checked above).
    let (kernels, variables) = unsafe {
        (
            slice(table.kernels, table.kernel_count),
            slice::<VariableEntry>(table.variables, table.variable_count),
        )
    };
    // SAFETY: null is handled; otherwise the memory's description is part of a table of this version.
    if let Some(memory) = unsafe { table.memory.as_ref() } {
        copies::add(&memory.initialised, false);
        copies::add(&memory.zeroed, true);
    }
    let symbol = |name: &str| Symbol { device_code: table.device_code as usize, name: name.to_owned() };
    let mut registry = REGISTRY.lock();
    for entry in kernels {
        // SAFETY: the name is a constant string of the same object.
        if let Some(name) = unsafe { text(entry.name) } {
            registry.kernels.entry(symbol(name)).or_insert(CpuKernel {
                name,
                entry,
                architecture: table.architecture,
            });
        }
    }
    for variable in variables {
        // SAFETY: the name is a constant string of the same object.
        if let Some(name) = unsafe { text(variable.name) } {
            let place = Variable { address: variable.address as u64, bytes: variable.bytes };
            registry.variables.entry(symbol(name)).or_insert(place);
        }
    }
}

/// # Safety
/// `first` points to `count` entries that stay valid, or `count` is 0.
unsafe fn slice<T>(first: *const T, count: u32) -> &'static [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

/// # Safety
/// `name` is null or a NUL-terminated string that stays valid.
unsafe fn text(name: *const c_char) -> Option<&'static str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

/// Registers a host stub for a kernel's device name.
///
/// # Safety
/// `name` is null or a NUL-terminated string that stays valid.
pub unsafe fn add_stub(device_code: *const c_void, stub: *const c_void, name: *const c_char) {
    // SAFETY: by this function's contract.
    if let Some(symbol) = unsafe { Symbol::new(device_code, name) } {
        REGISTRY.lock().stubs.entry(stub as usize).or_default().push(symbol);
    }
}

/// Registers the host's shadow of a device variable for its device name.
///
/// # Safety
/// `name` is null or a NUL-terminated string that stays valid.
pub unsafe fn add_shadow(device_code: *const c_void, shadow: *const c_void, name: *const c_char) {
    // SAFETY: by this function's contract.
    if let Some(symbol) = unsafe { Symbol::new(device_code, name) } {
        REGISTRY.lock().shadows.entry(shadow as usize).or_default().push(symbol);
    }
}

/// Finds the CPU side of the first symbol that has one: from a table with the same GPU code, or with none.
fn find<'a, T>(known: &'a BTreeMap<Symbol, T>, symbols: &[Symbol]) -> Option<&'a T> {
    symbols.iter().find_map(|symbol| {
        known.get(symbol).or_else(|| known.get(&Symbol { device_code: 0, name: symbol.name.clone() }))
    })
}

/// CPU code of the kernel behind a host stub.
///
/// # Errors
/// `cudaErrorInvalidDeviceFunction`, with the reason on standard error.
pub fn kernel(stub: *const c_void) -> Result<CpuKernel, Code> {
    let registry = REGISTRY.lock();
    let Some(symbols) = registry.stubs.get(&(stub as usize)) else {
        log_line(format_args!("cannot launch {stub:p}: no kernel is registered at this address"));
        return Err(Code::cudaErrorInvalidDeviceFunction);
    };
    let Some(found) = find(&registry.kernels, symbols) else {
        if !registry.has_ignored {
            let name = readable(&symbols[0].name);
            log_line(format_args!(
                "kernel {name} has no CPU code in this program: compile its file with eagercc"
            ));
        }
        return Err(Code::cudaErrorInvalidDeviceFunction);
    };
    Ok(*found)
}

/// True if `stub` is a registered host stub, with CPU code or without.
pub fn is_registered(stub: *const c_void) -> bool {
    REGISTRY.lock().stubs.contains_key(&(stub as usize))
}

/// The device variable with this symbol.
pub(super) fn named_variable(symbol: &Symbol) -> Option<Variable> {
    find(&REGISTRY.lock().variables, std::slice::from_ref(symbol)).copied()
}

/// The device variable behind the host's shadow variable.
///
/// # Errors
/// `cudaErrorInvalidSymbol`.
pub(super) fn shadowed_variable(shadow: *const c_void) -> Result<Variable, Code> {
    let registry = REGISTRY.lock();
    let symbols = registry.shadows.get(&(shadow as usize)).ok_or(Code::cudaErrorInvalidSymbol)?;
    find(&registry.variables, symbols).copied().ok_or_else(|| {
        let name = &symbols[0].name;
        log_line(format_args!(
            "device variable {name} has no CPU code in this program: compile its file with eagercc"
        ));
        Code::cudaErrorInvalidSymbol
    })
}

/// The device variable that contains an address: the program's, or a device's copy of it.
pub fn variable_at(address: u64) -> Option<Variable> {
    let home = copies::home(address).map_or(address, |(home, _)| home);
    let registry = REGISTRY.lock();
    let holds = |variable: &&Variable| (variable.address..variable.address + variable.bytes).contains(&home);
    let found = registry.variables.values().find(holds)?;
    Some(Variable { address: address - (home - found.address), ..*found })
}

/// All device variables with their names, at the program's addresses and in the devices' copies.
pub fn variables() -> Vec<(String, Variable)> {
    let registry = REGISTRY.lock();
    let places = registry.variables.iter().flat_map(|(symbol, place)| {
        let addresses = copies::all(place.address).into_iter().chain([place.address]);
        addresses.map(|address| (symbol.name.clone(), Variable { address, ..*place }))
    });
    places.collect()
}

/// True if some kernel was compiled for strict mode.
pub fn some_kernel_checks() -> bool {
    REGISTRY.lock().kernels.values().any(CpuKernel::checks)
}

/// Allows a kernel more dynamic shared memory than the default limit.
pub fn opt_in_shared(stub: *const c_void, bytes: u32) {
    REGISTRY.lock().shared_opt_in_bytes.insert(stub as usize, bytes);
}

/// Dynamic shared memory allowed by [`opt_in_shared`]; 0 by default.
pub fn shared_opt_in_bytes(stub: *const c_void) -> u32 {
    REGISTRY.lock().shared_opt_in_bytes.get(&(stub as usize)).copied().unwrap_or(0)
}

/// Allows or forbids a kernel clusters larger than every GPU with clusters supports.
pub fn allow_non_portable_clusters(stub: *const c_void, allowed: bool) {
    let stubs = &mut REGISTRY.lock().non_portable_clusters;
    if allowed {
        stubs.insert(stub as usize);
    } else {
        stubs.remove(&(stub as usize));
    }
}

/// Last setting of [`allow_non_portable_clusters`]; false by default.
pub fn allows_non_portable_clusters(stub: *const c_void) -> bool {
    REGISTRY.lock().non_portable_clusters.contains(&(stub as usize))
}
