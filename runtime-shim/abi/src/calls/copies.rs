//! Copies and memsets.

use super::*;

pub(super) const CALLS: &[Call] = &[
    rewritten("cudaMemcpy", "to managed memory: as it is within the grant, else filled by the CPU")
        .ptds("cudaMemcpy_ptds"),
    rewritten("cudaMemcpy2D", "as cudaMemcpy, row by row").ptds("cudaMemcpy2D_ptds"),
    observed("cudaMemcpy2DArrayToArray", "binds first; on the task's device")
        .ptds("cudaMemcpy2DArrayToArray_ptds"),
    rewritten("cudaMemcpy2DAsync", "as cudaMemcpyAsync, row by row").ptsz("cudaMemcpy2DAsync_ptsz"),
    observed("cudaMemcpy2DFromArray", "binds first; on the task's device").ptds("cudaMemcpy2DFromArray_ptds"),
    observed("cudaMemcpy2DFromArrayAsync", "binds first; on the task's device")
        .ptsz("cudaMemcpy2DFromArrayAsync_ptsz"),
    observed("cudaMemcpy2DToArray", "binds first; on the task's device").ptds("cudaMemcpy2DToArray_ptds"),
    observed("cudaMemcpy2DToArrayAsync", "binds first; on the task's device")
        .ptsz("cudaMemcpy2DToArrayAsync_ptsz"),
    rewritten("cudaMemcpy3D", "as cudaMemcpy, row by row, where no array takes part")
        .ptds("cudaMemcpy3D_ptds"),
    rewritten("cudaMemcpy3DAsync", "as cudaMemcpyAsync, row by row, where no array takes part")
        .ptsz("cudaMemcpy3DAsync_ptsz"),
    noted("cudaMemcpy3DBatchAsync", "on the current device, as it is")
        .ptsz("cudaMemcpy3DBatchAsync_ptsz")
        .differs(),
    rewritten("cudaMemcpy3DPeer", "as cudaMemcpy3D").ptds("cudaMemcpy3DPeer_ptds"),
    rewritten("cudaMemcpy3DPeerAsync", "as cudaMemcpy3DAsync").ptsz("cudaMemcpy3DPeerAsync_ptsz"),
    observed("cudaMemcpyArrayToArray", "binds first; on the task's device")
        .ptds("cudaMemcpyArrayToArray_ptds"),
    rewritten("cudaMemcpyAsync", "the same for eager tasks and before there is a device")
        .ptsz("cudaMemcpyAsync_ptsz"),
    noted("cudaMemcpyBatchAsync", "on the current device, as it is")
        .ptsz("cudaMemcpyBatchAsync_ptsz")
        .differs(),
    observed("cudaMemcpyFromArray", "binds first; on the task's device").ptds("cudaMemcpyFromArray_ptds"),
    observed("cudaMemcpyFromArrayAsync", "binds first; on the task's device")
        .ptsz("cudaMemcpyFromArrayAsync_ptsz"),
    observed("cudaMemcpyFromSymbol", "binds first").writes_symbol().ptds("cudaMemcpyFromSymbol_ptds"),
    observed("cudaMemcpyFromSymbolAsync", "binds first")
        .writes_symbol()
        .ptsz("cudaMemcpyFromSymbolAsync_ptsz"),
    rewritten("cudaMemcpyPeer", "both sides are where the daemon put them: a copy without device numbers"),
    rewritten("cudaMemcpyPeerAsync", "as cudaMemcpyPeer"),
    observed("cudaMemcpyToArray", "binds first; on the task's device").ptds("cudaMemcpyToArray_ptds"),
    observed("cudaMemcpyToArrayAsync", "binds first; on the task's device")
        .ptsz("cudaMemcpyToArrayAsync_ptsz"),
    observed("cudaMemcpyToSymbol", "binds first: a device variable has one copy per device")
        .writes_symbol()
        .ptds("cudaMemcpyToSymbol_ptds"),
    observed("cudaMemcpyToSymbolAsync", "binds first").writes_symbol().ptsz("cudaMemcpyToSymbolAsync_ptsz"),
    rewritten("cudaMemset", "by the CPU before there is a device").ptds("cudaMemset_ptds"),
    rewritten("cudaMemset2D", "by the CPU before there is a device").ptds("cudaMemset2D_ptds"),
    rewritten("cudaMemset2DAsync", "by the CPU before there is a device").ptsz("cudaMemset2DAsync_ptsz"),
    rewritten("cudaMemset3D", "by the CPU before there is a device").ptds("cudaMemset3D_ptds"),
    rewritten("cudaMemset3DAsync", "by the CPU before there is a device").ptsz("cudaMemset3DAsync_ptsz"),
    rewritten("cudaMemsetAsync", "by the CPU before there is a device").ptsz("cudaMemsetAsync_ptsz"),
];
