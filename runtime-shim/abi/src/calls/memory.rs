//! Memory: device, managed, pinned, pooled, imported, arrays, and queries about them.

use super::*;

pub(super) const CALLS: &[Call] = &[
    forwarded("cudaArrayGetInfo"),
    forwarded("cudaArrayGetMemoryRequirements"),
    forwarded("cudaArrayGetPlane"),
    forwarded("cudaArrayGetSparseProperties"),
    forwarded("cudaCreateChannelDesc").harmless(),
    observed("cudaCreateSurfaceObject", "binds first: it belongs to one device").creates(0),
    observed("cudaCreateTextureObject", "binds first: it belongs to one device").creates(0),
    forwarded("cudaDestroyExternalMemory"),
    forwarded("cudaDestroyExternalSemaphore"),
    forwarded("cudaDestroySurfaceObject").destroys(0),
    forwarded("cudaDestroyTextureObject").destroys(0),
    rewritten("cudaDeviceGetDefaultMemPool", "of the task's device"),
    rewritten("cudaDeviceGetMemPool", "of the task's device"),
    rewritten("cudaDeviceSetMemPool", "of the task's device"),
    noted("cudaExternalMemoryGetMappedBuffer", "not counted: memory of another interface"),
    noted("cudaExternalMemoryGetMappedMipmappedArray", "not counted: memory of another interface"),
    rewritten("cudaFree", "freed and reported").frees(0),
    rewritten("cudaFreeArray", "freed and reported").frees(0),
    rewritten("cudaFreeAsync", "freed and reported; managed memory after its stream")
        .frees(0)
        .ptsz("cudaFreeAsync_ptsz"),
    rewritten("cudaFreeHost", "also for memory that is not page-locked yet"),
    rewritten("cudaFreeMipmappedArray", "freed and reported").frees(0),
    forwarded("cudaGetChannelDesc").harmless(),
    forwarded("cudaGetMipmappedArrayLevel"),
    forwarded("cudaGetSurfaceObjectResourceDesc"),
    observed("cudaGetSymbolAddress", "of the task's device").writes_symbol(),
    observed("cudaGetSymbolSize", GIVEN),
    forwarded("cudaGetTextureObjectResourceDesc"),
    forwarded("cudaGetTextureObjectResourceViewDesc"),
    forwarded("cudaGetTextureObjectTextureDesc"),
    forwarded("cudaGraphicsMapResources"),
    forwarded("cudaGraphicsResourceGetMappedMipmappedArray"),
    noted("cudaGraphicsResourceGetMappedPointer", "not counted: memory of another interface"),
    forwarded("cudaGraphicsResourceSetMapFlags"),
    forwarded("cudaGraphicsSubResourceGetMappedArray"),
    forwarded("cudaGraphicsUnmapResources"),
    forwarded("cudaGraphicsUnregisterResource"),
    rewritten("cudaHostAlloc", "as cudaMallocHost; write-combined memory needs a context at once").allocates_host(0),
    observed("cudaHostGetDevicePointer", "first page-locks the memory that waits for it"),
    observed("cudaHostGetFlags", "first page-locks the memory that waits for it"),
    observed("cudaHostRegister", "host memory: not counted; on a device that the daemon gave, as it makes a context"),
    observed("cudaHostUnregister", "as cudaHostRegister"),
    forwarded("cudaImportExternalMemory"),
    forwarded("cudaImportExternalSemaphore"),
    forwarded("cudaIpcCloseMemHandle"),
    forwarded("cudaIpcGetEventHandle"),
    observed(
        "cudaIpcGetMemHandle",
        "a program that makes this call gets no mapped memory, which cannot be shared",
    ),
    observed("cudaIpcOpenEventHandle", GIVEN),
    observed("cudaIpcOpenMemHandle", "not counted: memory of another process; on a device that the daemon gave"),
    rewritten("cudaMalloc", "plain device memory, or managed where the task is eager or has no device yet")
        .allocates(0, Bytes(1)),
    rewritten("cudaMalloc3D", "as cudaMalloc; managed rows are 512 bytes apart")
        .allocates(0, PitchedExtent { extent: 1 }),
    rewritten("cudaMalloc3DArray", "as cudaMallocArray").allocates(0, Unknown),
    rewritten("cudaMallocArray", "always plain device memory, counted by format and extent")
        .allocates(0, Unknown),
    rewritten("cudaMallocAsync", "from the task's device; managed if the task is eager")
        .allocates(0, Bytes(1))
        .ptsz("cudaMallocAsync_ptsz"),
    rewritten("cudaMallocFromPoolAsync", "as cudaMallocAsync; from the pool while plain")
        .allocates(0, Bytes(1))
        .ptsz("cudaMallocFromPoolAsync_ptsz"),
    rewritten(
        "cudaMallocHost",
        "host memory: not counted. Before the program has a context: pageable, and page-locked with its first device",
    )
    .allocates_host(0),
    observed("cudaMallocManaged", "counted; hints and copies are the program's").allocates(0, Bytes(1)),
    rewritten("cudaMallocMipmappedArray", "as cudaMallocArray").allocates(0, Unknown),
    rewritten("cudaMallocPitch", "as cudaMalloc; managed rows are 512 bytes apart")
        .allocates(0, Pitched { width: 2, height: 3 }),
    rewritten("cudaMemAdvise", "a device means the task's; not forwarded before the task has one").differs(),
    rewritten("cudaMemAdvise_v2", "as cudaMemAdvise of CUDA 13").only(Twelve),
    noted("cudaMemDiscardAndPrefetchBatchAsync", "device numbers stay the program's")
        .only(Thirteen)
        .ptsz("cudaMemDiscardAndPrefetchBatchAsync_ptsz"),
    forwarded("cudaMemDiscardBatchAsync").only(Thirteen).ptsz("cudaMemDiscardBatchAsync_ptsz"),
    forwarded("cudaMemGetDefaultMemPool").only(Thirteen),
    observed("cudaMemGetInfo", "of the task's device; where the program's size is declared, at most what is left of it"),
    forwarded("cudaMemGetMemPool").only(Thirteen),
    observed("cudaMemPoolCreate", "binds first; its device number stays the program's").creates(0),
    forwarded("cudaMemPoolDestroy").destroys(0),
    forwarded("cudaMemPoolExportPointer"),
    forwarded("cudaMemPoolExportToShareableHandle"),
    forwarded("cudaMemPoolGetAccess"),
    forwarded("cudaMemPoolGetAttribute"),
    forwarded("cudaMemPoolImportFromShareableHandle"),
    noted("cudaMemPoolImportPointer", "not counted: memory of another process"),
    forwarded("cudaMemPoolSetAccess"),
    forwarded("cudaMemPoolSetAttribute"),
    noted("cudaMemPoolTrimTo", "what a pool keeps cached is not counted"),
    rewritten("cudaMemPrefetchAsync", "a device means the task's; not forwarded beyond an eager task's grant")
        .ptsz("cudaMemPrefetchAsync_ptsz")
        .differs(),
    rewritten("cudaMemPrefetchAsync_v2", "as cudaMemPrefetchAsync of CUDA 13")
        .only(Twelve)
        .ptsz("cudaMemPrefetchAsync_v2_ptsz"),
    noted("cudaMemPrefetchBatchAsync", "device numbers stay the program's")
        .only(Thirteen)
        .ptsz("cudaMemPrefetchBatchAsync_ptsz"),
    forwarded("cudaMemRangeGetAttribute"),
    forwarded("cudaMemRangeGetAttributes"),
    forwarded("cudaMemSetMemPool").only(Thirteen),
    forwarded("cudaMipmappedArrayGetMemoryRequirements"),
    forwarded("cudaMipmappedArrayGetSparseProperties"),
    observed(
        "cudaPointerGetAttributes",
        "an address without memory gets some first; managed memory of the shim is reported as managed",
    ),
    forwarded("cudaSignalExternalSemaphoresAsync").ptsz("cudaSignalExternalSemaphoresAsync_ptsz"),
    forwarded("cudaSignalExternalSemaphoresAsync_v2")
        .only(Twelve)
        .ptsz("cudaSignalExternalSemaphoresAsync_v2_ptsz"),
    forwarded("cudaWaitExternalSemaphoresAsync").ptsz("cudaWaitExternalSemaphoresAsync_ptsz"),
    forwarded("cudaWaitExternalSemaphoresAsync_v2")
        .only(Twelve)
        .ptsz("cudaWaitExternalSemaphoresAsync_v2_ptsz"),
];
