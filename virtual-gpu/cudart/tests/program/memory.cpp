// Pitched and page-locked memory, copies and fills in two and three dimensions, memory of other devices.
#include "harness.h"

#include <thread>

SCENARIO(pitched, "pitched") {
    const size_t width = 700, height = 9;
    char *rows = nullptr, *other = nullptr;
    size_t pitch = 0, other_pitch = 0;
    const size_t free_at_first = free_bytes();
    OK(cudaMallocPitch((void **)&rows, &pitch, width, height));
    EXPECT(pitch == 1024 && free_at_first - free_bytes() == pitch * height);
    OK(cudaMallocPitch((void **)&other, &other_pitch, 10, height));
    EXPECT(other_pitch == 512);
    std::vector<char> in(width * height), out(width * height, 1);
    for (size_t i = 0; i < in.size(); i++) in[i] = (char)(i * 7);
    OK(cudaMemset(rows, 0x55, pitch * height));
    OK(cudaMemcpy2D(rows, pitch, in.data(), width, width, height, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(out.data(), width, rows, pitch, width, height, cudaMemcpyDeviceToHost));
    EXPECT(in == out);
    char gap = 0;
    OK(cudaMemcpy(&gap, rows + width, 1, cudaMemcpyDeviceToHost));
    EXPECT(gap == 0x55);  // Between the rows nothing was written.
    OK(cudaMemcpy2D(other, other_pitch, rows + 3, pitch, 10, height, cudaMemcpyDeviceToDevice));
    OK(cudaMemset2D(other + 8, other_pitch, 0x22, 2, height));
    OK(cudaMemcpy2DAsync(out.data(), 10, other, other_pitch, 10, height, cudaMemcpyDefault, nullptr));
    for (size_t y = 0; y < height; y++) {
        EXPECT(out[10 * y] == in[width * y + 3] && out[10 * y + 7] == in[width * y + 10]);
        EXPECT(out[10 * y + 8] == 0x22 && out[10 * y + 9] == 0x22);
    }
    EXPECT(cudaMemcpy2D(rows, pitch, in.data(), 10, 11, 2, cudaMemcpyHostToDevice) == cudaErrorInvalidPitchValue);
    EXPECT(cudaMemcpy2D(rows, 10, in.data(), 11, 11, 2, cudaMemcpyHostToDevice) == cudaErrorInvalidPitchValue);
    EXPECT(cudaMemcpy2D(rows, pitch, in.data(), 1, 1, height + 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaMemset2D(rows, pitch, 0, width, height + 1) == cudaErrorInvalidValue);
    OK(cudaMemcpy2D(rows, pitch, in.data(), width, 0, height, cudaMemcpyHostToDevice));
    EXPECT(cudaMallocPitch(nullptr, &pitch, 1, 1) == cudaErrorInvalidValue);
    EXPECT(cudaMallocPitch((void **)&rows, &pitch, (size_t)1 << 40, 1 << 20) == cudaErrorMemoryAllocation);
    OK(cudaFree(rows));
    OK(cudaFree(other));
    EXPECT(free_bytes() == free_at_first);
}

SCENARIO(blocks, "blocks") {
    const size_t nx = 6, ny = 5, nz = 4;  // Integers.
    std::vector<int> in = counting(nx * ny * nz), out(nx * ny * nz, -1);
    cudaPitchedPtr device;
    const size_t free_at_first = free_bytes();
    const cudaExtent whole = {nx * sizeof(int), ny, nz};
    OK(cudaMalloc3D(&device, whole));
    EXPECT(device.pitch == 512 && device.xsize == whole.width && device.ysize == ny);
    EXPECT(free_at_first - free_bytes() == 512 * ny * nz);
    cudaMemcpy3DParms up = {};
    up.srcPtr = {in.data(), nx * sizeof(int), nx * sizeof(int), ny};
    up.dstPtr = device;
    up.extent = whole;
    up.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&up));
    OK(cudaMemset3D({(char *)device.ptr + 512, 512, whole.width, ny}, 0, {4, 1, nz}));  // x = 0, y = 1, every z
    cudaMemcpy3DParms part = {};
    part.srcPtr = device;
    part.srcPos = {4, 1, 2};
    part.dstPtr = {out.data(), nx * sizeof(int), nx * sizeof(int), ny};
    part.dstPos = {0, 0, 1};
    part.extent = {8, 2, 2};
    part.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3DAsync(&part, nullptr));
    auto at = [&](size_t x, size_t y, size_t z) { return (int)(x + nx * (y + ny * z)); };
    EXPECT(out[at(0, 0, 1)] == at(1, 1, 2) && out[at(1, 1, 2)] == at(2, 2, 3));
    EXPECT(out[at(2, 0, 1)] == -1 && out[at(0, 2, 1)] == -1 && out[at(0, 0, 0)] == -1);
    part.srcPos = {0, 1, 3};
    part.extent = {4, 1, 1};
    OK(cudaMemcpy3D(&part));
    EXPECT(out[at(0, 0, 1)] == 0);

    EXPECT(cudaMemcpy3D(nullptr) == cudaErrorInvalidValue);
    cudaMemcpy3DParms empty = {};
    empty.extent = {1, 1, 1};
    EXPECT(cudaMemcpy3D(&empty) == cudaErrorInvalidValue);
    part.srcPos = {0, 0, 3};
    part.extent = {4, 1, 2};
    EXPECT(cudaMemcpy3D(&part) == cudaErrorInvalidValue);  // One slice beyond the end.
    part.extent = {513, 1, 1};
    EXPECT(cudaMemcpy3D(&part) == cudaErrorInvalidPitchValue);
    EXPECT(cudaMemset3D(device, 0, {8, ny + 1, 2}) == cudaErrorInvalidValue);
    OK(cudaFree(device.ptr));
}

SCENARIO(page_locked, "page-locked") {
    const size_t bytes = 1 << 16;
    const size_t free_at_first = free_bytes();
    char *own = nullptr, *device = nullptr, *seen = nullptr;
    unsigned flags = 99;
    OK(cudaHostAlloc((void **)&own, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    OK(cudaHostGetFlags(&flags, own + 5));
    EXPECT(flags == (cudaHostAllocMapped | cudaHostAllocPortable));
    OK(cudaHostGetDevicePointer((void **)&seen, own + 5, 0));
    EXPECT(seen == own + 5 && free_bytes() == free_at_first);
    EXPECT(cudaHostGetDevicePointer((void **)&seen, own, 1) == cudaErrorInvalidValue);
    EXPECT(cudaHostAlloc((void **)&seen, bytes, 8) == cudaErrorInvalidValue);

    std::vector<char> mine(bytes, 3);
    cudaPointerAttributes attributes;
    EXPECT(cudaHostGetFlags(&flags, mine.data()) == cudaErrorInvalidValue);
    OK(cudaHostRegister(mine.data(), bytes, cudaHostRegisterDefault));
    EXPECT(cudaHostRegister(mine.data() + 9, 1, 0) == cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaPointerGetAttributes(&attributes, mine.data() + 1));
    EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == mine.data() + 1);
    OK(cudaMalloc((void **)&device, bytes));
    OK(cudaMemcpyAsync(device, mine.data(), bytes, cudaMemcpyHostToDevice, nullptr));
    OK(cudaMemcpyAsync(own, device, bytes, cudaMemcpyDeviceToHost, nullptr));
    OK(cudaDeviceSynchronize());
    EXPECT(own[bytes - 1] == 3);
    EXPECT(cudaFreeHost(mine.data()) == cudaErrorInvalidValue);
    EXPECT(cudaHostUnregister(own) == cudaErrorHostMemoryNotRegistered);
    OK(cudaHostUnregister(mine.data()));
    EXPECT(cudaHostUnregister(mine.data()) == cudaErrorHostMemoryNotRegistered);
    EXPECT(cudaHostRegister(mine.data(), 0, 0) == cudaErrorInvalidValue);
    OK(cudaFreeHost(own));
    EXPECT(cudaFreeHost(own) == cudaErrorInvalidValue);
    OK(cudaFree(device));
}

// Run with two devices.
SCENARIO(peers, "peers") {
    int can = -1, value = -1;
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(can == 1);
    OK(cudaDeviceCanAccessPeer(&can, 1, 1));
    EXPECT(can == 0 && cudaDeviceCanAccessPeer(&can, 0, 2) == cudaErrorInvalidDevice);
    OK(cudaDeviceEnablePeerAccess(1, 0));
    EXPECT(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
    EXPECT(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
    EXPECT(cudaDeviceEnablePeerAccess(1, 1) == cudaErrorInvalidValue);
    OK(cudaDeviceDisablePeerAccess(1));
    EXPECT(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
    OK(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 1));
    EXPECT(value == 1);

    const int count = 1000;
    std::vector<int> in = counting(count), out(count);
    int *here = nullptr, *there = nullptr;
    OK(cudaMalloc((void **)&here, count * sizeof(int)));
    OK(cudaSetDevice(1));
    OK(cudaMalloc((void **)&there, count * sizeof(int)));
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, here));
    EXPECT(attributes.device == 0);
    OK(cudaMemcpy(here, in.data(), count * sizeof(int), cudaMemcpyHostToDevice));
    OK(cudaMemcpyPeer(there, 1, here, 0, count * sizeof(int)));
    OK(cudaMemcpyPeerAsync(here, 0, there + 1, 1, 4, nullptr));
    OK(cudaMemcpy(out.data(), there, count * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(in == out);
    OK(cudaMemcpy(out.data(), here, 4, cudaMemcpyDeviceToHost));
    EXPECT(out[0] == 1);
    EXPECT(cudaMemcpyPeer(there, 2, here, 0, 4) == cudaErrorInvalidDevice);
}

// Every device has a variable of its own, with its initial value. Run with two devices.
SCENARIO(symbols_per_device, "symbols-per-device") {
    void *addresses[2];
    int *values[2], *stored[2], out = 0;
    for (int device = 0; device < 2; device++) {
        OK(cudaSetDevice(device));
        OK(cudaGetSymbolAddress(&addresses[device], &shadow_offset));
        OK(cudaMemcpyFromSymbol(&out, &shadow_offset, 4, 0, cudaMemcpyDeviceToHost));
        EXPECT(out == 5);
        out = 100 + device;
        OK(cudaMemcpyToSymbol(&shadow_offset, &out, 4, 0, cudaMemcpyHostToDevice));
        OK(cudaMalloc((void **)&values[device], 4));
        OK(cudaMemset(values[device], 0, 4));
    }
    EXPECT(addresses[0] != addresses[1]);
    // Kernels use their device's, whatever ran before, and memory is reached through its address from anywhere.
    for (int round = 0; round < 2; round++) {
        for (int device = 0; device < 2; device++) {
            OK(cudaSetDevice(device));
            OK(scale(values[device], 1, 1));
            OK(cudaMemcpy(&out, values[device], 4, cudaMemcpyDeviceToHost));
            EXPECT(out == (100 + device) * (1 + round));
            OK(cudaMemcpy(&out, addresses[1 - device], 4, cudaMemcpyDefault));
            EXPECT(out == 101 - device);
            cudaPointerAttributes attributes;
            OK(cudaPointerGetAttributes(&attributes, addresses[1 - device]));
            EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 1 - device);
        }
    }
    EXPECT(cudaMemcpy(&out, (char *)addresses[0] + 1, 4, cudaMemcpyDefault) == cudaErrorInvalidValue);
    // Threads launch on both devices at once.
    std::thread beside([&] {
        OK(cudaSetDevice(1));
        for (int i = 0; i < 200; i++) OK(scale(values[1], 1, 0));
        OK(cudaDeviceSynchronize());
    });
    OK(cudaSetDevice(0));
    for (int i = 0; i < 200; i++) OK(scale(values[0], 1, 0));
    OK(cudaDeviceSynchronize());
    beside.join();
    for (int device = 0; device < 2; device++) {
        OK(cudaMemcpy(&out, values[device], 4, cudaMemcpyDefault));
        EXPECT(out == 100 + device);
        // An address in a variable is that of device code: it means the current device's variable.
        OK(cudaSetDevice(device));
        OK(cudaMemcpyFromSymbol(&stored[device], &shadow_where, 8, 0, cudaMemcpyDeviceToHost));
        OK(cudaMemcpy(&out, stored[device], 4, cudaMemcpyDeviceToHost));
        EXPECT(out == 100 + device && stored[0] == stored[device]);
    }
    // A new context has the initial values; the other device keeps its own.
    OK(cudaDeviceReset());
    OK(cudaMemcpyFromSymbol(&out, &shadow_offset, 4, 0, cudaMemcpyDeviceToHost));
    EXPECT(out == 5);
    OK(cudaSetDevice(0));
    OK(cudaMemcpyFromSymbol(&out, &shadow_offset, 4, 0, cudaMemcpyDeviceToHost));
    EXPECT(out == 100);
}

// A symbol's address is as good as any device pointer.
SCENARIO(symbol_addresses, "symbol-addresses") {
    void *address = nullptr;
    size_t bytes = 0;
    int value = 77;
    OK(cudaGetSymbolAddress(&address, &shadow_offset));
    OK(cudaGetSymbolSize(&bytes, &shadow_offset));
    EXPECT(bytes == sizeof value);
    OK(cudaMemcpy(address, &value, bytes, cudaMemcpyHostToDevice));
    OK(cudaMemcpyFromSymbolAsync(&value, &shadow_offset, 1, 0, cudaMemcpyDefault, nullptr));
    EXPECT(value == 77);
    OK(cudaMemset(address, 0, bytes));
    OK(cudaMemcpyFromSymbol(&value, &shadow_offset, bytes, 0, cudaMemcpyDeviceToHost));
    EXPECT(value == 0);
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, address));
    EXPECT(attributes.type == cudaMemoryTypeDevice);
    EXPECT(cudaMemcpy(address, &value, bytes + 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpyToSymbol(&shadow_offset, &value, 4, 0, cudaMemcpyDeviceToHost) == cudaErrorInvalidMemcpyDirection);
    EXPECT(cudaGetSymbolAddress(&address, &value) == cudaErrorInvalidSymbol);
}
