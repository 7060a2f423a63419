//! Every call of the CUDA runtime: what the shim does with it, and what it does with memory.
//!
//! One table for all who must agree: the pass renames what is [`Treatment::Rewritten`] or [`Treatment::Observed`] and
//! plans by the [`CallRule`]s, the shim exports exactly the renamed ones, and `runtime-shim/API.md` is printed from it. A
//! test compares it with `cuda_runtime_api.h` of each installed CUDA tree. Trap: names are those of *symbols*. A program
//! compiled with one default stream per thread calls `cudaMemcpyAsync_ptsz`, and a CUDA 12 program calls
//! `cudaGetDeviceProperties_v2` where its source says `cudaGetDeviceProperties`.

mod copies;
mod devices;
mod graphs;
mod launches;
pub mod libraries;
mod memory;

use CallRule::*;
use Major::*;
use SizeRule::*;

/// What becomes of a call in an instrumented program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Treatment {
    /// The shim may do something else than what was asked for.
    Rewritten,
    /// The shim prepares the call (right device, task bound) or counts it, and hands it on unchanged.
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

/// What a per-thread variant of a call takes for its default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerThread {
    /// `_ptsz`: has a stream argument, whose 0 means the thread's stream.
    Stream(&'static str),
    /// `_ptds`: blocks on the thread's stream.
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
    /// Not to be computed from the arguments (arrays: the format's size and the layout are the device's).
    Unknown,
}

/// What a call does with device memory and handles, arguments of the C function counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRule {
    /// Device memory whose pointer is written to `*args[into]`.
    Allocate {
        into: usize,
        size: SizeRule,
    },
    /// Pinned host memory whose pointer is written to `*args[into]`.
    AllocateHost {
        into: usize,
    },
    /// The memory behind `args[pointer]` is given back.
    Free {
        pointer: usize,
    },
    /// A stream, event or other object of one device, written to `*args[into]`.
    CreateHandle {
        into: usize,
    },
    /// `args[handle]` is given back.
    DestroyHandle {
        handle: usize,
    },
    /// Reads or writes a `__device__` or `__constant__` variable of the current device.
    WriteSymbol,
    /// A kernel launch that is not clang's `<<<…>>>`: its buffers cannot be seen.
    Launch,
    /// Between these calls the runtime records instead of running (stream capture).
    BeginCapture,
    EndCapture,
    /// Uses the buffers and handles among its arguments (copies, memsets, records, waits).
    Uses,
    /// Looks at no buffer and no handle (error strings, versions, `cudaGetLastError`).
    Harmless,
}

/// Rows of pitched memory start at multiples of this many bytes: what the shim does for managed memory, and the
/// allocator's own rounding on every device known to CUDA 12 and 13, so that it bounds the pitch (specification S-518).
pub const PITCH_ALIGNMENT: u64 = 512;

/// Of calls that do nothing with memory.
const GIVEN: &str = "makes a context: on a device that the daemon gave";

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The C function.
    pub name: &'static str,
    pub treatment: Treatment,
    pub rule: CallRule,
    /// The one major version that has it; `None`: both.
    pub only: Option<Major>,
    /// The two versions declare other arguments for it.
    pub differs: bool,
    pub per_thread: Option<PerThread>,
    /// Not in CUDA's header: nvcc's own host code calls it.
    pub internal: bool,
    /// What the shim does, or what is not seen. Empty: nothing to say.
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

/// Forwarded, and something about it is worth knowing.
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

    /// Is its symbol renamed, so that the shim sees it?
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        self.treatment != Treatment::Forwarded
    }

    /// Its symbols: the call's own and its per-thread variant's.
    pub fn symbols(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.per_thread.map(PerThread::symbol))
    }
}

/// Every call, by subject.
pub fn calls() -> impl Iterator<Item = &'static Call> {
    let tables = [memory::CALLS, copies::CALLS, launches::CALLS, graphs::CALLS, devices::CALLS];
    tables.into_iter().flatten()
}

/// The call with this symbol (also a per-thread variant's).
#[must_use]
pub fn call(symbol: &str) -> Option<&'static Call> {
    calls().find(|call| call.symbols().any(|own| own == symbol))
}

/// The symbols that the pass renames and the shim exports with [`RENAME_PREFIX`](crate::RENAME_PREFIX), sorted: the
/// runtime's, and those of libraries' handles.
#[must_use]
pub fn renamed_symbols() -> Vec<&'static str> {
    let own = calls().filter(|call| call.is_renamed()).flat_map(|call| call.symbols());
    let mut symbols: Vec<_> = own.chain(libraries::LIBRARY_CALLS.iter().map(|call| call.name)).collect();
    symbols.sort_unstable();
    symbols
}

/// What a runtime symbol does with memory. One that is not in the table counts by its name, so that an allocation that
/// nobody thought of is one of unknown size, and is not overlooked.
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
