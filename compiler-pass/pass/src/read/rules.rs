//! What each call of the CUDA runtime does with device memory and handles: one rule per call, arguments by position.
//!
//! Positions count the arguments of the C function from 0. Trap: a call that is missing here counts as [`CallRule::Uses`]:
//! it keeps the buffers it is given in their task, but an allocation among such calls would not be counted.

#[expect(dead_code, reason = "the reader does not compute pitched sizes yet")]
/// How the size of an allocation follows from the call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// Argument `0` holds the bytes.
    Bytes(usize),
    /// `height` rows of `width` bytes, each row rounded up to [`PITCH_ALIGNMENT`].
    Pitched { width: usize, height: usize },
    /// A `cudaExtent` passed in memory: `width` bytes, rounded up, times `height` times `depth`.
    PitchedExtent { extent: usize },
    /// Not to be computed from the arguments (arrays: the format's size and the layout are the device's).
    Unknown,
}

/// One kind of call.
#[expect(dead_code, reason = "the reader does not ask for every position yet")]
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
    /// Writes a `__device__` or `__constant__` variable of the current device.
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

#[expect(dead_code, reason = "the reader does not compute pitched sizes yet")]
/// Rows of pitched memory start at multiples of this many bytes on every device known to CUDA 12 and 13
/// (`cudaDeviceProp::texturePitchAlignment` is 32, the allocator's own rounding is 512), so it bounds the pitch.
pub const PITCH_ALIGNMENT: u64 = 512;

/// The rule of a runtime call, by its C name.
#[must_use]
pub fn rule(name: &str) -> CallRule {
    match name {
        "cudaMalloc" | "cudaMallocManaged" => CallRule::Allocate { into: 0, size: SizeRule::Bytes(1) },
        "cudaMallocHost" | "cudaHostAlloc" => CallRule::AllocateHost { into: 0 },
        "cudaFree" => CallRule::Free { pointer: 0 },
        "cudaStreamCreate"
        | "cudaStreamCreateWithFlags"
        | "cudaStreamCreateWithPriority"
        | "cudaEventCreate"
        | "cudaEventCreateWithFlags" => CallRule::CreateHandle { into: 0 },
        "cudaStreamDestroy" | "cudaEventDestroy" => CallRule::DestroyHandle { handle: 0 },
        "cudaMemcpyToSymbol" | "cudaMemcpyToSymbolAsync" => CallRule::WriteSymbol,
        "cudaGetLastError" | "cudaPeekAtLastError" | "cudaGetErrorString" | "cudaGetErrorName" => {
            CallRule::Harmless
        }
        _ if name.starts_with("cudaMalloc") => CallRule::Allocate { into: 0, size: SizeRule::Unknown },
        _ if name.starts_with("cudaLaunch") || name.starts_with("cudaGraphLaunch") => CallRule::Launch,
        _ => CallRule::Uses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_allocations_are_counted_as_such_and_other_unknown_calls_use_what_they_get() {
        assert_eq!(rule("cudaMallocNovel"), CallRule::Allocate { into: 0, size: SizeRule::Unknown });
        assert_eq!(rule("cudaNovelCall"), CallRule::Uses);
    }
}
