//! Functions of the C and C++ libraries, which use no device and keep none of their pointers.
//!
//! LLVM's own list of library functions is asked first; this module has the rest. Trap: a library function that runs
//! code of the program (threads, `qsort` with a comparison) must not count as one of these, nor may a call that passes
//! a function.

use eager_llvm::{Module, Value};

/// C functions that programs use and that are missing in LLVM's list, in version 22 or 19 (`exit`, `hypot`).
const MORE: &[&str] = &[
    "__assert_fail",
    "__ctype_b_loc",
    "__errno_location",
    "_Exit",
    "_exit",
    "abort",
    "basename",
    "clock",
    "clock_gettime",
    "difftime",
    "drand48",
    "erand48",
    "exit",
    "fdim",
    "fdimf",
    "freopen",
    "getenv",
    "getline",
    "getopt",
    "getopt_long",
    "getpid",
    "getrusage",
    "hypot",
    "hypotf",
    "localtime",
    "lrand48",
    "nanosleep",
    "nextafter",
    "nextafterf",
    "perror",
    "quick_exit",
    "rand",
    "rand_r",
    "random",
    "reallocarray",
    "rewind",
    "scalbn",
    "sleep",
    "srand",
    "srand48",
    "srandom",
    "strerror",
    "strtok_r",
    "sysconf",
    "tgamma",
    "tgammaf",
    "time",
    "usleep",
];

/// Prefixes of the C library's internal names and of mangled names in namespace `std`.
const PREFIXES: &[&str] = &[
    "__isoc", "__cxa_", "_ZNSt", "_ZNKSt", "_ZSt", "_ZNSo", "_ZNSi", "_ZNSs", "_ZNKSs", "_ZNSa", "_ZdlPv",
    "_ZdaPv",
];

const STREAMS: &[&str] = &["stderr", "stdin", "stdout"];

/// Functions that return new memory.
const ALLOCATORS: &[&str] = &[
    "malloc",
    "calloc",
    "aligned_alloc",
    "memalign",
    "valloc",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
];

/// Whether a declared function belongs to the C or C++ library.
#[must_use]
pub fn is_library(module: &Module<'_>, function: Value<'_>) -> bool {
    let name = function.name();
    if name.contains("thread") || name.contains("async") {
        return false;
    }
    if MORE.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return true;
    }
    module.is_library_function(&name)
}

/// Whether a value is one of the C library's variables `stdin`, `stdout` and `stderr`.
#[must_use]
pub fn is_stream_variable(value: Value<'_>) -> bool {
    value.is_global_variable() && value.is_declaration() && STREAMS.contains(&value.name().as_str())
}

/// Whether a library function links nodes of a container. The nodes hold pointers that the program stored there, and
/// the analysis does not follow how code reaches them.
#[must_use]
pub fn links_nodes(name: &str) -> bool {
    name.contains("_node_base") || name.contains("_Rb_tree")
}

/// Whether a function returns host memory that nothing else points to.
#[must_use]
pub fn is_allocator(name: &str) -> bool {
    ALLOCATORS.contains(&name)
}

/// For an intrinsic, whether it writes through its first argument; `None` for other calls.
#[must_use]
pub fn intrinsic_writes(call: Value<'_>) -> Option<bool> {
    let name = call.callee_name()?;
    let intrinsic = name.strip_prefix("llvm.")?;
    Some(
        ["memcpy", "memmove", "memset", "va_start", "va_copy"]
            .iter()
            .any(|writer| intrinsic.starts_with(writer)),
    )
}

/// Whether an intrinsic copies memory.
#[must_use]
pub fn is_copy(call: Value<'_>) -> bool {
    call.callee_name().is_some_and(|name| name.starts_with("llvm.memcpy") || name.starts_with("llvm.memmove"))
}
