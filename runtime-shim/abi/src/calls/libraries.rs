//! Calls of NVIDIA's libraries that make and destroy handles and plans: with them comes device memory that no argument
//! tells of, learnt by what the device has less afterwards.
//!
//! Trap: the rest of a library's calls is not seen, so that a workspace made at first use is not either; nor are the
//! kernels of a library, which go to CUDA past the shim.

/// Does a call make a handle or give it back?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Creates,
    Destroys,
}

/// One call of a library, by symbol.
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

/// All that are renamed, sorted.
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
