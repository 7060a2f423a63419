// Arrays as memory; what descriptions of textures and surfaces are taken, told back and refused.
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
    for (cudaArray_t array : {a, b, block}) OK(cudaFreeArray(array));
    OK(cudaFreeArray(nullptr));
    EXPECT(free_bytes() == free_at_first && cudaFreeArray(a) == cudaErrorInvalidValue);
}

SCENARIO(textures, "textures") {
    cudaChannelFormatDesc whole = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindSigned);
    cudaChannelFormatDesc uneven = cudaCreateChannelDesc(32, 16, 0, 0, cudaChannelFormatKindSigned);
    cudaArray_t array, odd, cube;
    OK(cudaMallocArray(&array, &whole, 4, 4));
    OK(cudaMallocArray(&odd, &uneven, 4, 4));
    cudaResourceDesc resource = {}, told_resource;
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc desc = {}, told;
    desc.addressMode[0] = cudaAddressModeMirror;
    desc.normalizedCoords = 1;
    desc.borderColor[3] = 7;
    cudaTextureObject_t texture, none;
    OK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    OK(cudaGetTextureObjectTextureDesc(&told, texture));
    EXPECT(memcmp(&told, &desc, sizeof desc) == 0);
    OK(cudaGetTextureObjectResourceDesc(&told_resource, texture));
    EXPECT(memcmp(&told_resource, &resource, sizeof resource) == 0);

    cudaSurfaceObject_t surface;
    EXPECT(cudaCreateSurfaceObject(&surface, &resource) == cudaErrorInvalidValue);  // The array was not made for it.
    EXPECT(cudaCreateTextureObject(nullptr, &resource, &desc, nullptr) == cudaErrorInvalidValue);
    desc.filterMode = cudaFilterModeLinear;
    EXPECT(cudaCreateTextureObject(&none, &resource, &desc, nullptr) == cudaErrorInvalidFilterSetting);
    desc.filterMode = cudaFilterModePoint;
    resource.res.array.array = odd;
    EXPECT(cudaCreateTextureObject(&none, &resource, &desc, nullptr) == cudaErrorInvalidChannelDescriptor);
    resource.res.array.array = nullptr;
    EXPECT(cudaCreateTextureObject(&none, &resource, &desc, nullptr) == cudaErrorInvalidValue);
    resource.resType = cudaResourceTypeMipmappedArray;
    EXPECT(cudaCreateTextureObject(&none, &resource, &desc, nullptr) == cudaErrorNotSupported);
    EXPECT(cudaMalloc3DArray(&cube, &whole, {4, 4, 6}, cudaArrayCubemap) == cudaErrorNotSupported);

    OK(cudaDestroyTextureObject(texture));
    OK(cudaDestroyTextureObject(0));
    EXPECT(cudaDestroyTextureObject(texture) == cudaErrorInvalidValue);
    EXPECT(cudaGetTextureObjectTextureDesc(&told, texture) == cudaErrorInvalidValue);
    OK(cudaFreeArray(array));
    OK(cudaFreeArray(odd));
    OK(cudaMallocArray(&array, &whole, 4, 4, cudaArraySurfaceLoadStore));
    resource = {};
    resource.res.array.array = array;
    OK(cudaCreateSurfaceObject(&surface, &resource));
    OK(cudaGetSurfaceObjectResourceDesc(&told_resource, surface));
    EXPECT(told_resource.res.array.array == array && cudaDestroyTextureObject(surface) == cudaErrorInvalidValue);
    OK(cudaDestroySurfaceObject(surface));
    EXPECT(cudaDestroySurfaceObject(surface) == cudaErrorInvalidValue);
    OK(cudaFreeArray(array));
}

SCENARIO(textures_of_memory, "textures-of-memory") {
    float here[256], *memory;
    OK(cudaMalloc((void **)&memory, 4096));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaTextureDesc desc = {};
    cudaTextureObject_t texture;
    auto made = [&] { return cudaCreateTextureObject(&texture, &resource, &desc, nullptr); };
    resource.res.linear.sizeInBytes = 16;
    for (float *wrong : {here, memory + 1, (float *)nullptr}) {
        resource.res.linear.devPtr = wrong;
        EXPECT(made() == cudaErrorInvalidValue);
    }
    resource.res.linear.devPtr = memory;
    resource.res.linear.sizeInBytes = 4097;
    EXPECT(made() == cudaErrorInvalidValue);
    resource.res.linear.sizeInBytes = 4096;
    desc.filterMode = cudaFilterModeLinear;  // Ignored, as for any memory in one row.
    OK(made());
    OK(cudaDestroyTextureObject(texture));
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.width = resource.res.pitch2D.height = 4;
    for (size_t wrong : {8, 17, 2048}) {
        resource.res.pitch2D.pitchInBytes = wrong;
        EXPECT(made() == cudaErrorInvalidValue);
    }
    resource.res.pitch2D.pitchInBytes = 1024;
    OK(made());
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFree(memory));
}
