//! Compares the shim's declarations of CUDA's calls, structures and numbers with the headers of both CUDA trees, as a
//! C++ compiler reads them.
//!
//! The shim is compiled with cudarc, which knows one version only. A tree that is not installed is skipped with a
//! message and does not fail the test.

#[path = "../../../virtual-gpu/cudart/tests/common/headers.rs"]
mod headers;

use cudarc::runtime::sys;
use eager::exports;
use eager::exports::layouts::{ChannelBits, Copy3D, Copy3DPeer, LaunchConfig, PitchedPointer};
use eager::library::{self, PointerAttributes};
use eager::runtime::{CopyKind, CudaError, StreamFlags, StreamId};
use eager::signature::Hook;
use eager_abi::calls::{Major, call};
use headers::Headers;
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::fmt::Write;
use std::mem::offset_of;

const TREES: [(&str, Major); 2] = [("cuda-12.9", Major::Twelve), ("cuda-13.0", Major::Thirteen)];

/// Sizes of a function type's arguments.
trait Arguments {
    fn sizes() -> Vec<usize>;
}

macro_rules! arguments {
    ($(($($argument:ident),*))*) => {
        $(impl<$($argument),*> Arguments for unsafe extern "C" fn($($argument),*) -> library::Status {
            fn sizes() -> Vec<usize> {
                vec![$(size_of::<$argument>()),*]
            }
        })*
    };
}
arguments! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F, G, H) }

/// Symbols in the version's library, with the argument sizes that the shim declares.
fn hints(major: Major) -> Vec<(&'static str, Vec<usize>)> {
    let mut calls = vec![
        ("cudaMallocHost", library::MallocHostFn::sizes()),
        ("cudaFreeHost", library::FreeHostFn::sizes()),
        ("cudaPointerGetAttributes", library::PointerAttributesFn::sizes()),
        ("cudaDeviceGetAttribute", library::DeviceAttributeFn::sizes()),
    ];
    let (advise, prefetch) = (library::AdviseFn::sizes(), library::PrefetchFn::sizes());
    match major {
        Major::Twelve => calls.extend([("cudaMemAdvise_v2", advise), ("cudaMemPrefetchAsync_v2", prefetch)]),
        Major::Thirteen => calls.extend([
            ("cudaMemAdvise", advise),
            ("cudaMemPrefetchAsync", prefetch),
            ("cudaMemDiscardAndPrefetchBatchAsync", library::DiscardFn::sizes()),
        ]),
    }
    calls
}

/// Calls of the version by name, with their argument sizes.
fn calls(major: Major) -> BTreeMap<&'static str, Vec<usize>> {
    let is_there = |hook: &&Hook| {
        call(hook.name).is_some_and(|call| !call.internal && call.only.is_none_or(|only| only == major))
    };
    let hooks = exports::all().chain(library::CALLS).filter(is_there);
    hooks.map(|hook| (hook.name, hook.argument_bytes.to_vec())).chain(hints(major)).collect()
}

/// C expressions, and the values that the shim uses for them.
fn numbers() -> Vec<(&'static str, u64)> {
    let size = |of: usize| of as u64;
    let code = |error: CudaError| u64::from(error.code());
    let kind = |kind: CopyKind| u64::from(kind.0);
    vec![
        ("sizeof(cudaMemcpy3DParms)", size(size_of::<Copy3D>())),
        ("offsetof(cudaMemcpy3DParms, srcPtr)", size(offset_of!(Copy3D, src))),
        ("offsetof(cudaMemcpy3DParms, dstArray)", size(offset_of!(Copy3D, dst_array))),
        ("offsetof(cudaMemcpy3DParms, dstPtr)", size(offset_of!(Copy3D, dst))),
        ("offsetof(cudaMemcpy3DParms, extent)", size(offset_of!(Copy3D, extent))),
        ("offsetof(cudaMemcpy3DParms, kind)", size(offset_of!(Copy3D, kind))),
        ("sizeof(cudaMemcpy3DPeerParms)", size(size_of::<Copy3DPeer>())),
        ("offsetof(cudaMemcpy3DPeerParms, srcDevice)", size(offset_of!(Copy3DPeer, src_device))),
        ("offsetof(cudaMemcpy3DPeerParms, dstDevice)", size(offset_of!(Copy3DPeer, dst_device))),
        ("offsetof(cudaMemcpy3DPeerParms, extent)", size(offset_of!(Copy3DPeer, extent))),
        ("sizeof(cudaPitchedPtr)", size(size_of::<PitchedPointer>())),
        ("offsetof(cudaPitchedPtr, pitch)", size(offset_of!(PitchedPointer, pitch))),
        ("offsetof(cudaPitchedPtr, ysize)", size(offset_of!(PitchedPointer, height))),
        ("sizeof(cudaChannelFormatDesc)", size(size_of::<ChannelBits>())),
        ("offsetof(cudaChannelFormatDesc, f)", size(offset_of!(ChannelBits, kind))),
        ("offsetof(cudaLaunchConfig_t, blockDim)", size(offset_of!(LaunchConfig, block))),
        ("offsetof(cudaLaunchConfig_t, dynamicSmemBytes)", size(offset_of!(LaunchConfig, shared_bytes))),
        ("offsetof(cudaLaunchConfig_t, stream)", size(offset_of!(LaunchConfig, stream))),
        ("sizeof(cudaLaunchConfig_t)", size(size_of::<sys::cudaLaunchConfig_t>())),
        ("sizeof(cudaMemLocation)", size(size_of::<sys::cudaMemLocation>())),
        ("offsetof(cudaMemLocation, id)", size(offset_of!(sys::cudaMemLocation, id))),
        (
            "offsetof(cudaMemAllocNodeParams, bytesize)",
            size(offset_of!(sys::cudaMemAllocNodeParams, bytesize)),
        ),
        ("offsetof(cudaMemAllocNodeParams, dptr)", size(offset_of!(sys::cudaMemAllocNodeParams, dptr))),
        ("offsetof(cudaPointerAttributes, type)", size(offset_of!(PointerAttributes, kind))),
        // CUDA 12's structure is shorter; callers have room for either.
        ("sizeof(cudaPointerAttributes) <= 88", 1),
        ("cudaMemoryTypeUnregistered", u64::from(PointerAttributes::UNREGISTERED)),
        ("cudaMemLocationTypeDevice", sys::cudaMemLocationType::cudaMemLocationTypeDevice as u64),
        ("cudaMemLocationTypeHost", sys::cudaMemLocationType::cudaMemLocationTypeHost as u64),
        (
            "cudaMemAdviseSetPreferredLocation",
            sys::cudaMemoryAdvise::cudaMemAdviseSetPreferredLocation as u64,
        ),
        ("cudaErrorInvalidValue", code(CudaError::INVALID_VALUE)),
        ("cudaErrorMemoryAllocation", code(CudaError::MEMORY_ALLOCATION)),
        ("cudaErrorInitializationError", code(CudaError::INITIALIZATION)),
        ("cudaErrorInsufficientDriver", code(CudaError::INSUFFICIENT_DRIVER)),
        ("cudaErrorNoDevice", code(CudaError::NO_DEVICE)),
        ("cudaErrorDevicesUnavailable", code(CudaError::DEVICES_UNAVAILABLE)),
        ("cudaErrorInvalidDevice", code(CudaError::INVALID_DEVICE)),
        ("cudaErrorNotReady", code(CudaError::NOT_READY)),
        ("cudaMemcpyHostToHost", kind(CopyKind::HOST_TO_HOST)),
        ("cudaMemcpyHostToDevice", kind(CopyKind::HOST_TO_DEVICE)),
        ("cudaMemcpyDeviceToHost", kind(CopyKind::DEVICE_TO_HOST)),
        ("cudaMemcpyDeviceToDevice", kind(CopyKind::DEVICE_TO_DEVICE)),
        ("cudaMemcpyDefault", kind(CopyKind::DEFAULT)),
        ("cudaStreamNonBlocking", u64::from(StreamFlags::NON_BLOCKING.0)),
        ("(size_t)cudaStreamPerThread", size(StreamId::PER_THREAD.0)),
        ("cudaStreamCaptureStatusNone", u64::from(c_uint::MIN)),
        // Numbers that are private to the shim's modules of the same names.
        ("cudaEventDisableTiming", 2),
        ("cudaMemAttachGlobal", 1),
        ("cudaDevAttrConcurrentManagedAccess", 89),
    ]
}

/// True if a hook that takes either version's form word by word can take this form: no argument is larger, and there
/// are no more of them.
fn serves(name: &str, ours: &[usize], theirs: &[usize]) -> bool {
    let fits = theirs.len() <= ours.len() && theirs.iter().zip(ours).all(|(theirs, ours)| theirs <= ours);
    ours == theirs || fits && call(name).is_some_and(|call| call.differs)
}

#[test]
fn every_call_has_the_arguments_that_both_headers_declare() {
    for (tree, major) in TREES {
        let Some(headers) = Headers::of(tree) else { continue };
        let calls = calls(major);
        assert!(calls.len() > 90, "{tree}: only {} calls", calls.len());
        let theirs = headers.declared(calls.keys().copied());
        assert_eq!(calls.len(), theirs.len(), "{tree}");
        let differ: Vec<_> = calls
            .iter()
            .zip(&theirs)
            .filter(|((name, ours), theirs)| !serves(name, ours, &theirs.argument_bytes))
            .map(|((name, ours), theirs)| format!("{name}: {ours:?} {:?}", theirs.argument_bytes))
            .collect();
        assert!(differ.is_empty(), "{tree} (call, shim, header): {differ:#?}");
    }
}

#[test]
fn structures_and_numbers_are_those_of_both_headers() {
    for (tree, _) in TREES {
        let Some(headers) = Headers::of(tree) else { continue };
        let statements = numbers().iter().fold(String::new(), |mut text, (expression, _)| {
            let _ = writeln!(text, "printf(\"%llu\\n\", (unsigned long long)({expression}));");
            text
        });
        let theirs = headers.printed("", &statements);
        let ours = numbers();
        assert_eq!(ours.len(), theirs.len(), "{tree}");
        for ((expression, ours), theirs) in ours.iter().zip(&theirs) {
            assert_eq!(&ours.to_string(), theirs, "{tree}: {expression}");
        }
    }
}
