//! What the program has registered: kernels with CPU code, host stubs, device variables.
//!
//! Registration runs in constructors, before `main` and in no fixed order, so it only fills maps: no thread, no file, no
//! connection. Trap: two files of a program may each have a `static` kernel of one name, so host stub and CPU code meet
//! by the name *and* the GPU code that the same file registers. A stub may also be registered by several files, some of
//! them without CPU code: an instance of a template is merged by the linker.

use core::ffi::{CStr, c_char, c_void};
use std::collections::{BTreeMap, BTreeSet};

use eager_exec::abi::{CHECKS, KERNEL_ABI_VERSION, KernelEntry, KernelTable, ParamDesc, VariableEntry};
use parking_lot::Mutex;

use super::check::THREADS_PER_BLOCK_MAX;
use crate::names::readable;
use crate::status::Code;
use crate::voice::say;

/// CPU code of one kernel and its name.
#[derive(Debug, Clone, Copy)]
pub struct CpuKernel {
    pub name: &'static str,
    pub entry: &'static KernelEntry,
    /// Of the GPU that it was compiled for: 90 for `sm_90`; 0: not known.
    pub architecture: u32,
}

impl CpuKernel {
    /// Whether it was compiled for strict mode.
    pub fn checks(&self) -> bool {
        self.entry.flags & CHECKS != 0
    }

    /// The most threads of a block that a launch may have: `__launch_bounds__`, or CUDA's limit.
    pub fn threads_max(&self) -> u32 {
        match self.entry.threads_max {
            0 => THREADS_PER_BLOCK_MAX,
            promised => promised.min(THREADS_PER_BLOCK_MAX),
        }
    }

    /// Size and alignment of each parameter.
    pub fn params(&self) -> &'static [ParamDesc] {
        // SAFETY: pointer and count belong together in an entry of this ABI version, which stays (`add_table`'s contract).
        unsafe { slice(self.entry.params, self.entry.param_count) }
    }
}

// SAFETY: needed because an entry holds raw pointers. They lead to constants of the program that nobody writes and that
// stay until the process ends (`add_table`'s contract), so any thread may read them.
unsafe impl Send for CpuKernel {}
// SAFETY: as for `Send`.
unsafe impl Sync for CpuKernel {}

/// Where a device variable lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    pub address: u64,
    pub bytes: u64,
}

/// A device name and the GPU code it was registered with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    /// 0 in tables that do not say.
    device_code: usize,
    pub(super) name: String,
}

impl Symbol {
    /// # Safety
    /// `name` is null (there is no symbol then) or a NUL-terminated string that stays valid.
    pub(super) unsafe fn new(device_code: *const c_void, name: *const c_char) -> Option<Symbol> {
        // SAFETY: the caller says so.
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
    /// Address of the host stub to what it was registered as.
    stubs: BTreeMap<usize, Vec<Symbol>>,
    /// Address of the host's shadow variable to what it was registered as.
    shadows: BTreeMap<usize, Vec<Symbol>>,
    /// Dynamic shared memory that `cudaFuncSetAttribute` allowed, by stub.
    shared_opt_in_bytes: BTreeMap<usize, u32>,
    /// Stubs of kernels that `cudaFuncSetAttribute` allowed clusters which not every GPU has.
    non_portable_clusters: BTreeSet<usize>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    kernels: BTreeMap::new(),
    variables: BTreeMap::new(),
    stubs: BTreeMap::new(),
    shadows: BTreeMap::new(),
    shared_opt_in_bytes: BTreeMap::new(),
    non_portable_clusters: BTreeSet::new(),
});

/// Takes up the kernels and variables of one translation unit.
///
/// # Safety
/// `table` is null or points to a table that stays valid until the process ends.
pub unsafe fn add_table(table: *const KernelTable) {
    // SAFETY: null is handled; else the caller says that the table is valid for good.
    let Some(table) = (unsafe { table.as_ref::<'static>() }) else { return };
    if table.abi_version != KERNEL_ABI_VERSION {
        let theirs = table.abi_version;
        say(format_args!(
            "kernels of ABI version {theirs} ignored, this runtime has {KERNEL_ABI_VERSION}: recompile"
        ));
        return;
    }
    // SAFETY: the counts and arrays belong together in a table of this version (checked above).
    let (kernels, variables) = unsafe {
        (
            slice(table.kernels, table.kernel_count),
            slice::<VariableEntry>(table.variables, table.variable_count),
        )
    };
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
    // SAFETY: the caller says so.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

/// # Safety
/// `name` is null or a NUL-terminated string that stays valid.
unsafe fn text(name: *const c_char) -> Option<&'static str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

/// Joins a host stub with a kernel's device name.
///
/// # Safety
/// `name` is null or a NUL-terminated string that stays valid.
pub unsafe fn add_stub(device_code: *const c_void, stub: *const c_void, name: *const c_char) {
    // SAFETY: the caller says so.
    if let Some(symbol) = unsafe { Symbol::new(device_code, name) } {
        REGISTRY.lock().stubs.entry(stub as usize).or_default().push(symbol);
    }
}

/// Joins the host's shadow of a device variable with its device name.
///
/// # Safety
/// `name` is null or a NUL-terminated string that stays valid.
pub unsafe fn add_shadow(device_code: *const c_void, shadow: *const c_void, name: *const c_char) {
    // SAFETY: the caller says so.
    if let Some(symbol) = unsafe { Symbol::new(device_code, name) } {
        REGISTRY.lock().shadows.entry(shadow as usize).or_default().push(symbol);
    }
}

/// The CPU side of the first registration that has one: that of the same GPU code, or one that does not say whose it is.
fn find<'a, T>(known: &'a BTreeMap<Symbol, T>, symbols: &[Symbol]) -> Option<&'a T> {
    symbols.iter().find_map(|symbol| {
        known.get(symbol).or_else(|| known.get(&Symbol { device_code: 0, name: symbol.name.clone() }))
    })
}

/// CPU code for a host stub.
///
/// # Errors
/// `cudaErrorInvalidDeviceFunction`, with the reason on standard error.
pub fn kernel(stub: *const c_void) -> Result<CpuKernel, Code> {
    let registry = REGISTRY.lock();
    let Some(symbols) = registry.stubs.get(&(stub as usize)) else {
        say(format_args!("launch of something at {stub:p} that was never registered as a kernel"));
        return Err(Code::cudaErrorInvalidDeviceFunction);
    };
    let Some(found) = find(&registry.kernels, symbols) else {
        let name = readable(&symbols[0].name);
        say(format_args!("kernel {name} has no CPU code in this program: compile its file with eagercc"));
        return Err(Code::cudaErrorInvalidDeviceFunction);
    };
    Ok(*found)
}

/// Is this a host stub of the program's, with CPU code or without?
pub fn is_registered(stub: *const c_void) -> bool {
    REGISTRY.lock().stubs.contains_key(&(stub as usize))
}

/// Where a device variable of this name lies.
pub(super) fn named_variable(symbol: &Symbol) -> Option<Variable> {
    find(&REGISTRY.lock().variables, std::slice::from_ref(symbol)).copied()
}

/// Where the device variable lies that the host has this shadow of.
///
/// # Errors
/// `cudaErrorInvalidSymbol`.
pub(super) fn shadowed_variable(shadow: *const c_void) -> Result<Variable, Code> {
    let registry = REGISTRY.lock();
    let symbols = registry.shadows.get(&(shadow as usize)).ok_or(Code::cudaErrorInvalidSymbol)?;
    find(&registry.variables, symbols).copied().ok_or_else(|| {
        let name = &symbols[0].name;
        say(format_args!(
            "device variable {name} has no CPU code in this program: compile its file with eagercc"
        ));
        Code::cudaErrorInvalidSymbol
    })
}

/// The device variable that holds an address.
pub fn variable_at(address: u64) -> Option<Variable> {
    let registry = REGISTRY.lock();
    let holds =
        |variable: &&Variable| (variable.address..variable.address + variable.bytes).contains(&address);
    registry.variables.values().find(holds).copied()
}

/// All device variables, with their names.
pub fn variables() -> Vec<(String, Variable)> {
    let registry = REGISTRY.lock();
    registry.variables.iter().map(|(symbol, place)| (symbol.name.clone(), *place)).collect()
}

/// Whether some kernel was compiled for strict mode.
pub fn some_kernel_checks() -> bool {
    REGISTRY.lock().kernels.values().any(CpuKernel::checks)
}

/// Allows a kernel more dynamic shared memory than every kernel gets.
pub fn opt_in_shared(stub: *const c_void, bytes: u32) {
    REGISTRY.lock().shared_opt_in_bytes.insert(stub as usize, bytes);
}

/// What [`opt_in_shared`] allowed; 0 by default.
pub fn shared_opt_in_bytes(stub: *const c_void) -> u32 {
    REGISTRY.lock().shared_opt_in_bytes.get(&(stub as usize)).copied().unwrap_or(0)
}

/// Allows a kernel clusters of more blocks than every GPU with clusters has, or no more.
pub fn allow_non_portable_clusters(stub: *const c_void, allowed: bool) {
    let stubs = &mut REGISTRY.lock().non_portable_clusters;
    if allowed {
        stubs.insert(stub as usize);
    } else {
        stubs.remove(&(stub as usize));
    }
}

/// What [`allow_non_portable_clusters`] said last; not allowed by default.
pub fn allows_non_portable_clusters(stub: *const c_void) -> bool {
    REGISTRY.lock().non_portable_clusters.contains(&(stub as usize))
}
