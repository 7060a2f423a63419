//! Hooks: handles and plans of NVIDIA's libraries.
//!
//! The libraries' status codes are not CUDA's: 0 is success in all of them, and each library has its own code for a
//! lack of memory, which the table lists. Trap: the shim must not open a library itself; a program that calls a
//! library is linked with it.

use crate::hooks::libraries::LibraryHandle;
use crate::library::Symbol;
use crate::outcome::Outcome;
use crate::process::guarded;
use std::ffi::{c_int, c_void};

/// A handle that can be converted to a number.
trait Handle: Copy {
    fn number(self) -> u64;
}

impl Handle for *mut c_void {
    fn number(self) -> u64 {
        self.expose_provenance() as u64
    }
}

impl Handle for c_int {
    fn number(self) -> u64 {
        u64::from(self.cast_unsigned())
    }
}

/// The shim's number for a library, and the library's status for a lack of memory.
struct Library {
    number: u8,
    no_memory: c_int,
}

const CUBLAS: Library = Library { number: 1, no_memory: 3 };
const CUBLAS_LT: Library = Library { number: 2, no_memory: 3 };
const CUDNN: Library = Library { number: 3, no_memory: 2 };
const CUFFT: Library = Library { number: 4, no_memory: 2 };
const CURAND: Library = Library { number: 5, no_memory: 102 };
const CUSOLVER: Library = Library { number: 6, no_memory: 2 };
const CUSPARSE: Library = Library { number: 7, no_memory: 2 };

macro_rules! library_hooks {
    (@real $name:ident($($argument:ident: $kind:ty),*) $library:ident) => {
        /// # Safety
        /// As for the library's call.
        #[allow(clippy::too_many_arguments, reason = "the library's own")]
        unsafe fn real($($argument: $kind),*) -> c_int {
            static REAL: Symbol = Symbol::new(stringify!($name));
            type Call = unsafe extern "C" fn($($kind),*) -> c_int;
            match REAL.get() {
                // SAFETY: the address is that of the library's function of this name, whose arguments are these.
                Ok(address) => unsafe {
                    std::mem::transmute::<*mut c_void, Call>(address.as_ptr())($($argument),*)
                },
                Err(_) => $library.no_memory,
            }
        }
    };
    ($(create $library:ident $name:ident($out:ident: *mut $handle:ty $(, $argument:ident: $kind:ty)* $(,)?);)*) => {
        $(const _: () = {
            library_hooks!(@real $name($out: *mut $handle $(, $argument: $kind)*) $library);

            #[unsafe(export_name = concat!("eager_", stringify!($name)))]
            #[allow(clippy::too_many_arguments, reason = "the library's own")]
            unsafe extern "C" fn hook($out: *mut $handle $(, $argument: $kind)*) -> c_int {
                let make = || {
                    // SAFETY: the program's own arguments.
                    let status = unsafe { real($out $(, $argument)*) };
                    // SAFETY: the call succeeded, so it has written its handle there.
                    let made = (status == 0 && !$out.is_null()).then(|| unsafe { $out.read() });
                    let handle = made.map_or(0, Handle::number);
                    (status, LibraryHandle { library: $library.number, handle })
                };
                match guarded(|shim, thread| shim.library_create(thread, $library.no_memory, make)) {
                    Outcome::Handled(status) => status,
                    // SAFETY: the program's own arguments; nothing was called yet.
                    Outcome::PassThrough(_) | Outcome::Fail(_) => unsafe { real($out $(, $argument)*) },
                }
            }
        };)*
    };
    ($(destroy $library:ident $name:ident($handle:ty);)*) => {
        $(const _: () = {
            library_hooks!(@real $name(handle: $handle) $library);

            #[unsafe(export_name = concat!("eager_", stringify!($name)))]
            unsafe extern "C" fn hook(handle: $handle) -> c_int {
                let number = LibraryHandle { library: $library.number, handle: handle.number() };
                // SAFETY: the program's own argument.
                match guarded(|shim, _thread| shim.library_destroy(number, || unsafe { real(handle) })) {
                    Outcome::Handled(status) => status,
                    // SAFETY: the program's own argument; nothing was called yet.
                    Outcome::PassThrough(_) | Outcome::Fail(_) => unsafe { real(handle) },
                }
            }
        };)*
    };
}

library_hooks! {
    create CUBLAS cublasCreate_v2(out: *mut *mut c_void);
    create CUBLAS_LT cublasLtCreate(out: *mut *mut c_void);
    create CUDNN cudnnCreate(out: *mut *mut c_void);
    create CUFFT cufftPlan1d(out: *mut c_int, x: c_int, kind: c_int, batch: c_int);
    create CUFFT cufftPlan2d(out: *mut c_int, x: c_int, y: c_int, kind: c_int);
    create CUFFT cufftPlan3d(out: *mut c_int, x: c_int, y: c_int, z: c_int, kind: c_int);
    create CUFFT cufftPlanMany(
        out: *mut c_int,
        rank: c_int,
        sizes: *mut c_int,
        input_sizes: *mut c_int,
        input_stride: c_int,
        input_distance: c_int,
        output_sizes: *mut c_int,
        output_stride: c_int,
        output_distance: c_int,
        kind: c_int,
        batch: c_int,
    );
    create CURAND curandCreateGenerator(out: *mut *mut c_void, kind: c_int);
    create CUSOLVER cusolverDnCreate(out: *mut *mut c_void);
    create CUSPARSE cusparseCreate(out: *mut *mut c_void);
}

library_hooks! {
    destroy CUBLAS cublasDestroy_v2(*mut c_void);
    destroy CUBLAS_LT cublasLtDestroy(*mut c_void);
    destroy CUDNN cudnnDestroy(*mut c_void);
    destroy CUFFT cufftDestroy(c_int);
    destroy CURAND curandDestroyGenerator(*mut c_void);
    destroy CUSOLVER cusolverDnDestroy(*mut c_void);
    destroy CUSPARSE cusparseDestroy(*mut c_void);
}
