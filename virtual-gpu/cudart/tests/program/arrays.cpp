// Arrays as memory; textures over them are refused.
#include "harness.h"

#pragma clang diagnostic ignored "-Wdeprecated-declarations"

SCENARIO(arrays, "arrays") {
    const size_t width = 6, height = 4, row = width * sizeof(float);
    const size_t free_at_first = free_bytes();
    cudaChannelFormatDesc single = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat), told;
    EXPECT(single.x == 32 && single.f == cudaChannelFormatKindFloat);
    cudaArray_t a, b, block;
    OK(cudaMallocArray(&a, &single, width, height));
    OK(cudaMallocArray(&b, &single, width, height));
    EXPECT(free_at_first - free_bytes() == 2 * row * height);
    cudaExtent extent;
    unsigned flags = 9;
    OK(cudaArrayGetInfo(&told, &extent, &flags, a));
    EXPECT(told.x == 32 && extent.width == width && extent.height == height && extent.depth == 0 && flags == 0);
    std::vector<float> in(width * height), out(width * height, -1);
    for (size_t i = 0; i < in.size(); i++) in[i] = (float)i;
    OK(cudaMemcpy2DToArray(a, 0, 0, in.data(), row, row, height, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DArrayToArray(b, 4, 1, a, 0, 0, 8, 2, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy2DFromArray(out.data(), row, b, 4, 1, 8, 2, cudaMemcpyDeviceToHost));
    EXPECT(out[0] == 0 && out[1] == 1 && out[width] == 6 && out[2] == -1);
    OK(cudaMemcpyFromArray(out.data(), a, 4, 1, row, cudaMemcpyDeviceToHost));
    EXPECT(out[0] == 7 && out[5] == 12);
    EXPECT(cudaMemcpy2DToArray(a, 4, 0, in.data(), row, row, 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);

    OK(cudaMalloc3DArray(&block, &single, {width, height, 3}, cudaArrayDefault));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = {in.data(), row, width, height};
    copy.dstArray = block;
    copy.dstPos = {1, 0, 2};
    copy.extent = {2, height, 1};  // Elements, because an array takes part.
    copy.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&copy));
    cudaMemcpy3DParms back = {};
    back.srcArray = block;
    back.srcPos = {2, 3, 2};
    back.dstPtr = {out.data(), row, width, height};
    back.extent = {1, 1, 1};
    back.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&back));
    EXPECT(out[0] == in[3 * width + 1]);
    copy.dstPos = {5, 0, 2};
    EXPECT(cudaMemcpy3D(&copy) == cudaErrorInvalidValue);
    cudaChannelFormatDesc odd = {5, 0, 0, 0, cudaChannelFormatKindSigned};
    EXPECT(cudaMallocArray(&a, &odd, width, height) == cudaErrorInvalidValue);
    cudaTextureObject_t texture;
    cudaResourceDesc resource = {};
    cudaTextureDesc desc = {};
    EXPECT(cudaCreateTextureObject(&texture, &resource, &desc, nullptr) == cudaErrorNotSupported);
    for (cudaArray_t array : {a, b, block}) OK(cudaFreeArray(array));
    OK(cudaFreeArray(nullptr));
    EXPECT(free_bytes() == free_at_first && cudaFreeArray(a) == cudaErrorInvalidValue);
}
