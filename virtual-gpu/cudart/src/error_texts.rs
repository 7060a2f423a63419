//! Name and text of each error code, for programs and for log lines.
//!
//! Trap: C gets them as they are, so each ends with NUL.

use core::ffi::CStr;

use crate::status::Code;

/// A code with its name and text, both NUL-terminated for C.
type Entry = (Code, &'static str, &'static str);

macro_rules! entries {
    ($($code:ident: $text:literal,)*) => {
        /// The codes that this library returns, in ascending order, with the wording of the CUDA runtime.
        const ENTRIES: &[Entry] =
            &[$((Code::$code, concat!(stringify!($code), "\0"), concat!($text, "\0"))),*];
    };
}

entries! {
    cudaSuccess: "no error",
    cudaErrorInvalidValue: "invalid argument",
    cudaErrorMemoryAllocation: "out of memory",
    cudaErrorInitializationError: "initialization error",
    cudaErrorCudartUnloading: "driver shutting down",
    cudaErrorInvalidConfiguration: "invalid configuration argument",
    cudaErrorInvalidPitchValue: "invalid pitch argument",
    cudaErrorInvalidSymbol: "invalid device symbol",
    cudaErrorInvalidMemcpyDirection: "invalid copy direction for memcpy",
    cudaErrorDevicesUnavailable: "CUDA-capable device(s) is/are busy or unavailable",
    cudaErrorMissingConfiguration: "__global__ function call is not configured",
    cudaErrorInvalidDeviceFunction: "invalid device function",
    cudaErrorInvalidDevice: "invalid device ordinal",
    cudaErrorOperatingSystem: "OS call failed or operation not supported on this OS",
    cudaErrorInvalidResourceHandle: "invalid resource handle",
    cudaErrorIllegalState: "the operation cannot be performed in the present state",
    cudaErrorSymbolNotFound: "named symbol not found",
    cudaErrorNotReady: "device not ready",
    cudaErrorIllegalAddress: "an illegal memory access was encountered",
    cudaErrorLaunchOutOfResources: "too many resources requested for launch",
    cudaErrorLaunchTimeout: "the launch timed out and was terminated",
    cudaErrorPeerAccessAlreadyEnabled: "peer access is already enabled",
    cudaErrorPeerAccessNotEnabled: "peer access has not been enabled",
    cudaErrorAssert: "device-side assert triggered",
    cudaErrorHostMemoryAlreadyRegistered: "part or all of the requested memory range is already mapped",
    cudaErrorHostMemoryNotRegistered: "pointer does not correspond to a registered memory region",
    cudaErrorMisalignedAddress: "misaligned address",
    cudaErrorLaunchFailure: "unspecified launch failure",
    cudaErrorCooperativeLaunchTooLarge: "too many blocks in cooperative launch",
    cudaErrorNotPermitted: "operation not permitted",
    cudaErrorNotSupported: "operation not supported",
    cudaErrorStreamCaptureUnsupported: "operation not permitted when stream is capturing",
    cudaErrorStreamCaptureInvalidated: "operation failed due to a previous error during capture",
    cudaErrorStreamCaptureMerge: "operation would result in a merge of separate capture sequences",
    cudaErrorStreamCaptureUnmatched: "capture was not ended in the same stream as it began",
    cudaErrorStreamCaptureUnjoined: "capturing stream has unjoined work",
    cudaErrorStreamCaptureIsolation: "dependency created on uncaptured work in another stream",
    cudaErrorStreamCaptureImplicit: "operation would make the legacy stream depend on a capturing blocking stream",
    cudaErrorCapturedEvent: "operation not permitted on an event last recorded in a capturing stream",
    cudaErrorStreamCaptureWrongThread: "attempt to terminate a thread-local capture sequence from another thread",
    cudaErrorGraphExecUpdateFailure: "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update",
    cudaErrorUnknown: "unknown error",
}

/// Entry of a code; NVIDIA's wording for a number that is not a code.
fn entry(code: u32) -> Entry {
    let unknown = (Code::cudaErrorUnknown, "unrecognized error code\0", "unrecognized error code\0");
    ENTRIES.iter().copied().find(|(known, ..)| *known as u32 == code).unwrap_or(unknown)
}

/// Name and text of a code.
pub fn error_texts(code: u32) -> [&'static CStr; 2] {
    let (_, name, text) = entry(code);
    [name, text].map(|text| CStr::from_bytes_with_nul(text.as_bytes()).expect("each ends with NUL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_listed_once_in_order() {
        assert!(ENTRIES.windows(2).all(|pair| (pair[0].0 as u32) < pair[1].0 as u32));
        assert_eq!(entry(2).2, "out of memory\0");
        assert_eq!(entry(12345).1, "unrecognized error code\0");
    }
}
