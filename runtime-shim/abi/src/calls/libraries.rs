//! Calls of NVIDIA's libraries that create and destroy handles and plans. A handle takes device memory that no
//! argument shows, so the shim measures how much less the device has free afterwards.
//!
//! The other calls of a library are not hooked: a workspace that is allocated at first use is not counted, and the
//! library's kernels go to CUDA past the shim.

/// Whether a call creates a handle or destroys it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Creates,
    Destroys,
}

/// A library call, by symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryCall {
    pub name: &'static str,
    pub life: Life,
}

const fn creates(name: &'static str) -> LibraryCall {
    LibraryCall { name, life: Life::Creates }
}

const fn destroys(name: &'static str) -> LibraryCall {
    LibraryCall { name, life: Life::Destroys }
}

/// All library calls that the pass renames, sorted by name.
pub const LIBRARY_CALLS: &[LibraryCall] = &[
    creates("cublasCreate_v2"),
    destroys("cublasDestroy_v2"),
    creates("cublasLtCreate"),
    destroys("cublasLtDestroy"),
    creates("cudnnCreate"),
    destroys("cudnnDestroy"),
    destroys("cufftDestroy"),
    creates("cufftPlan1d"),
    creates("cufftPlan2d"),
    creates("cufftPlan3d"),
    creates("cufftPlanMany"),
    creates("curandCreateGenerator"),
    destroys("curandDestroyGenerator"),
    creates("cusolverDnCreate"),
    destroys("cusolverDnDestroy"),
    creates("cusparseCreate"),
    destroys("cusparseDestroy"),
];
