//! The real CUDA runtime: `libcudart.so.13`, found in the process and called through a table of its functions.
//!
//! Which library that is (NVIDIA's or the virtual GPU's stand-in) is the loader's choice, not ours. Traps:
//! - a program linked with the *static* runtime has its own copy, and its kernels are unknown to the shared one that is
//!   opened here: link with the shared runtime (eagercc does);
//! - return codes are plain numbers, not cudarc's enum: a code that this build does not know would be undefined
//!   behaviour as an enum.

use crate::runtime::{
    Copy, CudaError, CudaResult, DeviceIndex, Launch, Order, Priority, Runtime, Span, StreamFlags, StreamId,
};
use crate::voice::to_stderr;
use cudarc::runtime::sys::{
    cudaEvent_t, cudaMemLocation, cudaMemLocationType, cudaMemoryAdvise, cudaStream_t, dim3,
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// `cudaError_t` as a number.
pub type Status = u32;

const LIBRARY: &str = "libcudart.so.13";
/// What a call returns when the library or its symbol is missing.
const MISSING: Status = 3;
/// `cudaEventDisableTiming`: an event that only orders.
const EVENT_DISABLE_TIMING: c_uint = 2;
/// More than any device or host can have, below what a size may be: fails in every runtime.
const IMPOSSIBLE_BYTES: usize = 1 << 62;

/// Declares the table of runtime functions: one field each, and for each a stand-in that reports it as missing.
macro_rules! runtime_table {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// The runtime's functions.
        #[allow(non_snake_case, reason = "fields are named as the functions they hold")]
        pub struct Table {
            $(pub $name: unsafe extern "C" fn($($argument: $kind),*) -> Status,)*
        }

        impl Table {
            #[allow(non_snake_case, reason = "stand-ins are named as the functions they stand in for")]
            fn load(library: Option<&Library>) -> Table {
                $(
                    unsafe extern "C" fn $name($($argument: $kind),*) -> Status {
                        $(let _ = $argument;)*
                        missing_call(stringify!($name))
                    }
                )*
                Table {
                    $($name: library.and_then(|library| {
                        // SAFETY: the symbol is this CUDA function, whose arguments CUDA 13's headers (and cudarc, see
                        // the signature test) declare as in the table; the library is never unloaded.
                        unsafe {
                            library.get::<unsafe extern "C" fn($($kind),*) -> Status>(stringify!($name)).ok()
                        }
                        .map(|symbol| *symbol)
                    }).unwrap_or($name),)*
                }
            }
        }
    };
}

runtime_table! {
    cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    cudaDeviceReset();
    cudaDeviceSynchronize();
    cudaEventCreate(event: *mut cudaEvent_t);
    cudaEventCreateWithFlags(event: *mut cudaEvent_t, flags: c_uint);
    cudaEventDestroy(event: cudaEvent_t);
    cudaEventRecord(event: cudaEvent_t, stream: cudaStream_t);
    cudaEventSynchronize(event: cudaEvent_t);
    cudaFree(address: *mut c_void);
    cudaGetDevice(device: *mut c_int);
    cudaGetDeviceCount(count: *mut c_int);
    cudaGetLastError();
    cudaLaunchKernel(
        stub: *const c_void,
        grid: dim3,
        block: dim3,
        args: *mut *mut c_void,
        shared_bytes: usize,
        stream: cudaStream_t
    );
    cudaMalloc(out: *mut *mut c_void, bytes: usize);
    cudaMallocManaged(out: *mut *mut c_void, bytes: usize, flags: c_uint);
    cudaMemAdvise(address: *const c_void, bytes: usize, advice: cudaMemoryAdvise, location: cudaMemLocation);
    cudaMemGetInfo(free: *mut usize, total: *mut usize);
    cudaMemPrefetchAsync(
        address: *const c_void,
        bytes: usize,
        location: cudaMemLocation,
        flags: c_uint,
        stream: cudaStream_t
    );
    cudaMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint);
    cudaMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_uint, stream: cudaStream_t);
    cudaMemcpyToSymbol(symbol: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: c_uint);
    cudaMemcpyToSymbolAsync(
        symbol: *const c_void,
        src: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_uint,
        stream: cudaStream_t
    );
    cudaMemset(address: *mut c_void, value: c_int, bytes: usize);
    cudaMemsetAsync(address: *mut c_void, value: c_int, bytes: usize, stream: cudaStream_t);
    cudaPeekAtLastError();
    cudaSetDevice(device: c_int);
    cudaStreamCreate(stream: *mut cudaStream_t);
    cudaStreamCreateWithFlags(stream: *mut cudaStream_t, flags: c_uint);
    cudaStreamCreateWithPriority(stream: *mut cudaStream_t, flags: c_uint, priority: c_int);
    cudaStreamDestroy(stream: cudaStream_t);
    cudaStreamQuery(stream: cudaStream_t);
    cudaStreamSynchronize(stream: cudaStream_t);
    cudaStreamWaitEvent(stream: cudaStream_t, event: cudaEvent_t, flags: c_uint);
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}

static TABLE: OnceLock<Table> = OnceLock::new();
static LIBRARY_MISSING: AtomicBool = AtomicBool::new(false);

/// The runtime's functions; the library is looked for once, at the first call.
pub fn table() -> &'static Table {
    TABLE.get_or_init(|| {
        let library = open();
        if let Err(error) = &library {
            LIBRARY_MISSING.store(true, Ordering::Relaxed);
            to_stderr(&format!(
                "cannot open {LIBRARY} ({error}): every CUDA call fails with an initialization error; install the \
                 CUDA 13 runtime or put its folder into LD_LIBRARY_PATH"
            ));
        }
        let table = Table::load(library.as_ref().ok());
        // Never closed: the table's functions live in it.
        std::mem::forget(library);
        table
    })
}

/// The library that the program has loaded already; else by name.
fn open() -> Result<Library, libloading::Error> {
    // SAFETY: opening a CUDA runtime runs its constructors, which NVIDIA's and the stand-in's are made for; with
    // RTLD_NOLOAD nothing is run at all.
    unsafe {
        Library::open(Some(LIBRARY), RTLD_NOW | libc::RTLD_NOLOAD)
            .or_else(|_| Library::open(Some(LIBRARY), RTLD_NOW | RTLD_LOCAL))
    }
}

fn missing_call(name: &str) -> Status {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !LIBRARY_MISSING.load(Ordering::Relaxed) && !SAID.swap(true, Ordering::Relaxed) {
        to_stderr(&format!("this {LIBRARY} has no {name}: the call fails with an initialization error"));
    }
    MISSING
}

/// Calls one function of the table and checks its code.
macro_rules! call {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        // SAFETY: the arguments are of the declared types; pointers are locals that live through the call or addresses
        // that the program handed in for this purpose, which the runtime checks or, as without the shim, trusts.
        CudaError::check(unsafe { ($self.table.$name)($($argument),*) })
    };
}

/// [`Runtime`] over the table.
#[derive(Debug)]
pub struct RealRuntime {
    table: &'static Table,
}

impl RealRuntime {
    /// Opens the library.
    pub fn open() -> RealRuntime {
        RealRuntime { table: table() }
    }

    /// Makes a call of the shim's own whose failure the program must not find in `cudaGetLastError`: a query that says
    /// "not ready" leaves an error there, too. `None`: the program's own error is waiting to be read; no call is made,
    /// since it could be overwritten.
    fn quietly<T>(&self, make: impl FnOnce() -> CudaResult<T>) -> Option<CudaResult<T>> {
        call!(self.cudaPeekAtLastError()).ok()?;
        let result = make();
        if result.is_err() {
            let _ = call!(self.cudaGetLastError());
        }
        Some(result)
    }

    fn make_order(&self, earlier: StreamId, later: StreamId) -> CudaResult<()> {
        let mut event = ptr::null_mut();
        call!(self.cudaEventCreateWithFlags(&mut event, EVENT_DISABLE_TIMING))?;
        let ordered = call!(self.cudaEventRecord(event, stream_handle(earlier)))
            .and_then(|()| call!(self.cudaStreamWaitEvent(stream_handle(later), event, 0)));
        // Destroying an event that is waited for is allowed: CUDA keeps it until it is no longer needed.
        let _ = call!(self.cudaEventDestroy(event));
        ordered
    }
}

fn stream_handle(stream: StreamId) -> cudaStream_t {
    ptr::with_exposed_provenance_mut(stream.0)
}

/// Device and managed addresses come from the runtime as numbers (through the program), so their provenance is exposed.
fn address(value: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(value as usize)
}

fn on_device(device: DeviceIndex) -> cudaMemLocation {
    cudaMemLocation { type_: cudaMemLocationType::cudaMemLocationTypeDevice, id: device.0 }
}

impl Runtime for RealRuntime {
    fn device_count(&self) -> CudaResult<i32> {
        let mut count = 0;
        call!(self.cudaGetDeviceCount(&mut count)).map(|()| count)
    }

    fn set_device(&self, device: DeviceIndex) -> CudaResult<()> {
        call!(self.cudaSetDevice(device.0))
    }

    fn device_synchronize(&self) -> CudaResult<()> {
        call!(self.cudaDeviceSynchronize())
    }

    fn device_reset(&self) -> CudaResult<()> {
        call!(self.cudaDeviceReset())
    }

    fn malloc(&self, bytes: u64) -> CudaResult<Option<u64>> {
        let mut out = ptr::null_mut();
        match call!(self.cudaMalloc(&mut out, bytes as usize)) {
            Ok(()) => Ok(Some(out.expose_provenance() as u64)),
            Err(CudaError::MEMORY_ALLOCATION) => {
                let _ = call!(self.cudaGetLastError());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn malloc_managed(&self, bytes: u64, flags: u32) -> CudaResult<u64> {
        let mut out = ptr::null_mut();
        call!(self.cudaMallocManaged(&mut out, bytes as usize, flags))
            .map(|()| out.expose_provenance() as u64)
    }

    fn free(&self, base: u64) -> CudaResult<()> {
        call!(self.cudaFree(address(base)))
    }

    fn prefer_device(&self, span: Span, device: DeviceIndex) -> CudaResult<()> {
        let advice = cudaMemoryAdvise::cudaMemAdviseSetPreferredLocation;
        let (start, bytes) = (address(span.start), span.bytes as usize);
        self.quietly(|| call!(self.cudaMemAdvise(start, bytes, advice, on_device(device)))).unwrap_or(Ok(()))
    }

    fn prefetch(&self, span: Span, device: DeviceIndex, stream: StreamId) -> CudaResult<()> {
        let (start, bytes) = (address(span.start), span.bytes as usize);
        let stream = stream_handle(stream);
        self.quietly(|| call!(self.cudaMemPrefetchAsync(start, bytes, on_device(device), 0, stream)))
            .unwrap_or(Ok(()))
    }

    fn copy(&self, copy: &Copy) -> CudaResult<()> {
        let (dst, src, bytes) = (address(copy.dst), address(copy.src), copy.bytes as usize);
        match copy.order {
            Order::Blocking => call!(self.cudaMemcpy(dst, src, bytes, copy.kind.0)),
            Order::On(stream) => {
                call!(self.cudaMemcpyAsync(dst, src, bytes, copy.kind.0, stream_handle(stream)))
            }
        }
    }

    fn copy_on_host(&self, dst: u64, src: u64, bytes: u64) {
        // SAFETY: one side is managed memory of that size (the ledger was asked), the other the program's host buffer,
        // which the program vouched for in its `cudaMemcpy`. `ptr::copy`, since both may lie in one allocation.
        unsafe { ptr::copy(address(src).cast::<u8>(), address(dst).cast::<u8>(), bytes as usize) }
    }

    fn fill_on_host(&self, dst: u64, value: u8, bytes: u64) {
        // SAFETY: managed memory of at least that size (the ledger was asked), which no device has touched.
        unsafe { ptr::write_bytes(address(dst).cast::<u8>(), value, bytes as usize) }
    }

    fn launch(&self, launch: &Launch) -> CudaResult<()> {
        let dim = |[x, y, z]: [u32; 3]| dim3 { x, y, z };
        let stub = ptr::with_exposed_provenance(launch.stub);
        let args = ptr::with_exposed_provenance_mut(launch.args);
        let stream = stream_handle(launch.stream);
        call!(self.cudaLaunchKernel(
            stub,
            dim(launch.grid),
            dim(launch.block),
            args,
            launch.shared_bytes,
            stream
        ))
    }

    fn argument_words(&self, args: usize, sizes: &[u32]) -> Vec<u64> {
        let args: *const *const u8 = ptr::with_exposed_provenance(args);
        if args.is_null() {
            return Vec::new();
        }
        let mut words = Vec::with_capacity(sizes.len());
        for (index, &size) in sizes.iter().enumerate() {
            // SAFETY: `args` has one pointer per kernel argument, and the module's table has one size for each.
            let argument = unsafe { *args.add(index) };
            for offset in (0..(size as usize / 8) * 8).step_by(8).filter(|_| !argument.is_null()) {
                // SAFETY: the argument has `size` bytes, and offset + 8 does not go beyond them; a structure's words
                // need not be aligned.
                words.push(unsafe { argument.add(offset).cast::<u64>().read_unaligned() });
            }
        }
        words
    }

    fn stream_create(&self, flags: StreamFlags, priority: Priority) -> CudaResult<StreamId> {
        let (mut least, mut greatest) = (0, 0);
        if !matches!(priority, Priority::Exact(_)) {
            call!(self.cudaDeviceGetStreamPriorityRange(&mut least, &mut greatest))?;
        }
        let number = match priority {
            Priority::Lowest => least,
            Priority::Highest => greatest,
            Priority::Exact(number) => number,
        };
        let mut stream = ptr::null_mut();
        call!(self.cudaStreamCreateWithPriority(&mut stream, flags.0, number))
            .map(|()| StreamId(stream.expose_provenance()))
    }

    fn stream_destroy(&self, stream: StreamId) -> CudaResult<()> {
        call!(self.cudaStreamDestroy(stream_handle(stream)))
    }

    fn stream_synchronize(&self, stream: StreamId) -> CudaResult<()> {
        call!(self.cudaStreamSynchronize(stream_handle(stream)))
    }

    fn stream_query(&self, stream: StreamId) -> CudaResult<bool> {
        const NOT_READY: u32 = 600;
        match self.quietly(|| call!(self.cudaStreamQuery(stream_handle(stream)))) {
            Some(Ok(())) => Ok(true),
            Some(Err(error)) if error.code() != NOT_READY => Err(error),
            Some(Err(_)) | None => Ok(false),
        }
    }

    fn order_streams(&self, earlier: StreamId, later: StreamId) -> CudaResult<()> {
        // Unasked for (an unread error), the order must still hold: the caller then waits.
        self.quietly(|| self.make_order(earlier, later)).unwrap_or(Err(CudaError::INITIALIZATION))
    }

    fn event_synchronize(&self, event: usize) -> CudaResult<()> {
        call!(self.cudaEventSynchronize(ptr::with_exposed_provenance_mut(event)))
    }

    fn provoke_out_of_memory(&self) {
        let mut out = ptr::null_mut();
        let _ = call!(self.cudaMalloc(&mut out, IMPOSSIBLE_BYTES));
    }
}
