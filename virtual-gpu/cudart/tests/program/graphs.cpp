// Graphs made node by node and by stream capture, and what capture forbids.
#include "harness.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

const int count = 1024;
const size_t bytes = count * sizeof(int);

static int first(const int *device) {
    int value = 0;
    OK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static char first_byte(const char *device) {
    char value = 0;
    OK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void add_one(void *data) { ++*(std::atomic<int> *)data; }

SCENARIO(graph_by_hand, "graph-by-hand") {
    int *device = nullptr, elements = count, factor = 2, out = 0;
    std::atomic<int> called{0};
    OK(cudaMalloc((void **)&device, bytes));
    cudaGraph_t graph;
    cudaGraphNode_t fill, kernel, back, host, empty;
    OK(cudaGraphCreate(&graph, 0));
    cudaMemsetParams zero = {};
    zero.dst = device;
    zero.value = 10;
    zero.elementSize = 4;
    zero.width = count;
    zero.height = 1;
    OK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &zero));
    void *args[] = {&device, &elements, &factor};
    cudaKernelNodeParams launch = {};
    launch.func = &scale_stub;
    launch.gridDim = dim3(count / 256);
    launch.blockDim = dim3(256);
    launch.kernelParams = args;
    OK(cudaGraphAddKernelNode(&kernel, graph, &fill, 1, &launch));
    OK(cudaGraphAddMemcpyNode1D(&back, graph, &kernel, 1, &out, device, sizeof out, cudaMemcpyDeviceToHost));
    cudaHostNodeParams call = {add_one, &called};
    OK(cudaGraphAddHostNode(&host, graph, nullptr, 0, &call));
    OK(cudaGraphAddEmptyNode(&empty, graph, nullptr, 0));
    OK(cudaGraphAddDependencies(graph, &back, &host, nullptr, 1));
    EXPECT(cudaGraphAddDependencies(graph, &back, &host, nullptr, 1) == cudaErrorInvalidValue);

    cudaGraphNode_t nodes[8], from[8], to[8];
    size_t number = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &number));
    EXPECT(number == 5);
    number = 8;
    OK(cudaGraphGetNodes(graph, nodes, &number));
    EXPECT(number == 5 && nodes[0] == fill && nodes[4] == empty && nodes[5] == nullptr);
    number = 8;
    OK(cudaGraphGetRootNodes(graph, nodes, &number));
    EXPECT(number == 2);
    number = 8;
    OK(cudaGraphGetEdges(graph, from, to, nullptr, &number));
    EXPECT(number == 3 && from[0] == fill && to[0] == kernel);
    number = 8;
    OK(cudaGraphNodeGetDependentNodes(kernel, nodes, nullptr, &number));
    EXPECT(number == 1 && nodes[0] == back);
    cudaGraphNodeType type;
    OK(cudaGraphNodeGetType(kernel, &type));
    EXPECT(type == cudaGraphNodeTypeKernel);

    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    factor = 99;  // The arguments were copied.
    OK(cudaGraphUpload(exec, nullptr));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(out == 25 && called == 2);

    cudaHostNodeParams told_host = {};
    cudaMemsetParams told_fill = {};
    OK(cudaGraphHostNodeGetParams(host, &told_host));
    EXPECT(told_host.fn == add_one && told_host.userData == &called);
    OK(cudaGraphMemsetNodeGetParams(fill, &told_fill));
    EXPECT(told_fill.dst == device && told_fill.value == 10 && told_fill.elementSize == 4 && told_fill.width == count);
    EXPECT(cudaGraphMemsetNodeGetParams(host, &told_fill) == cudaErrorInvalidValue);
    cudaKernelNodeParams told = {};
    OK(cudaGraphKernelNodeGetParams(kernel, &told));
    EXPECT(told.func == &scale_stub && told.blockDim.x == 256 && *(int *)told.kernelParams[2] == 2);
    told.kernelParams = args;
    OK(cudaGraphExecKernelNodeSetParams(exec, kernel, &told));
    OK(cudaGraphNodeSetEnabled(exec, fill, 0));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(out == 25 * 99 + 5);
    EXPECT(cudaGraphNodeSetEnabled(exec, host, 0) == cudaErrorInvalidValue);

    cudaGraph_t clone, larger;
    cudaGraphNode_t found;
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphNodeFindInClone(&found, kernel, clone));
    OK(cudaGraphKernelNodeSetParams(found, &launch));  // With the factor 99.
    cudaGraphExecUpdateResultInfo updated;
    OK(cudaGraphExecUpdate(exec, clone, &updated));
    EXPECT(updated.result == cudaGraphExecUpdateSuccess);
    OK(cudaGraphClone(&larger, graph));
    OK(cudaGraphAddEmptyNode(&found, larger, nullptr, 0));
    EXPECT(cudaGraphExecUpdate(exec, larger, &updated) == cudaErrorGraphExecUpdateFailure);
    EXPECT(updated.result == cudaGraphExecUpdateErrorTopologyChanged);
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(out == (25 * 99 + 5) * 99 + 5);  // The fill is still switched off.
    EXPECT(cudaGraphInstantiate(&exec, graph, 0) == cudaErrorInvalidValue);
    OK(cudaGraphExecDestroy(exec));
    EXPECT(cudaGraphLaunch(exec, nullptr) == cudaErrorInvalidValue);

    // A circle is found when the graph is made executable.
    cudaGraphNode_t a, b;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
    OK(cudaGraphAddEmptyNode(&b, graph, &a, 1));
    OK(cudaGraphAddDependencies(graph, &b, &a, nullptr, 1));
    EXPECT(cudaGraphInstantiate(&exec, graph, 0) == cudaErrorInvalidValue);
    OK(cudaGraphRemoveDependencies(graph, &b, &a, nullptr, 1));
    OK(cudaGraphAddChildGraphNode(&a, graph, &b, 1, clone));
    OK(cudaGraphDestroyNode(b));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagUseNodePriority));
    OK(cudaMemset(device, 0, bytes));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(out == 995);
    EXPECT(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch) == cudaErrorNotSupported);
    EXPECT(cudaGraphAddKernelNode(&a, graph, nullptr, 0, nullptr) == cudaErrorInvalidValue);
}

// A graph as text, of which CUDA documents the contents: edges, kinds of nodes, names of kernels, directions of copies.
SCENARIO(graph_dot, "graph-dot") {
    int *device = nullptr, elements = count, factor = 2, out = 0;
    OK(cudaMalloc((void **)&device, bytes));
    cudaGraph_t graph, child;
    cudaGraphNode_t kernel, back, inner;
    void *args[] = {&device, &elements, &factor};
    cudaKernelNodeParams launch = {};
    launch.func = &scale_stub;
    launch.gridDim = launch.blockDim = dim3(1);
    launch.kernelParams = args;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphCreate(&child, 0));
    OK(cudaGraphAddMemcpyNode1D(&back, child, nullptr, 0, &out, device, sizeof out, cudaMemcpyDeviceToHost));
    OK(cudaGraphAddKernelNode(&kernel, graph, nullptr, 0, &launch));
    OK(cudaGraphAddChildGraphNode(&inner, graph, &kernel, 1, child));
    char path[] = "/tmp/graph-XXXXXX";
    EXPECT(close(mkstemp(path)) == 0);
    OK(cudaGraphDebugDotPrint(graph, path, cudaGraphDebugDotFlagsVerbose));
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    unlink(path);
    for (const char *part : {"digraph", "kernel scale", "child graph", "memcpy DeviceToHost", " -> "})
        EXPECT(text.find(part) != std::string::npos);
    EXPECT(cudaGraphDebugDotPrint(graph, "/no/such/folder/graph", 0) == cudaErrorOperatingSystem);
    EXPECT(cudaGraphDebugDotPrint(nullptr, path, 0) == cudaErrorInvalidValue);

    unsigned long long held = 9;
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &held));
    EXPECT(held == 0);
    OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &held));
    EXPECT(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &held) == cudaErrorInvalidValue);
    EXPECT(cudaDeviceGetGraphMemAttribute(1, cudaGraphMemAttrUsedMemHigh, &held) == cudaErrorInvalidDevice);

    size_t elements_max = 0;
    const cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    OK(cudaDeviceGetTexture1DLinearMaxWidth(&elements_max, &format, 0));
    EXPECT(elements_max == 1 << 28);
    OK(cudaCtxResetPersistingL2Cache());
    const auto kernel_handle = (cudaKernel_t)&scale_stub;
    OK(cudaKernelSetAttributeForDevice(kernel_handle, cudaFuncAttributePreferredSharedMemoryCarveout, 50, 0));

    // Copies to and from a symbol, changed in the executable graph.
    cudaGraphNode_t in, read;
    cudaGraphExec_t exec;
    int one = 1, two = 2, got = 0;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNodeToSymbol(&in, graph, nullptr, 0, &shadow_offset, &one, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaGraphAddMemcpyNodeFromSymbol(&read, graph, &in, 1, &out, &shadow_offset, 4, 0, cudaMemcpyDeviceToHost));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, in, &shadow_offset, &two, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, read, &got, &shadow_offset, 4, 0, cudaMemcpyDeviceToHost));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(got == 2 && out == 0);
}

// Milliseconds of a graph that copies to the device and from it, beside each other or one after the other.
static float both_ways_ms(bool beside) {
    const size_t large = 2 << 20;
    char *device = nullptr, *host = nullptr;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t begins, in, out, ends;
    cudaEvent_t first, last;
    float ms = 0;
    OK(cudaMalloc((void **)&device, 2 * large));
    OK(cudaMallocHost((void **)&host, 2 * large));
    OK(cudaMemset(device, 7, 2 * large));
    std::memset(host, 3, 2 * large);
    OK(cudaEventCreate(&first));
    OK(cudaEventCreate(&last));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEventRecordNode(&begins, graph, nullptr, 0, first));
    OK(cudaGraphAddMemcpyNode1D(&in, graph, &begins, 1, device, host, large, cudaMemcpyHostToDevice));
    OK(cudaGraphAddMemcpyNode1D(&out, graph, beside ? &begins : &in, 1, host + large, device + large, large,
                                cudaMemcpyDeviceToHost));
    cudaGraphNode_t copies[] = {in, out};
    OK(cudaGraphAddEventRecordNode(&ends, graph, copies, 2, last));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaGraphExecDestroy(exec));  // What runs still ends.
    OK(cudaDeviceSynchronize());
    EXPECT(host[large] == 7 && host[2 * large - 1] == 7);
    EXPECT(first_byte(device) == 3 && first_byte(device + large - 1) == 3);
    OK(cudaEventElapsedTime(&ms, first, last));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(device));
    OK(cudaFreeHost(host));
    return ms;
}

// The two directions have engines of their own, so branches cost less than a chain.
SCENARIO(graph_branches, "graph-branches") {
    float chain = both_ways_ms(false), branches = both_ways_ms(true);
    EXPECT(branches > 0.4 * chain && branches < 0.7 * chain);
}

SCENARIO(graph_by_capture, "graph-by-capture") {
    int *device = nullptr;
    cudaStream_t stream, side;
    cudaEvent_t forked, joined, timed;
    cudaGraph_t graph, same;
    cudaGraphExec_t exec;
    cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    const cudaGraphNode_t *ends;
    size_t number = 0;
    OK(cudaMalloc((void **)&device, bytes));
    OK(cudaMemset(device, 0, bytes));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    OK(cudaEventCreate(&timed));
    OK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusNone);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaErrorIllegalState);
    OK(scale(device, count, 1, stream));
    OK(cudaEventRecord(forked, stream));
    EXPECT(cudaEventQuery(forked) == cudaErrorCapturedEvent);
    EXPECT(cudaEventSynchronize(forked) == cudaErrorCapturedEvent);
    OK(cudaStreamWaitEvent(side, forked, 0));
    OK(scale(device, count / 2, 3, side));
    OK(cudaEventRecord(joined, side));
    OK(cudaStreamWaitEvent(stream, joined, 0));
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, &same, &ends, nullptr, &number));
    EXPECT(status == cudaStreamCaptureStatusActive && number == 2);
    OK(scale(device, count, 2, stream));
    OK(cudaEventRecordWithFlags(timed, stream, cudaEventRecordExternal));
    OK(cudaStreamIsCapturing(side, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(stream, &graph));
    EXPECT(graph == same && first(device) == 0);  // Nothing has run.
    OK(cudaStreamIsCapturing(side, &status));
    EXPECT(status == cudaStreamCaptureStatusNone);
    OK(cudaGraphGetNodes(graph, nullptr, &number));
    EXPECT(number == 4);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaEventSynchronize(timed));
    OK(cudaEventQuery(timed));
    OK(cudaStreamSynchronize(stream));
    EXPECT(first(device) == ((0 * 1 + 5) * 3 + 5) * 2 + 5 && first(device + count / 2) == 5 * 2 + 5);
    OK(cudaGraphLaunch(exec, side));
    OK(cudaStreamSynchronize(side));
    EXPECT(first(device) == ((45 + 5) * 3 + 5) * 2 + 5);

    // Into a graph that is there.
    cudaGraphNode_t last;
    OK(cudaGraphGetRootNodes(graph, nullptr, &number));
    number = 1;
    OK(cudaGraphGetRootNodes(graph, &last, &number));
    OK(cudaStreamBeginCaptureToGraph(stream, graph, &last, nullptr, 1, cudaStreamCaptureModeRelaxed));
    OK(cudaMemsetAsync(device, 0, bytes, stream));
    OK(cudaStreamEndCapture(stream, &same));
    EXPECT(same == graph);
    OK(cudaGraphGetNodes(graph, nullptr, &number));
    EXPECT(number == 5);
}

SCENARIO(capture_rules, "capture-rules") {
    int *device = nullptr, *other = nullptr;
    cudaStream_t stream, apart;
    cudaEvent_t outside, event;
    cudaGraph_t graph = (cudaGraph_t)1;
    OK(cudaMalloc((void **)&device, bytes));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    OK(cudaEventCreate(&outside));
    OK(cudaEventCreate(&event));
    OK(cudaEventRecord(outside, apart));
    auto begin = [&](cudaStream_t in, cudaStreamCaptureMode mode) { OK(cudaStreamBeginCapture(in, mode)); };
    auto invalidated = [&](cudaStream_t in) {
        cudaStreamCaptureStatus status;
        OK(cudaStreamIsCapturing(in, &status));
        EXPECT(status == cudaStreamCaptureStatusInvalidated);
        EXPECT(scale(device, count, 1, in) == cudaErrorStreamCaptureInvalidated);
        EXPECT(cudaStreamEndCapture(in, &graph) == cudaErrorStreamCaptureInvalidated && graph == nullptr);
    };
    EXPECT(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) == cudaErrorStreamCaptureUnsupported);
    EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);

    begin(stream, cudaStreamCaptureModeGlobal);
    EXPECT(cudaMalloc((void **)&other, bytes) == cudaErrorStreamCaptureUnsupported);
    invalidated(stream);
    begin(stream, cudaStreamCaptureModeRelaxed);
    OK(cudaMalloc((void **)&other, bytes));
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    invalidated(stream);
    begin(stream, cudaStreamCaptureModeGlobal);
    EXPECT(cudaStreamQuery(stream) == cudaErrorStreamCaptureUnsupported);
    invalidated(stream);
    begin(stream, cudaStreamCaptureModeGlobal);
    EXPECT(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
    invalidated(stream);
    begin(stream, cudaStreamCaptureModeRelaxed);
    int value = 1;
    EXPECT(cudaMemcpy(device, &value, 4, cudaMemcpyHostToDevice) == cudaErrorStreamCaptureImplicit);
    invalidated(stream);
    begin(stream, cudaStreamCaptureModeRelaxed);
    EXPECT(scale(device, count, 1) == cudaErrorStreamCaptureImplicit);
    invalidated(stream);
    begin(apart, cudaStreamCaptureModeRelaxed);  // A stream that the default one does not join.
    OK(scale(device, count, 1));
    OK(cudaMemcpy(device, &value, 4, cudaMemcpyHostToDevice));
    OK(cudaStreamEndCapture(apart, &graph));
    begin(stream, cudaStreamCaptureModeGlobal);
    EXPECT(cudaStreamWaitEvent(stream, outside, 0) == cudaErrorStreamCaptureIsolation);
    invalidated(stream);
    begin(stream, cudaStreamCaptureModeGlobal);
    OK(scale(device, count, 1, stream));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(apart, event, 0));
    OK(scale(device, count, 1, apart));
    EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined && graph == nullptr);
    EXPECT(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal) == cudaErrorInvalidValue);
    begin(stream, cudaStreamCaptureModeGlobal);
    EXPECT(cudaMallocAsync((void **)&other, bytes, stream) == cudaErrorNotSupported);
    invalidated(stream);

    // Other threads.
    begin(stream, cudaStreamCaptureModeThreadLocal);
    std::thread([&] {
        OK(cudaMalloc((void **)&other, bytes));
        EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureWrongThread);
    }).join();
    OK(cudaStreamEndCapture(stream, &graph));
    begin(stream, cudaStreamCaptureModeGlobal);
    std::thread([&] {
        cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
        OK(cudaThreadExchangeStreamCaptureMode(&mode));
        EXPECT(mode == cudaStreamCaptureModeGlobal);
        OK(cudaMalloc((void **)&other, bytes));
        OK(cudaThreadExchangeStreamCaptureMode(&mode));
        EXPECT(cudaMalloc((void **)&other, bytes) == cudaErrorStreamCaptureUnsupported);
    }).join();
    invalidated(stream);
    OK(cudaMalloc((void **)&other, bytes));
}
