//! NVTX ranges, with which Nsight Systems and other tools show a program's tasks beside its CUDA calls: how long each
//! waited, and how it ran. Active only with a tool, which names its library in `NVTX_INJECTION64_PATH`.
//!
//! This is the application's half of NVTX 3 as NVIDIA's header defines it (`nvtxDetail/nvtxTypes.h`, version 3):
//! tables of slots into which the tool writes its functions. The crate `nvtx` is that header with bindings that its
//! build generates through libclang. Trap: the tool's functions run on the program's threads, some under the shim's
//! lock. They may not call CUDA, which NVTX forbids to tools as well.

use crate::reporter::{loader_message, to_stderr};
use crate::runtime::DeviceIndex;
use crate::task::Terms;
use eager_proto::TASK_SLOTS;
use eager_proto::request::{RequestBody, Slot};
use eager_units::Class;
use eager_units::shown;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use parking_lot::Mutex;
use std::ffi::{CString, OsStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Variable with the tool's library, as in NVIDIA's header.
pub const ENV_INJECTION: &str = "NVTX_INJECTION64_PATH";
const ENTRY_POINT: &str = "InitializeInjectionNvtx2";
const DOMAIN: &std::ffi::CStr = c"eager";

/// Slots of each module: none, core, CUDA, OpenCL, CUDA runtime, core with domains, synchronisation.
const MODULE_SLOTS: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];
const SLOTS_MAX: usize = 16;
const MODULE_CORE2: usize = 5;
/// Slots of module `MODULE_CORE2`.
const MARK: usize = 1;
const RANGE_START: usize = 2;
const RANGE_END: usize = 3;
const DOMAIN_CREATE: usize = 12;
/// Numbers of the tables that a tool requests.
const TABLE_CALLBACKS: u32 = 1;
const TABLE_VERSION: u32 = 3;
const NVTX_VERSION: u16 = 3;

/// Colours by the state of a task, as in reports: grey, green, orange, blue.
const WAITS: u32 = 0xFF9A_9A9A;
const NORMAL: u32 = 0xFF55_9655;
const EAGER: u32 = 0xFFDD_8434;
const PROMOTED: u32 = 0xFF42_72B2;

type Slots = [AtomicPtr<c_void>; SLOTS_MAX];
/// The tool's view: an array of pointers to slots that ends with a null.
type Table = [AtomicPtr<AtomicPtr<c_void>>; SLOTS_MAX + 1];

static SLOTS: [Slots; MODULE_SLOTS.len()] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS_MAX] }; MODULE_SLOTS.len()];
static TABLES: [Table; MODULE_SLOTS.len()] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS_MAX + 1] }; MODULE_SLOTS.len()];

#[repr(C)]
struct Callbacks {
    bytes: usize,
    table_of: extern "C" fn(c_uint, *mut *const c_void, *mut c_uint) -> c_int,
}

#[repr(C)]
struct VersionInfo {
    bytes: usize,
    version: u32,
    reserved: u32,
    set_tools: extern "C" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks { bytes: size_of::<Callbacks>(), table_of };
static VERSION_INFO: VersionInfo = VersionInfo {
    bytes: size_of::<VersionInfo>(),
    version: NVTX_VERSION as u32,
    reserved: 0,
    set_tools: ignore,
};

/// `nvtxEventAttributes_t`: a name, a colour, and bytes as payload.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_kind: i32,
    color: u32,
    payload_kind: i32,
    reserved: i32,
    payload: u64,
    message_kind: i32,
    message: *const c_char,
}

const _: () = assert!(size_of::<Attributes>() == 48);

type DomainHandle = *mut c_void;
type StartFn = unsafe extern "C" fn(DomainHandle, *const Attributes) -> u64;
type MarkFn = unsafe extern "C" fn(DomainHandle, *const Attributes);
type EndFn = unsafe extern "C" fn(DomainHandle, u64);
type CreateFn = unsafe extern "C" fn(*const c_char) -> DomainHandle;
type GetTable = extern "C" fn(u32) -> *const c_void;
type InitializeFn = unsafe extern "C" fn(GetTable) -> c_int;

extern "C" fn ignore(_version: u32) {}

extern "C" fn table_of(module: c_uint, table: *mut *const c_void, count: *mut c_uint) -> c_int {
    let module = module as usize;
    let known = TABLES.get(module).zip(MODULE_SLOTS.get(module)).filter(|(_, slots)| **slots > 0);
    let Some((found, &slots)) = known else { return 0 };
    // SAFETY: the tool passes places to write to, as NVTX requires, or null for values that it does not want.
    unsafe {
        if let Some(table) = table.as_mut() {
            *table = ptr::from_ref(found).cast();
        }
        if let Some(count) = count.as_mut() {
            *count = c_uint::try_from(slots).unwrap_or(0);
        }
    }
    1
}

extern "C" fn export_table(number: u32) -> *const c_void {
    match number {
        TABLE_CALLBACKS => ptr::from_ref(&CALLBACKS).cast(),
        TABLE_VERSION => ptr::from_ref(&VERSION_INFO).cast(),
        _ => ptr::null(),
    }
}

/// Why a tool's library is not used.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error("{}", loader_message(.0))]
    Library(#[from] libloading::Error),
    #[error("its {ENTRY_POINT} failed")]
    Failed,
    #[error("it takes no ranges")]
    NoRanges,
}

/// The tool's functions, and the open ranges.
struct Tool {
    domain: DomainHandle,
    start: StartFn,
    end: EndFn,
    mark: Option<MarkFn>,
    open: Mutex<[Option<Open>; TASK_SLOTS]>,
}

// SAFETY: the handle is the tool's own and is only passed back to it; NVTX lets every thread call a tool's functions.
unsafe impl Send for Tool {}
// SAFETY: the argument for `Send` holds for `Sync` too.
unsafe impl Sync for Tool {}

static TOOL: OnceLock<Option<Tool>> = OnceLock::new();

/// A task's range that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    range: u64,
    function: String,
    bytes: u64,
    /// `NONE`: the task waits.
    device: DeviceIndex,
}

/// Loads the tool's library, once.
pub fn start(path: &OsStr) {
    TOOL.get_or_init(|| match load(path) {
        Ok(tool) => Some(tool),
        Err(why) => {
            to_stderr(&format!("no NVTX ranges: {ENV_INJECTION}={}: {why}", path.to_string_lossy()));
            None
        }
    });
}

fn load(path: &OsStr) -> Result<Tool, ToolError> {
    for (module, &slots) in MODULE_SLOTS.iter().enumerate() {
        for index in 1..slots {
            // Relaxed: the tool is called from this thread, later.
            let slot = ptr::from_ref(&SLOTS[module][index]).cast_mut();
            TABLES[module][index].store(slot, Ordering::Relaxed);
        }
    }
    // SAFETY: a tool's library that the user names; such a library's constructors are made to be run so. It stays
    // loaded when its entry point succeeds, since it is forgotten below.
    let library = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }?;
    // SAFETY: the function of this name has this type in every NVTX tool.
    let initialize = unsafe { library.get::<InitializeFn>(ENTRY_POINT) }?;
    // SAFETY: the tool gets the argument that it expects, which lives as long as the process.
    if unsafe { initialize(export_table) } == 0 {
        return Err(ToolError::Failed);
    }
    std::mem::forget(library);
    // SAFETY: slots of this module have functions of these types by NVTX's table of callbacks, version 3.
    let (create, start, end, mark) = unsafe {
        (
            function::<CreateFn>(DOMAIN_CREATE),
            function::<StartFn>(RANGE_START),
            function::<EndFn>(RANGE_END),
            function::<MarkFn>(MARK),
        )
    };
    let (Some(start), Some(end)) = (start, end) else { return Err(ToolError::NoRanges) };
    // SAFETY: a function of the tool, with a string that outlives the call.
    let domain = create.map_or(ptr::null_mut(), |create| unsafe { create(DOMAIN.as_ptr()) });
    Ok(Tool { domain, start, end, mark, open: Mutex::new([const { None }; TASK_SLOTS]) })
}

/// # Safety
/// `F` is the type of function pointers of this slot.
unsafe fn function<F: Copy>(slot: usize) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer") };
    let address = SLOTS[MODULE_CORE2][slot].load(Ordering::Relaxed);
    // SAFETY: not null, of a pointer's size, and by the caller's promise a function of this type.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

fn tool() -> Option<&'static Tool> {
    TOOL.get()?.as_ref()
}

/// True if requests are to be recorded.
pub fn is_on() -> bool {
    tool().is_some()
}

/// Records a request to the daemon: a task waits from its begin until it is bound or ends.
pub fn record(slot: Slot, body: &RequestBody) {
    let Some(tool) = tool() else { return };
    let mut open = tool.open.lock();
    let Some(place) = open.get_mut(slot.index()) else { return };
    match body {
        RequestBody::TaskBegin { requirement, function, .. } => {
            let function = if function.is_empty() { "whole program" } else { function }.to_owned();
            let task = Open { range: 0, function, bytes: *requirement, device: DeviceIndex::NONE };
            tool.switch_range(place, Some((task, "waits", WAITS)));
        }
        RequestBody::Promoted => {
            let task = place.clone().map(|task| (task, "promoted", PROMOTED));
            tool.switch_range(place, task);
        }
        RequestBody::KernelHeld { kernel, footprint, .. } => {
            tool.mark(&format!("held at the gate: {kernel} ({})", shown::size(*footprint)), *footprint);
        }
        RequestBody::TaskEnd => tool.switch_range(place, None),
        _ => {}
    }
}

/// Records that the daemon gave a task its device.
pub fn bound(slot: Slot, terms: &Terms) {
    let Some(tool) = tool() else { return };
    let (class, color) = match terms.class {
        Class::Eager => ("eager", EAGER),
        Class::Promoted => ("promoted", PROMOTED),
        Class::Normal => ("normal", NORMAL),
    };
    let mut open = tool.open.lock();
    let Some(place) = open.get_mut(slot.index()) else { return };
    let task = place.clone().map(|task| (Open { device: terms.device, ..task }, class, color));
    tool.switch_range(place, task);
}

impl Tool {
    /// Ends the open range and starts the next.
    fn switch_range(&self, place: &mut Option<Open>, next: Option<(Open, &str, u32)>) {
        let before = place.take();
        *place = next.map(|(task, state, color)| {
            let (name, bytes) = (name(&task, state), task.bytes);
            let range = with(&name, color, bytes, |event| {
                // SAFETY: a function of the tool, with its own handle and an event that outlives the call.
                unsafe { (self.start)(self.domain, event) }
            });
            Open { range, ..task }
        });
        if let Some(task) = before {
            // SAFETY: a function of the tool, with its own handle and a range that it returned and that ends once.
            unsafe { (self.end)(self.domain, task.range) };
        }
    }

    fn mark(&self, name: &str, bytes: u64) {
        if let Some(mark) = self.mark {
            // SAFETY: a function of the tool, with its own handle and an event that outlives the call.
            with(name, WAITS, bytes, |event| unsafe { mark(self.domain, event) });
        }
    }
}

/// Name of a range: `main, eager on GPU 0 (10 MiB)`.
fn name(task: &Open, state: &str) -> String {
    let Open { function, bytes, device, .. } = task;
    let place = if *device == DeviceIndex::NONE { String::new() } else { format!(" on GPU {}", device.0) };
    format!("{function}, {state}{place} ({})", shown::size(*bytes))
}

fn with<T>(name: &str, color: u32, bytes: u64, call: impl FnOnce(*const Attributes) -> T) -> T {
    // The name ends at its first zero byte, if it has one.
    let text = CString::new(name.split('\0').next().unwrap_or_default()).unwrap_or_default();
    let (color_is_argb, payload_is_u64, message_is_ascii) = (1, 1, 1);
    let event = Attributes {
        version: NVTX_VERSION,
        size: size_of::<Attributes>() as u16,
        category: 0,
        color_kind: color_is_argb,
        color,
        payload_kind: payload_is_u64,
        reserved: 0,
        payload: bytes,
        message_kind: message_is_ascii,
        message: text.as_ptr(),
    };
    call(&raw const event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_named_by_task() {
        let mut task = Open { range: 0, function: "main".into(), bytes: 10 << 20, device: DeviceIndex::NONE };
        assert_eq!(name(&task, "waits"), "main, waits (10 MiB)");
        task.device = DeviceIndex(1);
        assert_eq!(name(&task, "eager"), "main, eager on GPU 1 (10 MiB)");
    }

    #[test]
    fn a_tool_gets_the_tables_of_the_modules_that_there_are() {
        let (mut table, mut count) = (ptr::null(), 0);
        for module in 1..7 {
            assert_eq!(table_of(module, &raw mut table, &raw mut count), 1, "{module}");
            assert!(!table.is_null() && count as usize == MODULE_SLOTS[module as usize]);
        }
        assert_eq!(table_of(0, &raw mut table, &raw mut count), 0);
        assert_eq!(table_of(7, &raw mut table, ptr::null_mut()), 0);
        assert!(export_table(2).is_null() && !export_table(TABLE_VERSION).is_null());
    }
}
