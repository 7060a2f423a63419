// Surfaces: each number of dimensions, width of element and boundary mode, compared with an array on the host that is read and
// written by the same rules: x counts bytes; outside, `zero` reads 0 and drops writes, `clamp` takes the nearest element.
#pragma once

// Reads at every place around the surface, and writes a number made of the place elsewhere.
template <class T, int D> __global__ void use_surface(cudaSurfaceObject_t from, cudaSurfaceObject_t to, T *out, const T *in, cudaSurfaceBoundaryMode mode) {
    int x = int(threadIdx.x) - 2, y = int(threadIdx.y) - 1, z = int(blockIdx.x) - 1;
    int i = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, b = x * int(sizeof(T));
    if (D == 1) { surf1Dread(&out[i], from, b, mode); surf1Dwrite(in[i], to, b, cudaBoundaryModeZero); }
    if (D == 2) { surf2Dread(&out[i], from, b, y, mode); surf2Dwrite(in[i], to, b, y, cudaBoundaryModeZero); }
    if (D == 3) { surf3Dread(&out[i], from, b, y, z, mode); surf3Dwrite(in[i], to, b, y, z, cudaBoundaryModeZero); }
    if (D == 4) { surf2DLayeredread(&out[i], from, b, y, z, mode); surf2DLayeredwrite(in[i], to, b, y, z, cudaBoundaryModeZero); }
    if (D == 5) { surf1DLayeredread(&out[i], from, b, z, mode); surf1DLayeredwrite(in[i], to, b, z, cudaBoundaryModeZero); }
}

template <class T, int D> bool on_surfaces() {
    const int used[6][3] = {{}, {5, 1, 1}, {5, 3, 1}, {5, 3, 4}, {5, 3, 4}, {5, 1, 4}};
    const int w = used[D][0], h = used[D][1], d = used[D][2], nx = w + 4, ny = h > 1 ? h + 2 : 2, nz = d > 1 ? d + 2 : 2;
    const unsigned flags = cudaArraySurfaceLoadStore | (D > 3 ? cudaArrayLayered : 0);
    const int dimensions = D > 3 ? 6 - D : D;
    Picture<T> p(w, h, d), empty(w, h, d), in(nx, ny, nz);
    memset((void *)empty.data.data(), 0, empty.data.size() * sizeof(T));
    bool right = true;
    for (auto mode : {cudaBoundaryModeZero, cudaBoundaryModeClamp}) {
        OnDevice<T> from(p, dimensions, flags), to(empty, dimensions, flags);
        cudaResourceDesc resources[2] = {from.resource(), to.resource()};
        cudaSurfaceObject_t s[2];
        for (int i = 0; i < 2; i++) CUDA(cudaCreateSurfaceObject(&s[i], &resources[i]));
        Buffer<T> out(in.data.size()), given(in.data);
        use_surface<T, D><<<nz, dim3(nx, ny)>>>(s[0], s[1], out.device, given.device, mode);
        out.fetch();
        Picture<T> back(w, h, d);
        cudaMemcpy3DParms copy = {};
        copy.srcArray = to.array;
        copy.dstPtr = make_cudaPitchedPtr(back.data.data(), w * sizeof(T), w, h);
        copy.extent = make_cudaExtent(w, h, d);
        copy.kind = cudaMemcpyDeviceToHost;
        CUDA(cudaMemcpy3D(&copy));
        std::vector<T> written = empty.data;
        // What the geometry does not have counts as 0.
        const bool has_y = D == 2 || D == 3 || D == 4, has_z = D > 2;
        for (int k = 0; k < nz; k++) for (int j = 0; j < ny; j++) for (int i = 0; i < nx; i++) {
            int x = i - 2, y = has_y ? j - 1 : 0, z = has_z ? k - 1 : 0;
            bool inside = x >= 0 && x < w && y >= 0 && y < h && z >= 0 && z < d;
            auto held = [](int at, int n) { return at < 0 ? 0 : at < n ? at : n - 1; };
            // A layer is a number without a sign: -1 is beyond the last.
            T want = p.at(held(x, w), held(y, h), D > 3 && z < 0 ? d - 1 : held(z, d));
            if (!inside && mode == cudaBoundaryModeZero) memset((void *)&want, 0, sizeof want);
            right &= memcmp(&want, &out.host[(size_t(k) * ny + j) * nx + i], sizeof want) == 0;
            if (inside && (has_y || j == 0) && (has_z || k == 0)) written[(size_t(z) * h + y) * w + x] = in.at(i, j, k);
        }
        // Where several threads write one element, any of them may be last.
        if (has_y && has_z) right &= memcmp(written.data(), back.data.data(), written.size() * sizeof(T)) == 0;
        for (auto surface : s) CUDA(cudaDestroySurfaceObject(surface));
    }
    return right;
}

TEST(surfaces_in_3d_of_every_width) {
    return on_surfaces<unsigned char, 3>() & on_surfaces<uchar2, 3>() & on_surfaces<uchar4, 3>() & on_surfaces<short, 3>() &
           on_surfaces<ushort2, 3>() & on_surfaces<short4, 3>() & on_surfaces<int, 3>() & on_surfaces<uint2, 3>() &
           on_surfaces<int4, 3>() & on_surfaces<float, 3>() & on_surfaces<float2, 3>() & on_surfaces<float4, 3>();
}
TEST(surfaces_in_1d_and_2d) {
    return on_surfaces<float, 1>() & on_surfaces<uchar4, 1>() & on_surfaces<float, 2>() & on_surfaces<short2, 2>() & on_surfaces<unsigned char, 2>();
}
TEST(surfaces_with_layers) { return on_surfaces<float, 4>() & on_surfaces<uchar4, 4>() & on_surfaces<int, 5>(); }

// Each thread writes, waits, and reads what its neighbour wrote.
__global__ void neighbours(cudaSurfaceObject_t s, int *out) {
    int t = threadIdx.x;
    for (int round = 0; round < 3; round++) {
        surf1Dwrite(t + 100 * round, s, 4 * t);
        __syncthreads();
        out[round * blockDim.x + t] = surf1Dread<int>(s, 4 * ((t + 1) % blockDim.x));
        __syncthreads();
    }
}

TEST(a_surface_is_read_behind_a_barrier) {
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaResourceDesc resource = {};
    CUDA(cudaMallocArray(&resource.res.array.array, &format, 64, 0, cudaArraySurfaceLoadStore));
    cudaSurfaceObject_t s;
    CUDA(cudaCreateSurfaceObject(&s, &resource));
    Buffer<int> out(3 * 64);
    neighbours<<<1, 64>>>(s, out.device);
    bool right = all(out.fetch(), 3 * 64, [](size_t i) { return int((i % 64 + 1) % 64 + 100 * (i / 64)); });
    CUDA(cudaDestroySurfaceObject(s));
    CUDA(cudaFreeArray(resource.res.array.array));
    return right;
}
