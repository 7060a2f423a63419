//! Kernels and their attributes, streams, events.

use super::*;

pub(super) const CALLS: &[Call] = &[
    observed("cudaEventCreate", "binds first: an event belongs to one device").creates(0),
    observed("cudaEventCreateWithFlags", "binds first").creates(0),
    forwarded("cudaEventDestroy").destroys(0),
    forwarded("cudaEventElapsedTime"),
    forwarded("cudaEventElapsedTime_v2").only(Twelve),
    forwarded("cudaEventQuery"),
    observed("cudaEventRecord", "on the task's device").ptsz("cudaEventRecord_ptsz"),
    observed("cudaEventRecordWithFlags", "on the task's device").ptsz("cudaEventRecordWithFlags_ptsz"),
    observed("cudaEventSynchronize", "afterwards the shim checks whether watched tasks are idle"),
    observed("cudaFuncGetAttributes", GIVEN).harmless(),
    forwarded("cudaFuncGetName").harmless(),
    forwarded("cudaFuncGetParamInfo").harmless(),
    rewritten("cudaFuncSetAttribute", "applied on each device that a task is bound to").harmless(),
    rewritten("cudaFuncSetCacheConfig", "applied on each device that a task is bound to").harmless(),
    observed("cudaFuncSetSharedMemConfig", GIVEN).harmless(),
    forwarded("cudaGetFuncBySymbol").only(Thirteen),
    observed("cudaGetKernel", "its handle means the kernel in later launches").harmless(),
    noted("cudaKernelSetAttributeForDevice", "device numbers stay the program's"),
    rewritten("cudaLaunchCooperativeKernel", "as cudaLaunchKernel")
        .launches()
        .ptsz("cudaLaunchCooperativeKernel_ptsz"),
    noted("cudaLaunchCooperativeKernelMultiDevice", "one task has one device: CUDA refuses it with an error")
        .only(Twelve),
    observed("cudaLaunchHostFunc", "on the task's device").ptsz("cudaLaunchHostFunc_ptsz"),
    rewritten("cudaLaunchKernel", "waits for binding and gate; the default stream becomes the task's own")
        .launches()
        .ptsz("cudaLaunchKernel_ptsz"),
    rewritten("cudaLaunchKernelExC", "as cudaLaunchKernel").launches().ptsz("cudaLaunchKernelExC_ptsz"),
    forwarded("cudaLibraryEnumerateKernels"),
    forwarded("cudaLibraryGetGlobal"),
    forwarded("cudaLibraryGetKernel"),
    forwarded("cudaLibraryGetKernelCount"),
    forwarded("cudaLibraryGetManaged"),
    forwarded("cudaLibraryGetUnifiedFunction"),
    forwarded("cudaLibraryLoadData"),
    forwarded("cudaLibraryLoadFromFile"),
    forwarded("cudaLibraryUnload"),
    observed("cudaOccupancyAvailableDynamicSMemPerBlock", GIVEN).harmless(),
    observed("cudaOccupancyMaxActiveBlocksPerMultiprocessor", GIVEN).harmless(),
    observed("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", GIVEN).harmless(),
    observed("cudaOccupancyMaxActiveClusters", GIVEN).harmless(),
    observed("cudaOccupancyMaxPotentialClusterSize", GIVEN).harmless(),
    observed("cudaStreamAddCallback", "on the task's device").ptsz("cudaStreamAddCallback_ptsz"),
    forwarded("cudaStreamAttachMemAsync").ptsz("cudaStreamAttachMemAsync_ptsz"),
    observed("cudaStreamBeginCapture", "binds first; until the end nothing is rewritten, held or moved")
        .begins_capture()
        .ptsz("cudaStreamBeginCapture_ptsz"),
    observed("cudaStreamBeginCaptureToGraph", "as cudaStreamBeginCapture")
        .begins_capture()
        .ptsz("cudaStreamBeginCaptureToGraph_ptsz"),
    forwarded("cudaStreamCopyAttributes").ptsz("cudaStreamCopyAttributes_ptsz"),
    rewritten("cudaStreamCreate", "on the task's device; lowest priority for eager tasks, else the highest")
        .creates(0),
    rewritten("cudaStreamCreateWithFlags", "as cudaStreamCreate").creates(0),
    rewritten("cudaStreamCreateWithPriority", "lowest priority for eager tasks, else as asked").creates(0),
    observed("cudaStreamDestroy", "waits for its kernels, so that their end is known").destroys(0),
    observed("cudaStreamEndCapture", "ends what cudaStreamBeginCapture began")
        .ends_capture()
        .ptsz("cudaStreamEndCapture_ptsz"),
    forwarded("cudaStreamGetAttribute").ptsz("cudaStreamGetAttribute_ptsz"),
    forwarded("cudaStreamGetCaptureInfo").ptsz("cudaStreamGetCaptureInfo_ptsz").differs(),
    forwarded("cudaStreamGetCaptureInfo_v2").only(Twelve).ptsz("cudaStreamGetCaptureInfo_v2_ptsz"),
    forwarded("cudaStreamGetCaptureInfo_v3").only(Twelve).ptsz("cudaStreamGetCaptureInfo_v3_ptsz"),
    forwarded("cudaStreamGetDevice").ptsz("cudaStreamGetDevice_ptsz"),
    forwarded("cudaStreamGetFlags").ptsz("cudaStreamGetFlags_ptsz"),
    forwarded("cudaStreamGetId").ptsz("cudaStreamGetId_ptsz"),
    forwarded("cudaStreamGetPriority").ptsz("cudaStreamGetPriority_ptsz"),
    forwarded("cudaStreamIsCapturing").ptsz("cudaStreamIsCapturing_ptsz"),
    rewritten("cudaStreamQuery", "the default stream: the tasks' own streams too")
        .ptsz("cudaStreamQuery_ptsz"),
    forwarded("cudaStreamSetAttribute").ptsz("cudaStreamSetAttribute_ptsz"),
    rewritten("cudaStreamSynchronize", "the default stream: the tasks' own streams too")
        .ptsz("cudaStreamSynchronize_ptsz"),
    forwarded("cudaStreamUpdateCaptureDependencies")
        .ptsz("cudaStreamUpdateCaptureDependencies_ptsz")
        .differs(),
    forwarded("cudaStreamUpdateCaptureDependencies_v2")
        .only(Twelve)
        .ptsz("cudaStreamUpdateCaptureDependencies_v2_ptsz"),
    rewritten("cudaStreamWaitEvent", "the default stream: the tasks' own streams too")
        .ptsz("cudaStreamWaitEvent_ptsz"),
    forwarded("cudaThreadExchangeStreamCaptureMode"),
    forwarded("cudaUserObjectCreate"),
    forwarded("cudaUserObjectRelease"),
    forwarded("cudaUserObjectRetain"),
    // Host code compiled by nvcc launches kernels through these symbols.
    rewritten("__cudaLaunchKernel", "as cudaLaunchKernel")
        .launches()
        .ptsz("__cudaLaunchKernel_ptsz")
        .internal(),
    observed("__cudaInitModule", "binds first: it makes a context for `__managed__` variables")
        .harmless()
        .internal(),
    observed("__cudaGetKernel", "its handle means the kernel in later launches").harmless().internal(),
];
