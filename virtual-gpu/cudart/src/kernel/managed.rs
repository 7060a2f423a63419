//! `__managed__` variables: registered by constructors, allocated once a device is in use.
//!
//! The compiler pass makes two device variables of each: `NAME` has the initial bytes, `NAME.managed` holds the address
//! for kernels; the host has its own pointer. Trap: both pointers are null until [`make`], which needs a device and so
//! must not run in a constructor.

use core::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use eager_gpu_model::AllocKind;
use parking_lot::Mutex;

use super::copies;
use super::registry::{Symbol, Variable, named_variable, shadowed_variable};
use crate::log::log_line;
use crate::runtime::Runtime;
use crate::status::Code;

/// Equal to `eager_pass::emit::managed::POINTER_SUFFIX`.
const POINTER_SUFFIX: &str = ".managed";

#[derive(Debug)]
struct ManagedVariable {
    symbol: Symbol,
    /// Address of the host's pointer.
    host_pointer: usize,
    bytes: u64,
    /// Its managed memory; `None` until allocated.
    address: Option<u64>,
}

static VARIABLES: Mutex<Vec<ManagedVariable>> = Mutex::new(Vec::new());
/// True if a variable has no address yet; saves every call the lock.
static SOME_ARE_MISSING: AtomicBool = AtomicBool::new(false);

/// Registers a variable; `host_pointer` receives its address later.
///
/// # Safety
/// `name` is null or a NUL-terminated string that stays valid; `host_pointer` stays valid for writing.
pub unsafe fn add_managed(
    device_code: *const c_void,
    host_pointer: *mut *mut c_void,
    name: *const c_char,
    bytes: u64,
) {
    // SAFETY: by this function's contract.
    if let Some(symbol) = unsafe { Symbol::new(device_code, name) } {
        let variable = ManagedVariable { symbol, host_pointer: host_pointer as usize, bytes, address: None };
        VARIABLES.lock().push(variable);
        // Relaxed: the loader's lock, or the program's own synchronisation, orders registration before use.
        SOME_ARE_MISSING.store(true, Ordering::Relaxed);
    }
}

/// Allocates managed memory on the device for every variable that has none.
///
/// # Errors
/// `cudaErrorMemoryAllocation`.
pub fn make(runtime: &Runtime, device: u32) -> Result<(), Code> {
    if !SOME_ARE_MISSING.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut variables = VARIABLES.lock();
    for variable in variables.iter_mut().filter(|variable| variable.address.is_none()) {
        let address = runtime.allocate(device, variable.bytes, AllocKind::Managed)?;
        let name = &variable.symbol.name;
        let kernels_pointer = variable.symbol.with_suffix(POINTER_SUFFIX);
        match (named_variable(&variable.symbol), named_variable(&kernels_pointer)) {
            (Some(initial), Some(pointer)) if initial.bytes == variable.bytes => {
                // SAFETY: the memory was allocated with the size of the initial bytes, which the program's own table
                // lists; the pointer is in that table too. Only kernels read the pointer, and none runs before this
                // process has a context.
                unsafe {
                    let from = std::ptr::with_exposed_provenance::<u8>(initial.address as usize);
                    let to = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
                    to.copy_from_nonoverlapping(from, variable.bytes as usize);
                    copies::write_pointer(pointer.address, address);
                }
            }
            _ => log_line(format_args!(
                "__managed__ variable {name} has no CPU code in this program: compile its file with eagercc"
            )),
        }
        variable.address = Some(address);
        // SAFETY: the program registered its own pointer for this write (`add_managed`'s contract).
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(variable.host_pointer).write(address) };
    }
    SOME_ARE_MISSING.store(false, Ordering::Relaxed);
    Ok(())
}

/// The variable whose managed memory starts at an address.
pub fn managed_at(address: u64) -> Option<Variable> {
    let variables = VARIABLES.lock();
    let found = variables.iter().find(|variable| variable.address == Some(address))?;
    Some(Variable { address, bytes: found.bytes })
}

/// Finds the current device's variable of a symbol. The symbol of a managed variable is its address.
///
/// # Errors
/// `cudaErrorInvalidSymbol`; `cudaErrorMemoryAllocation` if there is no memory for the device's copy.
pub fn variable(symbol: *const c_void) -> Result<Variable, Code> {
    if let Some(managed) = managed_at(symbol as u64) {
        return Ok(managed);
    }
    let Variable { address, bytes } = shadowed_variable(symbol)?;
    Ok(Variable { address: copies::resolved(address)?, bytes })
}

/// Marks the variable at `address` as not allocated, since its context is destroyed; [`make`] allocates it anew.
pub fn forget_managed(address: u64) {
    let mut variables = VARIABLES.lock();
    for variable in variables.iter_mut().filter(|variable| variable.address == Some(address)) {
        variable.address = None;
        // SAFETY: as in `make`.
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(variable.host_pointer).write(0) };
        SOME_ARE_MISSING.store(true, Ordering::Relaxed);
    }
}
