// What programs use textures for: a picture turned by hardware filtering, rays through a volume, a convolution over memory, a
// filter whose result a surface takes and a texture reads.
#pragma once

__global__ void rotate(cudaTextureObject_t picture, float *out, int w, int h, float sine, float cosine) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float u = x / float(w) - .5f, v = y / float(h) - .5f;
    out[y * w + x] = tex2D<float>(picture, u * cosine - v * sine + .5f, v * cosine + u * sine + .5f);
}

TEST(a_picture_is_turned) {
    const int w = 70, h = 50;
    Picture<unsigned char> p(w, h, 1);
    OnDevice<unsigned char> device(p, 2);
    Way way;
    way.mode = cudaAddressModeWrap;
    way.linear = way.normalized = way.as_float = true;
    cudaTextureObject_t t = texture_of(device.resource(), description(way));
    Buffer<float> out(w * h);
    const float sine = sinf(.5f), cosine = cosf(.5f);
    rotate<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(t, out.device, w, h, sine, cosine);
    out.fetch();
    CUDA(cudaDestroyTextureObject(t));
    for (int i = 0; i < w * h; i++) {
        float u = i % w / float(w) - .5f, v = i / w / float(h) - .5f;
        float at[3] = {u * cosine - v * sine + .5f, v * cosine + u * sine + .5f, 0};
        if (fabsl(out.host[i] - fetched(p, at, 2, way, 0)) > .01) return false;  // Coordinates may differ in a bit.
    }
    return true;
}

// The largest value on a ray, with all threads of a warp agreeing on the largest of theirs.
__global__ void project(cudaTextureObject_t volume, float *out, float *largest, int n, int steps) {
    int x = threadIdx.x, y = blockIdx.x;
    float most = -1e30f;
    for (int z = 0; z < steps; z++) most = fmaxf(most, tex3D<float>(volume, x + .5f, y + .25f, (z + .5f) * n / steps));
    out[y * n + x] = most;
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    largest[y * n + x] = most;
}

TEST(rays_go_through_a_volume) {
    const int n = 32, steps = 50;
    Picture<float> p(n, n, n);
    OnDevice<float> device(p, 3);
    Way way;
    way.linear = true;
    way.mode = cudaAddressModeBorder;
    cudaTextureObject_t t = texture_of(device.resource(), description(way));
    Buffer<float> out(n * n), largest(n * n);
    project<<<n, n>>>(t, out.device, largest.device, n, steps);
    out.fetch();
    largest.fetch();
    CUDA(cudaDestroyTextureObject(t));
    for (int y = 0; y < n; y++) {
        float row = -1e30f;
        for (int x = 0; x < n; x++) {
            long double most = -1e30L;
            for (int z = 0; z < steps; z++) {
                float at[3] = {x + .5f, y + .25f, (z + .5f) * n / steps};
                most = std::max(most, fetched(p, at, 3, way, 0));
            }
            if (!is_close(out.host[y * n + x], most)) return false;
            row = std::max(row, out.host[y * n + x]);
        }
        for (int x = 0; x < n; x++) if (largest.host[y * n + x] != row) return false;
    }
    return true;
}

// A tile in shared memory, filled through a texture that gives zeros beyond the ends.
__global__ void convolve(cudaTextureObject_t signal, const float *weights, float *out, int n) {
    __shared__ float tile[64 + 8];
    int t = threadIdx.x, first = blockIdx.x * 64 - 4;
    tile[t] = tex1Dfetch<float>(signal, first + t);
    if (t < 8) tile[64 + t] = tex1Dfetch<float>(signal, first + 64 + t);
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 9; k++) sum += weights[k] * tile[t + k];
    if (blockIdx.x * 64 + t < n) out[blockIdx.x * 64 + t] = sum;
}

TEST(a_signal_is_convolved) {
    const int n = 1000;
    Picture<float> p(n, 1, 1);
    Buffer<float> signal(p.data), weights(std::vector<float>{1, 2, 4, 8, 16, 8, 4, 2, 1}), out(n);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = signal.device;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = n * sizeof(float);
    Way way;
    cudaTextureObject_t t = texture_of(resource, description(way));
    convolve<<<(n + 63) / 64, 64>>>(t, weights.device, out.device, n);
    out.fetch();
    CUDA(cudaDestroyTextureObject(t));
    return all(out.host, n, [&](size_t i) {
        float sum = 0;
        for (int k = 0; k < 9; k++) {
            int at = int(i) + k - 4;
            sum += weights.host[k] * (at < 0 || at >= n ? 0 : p.data[at]);
        }
        return sum;
    });
}

__global__ void invert(cudaTextureObject_t from, cudaSurfaceObject_t to, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= w) return;
    uchar4 c = tex2D<uchar4>(from, x + .5f, h - 1 - y + .5f);
    surf2Dwrite(make_uchar4(255 - c.x, 255 - c.y, 255 - c.z, c.w), to, x * int(sizeof(uchar4)), y);
}

__global__ void unpack(cudaTextureObject_t from, uchar4 *out, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w) out[y * w + x] = tex2D<uchar4>(from, x + .5f, y + .5f);
}

TEST(a_surface_takes_what_a_texture_reads_next) {
    const int w = 50, h = 20;
    Picture<uchar4> p(w, h, 1);
    OnDevice<uchar4> first(p, 2), second(p, 2, cudaArraySurfaceLoadStore);
    Way way;
    cudaTextureObject_t t = texture_of(first.resource(), description(way)), u = texture_of(second.resource(), description(way));
    cudaResourceDesc resource = second.resource();
    cudaSurfaceObject_t s;
    CUDA(cudaCreateSurfaceObject(&s, &resource));
    Buffer<uchar4> out(w * h);
    invert<<<dim3(2, h), 32>>>(t, s, w, h);
    unpack<<<dim3(2, h), 32>>>(u, out.device, w);
    out.fetch();
    CUDA(cudaDestroyTextureObject(t));
    CUDA(cudaDestroyTextureObject(u));
    CUDA(cudaDestroySurfaceObject(s));
    for (int i = 0; i < w * h; i++) {
        uchar4 c = p.at(i % w, h - 1 - i / w, 0), got = out.host[i];
        if (got.x != 255 - c.x || got.y != 255 - c.y || got.z != 255 - c.z || got.w != c.w) return false;
    }
    return true;
}
