//! Table of every call of the CUDA runtime: how the shim treats it, and how it uses memory.
//!
//! The pass renames the calls that are [`Treatment::Rewritten`] or [`Treatment::Observed`] and plans by the
//! [`CallRule`]s, the shim exports exactly the renamed ones, and `runtime-shim/API.md` is printed from this table. A
//! test compares it with `cuda_runtime_api.h` of each installed CUDA tree. Trap: entries are *symbols*, not names in
//! source code; an entry by source name is never matched. A program compiled with one default stream per thread calls
//! `cudaMemcpyAsync_ptsz`, and a CUDA 12 program calls `cudaGetDeviceProperties_v2` where its source has
//! `cudaGetDeviceProperties`.

mod copies;
mod devices;
mod graphs;
mod launches;
pub mod libraries;
mod memory;

use CallRule::*;
use Major::*;
use SizeRule::*;

/// How an instrumented program's call is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Treatment {
    /// The shim may do something other than the program asked for.
    Rewritten,
    /// The shim prepares the call (right device, task bound) or counts it, and forwards it unchanged.
    Observed,
    /// Not renamed: it goes straight to the runtime.
    Forwarded,
}

/// A major version of CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Major {
    Twelve,
    Thirteen,
}

/// The per-thread variant of a call, by how it uses the thread's default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerThread {
    /// `_ptsz`: the call has a stream argument, in which 0 means the thread's stream.
    Stream(&'static str),
    /// `_ptds`: the call blocks on the thread's stream.
    Blocking(&'static str),
}

impl PerThread {
    /// The variant's symbol.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            PerThread::Stream(symbol) | PerThread::Blocking(symbol) => symbol,
        }
    }
}

/// How the size of an allocation follows from the call's arguments, which are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// This argument holds the bytes.
    Bytes(usize),
    /// `height` rows of `width` bytes, each row rounded up to [`PITCH_ALIGNMENT`].
    Pitched { width: usize, height: usize },
    /// A `cudaExtent` passed in memory: `width` bytes, rounded up, times `height` times `depth`.
    PitchedExtent { extent: usize },
    /// Cannot be computed from the arguments (arrays: the format determines the element size, the device the layout).
    Unknown,
}

/// Effect of a call on device memory and handles. Arguments of the C function are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRule {
    /// Allocates device memory and writes its pointer to `*args[into]`.
    Allocate {
        into: usize,
        size: SizeRule,
    },
    /// Allocates pinned host memory and writes its pointer to `*args[into]`.
    AllocateHost {
        into: usize,
    },
    /// Frees the memory behind `args[pointer]`.
    Free {
        pointer: usize,
    },
    /// Creates a stream, event or other object of one device and writes it to `*args[into]`.
    CreateHandle {
        into: usize,
    },
    /// Destroys the handle `args[handle]`.
    DestroyHandle {
        handle: usize,
    },
    /// Reads or writes a `__device__` or `__constant__` variable of the current device.
    WriteSymbol,
    /// A kernel launch that is not clang's `<<<…>>>`, so that the pass cannot see its buffers.
    Launch,
    /// Between these calls the runtime records instead of running (stream capture).
    BeginCapture,
    EndCapture,
    /// Uses the buffers and handles among its arguments (copies, memsets, records, waits).
    Uses,
    /// Reads no buffer and no handle (error strings, versions, `cudaGetLastError`).
    Harmless,
}

/// Rows of pitched memory start at multiples of this many bytes. The shim rounds so for managed memory, and the
/// allocator of every device known to CUDA 12 and 13 does, so the value bounds the pitch (specification S-518).
pub const PITCH_ALIGNMENT: u64 = 512;

/// Note for calls that do nothing with memory but make a context.
const GIVEN: &str = "makes a context: on a device that the daemon gave";

/// A call of the CUDA runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The C function.
    pub name: &'static str,
    pub treatment: Treatment,
    pub rule: CallRule,
    /// The only major version that has the call; `None`: both have it.
    pub only: Option<Major>,
    /// The two versions declare different arguments for the call.
    pub differs: bool,
    pub per_thread: Option<PerThread>,
    /// Not in CUDA's header: nvcc's own host code calls it.
    pub internal: bool,
    /// The shim's treatment of the call, or its limits. Empty: nothing to note.
    pub note: &'static str,
}

const fn forwarded(name: &'static str) -> Call {
    Call {
        name,
        treatment: Treatment::Forwarded,
        rule: Uses,
        only: None,
        differs: false,
        per_thread: None,
        internal: false,
        note: "",
    }
}

/// A forwarded call with a note.
const fn noted(name: &'static str, note: &'static str) -> Call {
    Call { note, ..forwarded(name) }
}

const fn observed(name: &'static str, note: &'static str) -> Call {
    Call { treatment: Treatment::Observed, note, ..forwarded(name) }
}

const fn rewritten(name: &'static str, note: &'static str) -> Call {
    Call { treatment: Treatment::Rewritten, note, ..forwarded(name) }
}

impl Call {
    const fn rule(self, rule: CallRule) -> Call {
        Call { rule, ..self }
    }

    const fn allocates(self, into: usize, size: SizeRule) -> Call {
        self.rule(Allocate { into, size })
    }

    const fn allocates_host(self, into: usize) -> Call {
        self.rule(AllocateHost { into })
    }

    const fn frees(self, pointer: usize) -> Call {
        self.rule(Free { pointer })
    }

    const fn creates(self, into: usize) -> Call {
        self.rule(CreateHandle { into })
    }

    const fn destroys(self, handle: usize) -> Call {
        self.rule(DestroyHandle { handle })
    }

    const fn writes_symbol(self) -> Call {
        self.rule(WriteSymbol)
    }

    const fn launches(self) -> Call {
        self.rule(Launch)
    }

    const fn begins_capture(self) -> Call {
        self.rule(BeginCapture)
    }

    const fn ends_capture(self) -> Call {
        self.rule(EndCapture)
    }

    const fn harmless(self) -> Call {
        self.rule(Harmless)
    }

    const fn only(self, major: Major) -> Call {
        Call { only: Some(major), ..self }
    }

    const fn differs(self) -> Call {
        Call { differs: true, ..self }
    }

    const fn ptsz(self, symbol: &'static str) -> Call {
        Call { per_thread: Some(PerThread::Stream(symbol)), ..self }
    }

    const fn ptds(self, symbol: &'static str) -> Call {
        Call { per_thread: Some(PerThread::Blocking(symbol)), ..self }
    }

    const fn internal(self) -> Call {
        Call { internal: true, ..self }
    }

    /// True if the pass renames the call's symbol, so that the shim sees it.
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        self.treatment != Treatment::Forwarded
    }

    /// The call's own symbol and that of its per-thread variant.
    pub fn symbols(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.per_thread.map(PerThread::symbol))
    }
}

/// Every call of the runtime, grouped by subject.
pub fn calls() -> impl Iterator<Item = &'static Call> {
    let tables = [memory::CALLS, copies::CALLS, launches::CALLS, graphs::CALLS, devices::CALLS];
    tables.into_iter().flatten()
}

/// Finds the call with this symbol, which may be that of a per-thread variant.
#[must_use]
pub fn call(symbol: &str) -> Option<&'static Call> {
    calls().find(|call| call.symbols().any(|own| own == symbol))
}

/// Symbols that the pass renames and the shim exports with [`RENAME_PREFIX`](crate::RENAME_PREFIX), sorted: calls of
/// the runtime, and library calls that create or destroy handles.
#[must_use]
pub fn renamed_symbols() -> Vec<&'static str> {
    let own = calls().filter(|call| call.is_renamed()).flat_map(|call| call.symbols());
    let mut symbols: Vec<_> = own.chain(libraries::LIBRARY_CALLS.iter().map(|call| call.name)).collect();
    symbols.sort_unstable();
    symbols
}

/// nvcc's and clang's registration of a kernel, from which the shim learns the kernel's name in a program that the pass
/// did not compile. The shim exports its hook with [`RENAME_PREFIX`](crate::RENAME_PREFIX); the pass never renames it.
pub const REGISTER_KERNEL: &str = "__cudaRegisterFunction";

/// Symbols that `libeager_preload.so` puts in front of the runtime's, sorted: all that the shim has hooks for.
#[must_use]
pub fn front_symbols() -> Vec<&'static str> {
    let mut symbols = renamed_symbols();
    symbols.push(REGISTER_KERNEL);
    symbols.sort_unstable();
    symbols
}

/// Effect on memory of the call with this symbol. A symbol that is not in the table is judged by its name, so that
/// an allocating call missing from the table counts as an allocation of unknown size instead of being overlooked.
#[must_use]
pub fn rule(symbol: &str) -> CallRule {
    match call(symbol) {
        Some(call) => call.rule,
        None if symbol.starts_with("cudaMalloc") => Allocate { into: 0, size: Unknown },
        None if symbol.starts_with("cudaLaunch") || symbol.starts_with("cudaGraphLaunch") => Launch,
        None => Uses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_allocations_are_counted_as_such_and_other_unknown_calls_use_what_they_get() {
        assert_eq!(rule("cudaMallocNovel"), Allocate { into: 0, size: Unknown });
        assert_eq!(rule("cudaNovelCall"), Uses);
    }

    #[test]
    fn a_per_thread_symbol_has_the_rule_of_its_call() {
        assert_eq!(rule("cudaLaunchKernel_ptsz"), Launch);
        assert_eq!(call("cudaMemcpy_ptds").map(|call| call.name), Some("cudaMemcpy"));
    }

    #[test]
    fn no_symbol_is_there_twice_and_what_is_renamed_says_why() {
        let mut symbols: Vec<_> = calls().flat_map(Call::symbols).collect();
        symbols.sort_unstable();
        let before = symbols.len();
        symbols.dedup();
        assert_eq!(symbols.len(), before);
        for call in calls().filter(|call| call.is_renamed()) {
            assert!(!call.note.is_empty(), "{}", call.name);
        }
    }
}
