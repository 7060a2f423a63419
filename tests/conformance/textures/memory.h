// Textures of the program's own memory: in one row (tex1Dfetch), and in rows of a pitch.
#pragma once

template <class R> __global__ void fetch_all(cudaTextureObject_t t, R *out, int n, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<R>(t, i + first);
}

// Outside a texture of memory there are zeros.
template <class R, class T> bool fetches(bool as_float) {
    Picture<T> p(77, 1, 1);
    Buffer<T> memory(p.data);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory.device;
    resource.res.linear.desc = cudaCreateChannelDesc<T>();
    resource.res.linear.sizeInBytes = 77 * sizeof(T);
    Way way;
    way.as_float = as_float;
    cudaTextureObject_t t = texture_of(resource, description(way));
    const int n = 90, first = -6;
    Buffer<R> out(n);
    fetch_all<R><<<3, 32>>>(t, out.device, n, first);
    out.fetch();
    CUDA(cudaDestroyTextureObject(t));
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < Vector<T>::count; c++) {
            bool inside = i + first >= 0 && i + first < 77;
            long double want = inside ? number(p.at(i + first, 0, 0), c, way) : 0;
            if (part(out.host[i], c) == want) continue;
            printf("  element %d component %d: got %.9g, expected %.9Lg\n", i + first, c, double(part(out.host[i], c)), want);
            return false;
        }
    }
    return true;
}

#define FETCHES(name)                                                                                        \
    (fetches<name##1, name##1>(false) & fetches<name##2, name##2>(false) & fetches<name##4, name##4>(false))
#define FETCHES_FLOATS(name)                                                                                 \
    (fetches<float1, name##1>(true) & fetches<float2, name##2>(true) & fetches<float4, name##4>(true))

TEST(tex1Dfetch_of_every_type) {
    return FETCHES(float) & FETCHES(char) & FETCHES(uchar) & FETCHES(short) & FETCHES(ushort) & FETCHES(int) & FETCHES(uint);
}
TEST(tex1Dfetch_of_normalized_integers) {
    return FETCHES_FLOATS(char) & FETCHES_FLOATS(uchar) & FETCHES_FLOATS(short) & FETCHES_FLOATS(ushort);
}

TEST(an_index_beyond_what_a_float_holds_is_exact) {
    const int n = (1 << 24) + 9;
    unsigned char *memory;
    CUDA(cudaMalloc(&memory, n));
    CUDA(cudaMemset(memory, 1, n));
    CUDA(cudaMemset(memory + (1 << 24) + 1, 7, 1));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = cudaCreateChannelDesc<unsigned char>();
    resource.res.linear.sizeInBytes = n;
    Way way;
    cudaTextureObject_t t = texture_of(resource, description(way));
    Buffer<unsigned char> out(4);
    fetch_all<unsigned char><<<1, 4>>>(t, out.device, 4, 1 << 24);
    bool right = all(out.fetch(), 4, [](size_t i) { return (unsigned char)(i == 1 ? 7 : 1); });
    CUDA(cudaDestroyTextureObject(t));
    CUDA(cudaFree(memory));
    return right;
}

template <class T, class F> bool pitched(bool managed) {
    Picture<T> p(11, 6, 1);
    T *memory;
    size_t pitch = 128;
    if (managed) CUDA(cudaMallocManaged(&memory, pitch * 6));
    else CUDA(cudaMallocPitch(&memory, &pitch, 11 * sizeof(T), 6));
    CUDA(cudaMemcpy2D(memory, pitch, p.data.data(), 11 * sizeof(T), 11 * sizeof(T), 6, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = memory;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<T>();
    resource.res.pitch2D.width = 11;
    resource.res.pitch2D.height = 6;
    resource.res.pitch2D.pitchInBytes = pitch;
    bool right = true;
    for (int mode = 0; mode < 8; mode++) {
        Way way;
        way.mode = cudaTextureAddressMode(mode / 2);
        way.normalized = true;
        way.linear = mode % 2;
        way.as_float = std::numeric_limits<typename Vector<T>::Of>::is_integer;
        cudaTextureObject_t t = texture_of(resource, description(way));
        Buffer<float> at(points(p.size, true));
        int n = int(at.host.size() / 3);
        Buffer<F> out(n);
        read_texture<F, 2><<<(n + 63) / 64, 64>>>(t, at.device, out.device, n);
        right &= agrees(out.fetch(), p, at.host, 2, way);
        CUDA(cudaDestroyTextureObject(t));
    }
    CUDA(cudaFree(memory));
    return right;
}

TEST(pitched_memory_is_a_texture) { return pitched<float, float>(false) & pitched<uchar2, float2>(false); }
TEST(managed_memory_is_a_texture) { return pitched<float, float>(true); }
